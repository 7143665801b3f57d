"""sandboxd-credentials-proxy by itself: the real program between a scripted sandboxd and scripted providers."""

import json
import signal
import threading
import time

import pytest

from tests.integration.credentials_fakes import KEY, TOKEN, World, error_of, event, make_certificate, memory_kib, serve_tls
from tests.integration.proxy_fakes import Client, encode, new_id, wait_for


@pytest.fixture(scope="session", autouse=True)
def leftovers():
    """Nothing of Docker is used here."""


@pytest.fixture
def world(tmp_path):
    w = World(tmp_path).start()
    yield w
    w.checked_stop()


# ---- keys ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("headers", [f"Authorization: Bearer {TOKEN}\r\n", f"X-Api-Key: {TOKEN}\r\n", f"x-goog-api-key: {TOKEN}\r\n",
                                     f"Authorization: bearer {TOKEN}\r\nX-API-Key: {TOKEN}\r\nX-Goog-Api-Key: {TOKEN}\r\n"])
def test_every_key_header_is_replaced(world, headers):
    got = world.ask("/stub/echo?beta=true", headers=headers + "anthropic-version: 1\r\nX-Empty:\r\n", body='{"a":1}')
    assert (got.status, got.body) == (200, b'{"a":1}')
    fields = dict(world.app.last("/echo?beta=true")["headers"])
    assert fields["x-api-key"] == KEY and fields["anthropic-version"] == "1" and fields["x-empty"] == ""
    assert fields["host"] == f"127.0.0.1:{world.app.port}"
    assert not {"authorization", "x-goog-api-key", "accept", "user-agent", "accept-encoding", "expect"} & set(fields)
    assert TOKEN not in str(world.app.requests)


def test_prefix_and_keyless(world):
    world.header, world.prefix = "authorization", "Bearer "
    world.ask("/stub/echo", body="{}")
    assert dict(world.app.last("/echo")["headers"])["authorization"] == f"Bearer {KEY}"
    world.ask("/free/echo", body="{}")
    fields = dict(world.app.last("/echo")["headers"])
    assert not {"authorization", "x-api-key", "x-goog-api-key"} & set(fields)


def test_unknown_tokens_never_reach_a_provider(world):
    other = new_id()
    world.add(other)
    wait_for(world.socket(other).exists)
    assert error_of(world.ask("/stub/echo", headers="Authorization: Bearer wrong\r\n", body="{}")) == (401, "unknown_token")
    assert error_of(world.ask("/stub/echo", headers="", body="{}")) == (401, "unknown_token")
    assert error_of(world.ask("/stub/echo", body="{}", sandbox_id=other)) == (401, "unknown_token")
    assert error_of(world.ask("/other/echo", body="{}")) == (403, "provider_not_allowed")
    assert error_of(world.ask("/stub/admin", body="{}")) == (403, "path_not_allowed")
    assert error_of(world.ask("/stub/echo", "DELETE")) == (403, "path_not_allowed")
    assert error_of(world.ask("/stub/models/a/b", "GET")) == (403, "path_not_allowed")
    assert world.app.requests == []
    assert world.ask("/stub/models/a", "GET").status == 200
    assert world.ask("/stub/echo", headers="", body="{}").header("x-should-retry") == "false"


@pytest.mark.parametrize("path", [
    "/stub/../echo", "/stub//echo", "/stub/%2e%2e/echo", "/stub/echo%2f", "/stub/echo%2F..", "/stub/echo%5c", "/stub/./echo",
    "/stub/a\\b", "http://127.0.0.1/stub/echo", "/stub", "/stub/", "/", "/STUB/echo", "/stub/echo%", "/stub/echo%zz", "/stub/echo%00",
    "/stub/echo%252e", "/stub/models/x#y", "*"])
def test_only_plain_paths(world, path):
    got = world.ask(path, body="{}")
    assert got.status in (400, 404) and world.app.requests == []


def test_smuggling_is_refused(world):
    for text in ("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
                 "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"):
        c = world.client().send(f"POST /stub/echo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n" + text)
        assert c.answer().status in (400, 501)
    assert world.app.requests == []


