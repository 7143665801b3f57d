"""Who sleeps when: policy, threshold and keep-alive of an app, what counts as use, always_on (issue 4, items 7, 9)."""

import contextlib
import socket
import time
from datetime import datetime

import pytest

from tests.integration import docker
from tests.integration.browser import Browser
from tests.integration.client import assert_error
from tests.integration.harness import Stack
from tests.integration.programs import wait_until

THRESHOLD = 10
# The threshold, a look every second, an answer of the proxy, the stop itself on a busy machine.
ASLEEP_SECONDS_MAX = 60
DAY = 86400


@pytest.fixture(scope="module")
def idle(model):
    """The installation would sleep after an hour; apps have thresholds of their own."""
    with Stack(model=model, settings={"SANDBOXD_IDLE_THRESHOLD_SECONDS": "3600"}) as running:
        yield running


@pytest.fixture(scope="module")
def boxes(idle):
    from tests.integration.conftest import Apps

    made = Apps(idle)
    yield made
    made.delete_all()


def change(stack, app_id, **fields):
    answer = stack.api.patch(f"/v1/apps/{app_id}", fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


def keep_alive(stack, sandbox_id, seconds):
    answer = stack.api.post(f"/v1/sandboxes/{sandbox_id}/keep-alive", {"seconds": seconds})
    assert answer.status_code == 200, answer.text
    return answer.json()["idle"]["keep_alive_until"]


def seconds_from_now(text):
    return (datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()) - time.time()


def status(stack, sandbox):
    return stack.api.sandbox(sandbox["id"])["status"]


# --- what is asked for ----------------------------------------------------------------------------


def test_an_app_says_its_policy_and_takes_another(idle, boxes):
    app = boxes.app()
    assert (app["idle_policy"], app["idle_threshold_s"]) == ("sleep", None)
    now = change(idle, app["id"], idle_policy="always_on", idle_threshold_s=600)
    assert (now["idle_policy"], now["idle_threshold_s"]) == ("always_on", 600)
    now = change(idle, app["id"], name="another name")
    assert (now["idle_policy"], now["idle_threshold_s"]) == ("always_on", 600)
    now = change(idle, app["id"], idle_policy="sleep", idle_threshold_s=None)
    assert (now["idle_policy"], now["idle_threshold_s"]) == ("sleep", None)
    answer = idle.api.post("/v1/apps", {"name": "x", "idle_policy": "always_on", "idle_threshold_s": 60})
    assert answer.status_code == 201, answer.text
    boxes.made.append(answer.json()["id"])
    assert (answer.json()["idle_policy"], answer.json()["idle_threshold_s"]) == ("always_on", 60)


@pytest.mark.parametrize(
    "fields",
    [
        {"idle_policy": "never"},
        {"idle_policy": None},
        {"idle_policy": 1},
        {"idle_threshold_s": 9},
        {"idle_threshold_s": 0},
        {"idle_threshold_s": -1},
        {"idle_threshold_s": 31536001},
        {"idle_threshold_s": "60"},
        {"idle_threshold_s": 60.5},
    ],
)
def test_a_policy_that_cannot_be_is_refused_with_the_reason(idle, boxes, fields):
    error = assert_error(idle.api.post("/v1/apps", {"name": "x", **fields}), 400, "invalid_request")
    assert next(iter(fields)) in error["message"], error
    app_id = boxes.made[0] if boxes.made else boxes.app()["id"]
    assert_error(idle.api.patch(f"/v1/apps/{app_id}", fields), 400, "invalid_request")


def test_a_keep_alive_that_cannot_be_is_refused_with_the_maximum(idle, boxes):
    box = boxes.sandbox()
    for body in ({}, {"seconds": -1}, {"seconds": DAY + 1}, {"seconds": "60"}, {"seconds": None}):
        error = assert_error(idle.api.post(f"/v1/sandboxes/{box['id']}/keep-alive", body), 400, "invalid_request")
        assert str(DAY) in error["message"] and "SANDBOXD_KEEP_ALIVE_MAX_SECONDS" in error["message"], error
    assert idle.api.sandbox(box["id"])["idle"]["keep_alive_until"] is None
    assert_error(idle.api.post("/v1/sandboxes/0" + "a" * 25 + "/keep-alive", {"seconds": 5}), 404, "not_found")


# --- what counts as use ---------------------------------------------------------------------------


@contextlib.contextmanager
def half_an_upload(stack, sandbox):
    """An upload whose second half does not come."""
    head = (
        f"POST /upload HTTP/1.1\r\nHost: {stack.preview.host(sandbox['id'])}\r\nContent-Length: 8\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", stack.preview_port), timeout=60) as sock:
        sock.sendall(head.encode() + b"half")
        yield sock


@contextlib.contextmanager
def quiet_stream(stack, sandbox):
    head = f"GET /quiet HTTP/1.1\r\nHost: {stack.preview.host(sandbox['id'])}\r\nAccept: text/event-stream\r\n\r\n"
    with socket.create_connection(("127.0.0.1", stack.preview_port), timeout=60) as sock:
        sock.sendall(head.encode())
        assert b": open" in wait_until(lambda: sock.recv(65536), 30, "the stream opens")
        yield sock


