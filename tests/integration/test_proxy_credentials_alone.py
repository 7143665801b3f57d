"""sandboxd-credentials-proxy by itself: the real program between a scripted sandboxd and scripted providers."""

import datetime
import ipaddress
import json
import pathlib
import signal
import ssl
import threading
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.integration.proxy_fakes import App, Broker, Client, Proxy, encode, new_id, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build/asan/bin/sandboxd-credentials-proxy"
TOKEN = "tk_the-tasks-own-token"
KEY = "sk-real-key-of-the-owner"
PATHS = ["POST /v1/messages", "POST /chat/completions", "POST /responses", "GET /models", "GET /models/*", "POST /echo",
         "GET /big", "GET /slow", "GET /redirect", "POST /upload", "GET /cut-length", "GET /no-answer", "GET /cookies",
         "GET /hang", "POST /once", "GET /ok"]


@pytest.fixture(scope="session", autouse=True)
def leftovers():
    """Nothing of Docker is used here."""


def event(data, name=None):
    return (f"event: {name}\n" if name else "").encode() + b"data: " + (data if isinstance(data, bytes) else
                                                                         json.dumps(data).encode()) + b"\n\n"


class Provider(App):
    """Answers as providers do, well and badly; `events` is what a stream consists of."""

    def __init__(self):
        super().__init__()
        self.events = []
        self.status, self.more = 200, ""
        self.drop_second = False

    def stream(self, sock, _request):
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n")
        for part in self.events:
            if isinstance(part, float):
                time.sleep(part)
            else:
                sock.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        sock.sendall(b"0\r\n\r\n")
        return True

    do_v1_messages = do_chat_completions = do_responses = stream

    def do_echo(self, sock, request):
        body = b'{"error":{"message":"in the words of the provider"}}' if self.status >= 400 else request["body"]
        sock.sendall(f"HTTP/1.1 {self.status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{self.more}\r\n"
                     .encode() + body)
        return True

    def do_redirect(self, sock, _request):
        sock.sendall(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/steal\r\nContent-Length: 0\r\n\r\n")
        return True

    def do_once(self, sock, request):
        """The first answer is fine; the connection then dies as an idle one does."""
        self.do_echo(sock, request)
        return False


class World:
    def __init__(self, base):
        self.dir = base
        for name in ("run/out", "run/broker/credentials"):
            (base / name).mkdir(parents=True)
        self.id = new_id()
        self.add(self.id)
        self.app = Provider()
        self.broker = Broker(base, "credentials").start()
        self.broker.handlers["grant"] = self.grant
        self.broker.handlers["usage"] = lambda r: self.broker.send("noted", {"n": r["n"]})
        self.proxy = Proxy(PROGRAM, "credentials", base)
        self.header, self.prefix, self.key = "x-api-key", "", KEY
        self.base_url = f"http://127.0.0.1:{self.app.port}"
        self.silent = False

    def add(self, sandbox_id):
        (self.dir / "run/out" / sandbox_id).mkdir()

    def grant(self, record):
        if self.silent:
            return
        if record["sandbox_id"] != self.id or record["token"] != TOKEN:
            self.broker.send("grant", {"n": record["n"], "status": "unknown"})
            return
        self.broker.send("grant", [("n", record["n"]), ("status", "ok"), ("task_id", "task1"),
                                   ("provider", "stub"), ("base_url", self.base_url + "/"), ("header", self.header),
                                   ("prefix", self.prefix), ("key", self.key), *(("path", p) for p in PATHS),
                                   ("provider", "free"), ("base_url", self.base_url), ("header", ""), ("prefix", ""),
                                   ("key", ""), ("path", "POST /echo")])

    def start(self):
        self.proxy.start()
        wait_for(self.socket(self.id).exists, what="the door")
        wait_for(lambda: self.broker.connections, what="the proxy at the broker")
        return self

    def stop(self):
        self.proxy.stop()
        self.broker.stop()
        self.app.close()

    def socket(self, sandbox_id):
        return self.dir / "run/out" / sandbox_id / "out.sock"

    def client(self, sandbox_id=None):
        return Client(0, self.socket(sandbox_id or self.id), encode("hello", {"protocol": 1}))

    def text(self, method, path, headers=None, body=""):
        headers = f"Authorization: Bearer {TOKEN}\r\n" if headers is None else headers
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:9100\r\n{headers}{length}\r\n{body}"

    def ask(self, path, method="POST", headers=None, body="", sandbox_id=None):
        c = self.client(sandbox_id)
        try:
            return c.send(self.text(method, path, headers, body)).answer(method)
        finally:
            c.close()


@pytest.fixture
def world(tmp_path):
    w = World(tmp_path).start()
    yield w
    w.stop()
    log = w.proxy.log()
    assert "AddressSanitizer" not in log and "runtime error" not in log and "LeakSanitizer" not in log, log
    assert KEY not in log and TOKEN not in log


def error_of(answer):
    return answer.status, json.loads(answer.body)["error"]["type"]


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
    usage = wait_for(lambda: world.broker.of("usage"))[0]
    assert usage["task_id"] == "task1" and usage["provider"] == "stub" and usage["status"] == "200" and usage["model"] == "m-1"


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
    assert got.status == 302 and got.header("location") is None
    assert len(world.app.requests) == 1


@pytest.mark.parametrize("status,more,expected", [
    (429, "Retry-After: 7\r\n", {"retry-after": "7", "x-should-retry": None}),
    (429, "Retry-After: 86400\r\nRetry-After-Ms: 900000\r\n", {"retry-after": "60", "retry-after-ms": "60000"}),
    (529, "Retry-After: Wed, 21 Oct 2027 07:28:00 GMT\r\n", {"retry-after": "60"}),
    (401, "Set-Cookie: a=1\r\n", {"x-should-retry": "false", "set-cookie": None}),
    (402, "", {"x-should-retry": "false"}), (403, "", {"x-should-retry": "false"}), (400, "", {"x-should-retry": None}),
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


def memory_kib(pid):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("RssAnon"):
            return int(line.split()[1])
    return 0


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


def make_certificate(directory):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "stub provider")])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
                   .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1))
                   .not_valid_after(now + datetime.timedelta(days=1))
                   .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
                   .add_extension(x509.BasicConstraints(ca=True, path_length=None), True).sign(key, hashes.SHA256()))
    path = directory / "cert.pem"
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return path


def serve_tls(app, certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    plain = app._serve

    def serve(sock):
        try:
            plain(context.wrap_socket(sock, server_side=True))
        except OSError:
            sock.close()

    app._serve = serve


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
