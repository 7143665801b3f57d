"""The fault matrix where a scripted sandboxd and relay reach every moment of a wake (issue 4; README.md beside this)."""

import contextlib
import socket
import time

import pytest

from tests.integration.proxy_fakes import App, Client, Relay, new_id, wait_for
from tests.integration.test_proxy_preview_alone import APP_PORT, World


@pytest.fixture(scope="session", autouse=True)
def leftovers():
    """Nothing of Docker is used here."""


@pytest.fixture
def world(tmp_path):
    w = World(tmp_path)
    yield w
    w.stop()
    assert "AddressSanitizer" not in w.proxy.log() and "runtime error" not in w.proxy.log(), w.proxy.log()


def reach(w, phase):
    """Brings the start to that phase, after somebody asked for it."""
    if phase == "asked":
        return
    if phase in ("queued", "image", "starting", "seeding", "installing"):
        w.route("starting", phase=phase)
        wait_for(lambda: w.poll()["phase"] == phase)
        return
    w.generation += 1
    if phase == "before its relay":
        w.route("running")
        wait_for(lambda: w.poll()["state"] == "waking" and w.poll()["phase"] == "")
        return
    w.relay.answer = "refused" if phase == "port closed" else None
    if phase == "opening":
        w.relay.held_stream, w.relay._stream = w.relay._stream, lambda record: None
    w.relay.start()
    w.route("running")
    wait_for(lambda: w.relay.opened, what="a try at the port")


def finish(w, phase):
    """The rest of the start."""
    w.relay.answer = None
    if phase == "opening":
        w.relay._stream = w.relay.held_stream
        w.relay.stop()
        w.relay.start()
    elif phase == "port closed":
        w.route("running")
    elif phase == "before its relay":
        w.relay.start()
    else:
        w.wake()


@pytest.mark.parametrize("phase", ["asked", "queued", "image", "starting", "seeding", "installing", "before its relay", "opening", "port closed"])
def test_the_first_visitor_leaves_at_each_phase(world, phase):
    """Whoever came second is answered all the same; what the first one sent does not arrive."""
    world.start("asleep")
    first = world.client().send(world.text("POST", "/first", body="x"))
    world.held()
    second = world.client().send(world.text("POST", "/second", body="y"))
    reach(world, phase)
    first.close()
    time.sleep(0.1)
    finish(world, phase)
    assert second.answer().body == b"POST /second 1"
    assert world.app.count("/first") == 0 and world.app.count("/second") == 1
    assert world.broker.count("wake") == 1


def test_a_visitor_who_leaves_while_the_app_answers_leaves_the_others_alone(world):
    world.start()
    first = world.client().send(world.text("GET", "/sse"))
    first.head()
    second = world.client().send(world.text("GET", "/slow"))
    first.close()
    assert world.app.gone.wait(5)
    assert second.answer().body == b"GET /slow 0"


def test_one_port_in_two_sandboxes_is_two_apps(world):
    """One kept connection asks both by turns; then one falls asleep and the other must not answer for it."""
    world.start()
    other, other_id = App(), new_id()
    (world.dir / "run/in" / other_id).mkdir()
    relay = Relay(world.dir, other_id, {APP_PORT: other.port}).start()
    try:
        mine = dict(id=other_id, generation=1)
        world.broker.send("route", [f if f[0] not in mine else (f[0], mine[f[0]]) for f in world.row()])
        host = f"s-{other_id}-{APP_PORT}.preview.localhost"
        wait_for(lambda: world.poll(host)["state"] == "ready")
        c = world.client()
        for n in range(6):
            assert c.send(world.text("GET", f"/turn{n}", host=(world.host(), host)[n % 2])).answer().status == 200
        assert [world.app.count(f"/turn{n}") for n in range(6)] == [1, 0, 1, 0, 1, 0]
        assert [other.count(f"/turn{n}") for n in range(6)] == [0, 1, 0, 1, 0, 1]
        world.relay.stop()
        world.route("asleep")
        wait_for(lambda: world.poll()["state"] == "asleep")
        c.send(world.text("GET", "/to-the-sleeper"))
        world.held()
        world.wake()
        assert c.answer().status == 200
        assert other.count("/to-the-sleeper") == 0 and world.app.count("/to-the-sleeper") == 1
    finally:
        relay.stop()
        other.close()


def test_an_app_that_asks_its_own_preview_is_stopped_after_a_few_rounds(world):
    """It hands on what it got, fields included, as a reverse proxy in an app does."""
    world.start()

    def ask_myself(sock, request):
        lines = "".join(f"{name}: {value}\r\n" for name, value in request["headers"] if name != "connection")
        inner = Client(world.proxy.port)
        try:
            got = inner.send(f"GET /myself HTTP/1.1\r\n{lines}\r\n").answer()
        finally:
            inner.close()
        sock.sendall(f"HTTP/1.1 {got.status} X\r\nContent-Length: {len(got.body)}\r\n\r\n".encode() + got.body)
        return True

    world.app.do_myself = ask_myself
    got = world.ask("/myself")
    assert got.status == 508 and b"loop_detected" in got.body
    assert 1 <= world.app.count("/myself") <= 8


def test_a_hundred_slow_heads_keep_nobody_waiting(world):
    world.start()
    slow = [world.client().send("GET / HTTP/1.1\r\nHost: ") for _ in range(100)]
    for c in slow:
        with contextlib.suppress(OSError):
            c.send("x")
    assert world.ask("/quick").status == 200
    for c in slow:
        c.sock.settimeout(20)
        with contextlib.suppress(ConnectionError, socket.timeout):
            assert c.sock.recv(4096) == b"", "cut off without a word"
        c.close()


@pytest.mark.parametrize("name", ["s-{id}-3000.preview.löcalhost", "s-{id}-3000.preview.xn--lcalhost-n4a", "s-{id}-3000.preview.localhost%00", "[::1]", "s-{id}-3000.preview.localhost, other", "S-{id}-3000.PREVIEW.localhost.."])
def test_a_name_that_only_looks_like_a_previews_is_nobodys(world, name):
    world.start("asleep")
    got = world.ask("/", host=name.replace("{id}", world.id).encode().decode("latin-1"))
    assert got.status in (400, 404) and world.broker.count("wake") == 0
