"""sandboxd-preview-proxy by itself: the real program between a scripted sandboxd, a scripted relay and real apps."""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import shutil
import signal
import socket
import tempfile
import time

import pytest

from tests.integration.proxy_fakes import (App, Broker, Client, Proxy, Relay, encode, free_port, new_id,
                                            wait_for)

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build/asan/bin/sandboxd-preview-proxy"
APP_PORT = 3000


@pytest.fixture(scope="session", autouse=True)
def leftovers():
    """Nothing of Docker is used here."""


class World:
    def __init__(self, base):
        self.dir = base
        for name in ("run/in", "run/broker/preview", "state/preview"):
            (base / name).mkdir(parents=True)
        self.id = new_id()
        (base / "run/in" / self.id).mkdir()
        self.app = App()
        self.broker = Broker(base, "preview").start()
        self.relay = Relay(base, self.id, {APP_PORT: self.app.port, 3001: 1})
        self.proxy = Proxy(PROGRAM, "preview", base, free_port())
        self.generation = 1

    def row(self, state="running", **more):
        fields = {"id": self.id, "generation": self.generation, "state": state, "access": "public", "usual_ms": 1200,
                  "phase": more.pop("phase", ""), "detail": more.pop("detail", "")}
        fields.update(more)
        ports = [("port", APP_PORT), ("port", 3001)]
        return [*fields.items(), *ports, *([("open", APP_PORT)] if state == "running" else [])]

    def start(self, state="running", **more):
        self.broker.greeting = [encode("settings", {"preview_domain": "example.com", "http_port": 80}),
                                encode("route", self.row(state, **more)), encode("synced")]
        self.proxy.start()
        wait_for(lambda: self.broker.connections, what="the proxy at the broker")
        if state == "running":
            self.relay.start()
        wait_for(lambda: self.poll()["state"] == ("ready" if state == "running" else "asleep"), what="the route")
        return self

    def stop(self):
        self.proxy.stop()
        self.relay.stop()
        self.broker.stop()
        self.app.close()

    def route(self, state="running", **more):
        self.broker.send("route", self.row(state, **more))

    def host(self, port=APP_PORT, domain="localhost"):
        return f"s-{self.id}-{port}.preview.{domain}"

    def client(self):
        return Client(self.proxy.port)

    def text(self, method, path, headers="", body="", host=None, version="1.1"):
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        return f"{method} {path} HTTP/{version}\r\nHost: {host or self.host()}\r\n{headers}{length}\r\n{body}"

    def ask(self, path, method="GET", headers="", body="", host=None):
        c = self.client()
        try:
            return c.send(self.text(method, path, headers, body, host)).answer(method)
        finally:
            c.close()

    def poll(self, host=None):
        got = self.ask("/.sandboxd/wake", host=host)
        return json.loads(got.body) if got.status == 200 else {"state": got.status}

    def held(self):
        """Waits until the proxy asked for a wake."""
        wait_for(lambda: self.broker.count("wake"), what="a wake")

    def wake(self):
        self.generation += 1
        self.route("starting", phase="starting")
        self.relay.start()
        self.route("running")


@pytest.fixture
def world(tmp_path):
    w = World(tmp_path)
    yield w
    w.stop()
    assert "AddressSanitizer" not in w.proxy.log() and "runtime error" not in w.proxy.log(), w.proxy.log()


@pytest.fixture
def running(world):
    return world.start()


@pytest.fixture
def asleep(world):
    return world.start("asleep")


HTML = "Accept: text/html\r\nSec-Fetch-Dest: document\r\n"

# ---- relaying -----------------------------------------------------------------------------------------


def test_get_reaches_the_app_with_the_public_host(running):
    got = running.ask("/a?b=%2F", headers="X-Mine: 1\r\n")
    assert (got.status, got.body) == (200, b"GET /a?b=%2F 0")
    fields = dict(running.app.last("/a?b=%2F")["headers"])
    assert fields["host"] == running.host() and fields["x-mine"] == "1"
    assert fields["x-forwarded-for"] == "127.0.0.1" and fields["x-forwarded-host"] == running.host()
    assert fields["x-forwarded-proto"] == "http" and fields["cdn-loop"] == "sandboxd"


def test_forwarded_fields_of_the_edge_pass_and_others_do_not(running):
    running.ask("/f", headers="X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: a.example:8080\r\n"
                              "X-Forwarded-Prefix: /evil\r\nForwarded: for=1.2.3.4\r\nProxy: x\r\n")
    fields = dict(running.app.last("/f")["headers"])
    assert fields["x-forwarded-for"] == "203.0.113.9" and fields["x-forwarded-proto"] == "https"
    assert fields["x-forwarded-host"] == "a.example:8080"
    assert not {"x-forwarded-prefix", "forwarded", "proxy"} & set(fields)


