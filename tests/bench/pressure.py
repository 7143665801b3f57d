"""Memory pressure: from the moment when the machine has less than the mark to the first action."""

import time
from datetime import datetime
from pathlib import Path

from tests.bench import stacks
from tests.bench.figures import at_most, note
from tests.bench.measure import median
from tests.integration.programs import wait_until

ROUNDS = 3
REACTION_MS_MAX = 200
# So much less than is available now is the mark: what a start needs must still fit above it.
MARGIN_BYTES = 768 << 20
STEP_BYTES = 16 << 20
WATCHED_SECONDS = 1
SETTLE_SECONDS = 6  # after its own start the control plane stops nothing for some seconds
EVENT_SECONDS_MAX = 30


def meminfo(name):
    for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"/proc/meminfo does not say {name}")


def fill_to(mark_bytes):
    """Memory taken until less than the mark is available, and when that was seen (time.time())."""
    held = []
    end = time.monotonic() + EVENT_SECONDS_MAX
    while meminfo("MemAvailable") >= mark_bytes:
        assert time.monotonic() < end, f"more than {mark_bytes} bytes stay available"
        held.append(b"\1" * STEP_BYTES)
    return held, time.time()


def stops_of(stack, sandbox):
    return [
        datetime.fromisoformat(e["at"]).timestamp()
        for e in stack.events()
        if e["kind"] == "sandbox.memory_stop" and e["sandbox_id"] == sandbox
    ]


def one_reaction(stack, sandbox, mark_bytes):
    """Milliseconds from the mark to the event of the stop."""
    stack.preview.wait_answer(sandbox, "/hello")
    time.sleep(WATCHED_SECONDS + 2)
    before = len(stops_of(stack, sandbox))
    held, crossed = fill_to(mark_bytes)
    try:
        found = wait_until(
            lambda: stops_of(stack, sandbox)[: -before or None], EVENT_SECONDS_MAX, "a stop for memory", pause=0.05
        )
    finally:
        held.clear()
    stack.api.wait_sandbox(sandbox, "stopped")
    return (found[0] - crossed) * 1000


def pressure(stack):
    total = meminfo("MemTotal")
    percent = max(1, (meminfo("MemAvailable") - MARGIN_BYTES) * 100 // total)
    env, kept = stack["control"].env, dict(stack["control"].env)
    env["SANDBOXD_MEMORY_LOW_PERCENT"] = str(percent)
    env["SANDBOXD_MEMORY_CRITICAL_PERCENT"] = "0"
    env["SANDBOXD_MEMORY_WATCHED_SECONDS"] = str(WATCHED_SECONDS)
    try:
        stack.restart("control")
        time.sleep(SETTLE_SECONDS)
        with stacks.Server(stack) as server:
            took = [one_reaction(stack, server.id, total // 100 * percent) for _ in range(ROUNDS)]
    finally:
        env.clear()
        env.update(kept)
        stack.restart("control")
    at_most(f"memory pressure: from below the mark to the first action, p50 of {ROUNDS}", median(took), REACTION_MS_MAX, " ms", digits=0)
    note("each: " + ", ".join(f"{ms:.0f} ms" for ms in took))