def test_a_connection_without_hello_is_closed(world):
    c = Client(0, world.socket(world.id), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    c.fill()
    while c.fill():
        pass
    assert b"HTTP/1.1" not in c.buffer


def test_a_head_may_come_in_pieces_from_the_first_on(world):
    """The first piece may stand right behind the hello, and behind the request before it."""
    text = world.text("GET", "/stub/ok")
    c = Client(0, world.socket(world.id), encode("hello", {"protocol": 1}) + text[:20].encode())
    time.sleep(0.1)
    c.send(text[20:] + text[:30])
    assert c.answer().status == 200
    c.sock.settimeout(5)
    c.send(text[30:])
    assert c.answer().status == 200


# ---- grants ------------------------------------------------------------------------------------------------


def test_a_grant_is_asked_once_and_ends_with_its_task(world):
    for _ in range(3):
        assert world.ask("/stub/echo", body="{}").status == 200
    assert world.broker.count("grant") == 1
    world.broker.send("revoke", {"task_id": "task1"})
    world.silent = False
    world.broker.handlers["grant"] = lambda r: world.broker.send("grant", {"n": r["n"], "status": "unknown"})
    wait_for(lambda: world.ask("/stub/echo", body="{}").status == 401)


def test_a_revoked_task_is_cut(world):
    world.app.events = [event({"type": "message_start"}), 5.0]
    c = world.client().send(world.text("POST", "/stub/v1/messages", body="{}"))
    assert c.head()[0] == 200
    world.broker.send("revoke", {"task_id": "task1"})
    began = time.monotonic()
    while c.fill():
        pass
    assert time.monotonic() - began < 2 and b"0\r\n\r\n" not in c.buffer


def test_grants_survive_an_absent_broker_and_are_asked_again_after_it(world):
    assert world.ask("/stub/echo", body="{}").status == 200
    world.broker.stop()
    assert world.ask("/stub/echo", body="{}").status == 200
    world.broker.start()
    wait_for(lambda: world.broker.count("grant") == 2)
    assert world.ask("/stub/echo", body="{}").status == 200


def test_an_unknown_grant_waits_for_the_broker(world):
    world.broker.stop()
    wait_for(lambda: "connection to sandboxd lost" in world.proxy.log())
    c = world.client().send(world.text("POST", "/stub/echo", body="{}"))
    time.sleep(1)
    world.broker.start()
    assert c.answer().status == 200


def test_a_missing_answer_is_503_and_never_401(world):
    world.silent = True
    began = time.monotonic()
    got = world.ask("/stub/echo", body="{}")
    assert error_of(got) == (503, "broker_unavailable") and 29 < time.monotonic() - began < 33


# ---- relaying ------------------------------------------------------------------------------------------------


def test_head_is_answered_here(world):
    assert world.ask("/stub", "HEAD", headers="").status == 200
    assert world.app.requests == []


def test_bodies_are_streamed_with_length_and_chunks(world):
    body = json.dumps({"model": "m-1", "x": "y" * 3000000})
    assert world.ask("/stub/upload", body=body).body == f"POST /upload {len(body)}".encode()
    c = world.client().send(world.text("POST", "/stub/echo", f"X-Api-Key: {TOKEN}\r\nTransfer-Encoding: chunked\r\n"))
    c.send("3\r\n{\"a\r\n").send("4\r\n\":1}\r\n0\r\n\r\n")
    assert c.answer().body == b'{"a":1}'


def test_bodies_have_a_limit(world):
    c = world.client().send(world.text("POST", "/stub/upload", f"X-Api-Key: {TOKEN}\r\nContent-Length: 40000000\r\n"))
    assert error_of(c.answer()) == (413, "request_too_large")
    c = world.client().send(world.text("POST", "/stub/upload", f"X-Api-Key: {TOKEN}\r\nTransfer-Encoding: chunked\r\n"))

    def pump():
        block = b"100000\r\n" + b"x" * (1 << 20) + b"\r\n"
        try:
            for _ in range(40):
                c.send(block)
        except OSError:
            pass

    thread = threading.Thread(target=pump)
    thread.start()
    assert error_of(c.answer()) == (413, "request_too_large")
    thread.join()


def test_expect_continue(world):
    c = world.client().send(world.text("POST", "/stub/echo", f"X-Api-Key: {TOKEN}\r\nExpect: 100-continue\r\nContent-Length: 2\r\n"))
    assert c.head()[0] == 100
    assert c.send("{}").answer().body == b"{}"


def test_events_come_as_they_are_sent(world):
    world.app.events = [event({"type": "message_start"}), 0.4, event({"type": "message_stop"}, "message_stop")]
    c = world.client().send(world.text("POST", "/stub/v1/messages", body="{}"))
    began = time.monotonic()
    c.head()
    c.line()
    assert "message_start" in c.line()
    assert time.monotonic() - began < 0.3


CHAT = {"choices": [{"delta": {"content": "hi \"finish_reason\":\"stop\" [DONE]"}, "finish_reason": None}]}
CHAT_END = {"choices": [{"delta": {}, "finish_reason": "stop"}]}


@pytest.mark.parametrize("path,events,whole", [
    ("/stub/v1/messages", [event({"type": "message_start"}), event({"type": "message_stop"})], True),
    ("/stub/v1/messages", [event({"type": "content_block_delta", "delta": {"text": "{\"type\":\"message_stop\"}"}})], False),
    ("/stub/v1/messages", [event({"type": "error", "error": {"type": "overloaded_error"}})], True),
    ("/stub/v1/messages", [], False),
    ("/stub/chat/completions", [event(CHAT), event(CHAT_END), event(b"[DONE]")], True),
    ("/stub/chat/completions", [event(CHAT), event(CHAT_END)], True),
    ("/stub/chat/completions", [event(CHAT), event(b"[DONE]")], True),
    ("/stub/chat/completions", [event(CHAT)], False),
    ("/stub/chat/completions", [event({"error": {"message": "no more"}})], True),
    ("/stub/responses", [event({"type": "response.output_text.delta", "delta": "x"}), event({"type": "response.completed"})], True),
    ("/stub/responses", [event({"type": "response.output_text.delta", "delta": "response.completed"})], False),
])
def test_a_model_stream_without_its_end_is_broken(world, path, events, whole):
    world.app.events = events
    got = world.ask(path, body="{}")
    assert got.status == 200 and got.whole is whole
    assert got.body == b"".join(events)


def test_cut_answers_are_cut(world):
    got = world.ask("/stub/cut-length", "GET")
    assert got.status == 200 and not got.whole and got.body == b""
    assert error_of(world.ask("/stub/no-answer", "GET")) == (502, "upstream_error")


def test_an_unreachable_provider_is_502(world):
    world.base_url = "http://127.0.0.1:1"
    got = world.ask("/stub/echo", body="{}")
    assert error_of(got) == (502, "upstream_error") and KEY.encode() not in got.body


def test_a_client_that_leaves_ends_the_request(world):
    c = world.client().send(world.text("GET", "/stub/hang"))
    wait_for(lambda: world.app.count("/hang"))
    c.close()
    assert world.app.gone.wait(3)


def test_redirects_are_not_followed_and_not_told(world):
    got = world.ask("/stub/redirect", "GET")
    assert error_of(got) == (400, "upstream_redirect") and got.header("location") is None and b"steal" not in got.body
    assert len(world.app.requests) == 1


@pytest.mark.parametrize("status,more,expected", [
    (429, "Retry-After: 7\r\n", {"retry-after": "7", "x-should-retry": None}),
    (429, "Retry-After: 86400\r\nRetry-After-Ms: 900000\r\n", {"retry-after": "60", "retry-after-ms": "60000"}),
    (529, "Retry-After: Wed, 21 Oct 2027 07:28:00 GMT\r\n", {"retry-after": "60"}),
    (401, "Set-Cookie: a=1\r\n", {"x-should-retry": "false", "set-cookie": None}),
    (402, "", {"x-should-retry": "false"}), (403, "", {"x-should-retry": "false"}),
    (404, "", {"x-should-retry": "false"}), (400, "X-Should-Retry: true\r\n", {"x-should-retry": "false"}),
    (500, "X-Should-Retry: true\r\n", {"x-should-retry": "true"}),
])
def test_errors_pass_in_the_words_of_the_provider(world, status, more, expected):
    world.app.status, world.app.more = status, more
    got = world.ask("/stub/echo", body="{}")
    assert got.status == status and b"in the words of the provider" in got.body
    assert {k: got.header(k) for k in expected} == expected


def test_a_dead_kept_connection_is_not_the_agents_problem(world):
    assert world.ask("/stub/once", body="{}").status == 200
    time.sleep(0.2)
    assert world.ask("/stub/once", body='{"again":1}').body == b'{"again":1}'


def test_connections_to_the_provider_are_kept(world):
    for _ in range(5):
        assert world.ask("/stub/echo", body="{}").status == 200
    assert world.app.connections == 1


def test_a_client_that_does_not_read_stops_the_provider(world):
    before = memory_kib(world.proxy.process.pid)
    c = world.client().send(world.text("GET", "/stub/big"))
    c.head()
    time.sleep(1)
    after = memory_kib(world.proxy.process.pid)
    assert after - before < 16384, (before, after)
    left = (64 << 20) - len(c.buffer)
    while left > 0:
        data = c.sock.recv(262144)
        assert data
        left -= len(data)


# ---- TLS ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trusted", [True, False])
def test_tls_is_verified(tmp_path, trusted):
    certificate = make_certificate(tmp_path)
    w = World(tmp_path)
    w.base_url = f"https://127.0.0.1:{w.app.port}"
    serve_tls(w.app, certificate)
    if trusted:
        w.proxy.env["SSL_CERT_FILE"] = str(certificate)
    w.start()
    try:
        got = w.ask("/stub/echo", body="{}")
        if trusted:
            assert (got.status, got.body) == (200, b"{}")
        else:
            assert error_of(got) == (502, "upstream_error") and w.app.requests == []
    finally:
        w.stop()


# ---- the end ---------------------------------------------------------------------------------------------------


def test_sigterm_finishes_what_runs(world):
    world.app.events = [event({"type": "message_start"}), 1.0, event({"type": "message_stop"})]
    c = world.client().send(world.text("POST", "/stub/v1/messages", body="{}"))
    wait_for(lambda: world.app.requests)
    world.proxy.process.send_signal(signal.SIGTERM)
    got = c.answer()
    assert got.status == 200 and got.whole
    assert world.proxy.process.wait(5) == 0
