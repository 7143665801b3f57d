#!/usr/bin/env python3
"""Every figure that an issue names, beside its target, from one run.

    make bench                        all of them: some ten minutes
    make bench ARGS='memory starts'   some; the names stand in PARTS below

The exit status follows ratios, counts and private memory. A missed time is printed as missed and
changes nothing: it tells of the machine's load as much as of us.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
# What ships is measured; the harness reads this when it is imported.
os.environ["SANDBOXD_TEST_PROFILE"] = "release"

from tests.bench import control, credentials, figures, pressure, previews, wakes  # noqa: E402
from tests.integration import harness  # noqa: E402

TAIL_LINES = 5

PARTS = {
    "hop": previews.hop,
    "wakes": wakes.wakes,
    "visitors": wakes.visitors,
    "herd": wakes.herd,
    "lookup": previews.lookup,
    "connections": previews.connections,
    "creation": control.creation,
    "pressure": pressure.pressure,
    "credentials": credentials.credentials,
    # From here on rows are written by hand: whatever needs real apps comes before.
    "starts": control.starts,
    "api": control.api,
    "memory": control.memory,
    "idle": control.idle,
}


def load():
    return " ".join(f"{value:.1f}" for value in os.getloadavg())


def run_part(stack, name):
    """False when it could not be measured."""
    start = time.monotonic()
    try:
        PARTS[name](stack)
    except (AssertionError, OSError, subprocess.SubprocessError, TimeoutError) as error:
        print(f"  BROKEN   {name}: {type(error).__name__}: {error}", flush=True)
        for program in stack.programs.values():
            print(program.tail(TAIL_LINES), flush=True)
        return False
    finally:
        figures.note(f"[{name}: {time.monotonic() - start:.0f} s, load {load()}]")
    return True


def run(names):
    """Number of parts that could not be measured."""
    harness.TEST_DIR.mkdir(parents=True, exist_ok=True)
    harness.sweep()
    with harness.Stack(settings={"SANDBOXD_LOG_LEVEL": "info"}) as stack:
        return sum(not run_part(stack, name) for name in names)


def main(names):
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        print(f"no such part: {' '.join(unknown)}; there are: {' '.join(PARTS)}", file=sys.stderr)
        return 2
    print(f"bench: {os.cpu_count()} CPUs, load {load()}, release build", flush=True)
    broken = run(names or list(PARTS))
    missed = figures.missed()
    met = len(figures.FIGURES) - len(missed)
    print(f"bench: {met} met, {len(missed)} not met, {broken} parts broken, load at the end {load()}")
    return 1 if figures.failed() or broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
