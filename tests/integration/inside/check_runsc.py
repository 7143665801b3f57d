"""Run by test_runsc.py inside a machine whose engine has runsc registered."""

import pytest

from tests.integration import docker
from tests.integration.conftest import Apps
from tests.integration.harness import Stack
from tests.integration.programs import wait_until
from tests.stubs.model_scenarios import directive

SETTINGS = {"SANDBOXD_RUNTIME": "runsc"}
# Every system call of a traced process stops twice: an agent needs a multiple of its usual time.
TASK_SECONDS_MAX = 600


@pytest.fixture(scope="module")
def gvisor(model):
    with Stack(model=model, settings=SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def box(gvisor):
    apps = Apps(gvisor)
    yield apps.server()
    apps.delete_all()


def test_works_a_sandbox_runs_on_gvisor(gvisor, box):
    assert docker.inspect(box["id"])["HostConfig"]["Runtime"] == "runsc"
    assert "gVisor" in docker.run_inside(box["id"], "dmesg")


def test_works_a_preview(gvisor, box):
    assert gvisor.preview.wait_answer(box["id"], "/hello").text == "hello"
    assert gvisor.preview.get(box["id"], "/big").content == b"x" * (8 * 1024 * 1024)


def test_works_a_websocket(gvisor, box):
    gvisor.preview.wait_answer(box["id"], "/hello")
    with gvisor.preview.websocket(box["id"]) as socket_:
        socket_.send("under gVisor")
        assert socket_.recv(timeout=30) == "under gVisor"


def test_works_stop_and_one_post_that_wakes(gvisor, box):
    before = len(gvisor.preview.get(box["id"], "/posts").json())
    stopped = gvisor.api.post(f"/v1/sandboxes/{box['id']}/stop")
    assert stopped.status_code == 200 and stopped.json()["status"] == "stopped", stopped.text
    assert docker.inspect(box["id"])["State"]["ExitCode"] == 0
    assert gvisor.preview.post(box["id"], "/order", data=b"x").status_code == 200
    assert len(gvisor.preview.get(box["id"], "/posts").json()) == before + 1


def test_works_names_resolve(box):
    """By a resolv.conf of its own: the engine's resolver cannot be reached from gVisor's stack."""
    text = docker.run_inside(box["id"], "cat", "/etc/resolv.conf")
    assert "nameserver" in text and "127.0.0.11" not in text, text
    script = "import socket, subprocess; h = subprocess.check_output(['npm', 'config', 'get', 'registry'], text=True).split('/')[2].split(':')[0]; print(socket.getaddrinfo(h, 443)[0][4][0])"
    assert docker.python_inside(box["id"], script).strip()


@pytest.mark.timeout(900)
def test_works_one_task(gvisor, box):
    task = gvisor.api.make_task(box["id"], directive("shell", "echo from-gvisor > ~/task.txt; cat ~/task.txt"))
    done = gvisor.api.wait_task(box["id"], task["id"], seconds=TASK_SECONDS_MAX)
    assert done["status"] == "succeeded", done
    assert "from-gvisor" in done["agent_message"]


def test_refused_at_start_with_the_exact_lines():
    stack = Stack(settings=SETTINGS)
    stack.prepare()
    try:
        for role in ("engine", "control"):
            stack[role].start()

        def said():
            answer = stack.ready()
            assert answer is None or answer.status_code != 200, "it must not get ready"
            return stack["engine"].log() + (answer.text if answer is not None else "")

        wait_until(lambda: "--host-uds=open" in said(), 30, said)
        assert "runsc" in said() and "daemon.json" in said(), said()
    finally:
        stack.remove()
