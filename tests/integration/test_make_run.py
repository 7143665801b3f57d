"""`make run`: the whole stack from the tree, as a developer starts it, with the script's own defaults (docs/operate.md)."""

import os
import secrets
import signal
import subprocess

import requests

from tests.integration.harness import remove_leftovers
from tests.integration.programs import ROOT, TEST_DIR, built, free_port, wait_until

BRIDGE = "sbx_dev"  # the script's default
READY_SECONDS_MAX = 60
STOP_SECONDS_MAX = 30


def test_the_stack_of_a_tree_is_ready_and_leaves_with_the_signal(tmp_path):
    data = TEST_DIR / f"run-{secrets.token_hex(3)}"
    ports = {name: str(free_port()) for name in ("API_PORT", "CONSOLE_PORT", "PREVIEW_PORT")}
    env = {**os.environ, **ports, "SANDBOXD_DATA_DIR": str(data), "SANDBOXD_TEST_DIR": str(TEST_DIR), "SANDBOXD_TOOLCHAIN": "1"}
    built("sandboxd", "release")
    log = tmp_path / "run.log"
    with open(log, "wb") as out:
        process = subprocess.Popen([str(ROOT / "scripts/run.sh")], env=env, stdout=out, stderr=out)

    def ready():
        assert process.poll() is None, log.read_text(encoding="utf-8")
        try:
            return requests.get(f"http://127.0.0.1:{ports['API_PORT']}/readyz", timeout=5).status_code == 200
        except requests.ConnectionError:
            return False

    try:
        wait_until(ready, READY_SECONDS_MAX, lambda: f"the stack is ready\n{log.read_text(encoding='utf-8')}")
        words = log.read_text(encoding="utf-8")
        token = next(line.split("=", 1)[1] for line in words.splitlines() if "export SANDBOXD_TOKEN=" in line)
        apps = requests.get(f"http://127.0.0.1:{ports['API_PORT']}/v1/apps", headers={"Authorization": f"Bearer {token}"}, timeout=5)
        assert apps.json() == {"apps": [], "next_cursor": None}
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_SECONDS_MAX)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        remove_leftovers(data.name, BRIDGE)
    assert not any(f":{port} " in line for port in ports.values() for line in listening_sockets())


def listening_sockets():
    """Listening TCP sockets of the machine, one line each."""
    return subprocess.run(["ss", "-Hltn"], capture_output=True, text=True, check=True).stdout.splitlines()
