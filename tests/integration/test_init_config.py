"""sandboxd-init alone: what the owner gave the app reaches its processes and nothing else."""

import os
import time

import pytest

from tests.integration.init_fakes import Sandbox
from tests.integration.test_init_alone import SERVER, wait_open

SECRET = "s3cret-of-the-app"
LINES = "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\n-----END KEY-----"
# Says its secrets in pieces, over lines, and half of one before it waits.
TALKER = """
import os, sys, time
key = os.environ.get("API_KEY", "none")
print("start", os.environ.get("COLOUR", "none"), "key is", key, flush=True)
for c in key:
    os.write(1, c.encode())
    time.sleep(0.01)
print("", flush=True)
print(os.environ.get("PEM", ""), flush=True)
os.write(1, key[:6].encode())
time.sleep(0.2)
os.write(1, key[6:].encode() + b" end\\n")
print("and", key[:6], "alone", flush=True)
"""
APP = {
    "server.py": TALKER + SERVER.replace('" HOSTNAME=" + os.environ.get("HOSTNAME", "none")', '" KEY=" + key'),
    "sandbox.yaml": "version: 1\nweb:\n  command: exec python3 server.py\n  port: 3000\n",
}
GIVEN = [
    ("web_port", 3000),
    ("config_version", 3),
    ("config", "COLOUR=green"),
    ("secret", f"API_KEY={SECRET}"),
    ("secret", f"PEM={LINES}"),
]


@pytest.fixture
def sandbox():
    box = Sandbox(APP)
    box.control.configuration = GIVEN
    with box as running:
        yield running


def answer(sandbox):
    return sandbox.preview.request(3000, b"GET / HTTP/1.0\r\n\r\n")[1]


def test_processes_get_it_and_their_output_does_not_show_it(sandbox):
    control = sandbox.control
    wait_open(sandbox)
    assert answer(sandbox).endswith(f"KEY={SECRET}".encode())
    assert control.wait("phase", phase="running").get("config_version") == "3"
    assert control.hellos[0].get("config_version") is None, "a boot begins without one"
    # Nobody sees it who is not a process of the app.
    task = control.start_task("env")
    control.wait_exit(task)
    assert SECRET not in "\n".join(control.lines(task))
    relay = sandbox.relay_pid()
    for pid in (1, relay, sandbox.running("child runner")[0]):
        task = control.start_task("sh", "-c", f"head -c 1 /proc/{pid}/environ && echo open")
        control.wait_exit(task)
        assert control.lines(task) == []
    # What it prints, however it was cut.
    control.send("restart", ("name", "web"))
    lines = control.wait("process", name="web", state="running", restarts="1").get("lines")
    for text in (lines, sandbox.logs()):
        assert "start green key is ***" in text and "*** end" in text, text
        assert f"and {SECRET[:6]} alone" in text, "a beginning that goes on otherwise is shown"
        assert SECRET not in text and "MIIEvQ" not in text and "BEGIN KEY" not in text, text
    for root, _, names in os.walk(sandbox.home):
        for name in names:
            with open(os.path.join(root, name), "rb") as f:
                assert SECRET.encode() not in f.read(), f"{root}/{name}"


def test_a_process_that_ends_starts_again_with_the_same(sandbox):
    control = sandbox.control
    wait_open(sandbox)
    control.forget()
    for pid in sandbox.running("server.py"):
        sandbox.inside("sh", "-c", f"kill -9 {pid} || true")
    control.wait("process", name="web", state="running", restarts="1")
    wait_open(sandbox)
    assert answer(sandbox).endswith(f"KEY={SECRET}".encode())


def test_a_control_plane_that_comes_back_changes_nothing(sandbox):
    control = sandbox.control
    wait_open(sandbox)
    pids = sandbox.running("server.py")
    control.stop()
    control.configuration = [("web_port", 3000)]  # it was told of the version, so it says nothing
    control.start()
    control.forget()
    control.wait("phase", phase="running", config_version="3")
    assert control.hellos[-1].get("config_version") == "3"
    assert sandbox.running("server.py") == pids
    # An older one that does not know of any, and a task that ends: the same holds.
    control.forget()
    control.send("restart", ("name", "web"))
    control.wait("process", name="web", state="running", restarts="1")
    wait_open(sandbox)
    assert answer(sandbox).endswith(f"KEY={SECRET}".encode())


def test_another_one_starts_the_processes_anew(sandbox):
    control = sandbox.control
    wait_open(sandbox)
    control.forget()
    control.configure(("web_port", 3000), ("config_version", 4), ("secret", "API_KEY=another-secret"))
    control.wait("phase", phase="running", config_version="4")
    control.wait("process", name="web", state="running", restarts="1")
    wait_open(sandbox)
    assert answer(sandbox).endswith(b"KEY=another-secret")
    # The same again starts nothing.
    pids = sandbox.running("server.py")
    control.send("configure", ("web_port", 3000), ("config_version", 4), ("mask", "of-an-agent"))
    control.send("ping", ("n", 1))
    control.wait("pong", n="1")
    time.sleep(0.2)
    assert sandbox.running("server.py") == pids
    # Those of before are not shown either: a process that was told to end may still speak of them.
    sandbox.put("server.py", f"print('old {SECRET} and another-secret, of-an-agent', flush=True)\n" + APP["server.py"])
    control.forget()
    control.send("restart", ("name", "web"))
    control.wait("process", name="web", state="running", restarts="2")
    assert "old *** and ***, ***" in sandbox.logs()
    assert SECRET not in sandbox.logs() and "another-secret" not in sandbox.logs()


def test_a_record_that_is_wrong_changes_nothing(sandbox):
    control = sandbox.control
    wait_open(sandbox)
    pids = sandbox.running("server.py")
    control.send("configure", ("web_port", 3000), ("config_version", 9), ("secret", f"A B={SECRET}"))
    said = control.wait("error")
    assert "secret is not" in said.get("message") and SECRET not in said.get("message")
    assert sandbox.running("server.py") == pids
    assert SECRET not in sandbox.logs()
