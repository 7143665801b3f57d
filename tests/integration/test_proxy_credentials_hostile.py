"""A hostile sandbox and an unruly provider at sandboxd-credentials-proxy: what is refused, what it may cost."""

import json
import threading
import time

import pytest

from tests.integration.credentials_fakes import KEY, TOKEN, World, error_of, event, memory_kib
from tests.integration.proxy_fakes import Client, encode, new_id, wait_for

CHAT = "/stub/chat/completions"
BODY = json.dumps({"model": "m-1", "max_tokens": 100, "stream": True})
CONNECTIONS_OF_ONE = 512
END = event({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 7, "completion_tokens": 8}})


@pytest.fixture(scope="session", autouse=True)
def leftovers():
    """Nothing of Docker is used here."""


@pytest.fixture
def world(tmp_path):
    w = World(tmp_path).start()
    yield w
    w.checked_stop()


def raw(world, text):
    """Status of whatever is answered to these bytes; None when the connection just ends."""
    c = world.client().send(text)
    try:
        return c.answer().status
    except (EOFError, IndexError, ValueError):
        return None
    finally:
        c.close()


AUTH = f"Authorization: Bearer {TOKEN}\r\n"


@pytest.mark.parametrize("text", [
    f"POST http://127.0.0.1:9/stub/echo HTTP/1.1\r\nHost: x\r\n{AUTH}Content-Length: 2\r\n\r\n{{}}",
    f"CONNECT 127.0.0.1:9 HTTP/1.1\r\nHost: x\r\n{AUTH}\r\n", f"TRACE /stub/echo HTTP/1.1\r\nHost: x\r\n{AUTH}\r\n",
    f"OPTIONS * HTTP/1.1\r\nHost: x\r\n{AUTH}\r\n", f"POST /stub/echo HTTP/2.0\r\nHost: x\r\n{AUTH}\r\n",
    f"POST /stub/echo HTTP/1.0\r\nHost: x\r\n{AUTH}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    f"POST /stub/echo HTTP/1.1\r\nHost: x\r\n{AUTH}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    f"POST /stub/echo HTTP/1.1\r\nHost: x\r\n{AUTH}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{{}}",
    f"POST /stub/echo HTTP/1.1\r\nHost: x\r\n{AUTH}Content-Length: +2\r\n\r\n{{}}",
    f"POST /stub/echo HTTP/1.1\r\nHost: x\r\n{AUTH}Content-Length : 2\r\n\r\n{{}}",
    f"POST /stub/echo HTTP/1.1\r\nHost: x\r\n{AUTH}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    f"POST /stub/echo HTTP/1.1\r\nHost: x\r\n{AUTH}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    f"POST /stub/echo HTTP/1.1\r\nHost: x\r\n{AUTH}X: a\rb\r\nContent-Length: 2\r\n\r\n{{}}",
    f"POST /stub/echo HTTP/1.1\r\nHost: x\r\n{AUTH}X: a\0b\r\nContent-Length: 2\r\n\r\n{{}}",
    f"POST /stub/echo HTTP/1.1\nHost: x\n{AUTH}Content-Length: 2\n\n{{}}",
    f"POST /stub/echo HTTP/1.1\r\nHost: x\r\n{AUTH} folded: 1\r\nContent-Length: 2\r\n\r\n{{}}",
    f"GET /stub/models/{'m' * 70000} HTTP/1.1\r\nHost: x\r\n{AUTH}\r\n",
    f"GET /stub/ok HTTP/1.1\r\nHost: x\r\n{AUTH}X: {'v' * 70000}\r\n\r\n",
    f"GET /stub/ok HTTP/1.1\r\nHost: x\r\n{AUTH}" + "".join(f"X-{i}: 1\r\n" for i in range(120)) + "\r\n",
    f"GET /stub/ok?key={TOKEN} HTTP/1.1\r\nHost: x\r\n\r\n", f"GET /stub/ok HTTP/1.1\r\nHost: x\r\nCookie: token={TOKEN}\r\n\r\n",
    f"GET /stub/ok HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Bearer {TOKEN}\r\n\r\n",
    f"GET /stub/ok HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {TOKEN}\r\n\r\n",
    f"GET /stub/ok HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {'t' * 600}\r\n\r\n",
    f"DELETE /stub/models/x HTTP/1.1\r\nHost: x\r\n{AUTH}\r\n", f"GET /stub/models/a%2f..%2fb HTTP/1.1\r\nHost: x\r\n{AUTH}\r\n",
    f"GET /free/models HTTP/1.1\r\nHost: x\r\n{AUTH}\r\n", f"GET /stub/models/;/../x HTTP/1.1\r\nHost: x\r\n{AUTH}\r\n",
    "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"], ids=lambda text: text[:25])