def test_use_keeps_awake_and_a_forgotten_tab_does_not_whatever_is_restarted(idle, boxes):
    """One timeline for all, with sandboxd away for longer than the threshold in the middle of it."""
    socketed, streamed, uploading, kept, tab = made = [boxes.server() for _ in range(5)]
    with contextlib.ExitStack() as open_:
        open_.enter_context(idle.preview.websocket(socketed["id"], ping_interval=None))
        open_.enter_context(quiet_stream(idle, streamed))
        upload = open_.enter_context(half_an_upload(idle, uploading))
        hot = open_.enter_context(idle.preview.websocket(tab["id"], subprotocols=["vite-hmr"], ping_interval=None))
        until = keep_alive(idle, kept["id"], 300)
        for box in made:
            change(idle, box["app_id"], idle_threshold_s=THRESHOLD)
        assert 290 < seconds_from_now(until) < 301
        used = wait_until(
            lambda: (lambda i: i if i["in_use"] else None)(idle.api.sandbox(socketed["id"])["idle"]), 20, "it is in use"
        )
        assert used["sleeps_at"] is None and used["threshold_s"] == THRESHOLD, used
        idle["control"].kill9()
        time.sleep(THRESHOLD + 2)
        idle["control"].start()
        idle.wait_ready()
        idle.api.wait_sandbox(tab["id"], "stopped", seconds=ASLEEP_SECONDS_MAX)
        time.sleep(2)
        for box in (socketed, streamed, uploading, kept):
            assert status(idle, box) == "running", idle.api.sandbox(box["id"])
        assert idle.api.sandbox(kept["id"])["idle"]["keep_alive_until"] == until
        with pytest.raises(Exception, match="close|timed out"):
            hot.recv(timeout=5)
        upload.sendall(b"rest")
        assert b"200 OK" in upload.recv(65536)
        keep_alive(idle, kept["id"], 0)
        idle.api.wait_sandbox(kept["id"], "stopped", seconds=ASLEEP_SECONDS_MAX)
    for box in (socketed, streamed, uploading):
        idle.api.wait_sandbox(box["id"], "stopped", seconds=ASLEEP_SECONDS_MAX)
    # The ping of the forgotten tab wakes nothing.
    assert idle.preview.get(tab["id"], "/", headers={"accept": "text/x-vite-ping"}).status_code == 503
    assert status(idle, tab) == "stopped"


def test_a_forgotten_tab_of_a_real_vite_app_sleeps_and_its_reconnects_do_not_wake_it(idle, boxes):
    box = boxes.sandbox("react-vite")
    change(idle, box["app_id"], idle_threshold_s=THRESHOLD)
    idle.preview.wait_answer(box["id"])
    with Browser() as browser:
        browser.open(f"http://{idle.preview.host(box['id'])}:{idle.preview_port}/")
        idle.api.wait_sandbox(box["id"], "stopped", seconds=ASLEEP_SECONDS_MAX)
        # Vite's client asks every second whether its server is back.
        time.sleep(5)
        assert status(idle, box) == "stopped"


def test_a_stuck_proxy_puts_nothing_to_sleep(idle, boxes):
    box = boxes.server()
    with idle.preview.websocket(box["id"], ping_interval=None) as held:
        change(idle, box["app_id"], idle_threshold_s=THRESHOLD)
        proxy = idle["preview"].process
        proxy.send_signal(19)
        try:
            # What it last said is forgotten with its connection; nothing is taken for silence.
            time.sleep(THRESHOLD + 6)
            assert status(idle, box) == "running"
        finally:
            proxy.send_signal(18)
        held.send("still here")
        assert held.recv(timeout=20) == "still here"


# --- always_on ------------------------------------------------------------------------------------


def test_always_on_is_up_after_its_end_and_after_a_restart_until_a_person_stops_it(idle, boxes):
    box = boxes.server()
    change(idle, box["app_id"], idle_policy="always_on", idle_threshold_s=THRESHOLD)
    docker.docker("kill", f"s-{box['id']}")
    wait_until(lambda: status(idle, box) == "stopped" or docker.state(box["id"]) == "running", 30, "the end is seen")
    idle.api.wait_sandbox(box["id"], "running", seconds=60)
    assert idle.api.sandbox(box["id"])["idle"]["policy"] == "always_on"
    # As after a boot: the row says running, the container does not.
    idle["control"].kill9()
    docker.docker("kill", f"s-{box['id']}")
    idle["control"].start()
    idle.wait_ready()
    wait_until(lambda: status(idle, box) == "running" and docker.state(box["id"]) == "running", 60, "it is up again")
    assert idle.preview.wait_answer(box["id"], "/hello").text == "hello"
    boxes.stop(box["id"])
    assert idle.api.sandbox(box["id"])["idle"]["stays_stopped"] is True
    idle.kill9_and_start("control")
    time.sleep(5)
    row = idle.api.sandbox(box["id"])
    assert (row["status"], row["idle"]["stays_stopped"], row["idle"]["starts_at"]) == ("stopped", True, None), row
    # A visitor is somebody who starts it.
    assert idle.preview.get(box["id"], "/hello").text == "hello"
    row = idle.api.sandbox(box["id"])
    assert (row["status"], row["idle"]["stays_stopped"], row["idle"]["sleeps_at"]) == ("running", False, None), row
    started = [e for e in idle.events() if e["sandbox_id"] == box["id"] and e["kind"] == "sandbox.started"]
    assert [e["actor"] for e in started].count("always_on") >= 2, started


def test_an_app_that_becomes_always_on_is_started(idle, boxes):
    box = boxes.sandbox()
    boxes.stop(box["id"])
    change(idle, box["app_id"], idle_policy="always_on")
    idle.api.wait_sandbox(box["id"], "running", seconds=60)
    change(idle, box["app_id"], idle_policy="sleep")