def test_the_scheme_is_the_public_one_where_tls_ends_in_front_of_the_edge(running):
    running.broker.send("settings", {"preview_domain": "example.com", "tls": True})
    public = running.host(domain="example.com")

    def scheme(host):
        running.ask("/s", headers="X-Forwarded-Proto: http\r\n", host=host)
        return [v for k, v in running.app.last("/s")["headers"] if k == "x-forwarded-proto"]

    wait_for(lambda: scheme(public) == ["https"], what="the public scheme")
    assert scheme(running.host()) == ["http"], "a loopback name has no TLS"


@pytest.mark.parametrize("path,origin,kept", [
    ("/_next/webpack-hmr", "https://{h}", False), ("/docs/_next/static/a.js", "http://{h}", False),
    ("/__nextjs_source-map", "https://{h}", False), ("/_next/webpack-hmr", "https://evil.example", True),
    ("/_next/webpack-hmr", "https://{h}:81", True), ("/_next/webpack-hmr", "null", True),
    ("/", "https://{h}", True), ("/api", "https://{h}", True)])
def test_next_is_not_shown_the_previews_own_origin_and_everybody_elses_stays(running, path, origin, kept):
    host = running.host(domain="example.com")
    running.ask(path, headers=f"Origin: {origin.replace('{h}', host)}\r\n", host=host)
    assert ("origin" in dict(running.app.last(path)["headers"])) is kept


def test_credentials_of_ours_stop_here_and_the_apps_own_pass(running):
    ours = "sk_0123456789abcdef0123456789abcdef"
    running.broker.send("settings", {"preview_domain": "example.com", "api_token": hashlib.sha256(ours.encode()).hexdigest()})
    wait_for(lambda: running.ask("/c", headers=f"Authorization: Bearer {ours}\r\n") and
             "authorization" not in dict(running.app.last("/c")["headers"]))
    running.ask("/c", headers="Authorization: Bearer sk_live_the-apps-own\r\nCookie: a=1; sandboxd_session=x;b=2\r\n"
                              "Cookie: __Host-sandboxd_session=y\r\nCookie: c=3\r\n")
    fields = running.app.last("/c")["headers"]
    assert dict(fields)["authorization"] == "Bearer sk_live_the-apps-own"
    assert sorted(v for k, v in fields if k == "cookie") == ["a=1; b=2", "c=3"]


def test_hop_by_hop_fields_stop_here_both_ways(running):
    running.ask("/h", headers="Connection: X-Secret, keep-alive\r\nX-Secret: 1\r\nTE: trailers\r\nKeep-Alive: 5\r\n")
    fields = dict(running.app.last("/h")["headers"])
    assert not {"connection", "x-secret", "te", "keep-alive"} & set(fields)
    got = running.ask("/cookies")
    assert got.all("set-cookie") == ["a=1", "b=2"] and got.header("x-hop") is None and got.header("connection") is None


def test_connections_are_kept_and_reused_on_both_sides(running):
    c = running.client()
    for i in range(5):
        assert c.send(running.text("GET", f"/k{i}")).answer().status == 200
    assert running.app.connections == 1 and len(running.relay.opened) == 1


def test_pipelined_requests_are_answered_in_order(running):
    c = running.client().send("".join(running.text("GET", f"/p{i}") for i in range(20)))
    assert [c.answer().body for _ in range(20)] == [f"GET /p{i} 0".encode() for i in range(20)]


def test_half_a_head_that_came_ahead_is_read_to_its_end(running):
    second = running.text("GET", "/second")
    c = running.client().send(running.text("GET", "/first") + second[:20])
    assert c.answer().body == b"GET /first 0"
    assert c.send(second[20:]).answer().body == b"GET /second 0"


def test_bodies_with_length_and_chunks(running):
    got = running.ask("/b", "POST", body="x" * 200000)
    assert got.body == b"POST /b 200000"
    c = running.client().send(running.text("POST", "/c", "Transfer-Encoding: chunked\r\n"))
    c.send("3\r\nabc\r\n").send("4;ext=1\r\ndefg\r\n").send("0\r\nX-Trail: t\r\nHost: evil\r\n\r\n")
    assert c.answer().body == b"POST /c 7"
    assert running.app.last("/c")["body"] == b"abcdefg"
    assert running.app.last("/c")["trailers"] == ["X-Trail: t"]


def test_chunked_answer_with_trailers(running):
    got = running.ask("/chunked")
    assert got.body == b"hello world" and got.trailers == ["X-Sum: 11"] and got.whole


