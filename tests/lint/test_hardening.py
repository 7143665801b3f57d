"""The hardening check finds a program that lost a protection."""

import pathlib
import subprocess

import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "check-hardening.sh"
GOOD = ["-fPIE", "-pie", "-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack"]


def build(folder, name, flags):
    source = folder / "main.c"
    source.write_text("int main(void)\n{\n    return 0;\n}\n")
    subprocess.run(["gcc", *flags, "-o", folder / name, source], check=True, timeout=60)
    return subprocess.run([SCRIPT, folder / name], capture_output=True, text=True, check=False, timeout=30)


def test_a_hardened_program_passes(tmp_path):
    assert build(tmp_path, "sandboxd", GOOD).returncode == 0


@pytest.mark.parametrize("flags,words", [
    (["-fno-pie", "-no-pie", *GOOD[2:]], "position independence"),
    ([*GOOD[:2], "-Wl,-z,norelro", *GOOD[3:]], "RELRO"),
    ([*GOOD[:3], "-Wl,-z,lazy", *GOOD[4:]], "BIND_NOW"),
    ([*GOOD[:4], "-Wl,-z,execstack"], "a stack that cannot be executed"),
])
def test_a_lost_protection_is_named(tmp_path, flags, words):
    done = build(tmp_path, "sandboxd", flags)
    assert done.returncode == 1
    assert f"{words}" in done.stderr and "is missing" in done.stderr


def test_pid_1_needs_no_loader(tmp_path):
    assert "must be static" in build(tmp_path, "sandboxd-init", GOOD).stderr
    static = ["-fPIE", "-static-pie", *GOOD[2:]]
    assert build(tmp_path, "sandboxd-init", static).returncode == 0
