"""What takes minutes at sandboxd-credentials-proxy: providers and clients that say nothing for ever."""

import json
import time

import pytest

from tests.integration.credentials_fakes import TOKEN, World, error_of, event
from tests.integration.proxy_fakes import wait_for

CHAT = "/stub/chat/completions"
FIRST = event({"choices": [{"delta": {"content": "x"}, "finish_reason": None}]})


@pytest.fixture(scope="session", autouse=True)
def leftovers():
    """Nothing of Docker is used here."""


@pytest.fixture
def world(tmp_path):
    w = World(tmp_path).start()
    yield w
    w.checked_stop()


def body(stream):
    return json.dumps({"model": "m-1", "max_tokens": 100, "stream": stream})


@pytest.mark.parametrize("stream,seconds", [(True, 300), (False, 600)])
def test_a_provider_that_never_answers_is_given_up(world, stream, seconds):
    world.app.answer = lambda sock, _request: world.app._wait_gone(sock)
    c = world.client()
    c.sock.settimeout(seconds + 60)
    began = time.monotonic()
    assert error_of(c.send(world.text("POST", CHAT, body=body(stream))).answer()) == (504, "upstream_timeout")
    assert seconds - 1 < time.monotonic() - began < seconds + 30
    wait_for(lambda: [u["status"] for u in world.broker.of("usage")] == ["0"])


def test_a_stream_that_falls_silent_is_cut(world):
    world.app.events = [FIRST, 200.0]
    c = world.client()
    c.sock.settimeout(180)
    got = c.send(world.text("POST", CHAT, body=body(True))).answer()
    assert got.status == 200 and not got.whole and got.body == FIRST


def test_a_body_that_does_not_come_is_not_waited_for(world):
    c = world.client()
    c.sock.settimeout(60)
    began = time.monotonic()
    c.send(world.text("POST", CHAT, f"X-Api-Key: {TOKEN}\r\nContent-Length: 500\r\n") + '{"mess')
    assert error_of(c.answer()) == (408, "request_timeout") and 29 < time.monotonic() - began < 60
    assert world.broker.count("admit") == 0 and world.app.requests == []
