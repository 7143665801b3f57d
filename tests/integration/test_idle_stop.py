"""What nobody uses goes to sleep; what somebody uses does not (issue 3, item 12)."""

import time

import pytest

from tests.integration import docker
from tests.integration.harness import Stack
from tests.stubs.model_scenarios import directive

IDLE_SECONDS = 6
# The threshold, a look every few seconds, the stop itself.
ASLEEP_SECONDS_MAX = 40


@pytest.fixture(scope="module")
def idle(model):
    with Stack(model=model, settings={"SANDBOXD_IDLE_THRESHOLD_SECONDS": str(IDLE_SECONDS)}) as running:
        yield running


@pytest.fixture
def box(idle, apps_of):
    apps = apps_of(idle)
    yield apps.server()
    apps.delete_all()


def test_an_unused_sandbox_stops_and_its_next_visitor_wakes_it(idle, box):
    start = time.monotonic()
    idle.api.wait_sandbox(box["id"], "stopped", seconds=ASLEEP_SECONDS_MAX)
    assert time.monotonic() - start >= IDLE_SECONDS - 2
    assert docker.inspect(box["id"])["State"]["ExitCode"] == 0
    assert idle.preview.get(box["id"], "/hello").text == "hello"
    assert idle.api.sandbox(box["id"])["status"] == "running"
    kinds = [e for e in idle.events() if e["sandbox_id"] == box["id"]]
    assert any("idle" in str(e) for e in kinds), kinds


def test_requests_keep_it_awake(idle, box):
    end = time.monotonic() + IDLE_SECONDS * 4
    while time.monotonic() < end:
        assert idle.preview.get(box["id"], "/hello").status_code == 200
        assert idle.api.sandbox(box["id"])["status"] == "running"
        time.sleep(2)


def test_a_task_keeps_it_awake_to_its_end(idle, box):
    task = idle.api.make_task(box["id"], directive("slow", str(IDLE_SECONDS * 4)))
    done = idle.api.wait_task(box["id"], task["id"])
    assert done["status"] == "succeeded", done


def test_a_talking_websocket_keeps_it_awake(idle, box):
    with idle.preview.websocket(box["id"]) as socket_:
        end = time.monotonic() + IDLE_SECONDS * 4
        while time.monotonic() < end:
            socket_.send("still here")
            assert socket_.recv(timeout=10) == "still here"
            time.sleep(2)
    assert idle.api.sandbox(box["id"])["status"] == "running"


def test_a_long_download_keeps_it_awake(idle, box):
    answer = idle.preview.get(box["id"], f"/slow?ms={IDLE_SECONDS * 4000}")
    assert (answer.status_code, answer.text) == (200, "slow")


def test_a_restart_of_the_control_plane_does_not_forget_to_stop(idle, box):
    idle.kill9_and_start("control")
    idle.api.wait_sandbox(box["id"], "stopped", seconds=ASLEEP_SECONDS_MAX)


def test_zero_is_off(model, apps_of):
    with Stack(model=model, settings={"SANDBOXD_IDLE_THRESHOLD_SECONDS": "0"}) as own_stack:
        apps = apps_of(own_stack)
        sandbox = apps.server()
        time.sleep(ASLEEP_SECONDS_MAX)
        assert own_stack.api.sandbox(sandbox["id"])["status"] == "running"
        apps.delete_all()