def test_nothing_of_it_reaches_the_provider(world, text):
    status = raw(world, text)
    assert status is None or 400 <= status <= 505, status
    assert world.app.requests == [] and world.app.connections == 0


def test_every_refusal_leaves_the_door_open_for_the_next_request(world):
    c = world.client()
    for path, status in (("/stub/admin", 403), ("/none/x", 403), ("/stub/../x", 404), ("/stub/echo", 200)):
        c.send(world.text("POST", path))
        assert c.answer().status == status


def test_the_client_cannot_take_the_key_off_or_steer_it(world):
    """Connection names headers of this hop: ours is put on after it was obeyed."""
    world.ask("/stub/echo", headers=AUTH + "Connection: x-api-key, close\r\nHost: evil.example\r\nX-Forwarded-Host: evil.example\r\n"
                                          "Forwarded: host=evil\r\nX-Api-Key: mine\r\nUpgrade: websocket\r\n", body="{}")
    fields = world.app.last("/echo")["headers"]
    assert [v for k, v in fields if k == "x-api-key"] == [KEY]
    assert [v for k, v in fields if k == "host"] == [f"127.0.0.1:{world.app.port}"]
    assert not {"x-forwarded-host", "forwarded", "upgrade", "connection"} & {k for k, _ in fields}


def test_the_end_of_a_task_is_the_end_of_its_token_at_every_door(world):
    other = new_id()
    world.add(other)
    wait_for(world.socket(other).exists)
    assert world.ask("/stub/echo", body="{}").status == 200
    assert error_of(world.ask("/stub/echo", body="{}", sandbox_id=other)) == (401, "unknown_token")
    world.broker.handlers["grant"] = lambda r: world.broker.send("grant", {"n": r["n"], "status": "unknown"})
    world.broker.send("revoke", {"task_id": "task1"})
    wait_for(lambda: world.ask("/stub/echo", body="{}").status == 401)
    sent = len(world.app.requests)
    assert error_of(world.ask(CHAT, body=BODY)) == (401, "unknown_token") and len(world.app.requests) == sent


def test_guessing_tokens_has_an_end(world):
    """Sixty-four guesses may wait for sandboxd; further ones are not even asked."""
    world.silent = True
    clients = [world.client().send(world.text("GET", "/stub/ok", f"X-Api-Key: guess-{i}\r\n")) for i in range(80)]
    wait_for(lambda: world.broker.count("grant") == 64)
    assert error_of(clients[-1].answer()) == (503, "broker_unavailable")
    for c in clients:
        c.close()
    assert world.broker.count("grant") == 64 and world.app.requests == []


def test_one_sandbox_cannot_take_the_place_of_all(world):
    other = new_id()
    world.add(other)
    wait_for(world.socket(other).exists)
    clients = [world.client() for _ in range(CONNECTIONS_OF_ONE + 20)]
    with pytest.raises((EOFError, ConnectionError)):  # closed before or after it was sent
        clients[-1].send(world.text("GET", "/stub/ok")).answer()
    got = Client(0, world.socket(other), encode("hello", {"protocol": 1})).send(world.text("GET", "/stub/ok", "X-Api-Key: x\r\n")).answer()
    assert got.status == 401
    for c in clients:
        c.close()
    wait_for(lambda: raw(world, world.text("GET", "/stub/ok")) == 200)


