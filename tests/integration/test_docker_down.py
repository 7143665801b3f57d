"""Docker not running: said plainly, answered with 503, recovered from without help (issue 3, "Bad
input"). The engine's socket is reached through a relay of this test that can go away; Docker itself
runs on, for it is not ours to stop.
"""

import os
import socket
import threading

import pytest

from tests.integration import docker
from tests.integration.client import assert_error
from tests.integration.harness import TEST_DIR, Stack
from tests.integration.programs import wait_until

DOCKER_SOCKET = "/var/run/docker.sock"
NOTICE_SECONDS_MAX = 15


class Relay:
    """A Unix socket in front of Docker's; down() is what a stopped dockerd looks like."""

    def __init__(self, path):
        self.path = path
        self.listener = None
        self.passing = threading.Event()
        self.passing.set()
        self.open = set()
        self.lock = threading.Lock()

    def up(self):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.path))
        os.chmod(self.path, 0o660)
        self.listener.listen(64)
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    def down(self):
        # close() alone would leave a thread in accept().
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.path.unlink()
        self._cut()

    def hold(self):
        """What is open ends; what comes is accepted and gets no answer before passing is set."""
        self.passing.clear()
        self._cut()

    def _cut(self):
        with self.lock:
            for sock in self.open:
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def _accept(self, listener):
        while True:
            try:
                client = listener.accept()[0]
            except OSError:
                return
            self.passing.wait()
            server = socket.socket(socket.AF_UNIX)
            server.connect(DOCKER_SOCKET)
            with self.lock:
                self.open |= {client, server}
            for pair in ((client, server), (server, client)):
                threading.Thread(target=self._copy, args=pair, daemon=True).start()

    def _copy(self, source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            for sock in (source, target):
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass


@pytest.fixture(scope="module")
def relay():
    path = TEST_DIR / f"relay-{os.getpid()}.sock"
    made = Relay(path)
    made.up()
    yield made
    path.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def own(relay, model):
    with Stack(model=model, settings={"SANDBOXD_DOCKER_SOCKET": str(relay.path)}) as running:
        yield running


@pytest.fixture
def box(own, apps_of):
    own.wait_ready()
    apps = apps_of(own)
    sandbox = apps.sandbox()
    own.preview.wait_answer(sandbox["id"])
    yield sandbox
    apps.delete_all()


def unready(stack):
    """What /readyz says while it says no."""
    answer = stack.ready()
    return answer.text if answer is not None and answer.status_code == 503 else None


def test_docker_that_goes_away_is_said_and_recovered_from(own, box, relay):
    own.api.post(f"/v1/sandboxes/{box['id']}/stop")
    relay.down()
    try:
        said = wait_until(lambda: unready(own), NOTICE_SECONDS_MAX, "/readyz says so")
        assert "docker" in said.lower(), said
        for call in (
            lambda: own.api.post(f"/v1/sandboxes/{box['id']}/start"),
            lambda: own.api.post(f"/v1/apps/{own.api.make_app()['id']}/sandbox", {"ports": [3000]}),
        ):
            error = assert_error(call(), 503, "engine_unavailable", retryable=True)
            assert "docker" in error["message"].lower(), error
        assert own.api.get("/healthz", token=None).text.strip() == "ok"
        assert own.api.get("/v1/apps").status_code == 200, "what needs no engine works on"
        visitor = own.preview.get(box["id"], headers={"accept": "application/json"})
        assert visitor.status_code == 503, visitor.text
        assert "/var/" not in visitor.text and str(relay.path) not in visitor.text, "a visitor learns no path"
    finally:
        relay.up()
    own.wait_ready()
    assert own.preview.wait_answer(box["id"]).status_code == 200


def test_a_running_preview_does_not_notice(own, box, relay):
    relay.down()
    try:
        wait_until(lambda: unready(own), NOTICE_SECONDS_MAX, "/readyz says so")
        for _ in range(10):
            assert own.preview.get(box["id"]).status_code == 200
    finally:
        relay.up()
    own.wait_ready()
    assert own.api.sandbox(box["id"])["status"] == "running"


def test_what_ends_while_docker_is_back_before_it_was_missed_is_seen(own, box, relay):
    relay.hold()
    try:
        docker.docker("kill", docker.container_name(box["id"]))
    finally:
        relay.passing.set()
    own.api.wait_sandbox(box["id"], "stopped", seconds=10)
    assert own.preview.wait_answer(box["id"]).status_code == 200


def test_a_task_runs_on_while_docker_is_away(own, box, relay):
    from tests.stubs.model_scenarios import directive

    task = own.api.make_task(box["id"], directive("slow", "6"))
    own.api.wait_task(box["id"], task["id"], "running")
    relay.down()
    try:
        wait_until(lambda: unready(own), NOTICE_SECONDS_MAX, "/readyz says so")
    finally:
        relay.up()
    assert own.api.wait_task(box["id"], task["id"])["status"] == "succeeded"


def test_a_start_without_docker_waits_and_says_why(own, box, relay):
    own["control"].stop()
    own["engine"].stop()
    relay.down()
    try:
        own["engine"].start()
        own["control"].start()
        # The engine's own program may still be on its way when the first answer comes; that is said too.
        wait_until(lambda: "docker" in (unready(own) or "").lower(), 30, "/readyz names Docker")
        own["engine"].assert_alive()
        own["control"].assert_alive()
        assert own.api.get("/v1/apps").status_code == 200
    finally:
        relay.up()
    own.wait_ready()
    assert own.preview.wait_answer(box["id"]).status_code == 200