def test_head_no_content_and_not_modified(running):
    c = running.client()
    got = c.send(running.text("HEAD", "/head")).answer("HEAD")
    assert got.status == 200 and got.header("content-length") == "12"
    assert c.send(running.text("GET", "/no-content")).answer().header("content-length") is None
    assert c.send(running.text("GET", "/not-modified")).answer().header("etag") == '"1"'
    assert c.send(running.text("GET", "/after")).answer().status == 200
    assert running.app.connections == 1


def test_interim_answers_pass(running):
    interim = []
    got = running.client().send(running.text("GET", "/hints")).answer(interim=interim)
    assert got.body == b"ok" and interim == [(103, [("link", "</a.css>")])]


def test_expect_continue_is_answered_by_the_app(running):
    c = running.client().send(running.text("POST", "/e", "Expect: 100-continue\r\nContent-Length: 4\r\n"))
    assert c.head() == (100, [])
    assert c.send("body").answer().body == b"POST /e 4"


def test_answer_until_close_is_complete_only_after_end(running):
    got = running.ask("/until-close")
    assert got.whole and got.body == b"to the end" and got.header("transfer-encoding") == "chunked"
    got = running.ask("/cut-until-close")
    assert got.status == 200 and not got.whole


@pytest.mark.parametrize("path", ["/cut-length", "/cut-chunked"])
def test_a_cut_answer_is_never_an_end_in_order(running, path):
    got = running.ask(path)
    assert got.status == 200 and not got.whole


def test_no_answer_and_bad_answers_are_502(running):
    assert running.ask("/no-answer").status == 502
    assert running.app.count("/no-answer") == 1
    assert running.ask("/rubbish").status == 502
    assert running.ask("/uninvited").status == 502


def test_a_request_on_a_stale_connection_is_not_sent_twice(running):
    c = running.client()
    assert c.send(running.text("GET", "/one")).answer().status == 200
    assert c.send(running.text("GET", "/no-answer")).answer().status == 502
    assert running.app.count("/no-answer") == 1


def test_early_answer_to_a_large_upload(running):
    c = running.client().send(running.text("POST", "/early-answer", "Content-Length: 50000000\r\n"))
    c.send(b"x" * 100000)
    got = c.answer()
    assert (got.status, got.body) == (413, b"less")


def test_sse_comes_as_it_is_sent_and_leaving_ends_it(running):
    c = running.client().send(running.text("GET", "/sse", "Accept: text/event-stream\r\n"))
    c.head()
    began = time.monotonic()
    assert int(c.line(), 16) == 9
    assert c.take(9) == b"data: 0\n\n"
    assert time.monotonic() - began < 0.14
    c.close()
    assert running.app.gone.wait(3)


def test_leaving_while_the_app_thinks_ends_its_stream(running):
    c = running.client().send(running.text("GET", "/hang"))
    wait_for(lambda: running.app.count("/hang"))
    c.close()
    assert running.app.gone.wait(3)
    wait_for(lambda: running.relay.streams == 0, what="the stream's end")


def memory_kib(pid):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("RssAnon"):
            return int(line.split()[1])
    return 0


def test_large_answers_stream_with_flat_memory(running):
    before = memory_kib(running.proxy.process.pid)
    c = running.client().send(running.text("GET", "/big"))
    c.head()
    time.sleep(0.5)
    peak, left = memory_kib(running.proxy.process.pid), 64 << 20
    left -= len(c.buffer)
    while left > 0:
        data = c.sock.recv(262144)
        assert data
        left -= len(data)
    assert peak - before < 8192, (before, peak)


def test_a_large_upload_waits_for_a_slow_app(running):
    c = running.client().send(running.text("POST", "/gate-upload", "Content-Length: 20000000\r\n"))
    c.send(b"y" * 20000000)
    assert c.answer().body == b"POST /gate-upload 20000000"


def test_websocket_is_spliced_both_ways(running):
    c = running.client().send(running.text("GET", "/ws", "Connection: Upgrade\r\nUpgrade: websocket\r\n"
                                                         "Sec-WebSocket-Key: k\r\nSec-WebSocket-Version: 13\r\n"))
    status, headers = c.head()
    assert status == 101 and ("upgrade", "websocket") in headers
    assert c.take(4) == b"\x81\x02hi"
    payload = os.urandom(300000)
    c.sock.setblocking(True)
    for i in range(0, len(payload), 10000):
        c.send(payload[i:i + 10000])
        assert c.take(10000) == payload[i:i + 10000]
    c.close()
    assert running.app.gone.wait(3)


