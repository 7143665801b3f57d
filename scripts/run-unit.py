#!/usr/bin/env python3
"""Runs unit test programs and fuzz corpora, prints what failed and ends with "N passed, N failed".

    scripts/run-unit.py [--lint-tests DIR] [--corpus DIR] --replay PROGRAM... --unit PROGRAM...

A cmocka program counts as many tests as it reports; one that crashes, hangs or reports nothing
counts as one failure more. A corpus counts as one. Output of what passed is not shown.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

PROGRAM_SECONDS_MAX = 120
OUTPUT_LINES_MAX = 200

SANITIZERS = {
    "ASAN_OPTIONS": "detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


def environment():
    env = dict(os.environ)
    for name, value in SANITIZERS.items():
        env.setdefault(name, value)
    return env


def execute(argv):
    """Returns (exit status or None after the deadline, output)."""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=PROGRAM_SECONDS_MAX,
                              env=environment(), check=False)
    except subprocess.TimeoutExpired as late:
        return None, (late.stdout or b"").decode(errors="replace")
    return done.returncode, done.stdout.decode(errors="replace")


def counts(pattern, output):
    return sum(int(n) for n in re.findall(pattern, output, re.MULTILINE))


def run_unit(program):
    status, output = execute([program])
    passed = counts(r"^\[  PASSED  \] (\d+) test\(s\)", output)
    failed = counts(r"^\[  FAILED  \] \w+: (\d+) test\(s\)", output)
    skipped = counts(r"^\[  SKIPPED \] \w+: (\d+) test\(s\)", output)
    # A skipped test proves nothing, so it is a failure like any other.
    failed += skipped
    if failed == 0 and (status != 0 or passed == 0):
        failed = 1
    return program, status, passed, failed, output


def run_replay(program, corpus):
    folder = pathlib.Path(corpus, pathlib.Path(program).name)
    inputs = sorted(str(f) for f in folder.glob("*")) if folder.is_dir() else []
    status, output = execute([program, *inputs])
    return program, status, int(status == 0), int(status != 0), output


def run_lint_tests(folder):
    """The tests of the lint scripts are pytest's; its counts become ours."""
    status, output = execute([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder])
    passed = counts(r"(\d+) passed", output)
    failed = counts(r"(\d+) (?:failed|errors?)", output)
    if status != 0 and failed == 0:
        failed = 1
    return folder, status, passed, failed, output


def describe(status):
    if status is None:
        return f"did not end within {PROGRAM_SECONDS_MAX} s"
    if status < 0:
        return f"was killed by signal {-status}"
    return f"exited with {status}"


def report(name, status, output):
    lines = output.splitlines()
    if len(lines) > OUTPUT_LINES_MAX:
        lines = [f"... {len(lines) - OUTPUT_LINES_MAX} lines left out", *lines[-OUTPUT_LINES_MAX:]]
    print(f"\n=== {name} {describe(status)}")
    print("\n".join(f"    {line}" for line in lines), flush=True)


def main():
    parser = argparse.ArgumentParser(description="run unit tests and fuzz corpora")
    parser.add_argument("--lint-tests", metavar="DIR")
    parser.add_argument("--corpus", metavar="DIR", default="tests/fuzz/corpus")
    parser.add_argument("--replay", metavar="PROGRAM", nargs="*", default=[])
    parser.add_argument("--unit", metavar="PROGRAM", nargs="*", default=[])
    options = parser.parse_args()

    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        jobs = [pool.submit(run_unit, p) for p in options.unit]
        jobs += [pool.submit(run_replay, p, options.corpus) for p in options.replay]
        if options.lint_tests and pathlib.Path(options.lint_tests).is_dir():
            jobs.append(pool.submit(run_lint_tests, options.lint_tests))
        for job in concurrent.futures.as_completed(jobs):
            name, status, good, bad, output = job.result()
            passed += good
            failed += bad
            if bad or status != 0:
                report(name, status, output)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
