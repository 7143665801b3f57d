"""sandboxd-credentials-proxy towards a provider that speaks HTTP/2 over TLS."""

import json
import threading
import time

import pytest

from tests.integration.credentials_fakes import KEY, World, error_of, event, make_certificate, memory_kib
from tests.integration.http2_fakes import CANCEL, REFUSED, Http2Provider
from tests.integration.proxy_fakes import wait_for

CHAT = "/stub/chat/completions"
BODY = json.dumps({"model": "m-1", "max_tokens": 100, "stream": True})
EVENTS = [event({"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}),
          event(b"[DONE]")]
STREAM = {"content-type": "text/event-stream"}
BIG = 64 << 20


@pytest.fixture(scope="session", autouse=True)
def leftovers():
    """Nothing of Docker is used here."""


class Script:
    """What the provider does; a test changes it."""

    def __init__(self):
        self.refuse = 0
        self.chat = EVENTS

    def answer(self, path, body):
        if self.refuse:
            self.refuse -= 1
            return REFUSED
        if path == "/chat/completions":
            return 200, STREAM, iter(self.chat)
        if path == "/big":
            return 200, {"content-length": str(BIG)}, (b"b" * 65536 for _ in range(BIG // 65536))
        if path == "/hang":
            return None
        if path == "/cut":
            return CANCEL
        return 200, {}, iter([body or b"ok"])


@pytest.fixture
def world(tmp_path):
    certificate = make_certificate(tmp_path)
    w = World(tmp_path)
    w.script = Script()
    w.http2 = Http2Provider(certificate, w.script.answer)
    w.base_url = f"https://127.0.0.1:{w.http2.port}"
    w.proxy.env["SSL_CERT_FILE"] = str(certificate)
    w.start()
    yield w
    w.http2.close()
    w.checked_stop()


def test_it_is_spoken_and_connections_are_shared(world):
    assert world.ask("/stub/echo", body='{"a":1}').body == b'{"a":1}'
    threads = [threading.Thread(target=lambda: world.ask(CHAT, body=BODY)) for _ in range(40)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(world.http2.requests) == 41 and world.http2.connections == 1
    headers, body = world.http2.requests[0]
    assert headers["x-api-key"] == KEY and headers[":scheme"] == "https" and body == b'{"a":1}'
    assert not {"connection", "transfer-encoding", "authorization"} & set(headers)
    wait_for(lambda: world.broker.count("usage") == 40)


def test_events_come_as_they_are_sent(world):
    world.script.chat = [EVENTS[0], 0.6, EVENTS[1]]
    world.ask("/stub/ok", "GET")
    began = time.monotonic()
    c = world.client().send(world.text("POST", CHAT, body=BODY))
    while b"finish_reason" not in c.buffer:
        assert c.fill()
    assert time.monotonic() - began < 0.5


def test_a_client_that_leaves_resets_its_stream_at_once_and_only_that(world):
    world.script.chat = [EVENTS[0], 1.0, EVENTS[1]]
    other = world.client().send(world.text("POST", CHAT, body=BODY))
    assert other.head()[0] == 200
    c = world.client().send(world.text("GET", "/stub/hang"))
    wait_for(lambda: len(world.http2.requests) == 2)
    left = time.monotonic()
    c.close()
    closed = wait_for(lambda: [x for x in world.http2.closed if x[0] == "/hang"], what="the reset of the stream")[0]
    assert closed[1] != 0 and closed[2] - left < 0.5
    while b"DONE" not in other.buffer:
        assert other.fill()
    assert world.http2.connections == 1


def test_a_stream_that_is_reset_is_cut_below(world):
    world.script.chat = EVENTS[:1]
    world.script.answer_chat = None

    def reset_later(path, body):
        return 200, {"content-length": "1000", **STREAM}, iter([b"data: x\n\n"])

    world.http2.answer = reset_later
    got = world.ask(CHAT, body=BODY)
    assert got.status == 200 and not got.whole
    world.http2.answer = lambda path, body: CANCEL
    assert error_of(world.ask(CHAT, body=BODY)) == (502, "upstream_error")


def test_a_request_that_was_refused_unseen_is_sent_again(world):
    """REFUSED_STREAM says that nothing of it was looked at (RFC 9113, section 8.7)."""
    world.ask("/stub/ok", "GET")
    world.script.refuse = 1
    got = world.ask(CHAT, body=BODY)
    assert got.status == 200 and got.whole
    assert [b for h, b in world.http2.requests if h[":path"] == "/chat/completions"] == [BODY.encode()] * 2


def test_a_client_that_does_not_read_stops_its_stream(world):
    before = memory_kib(world.proxy.process.pid)
    c = world.client().send(world.text("GET", "/stub/big"))
    c.head()
    time.sleep(1.5)
    grown, sent = memory_kib(world.proxy.process.pid) - before, world.http2.sent
    assert grown < 24576 and sent < BIG // 2, (grown, sent)
    assert world.ask("/stub/ok", "GET").status == 200  # the connection still serves others
    left = BIG - len(c.buffer)
    while left > 0:
        data = c.sock.recv(262144)
        assert data
        left -= len(data)