def test_h2c_is_not_passed_on(running):
    running.ask("/up", headers="Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n")
    fields = dict(running.app.last("/up")["headers"])
    assert "upgrade" not in fields and "http2-settings" not in fields


# ---- strictness ------------------------------------------------------------------------------------------

BAD = [
    ("GET / HTTP/1.1\r\nHost: {h}\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: {h}\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400),
    ("GET / HTTP/1.1\r\nHost: {h}\r\nContent-Length: +3\r\n\r\nabc", 400),
    ("POST / HTTP/1.1\r\nHost: {h}\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", (400, 501)),
    ("POST / HTTP/1.1\r\nHost: {h}\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", (400, 501)),
    ("POST / HTTP/1.1\r\nHost: {h}\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", (400, 501)),
    ("POST / HTTP/1.0\r\nHost: {h}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\nHost: {h}\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n", 400),
    ("GET / HTTP/1.1\nHost: {h}\n\n", (400, 505)),
    ("GET / HTTP/1.1\r\nHost : {h}\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: {h}\r\nX: a\r\n b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: {h}\r\nX: a\x00b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: {h}\r\nHost: {h}\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\n\r\n", 400),
    ("GET http://{h}/ HTTP/1.1\r\nHost: {h}\r\n\r\n", 400),
    ("CONNECT {h}:443 HTTP/1.1\r\nHost: {h}\r\n\r\n", (400, 405)),
    ("GET / HTTP/2.0\r\nHost: {h}\r\n\r\n", (400, 505)),
    ("GET / HTTP/1.1\r\nHost: {h}\r\n" + "X: y\r\n" * 101 + "\r\n", 431),
    ("GET / HTTP/1.1\r\nHost: {h}\r\nX: " + "y" * 70000 + "\r\n\r\n", 431),
    ("GET /" + "y" * 70000 + " HTTP/1.1\r\nHost: {h}\r\n\r\n", 431),
    ("\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 400),
]


@pytest.mark.parametrize("text,status", BAD, ids=range(len(BAD)))
def test_malformed_requests_are_refused_and_closed(running, text, status):
    c = running.client().send(text.replace("{h}", running.host()))
    got = c.answer()
    assert got.status in (status if isinstance(status, tuple) else (status,))
    assert json.loads(got.body)["error"]["code"]
    assert running.app.requests == []
    if got.header("connection") == "close":
        assert not c.fill()


@pytest.mark.parametrize("host,status", [
    ("s-{id}-3000.preview.localhost", 200), ("S-{ID}-3000.PREVIEW.LOCALHOST", 200),
    ("s-{id}-3000.preview.localhost:8080", 200), ("s-{id}-3000.preview.example.com", 200),
    ("s-{id}-3000.preview.localhost.", 404), ("s-{id}-03000.preview.localhost", 404),
    ("s-{id}-70000.preview.localhost", 404), ("s-{id}-3000.preview.evil.com", 404),
    ("s-{id}-3000.preview.localhost:99999", 404), ("s-{id}-3000.preview.localhost:", 404),
    ("x.s-{id}-3000.preview.localhost", 404), ("s-{id}-3000.preview.xexample.com", 404),
    ("s-{id}-3000.xpreview.example.com", 404), ("s-{id}-9999.preview.localhost", 401),
    ("s-01hzzzzzzzzzzzzzzzzzzzzzzz-3000.preview.localhost", 401), ("127.0.0.1", 404),
])
def test_host_names(running, host, status):
    host = host.replace("{id}", running.id).replace("{ID}", running.id.upper())
    assert running.ask("/", host=host).status == status


def test_a_slow_head_is_cut_off(world):
    world.start()
    c = world.client().send("GET / HTTP/1.1\r\n")
    began = time.monotonic()
    assert not c.fill()
    assert 8 < time.monotonic() - began < 14


def test_a_loop_is_broken(running):
    assert running.ask("/l", headers="CDN-Loop: sandboxd\r\n" * 3).status == 200
    assert running.ask("/l", headers="CDN-Loop: sandboxd, other, sandboxd\r\nCDN-Loop: sandboxd, sandboxd\r\n").status == 508


def test_private_looks_like_unknown(running):
    unknown = running.ask("/", host=f"s-{new_id()}-3000.preview.localhost")
    running.route("asleep", access="private")
    wait_for(lambda: running.ask("/").status == 401)
    private = running.ask("/")
    assert (private.status, private.body, private.headers) == (unknown.status, unknown.body, unknown.headers)
    assert running.broker.count("wake") == 0


# ---- waking ------------------------------------------------------------------------------------------------


def test_fifty_wait_and_one_wake_is_sent(asleep):
    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        jobs = [pool.submit(asleep.ask, f"/w{i}") for i in range(50)]
        asleep.held()
        time.sleep(0.5)
        asleep.wake()
        answers = [j.result() for j in jobs]
    assert sorted(a.body for a in answers) == sorted(f"GET /w{i} 0".encode() for i in range(50))
    assert asleep.broker.count("wake") == 1
    assert all("wake;dur=" in a.header("server-timing") for a in answers)
    assert asleep.broker.of("wake")[0] == {"kind": "wake", "id": asleep.id, "port": "3000"}


def test_a_post_is_held_unread_and_delivered_once(asleep):
    c = asleep.client().send(asleep.text("POST", "/post", "Content-Length: 30000000\r\n"))
    c.sock.settimeout(1)
    sent = 0
    with pytest.raises(TimeoutError):
        while sent < 30000000:
            sent += c.sock.send(b"z" * 65536)
    assert sent < 12000000, "the body was read while the request waited"
    asleep.held()
    asleep.wake()
    c.sock.settimeout(20)
    c.send(b"z" * (30000000 - sent))
    assert c.answer().body == b"POST /post 30000000"
    assert asleep.app.count("/post") == 1


def test_a_waiter_that_leaves_hurts_nobody_and_does_not_arrive(asleep):
    leaver = asleep.client().send(asleep.text("POST", "/left", body="abc"))
    poster = asleep.client().send(asleep.text("POST", "/left", "Content-Length: 100000\r\n") + "x" * 1000)
    stayer = asleep.client().send(asleep.text("GET", "/stayed"))
    asleep.held()
    time.sleep(0.2)
    leaver.close()
    poster.close()
    time.sleep(0.2)
    asleep.wake()
    assert stayer.answer().status == 200
    assert asleep.app.count("/left") == 0 and asleep.broker.count("wake") == 1


def test_websocket_and_sse_wake_too(asleep):
    c = asleep.client().send(asleep.text("GET", "/ws", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n"))
    asleep.held()
    asleep.wake()
    assert c.head()[0] == 101


def test_a_person_gets_a_page_after_a_second(asleep):
    began = time.monotonic()
    got = asleep.ask("/", headers=HTML)
    assert 0.9 < time.monotonic() - began < 1.6
    assert got.status == 503 and got.header("cache-control") == "no-store" and got.header("retry-after")
    assert got.header("x-robots-tag") == "noindex" and b"http-equiv=\"refresh\"" in got.body and b"/.sandboxd/wake" in got.body
    assert asleep.poll()["state"] == "waking"
    asleep.ask("/", headers=HTML)
    assert asleep.broker.count("wake") == 1
    asleep.route("starting", phase="installing")
    wait_for(lambda: asleep.poll()["phase"] == "installing")
    state = asleep.poll()
    assert state["elapsed_ms"] > 1000 and state["usual_ms"] == 1200 and state["text"] == "Installing packages"
    asleep.wake()
    wait_for(lambda: asleep.poll()["state"] == "ready")
    assert asleep.ask("/", headers=HTML).status == 200


@pytest.mark.parametrize("headers", ["Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: empty\r\n", "Sec-Fetch-Dest: iframe\r\n"])
def test_a_frame_and_a_service_worker_load_pages_too(asleep, headers):
    got = asleep.ask("/", headers=headers)
    assert got.status == 503 and b"/.sandboxd/wake" in got.body


def test_no_cache_takes_a_word_of_ours(asleep):
    """The Cache API heeds no Cache-Control, but refuses Vary: *."""
    for answer in (asleep.ask("/", headers=HTML), asleep.ask("/.sandboxd/wake?17"), asleep.ask("/", host="nobody.invalid")):
        assert answer.header("vary") == "*" and answer.header("cache-control") == "no-store", answer.headers


def test_a_person_whose_app_is_quick_sees_no_page(asleep):
    c = asleep.client().send(asleep.text("GET", "/quick", HTML))
    asleep.held()
    asleep.wake()
    assert c.answer().body == b"GET /quick 0"


@pytest.mark.parametrize("method,headers", [
    ("POST", HTML), ("HEAD", HTML), ("GET", "Accept: text/html\r\nSec-Fetch-Dest: empty\r\n"), ("OPTIONS", "")])
def test_everything_else_is_held(asleep, method, headers):
    c = asleep.client().send(asleep.text(method, "/held", headers))
    asleep.held()
    time.sleep(1.5)
    asleep.wake()
    assert c.answer(method).status == 200


def test_failures_are_shared_and_lines_are_for_localhost_only(asleep):
    hosts = [asleep.host(), asleep.host(domain="example.com")]
    clients = [asleep.client().send(asleep.text("GET", "/x", host=h)) for h in hosts]
    asleep.held()
    asleep.broker.send("wake_failed", {"id": asleep.id, "code": "exited", "message": "The <app> exited with 1.",
                                       "lines": "Error: boom <b>\n at x", "retry_after_s": 0})
    answers = [c.answer() for c in clients]
    assert [a.status for a in answers] == [503, 503] and all(a.header("retry-after") for a in answers)
    assert b"boom" in answers[0].body and b"boom" not in answers[1].body
    pages = [asleep.ask("/", headers=HTML, host=h) for h in hosts]
    assert all(b"The &lt;app&gt; exited with 1." in p.body and b"refresh" not in p.body and b"Try again" in p.body for p in pages)
    assert b"boom &lt;b&gt;" in pages[0].body and b"boom" not in pages[1].body
    assert asleep.broker.count("wake") == 1 and asleep.poll()["state"] == "failed"
    time.sleep(2.1)
    again = asleep.ask("/.sandboxd/retry?to=/x?y=1", "POST")
    assert again.status == 303 and again.header("location") == "/x?y=1"
    assert asleep.ask("/.sandboxd/retry?to=//evil.com/", "POST").header("location") == "/"
    c = asleep.client().send(asleep.text("GET", "/x", HTML))
    wait_for(lambda: asleep.broker.count("wake") == 2)
    asleep.wake()
    assert c.answer().status == 200


def test_undeclared_ports_and_unknown_ids_wake_nothing(asleep):
    assert asleep.ask("/", host=asleep.host(4000)).status == 401
    assert asleep.ask("/", host=f"s-{new_id()}-3000.preview.localhost").status == 401
    assert asleep.broker.count("wake") == 0


@pytest.mark.parametrize("path,headers,status", [
    ("/favicon.ico", "", 204), ("/", "Sec-Purpose: prefetch\r\n", 503), ("/", "User-Agent: Mozilla/5.0 (compatible; Googlebot/2.1)\r\n", 503),
    ("/", "Accept: text/x-vite-ping\r\n", 503),
    ("/", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: vite-hmr\r\n", 503)])
def test_passive_traffic_does_not_wake(asleep, path, headers, status):
    got = asleep.ask(path, headers=headers)
    assert got.status == status and (status == 204 or got.header("retry-after") == "3600")
    assert asleep.broker.count("wake") == 0


def test_a_refused_port_waits_for_the_app_and_says_why(running):
    running.relay.answer = "refused"
    c = running.client().send(running.text("POST", "/late", body="once"))
    status = wait_for(lambda: running.broker.of("status"), what="a status question")[0]
    assert status["id"] == running.id and status["port"] == "3000"
    running.broker.send("status", {"n": status["n"], "id": running.id, "state": "starting", "message": "still compiling"})
    time.sleep(0.7)
    running.relay.answer = None
    assert c.answer().body == b"POST /late 4"
    assert running.app.count("/late") == 1 and running.broker.count("wake") == 0


def test_a_refused_port_of_a_failed_app_is_told_at_once(running):
    running.relay.answer = "refused"
    c = running.client().send(running.text("GET", "/x"))
    status = wait_for(lambda: running.broker.of("status"))[0]
    running.broker.send("status", {"n": status["n"], "id": running.id, "state": "failed",
                                   "message": "npm run dev exited with 1.", "lines": "boom"})
    got = c.answer()
    assert got.status == 503 and b"npm run dev exited with 1." in got.body and b"boom" in got.body


def test_the_page_learns_why_a_running_app_does_not_answer(running):
    running.relay.answer = "refused"
    running.broker.send("route", [f for f in running.row() if f[0] != "open"])
    assert b"Waiting for port 3000" in running.ask("/", headers=HTML).body
    questions = len(running.broker.of("status"))
    running.broker.send("status", {"n": running.broker.of("status")[-1]["n"], "id": running.id, "state": "waiting",
                                   "message": "It listens on 5173, not on 3000."})
    wait_for(lambda: running.poll().get("reason") == "It listens on 5173, not on 3000.")
    assert running.poll()["state"] == "waking"
    wait_for(lambda: running.poll() and len(running.broker.of("status")) > questions, what="another question")
    running.broker.send("status", {"n": running.broker.of("status")[-1]["n"], "id": running.id, "state": "failed",
                                   "message": "npm run dev exited with 1.", "lines": "boom"})
    wait_for(lambda: running.poll()["state"] == "failed")
    running.route("asleep")
    wait_for(lambda: running.poll()["state"] == "asleep")
    assert running.poll()["reason"] == ""


def test_a_relay_that_goes_away_while_opening_loses_nothing(running):
    running.relay.answer = "wait"
    original, running.relay._stream = running.relay._stream, lambda record: None
    c = running.client().send(running.text("POST", "/again", body="1"))
    wait_for(lambda: running.relay.opened)
    running.relay.stop()
    running.relay._stream, running.relay.answer = original, None
    time.sleep(0.1)
    running.relay.start()
    assert c.answer().body == b"POST /again 1"
    assert running.app.count("/again") == 1


def test_a_new_generation_gets_no_old_stream(running):
    assert running.ask("/old").status == 200
    running.generation += 1
    running.route()
    wait_for(lambda: running.relay.streams == 0, what="the old stream's end")
    assert running.ask("/new").status == 200
    assert len(running.relay.opened) == 2


def test_an_asleep_sandbox_is_not_asked_though_its_relay_is_there(running):
    running.route("stopping")
    wait_for(lambda: running.poll()["state"] == "asleep")
    c = running.client().send(running.text("GET", "/s"))
    running.held()
    assert running.app.count("/s") == 0
    running.route()
    assert c.answer().status == 200


def test_gone_ends_waiting_and_the_name(asleep):
    c = asleep.client().send(asleep.text("GET", "/g"))
    asleep.held()
    asleep.broker.send("gone", {"id": asleep.id})
    assert c.answer().status == 404
    assert asleep.ask("/g").status == 401


# ---- without sandboxd ------------------------------------------------------------------------------------------


def test_running_previews_outlive_sandboxd_and_a_restart_of_the_proxy(running):
    assert running.ask("/1").status == 200
    wait_for((running.dir / "state/preview/routes").exists, what="the kept table")
    running.broker.stop()
    assert running.ask("/2").status == 200
    running.proxy.stop()
    running.relay.stop()
    running.proxy.start()
    running.relay.start()
    assert running.ask("/3").status == 200


def test_a_wake_is_asked_again_when_sandboxd_comes_back(asleep):
    asleep.broker.stop()
    wait_for(lambda: "connection to sandboxd lost" in asleep.proxy.log())
    c = asleep.client().send(asleep.text("GET", "/r"))
    time.sleep(0.3)
    asleep.broker.start()
    asleep.held()
    asleep.wake()
    assert c.answer().status == 200
    assert asleep.broker.count("wake") == 1


def test_rows_that_were_not_sent_again_are_forgotten(running):
    running.broker.stop()
    running.broker.greeting = [running.broker.greeting[0], running.broker.greeting[2]]
    running.broker.start()
    wait_for(lambda: running.ask("/").status == 401)


def test_missing_directories_are_waited_for(tmp_path):
    port = free_port()
    proxy = Proxy(PROGRAM, "preview", tmp_path, port).start()
    try:
        wait_for(lambda: "waiting for a directory" in proxy.log())
        assert Client(port).send("GET / HTTP/1.1\r\nHost: x\r\n\r\n").answer().status == 404
        (tmp_path / "run/in").mkdir(parents=True)
        wait_for(lambda: "is there now" in proxy.log())
        sandbox = new_id()
        (tmp_path / "run/in" / sandbox).mkdir()
        sock = tmp_path / "run/in" / sandbox / "in.sock"
        wait_for(sock.exists)
        assert sock.stat().st_mode & 0o777 == 0o666
        (tmp_path / "run/in" / "not-an-id").mkdir()
        sock.unlink()
        sock.parent.rmdir()
        wait_for(lambda: f'door closed","sandbox":"{sandbox}' in proxy.log().replace('", "', '","').replace('": "', '":"'))
    finally:
        proxy.stop()


def test_an_account_of_its_own_without_capabilities_is_enough():
    """Owners and modes as in docs/protocols.md; sandboxd makes a door as root and gives it away a moment later."""
    base, uid = pathlib.Path(tempfile.mkdtemp(prefix="sandboxd-proxy-")), 1999999001
    port, sandbox = free_port(), new_id()
    try:
        for name in ("", "run", "run/in", "run/broker", "run/broker/preview", "state", "state/preview"):
            (base / name).mkdir(exist_ok=True)
            os.chmod(base / name, 0o711)
        os.chown(base / "run/in", 0, uid)
        os.chmod(base / "run/in", 0o751)
        os.chown(base / "run/broker/preview", 0, uid)
        os.chmod(base / "run/broker/preview", 0o750)
        os.chown(base / "state/preview", uid, uid)
        os.chmod(base / "state/preview", 0o700)
        broker = Broker(base, "preview")
        broker.greeting = [encode("settings", {"preview_domain": "localhost"}), encode("synced")]
        broker.start()
        os.chown(broker.path, 0, uid)
        os.chmod(broker.path, 0o660)
        drop = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all",
                "--no-new-privs"]
        proxy = Proxy(PROGRAM, "preview", base, port, before=drop).start()
        try:
            door = base / "run/in" / sandbox
            door.mkdir(mode=0o711)
            time.sleep(0.3)
            os.chown(door, uid, uid)
            wait_for((door / "in.sock").exists, seconds=3, what="a listener in a door given away later")
            wait_for((base / "state/preview/routes").exists, what="the kept table")
            assert (base / "state/preview/routes").stat().st_mode & 0o777 == 0o600
            status = pathlib.Path(f"/proc/{proxy.process.pid}/status").read_text()
            assert f"Uid:\t{uid}" in status and "CapEff:\t0000000000000000" in status
        finally:
            proxy.stop()
            broker.stop()
    finally:
        shutil.rmtree(base)


# ---- activity ---------------------------------------------------------------------------------------------------


def test_activity_counts_open_connections_but_not_passive_ones(running):
    passive = running.client().send(running.text("GET", "/ws", "Connection: Upgrade\r\nUpgrade: websocket\r\n"
                                                               "Sec-WebSocket-Protocol: vite-hmr\r\nSec-WebSocket-Key: k\r\n"))
    assert passive.head()[0] == 101
    time.sleep(2.5)
    assert running.broker.count("activity") == 0
    own = running.client().send(running.text("GET", "/ws", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n"))
    assert own.head()[0] == 101
    first = wait_for(lambda: running.broker.of("activity"), what="activity")[-1]
    assert first["id"] == running.id and first["open"] == "1" and int(first["age_ms"]) < 3000
    own.close()
    wait_for(lambda: running.broker.of("activity")[-1]["open"] == "0")
    count = running.broker.count("activity")
    time.sleep(2.5)
    assert running.broker.count("activity") == count


# ---- leaving ------------------------------------------------------------------------------------------------------


def test_sigterm_finishes_what_runs_and_closes_websockets_with_1012(running):
    kept = running.client()
    assert kept.send(running.text("GET", "/kept")).answer().status == 200
    slow = running.client().send(running.text("GET", "/slow"))
    ws = running.client().send(running.text("GET", "/ws", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n"))
    assert ws.head()[0] == 101 and ws.take(4) == b"\x81\x02hi"
    wait_for(lambda: running.app.count("/slow"))
    running.proxy.process.send_signal(signal.SIGTERM)
    assert ws.take(4) == b"\x88\x02\x03\xf4"
    wait_for(lambda: refuses(running.proxy.port))
    got = kept.send(running.text("POST", "/late", body="x")).answer()
    assert got.status == 200 and got.header("connection") == "close"
    got = slow.answer()
    assert got.status == 200 and got.whole
    assert running.proxy.process.wait(5) == 0


def refuses(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except ConnectionRefusedError:
        return True
    return False


def test_sigterm_answers_the_held_and_cuts_the_endless(asleep):
    held = asleep.client().send(asleep.text("GET", "/held"))
    asleep.held()
    asleep.proxy.process.send_signal(signal.SIGTERM)
    got = held.answer()
    assert got.status == 503 and got.header("retry-after") == "1"
    assert asleep.proxy.process.wait(5) == 0


def test_a_person_who_waits_over_a_restart_has_the_page_that_moves_on(asleep):
    c = asleep.client().send(asleep.text("GET", "/", HTML))
    asleep.held()
    asleep.proxy.process.send_signal(signal.SIGTERM)
    got = c.answer()
    assert got.status == 503 and b"/.sandboxd/wake" in got.body


def test_what_is_cut_without_a_word_is_told_so_and_not_sent_again(running):
    """A connection that is merely closed makes the edge send a GET once more."""
    c = running.client().send(running.text("GET", "/hang"))
    wait_for(lambda: running.app.count("/hang"))
    running.proxy.process.send_signal(signal.SIGTERM)
    got = c.answer()
    assert got.status == 502 and got.whole and json.loads(got.body)["error"]["code"] == "restarting"
    assert running.proxy.process.wait(5) == 0 and running.app.count("/hang") == 1


def test_sigterm_cuts_after_three_seconds(running):
    c = running.client().send(running.text("GET", "/sse"))
    c.head()
    began = time.monotonic()
    running.proxy.process.send_signal(signal.SIGTERM)
    assert running.proxy.process.wait(6) == 0
    assert 2.5 < time.monotonic() - began < 4.5
    assert "cut by the restart" in running.proxy.log()