def test_bodies_that_stop_in_the_middle_leave_room_for_others(world):
    """More of them than may be held together: the rest is told to come again, and sandboxd is asked about none."""
    head = world.text("POST", CHAT, AUTH + "Content-Length: 900000\r\n") + '{"messages":"' + "x" * 250000
    clients = [world.client() for _ in range(110)]
    for c in clients:
        c.sock.settimeout(5)
        c.send(head)
    assert error_of(clients[-1].answer()) == (503, "busy")
    assert world.broker.count("admit") == 0 and raw(world, world.text("POST", "/stub/echo", AUTH, "{}")) == 200
    for c in clients:
        c.close()
    wait_for(lambda: raw(world, world.text("GET", "/stub/ok")) == 200)


# ---- unruly providers --------------------------------------------------------------------------------------------------


def head_of_stream(sock):
    sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def test_one_byte_at_a_time_comes_through_and_is_read(world):
    def trickle(sock, _request):
        head_of_stream(sock)
        for i in range(len(END)):
            sock.sendall(chunk(END[i:i + 1]))
        sock.sendall(b"0\r\n\r\n")
        return True

    world.app.answer = trickle
    got = world.ask(CHAT, body=BODY)
    assert got.whole and got.body == END
    usage = wait_for(lambda: world.broker.of("usage"))[0]
    assert (usage["input"], usage["output"], usage["estimated"]) == ("7", "8", "no")


@pytest.mark.parametrize("at", [1, 20, len(END) - 3])
def test_a_stream_that_is_cut_in_the_middle_of_an_event_is_cut(world, at):
    def cut(sock, _request):
        head_of_stream(sock)
        sock.sendall(chunk(END[:at]))
        return False

    world.app.answer = cut
    got = world.ask(CHAT, body=BODY)
    assert got.status == 200 and not got.whole and got.body == END[:at]
    wait_for(lambda: world.broker.count("usage") == 1)


def test_fifty_megabytes_in_one_line_cost_no_memory(world):
    size = 50 << 20

    def flood(sock, _request):
        head_of_stream(sock)
        sock.sendall(chunk(b'data: {"choices":[{"delta":{"content":"'))
        for _ in range(size >> 20):
            sock.sendall(chunk(b"x" * (1 << 20)))
        sock.sendall(chunk(b'"},"finish_reason":"stop"}]}\n\n') + b"0\r\n\r\n")
        return True

    world.app.answer = flood
    before = memory_kib(world.proxy.process.pid)
    c = world.client().send(world.text("POST", CHAT, body=BODY))
    came, tail = 0, b""
    while not tail.endswith(b"\r\n0\r\n\r\n"):
        data = c.sock.recv(1 << 18)
        assert data
        came, tail = came + len(data), (tail + data)[-16:]
    assert came > size
    assert memory_kib(world.proxy.process.pid) - before < 16384
    assert int(wait_for(lambda: world.broker.of("usage"))[0]["output"]) == size // 3


@pytest.mark.parametrize("answer", [
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello", b"HTTP/1.1 999999 X\r\n\r\n", b"rubbish\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200000 + b"\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", b"",
    b"HTTP/1.1 301 Moved\r\nLocation: https://elsewhere.example/\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"], ids=lambda answer: str(answer[:25]))
def test_answers_that_are_none_end_in_an_error(world, answer):
    def say(sock, _request):
        sock.sendall(answer)
        return False

    world.app.answer = say
    got = world.ask(CHAT, body=BODY)
    assert got.status >= 400 or not got.whole, (got.status, got.body)
    wait_for(lambda: world.broker.count("usage") == 1)
    assert world.ask("/stub/ok", "GET").status == 200


def test_an_empty_stream_is_not_an_answer(world):
    """An agent asks at once again, for ever, when it gets one."""
    world.app.events = []
    got = world.ask(CHAT, body=BODY)
    assert not got.whole


def test_an_answer_before_the_end_of_the_request_is_passed_on(world):
    def early(sock, _request):
        sock.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\nConnection: close\r\n\r\nless")
        time.sleep(0.2)
        return False

    early.reads_body = False
    world.app.do_upload = early
    c = world.client().send(world.text("POST", "/stub/upload", AUTH + "Content-Length: 3000000\r\n"))
    done = threading.Event()

    def pump():
        try:
            for _ in range(30):
                c.send("x" * 100000)
        except OSError:
            pass
        done.set()

    threading.Thread(target=pump, daemon=True).start()
    got = c.answer()
    assert got.status in (413, 502)
    c.close()
    done.wait(10)
