"""The unit test runner believes nothing but a clean exit with tests that ran."""

import os
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "run-unit.py"
GOOD = 'echo "[  PASSED  ] 3 test(s)."'


def program(folder, name, script):
    path = folder / name
    path.write_text(f"#!/bin/bash\n{script}\n")
    path.chmod(0o755)
    return str(path)


def run(*arguments):
    environment = {name: value for name, value in os.environ.items() if name != "ASAN_OPTIONS"}
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False,
                          timeout=60, env=environment)
    return done.returncode, done.stdout


def test_no_programs_is_no_failure():
    assert run("--replay", "--unit") == (0, "0 passed, 0 failed\n")


def test_passes_are_added_up_and_not_shown(tmp_path):
    programs = [program(tmp_path, name, GOOD) for name in ("a", "b")]
    assert run("--unit", *programs) == (0, "6 passed, 0 failed\n")


@pytest.mark.parametrize("script,passed,failed", [
    ('echo "[  PASSED  ] 2 test(s)."; echo "[  FAILED  ] tests: 1 test(s), listed below:"; exit 1', 2, 1),
    (GOOD + "; exit 1", 3, 1),
    (GOOD + "; kill -SEGV $$", 3, 1),
    ("exit 0", 0, 1),
    ('echo "[  PASSED  ] 0 test(s)."', 0, 1),
    (GOOD + '; echo "[  SKIPPED ] tests: 2 test(s), listed below:"', 3, 2),
])
def test_a_failure_is_counted_and_shown(tmp_path, script, passed, failed):
    status, output = run("--unit", program(tmp_path, "bad", script))
    assert status == 1
    assert f"=== {tmp_path}/bad " in output
    assert output.endswith(f"\n{passed} passed, {failed} failed\n")


def test_a_corpus_is_replayed_file_by_file(tmp_path):
    corpus = tmp_path / "corpus" / "target"
    corpus.mkdir(parents=True)
    (corpus / "one").write_bytes(b"1")
    (corpus / "two").write_bytes(b"2")
    counting = program(tmp_path, "target", "[ $# = 2 ]")
    assert run("--corpus", str(tmp_path / "corpus"), "--replay", counting) == (0, "1 passed, 0 failed\n")
    (corpus / "three").write_bytes(b"3")
    status, output = run("--corpus", str(tmp_path / "corpus"), "--replay", counting)
    assert (status, output.splitlines()[-1]) == (1, "0 passed, 1 failed")


def test_leak_checks_are_on(tmp_path):
    script = f'[[ $ASAN_OPTIONS == *detect_leaks=1* ]] && {GOOD}'
    assert run("--unit", program(tmp_path, "a", script))[0] == 0
