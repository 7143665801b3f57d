"""HTTP to the byte through the real Traefik, the proxy, the door and a real Node server (issue 4, item 4)."""

import pytest

from tests.integration.client import Preview, raw_request
from tests.integration.conftest import Apps
from tests.integration.edge import Edge
from tests.integration.proxy_fakes import Client


@pytest.fixture(scope="module")
def front(stack):
    with Edge(stack):
        yield Preview(stack.http_port)


@pytest.fixture(scope="module")
def wire(stack):
    apps = Apps(stack)
    yield apps.server(source="wire.js")["id"]
    apps.delete_all()


class Ask:
    """One connection to the edge, as bytes."""

    def __init__(self, front, sandbox):
        self.host = f"{front.host(sandbox)}:{front.port}"
        self.client = Client(front.port)

    def send(self, method, path, fields="", body="", version="1.1"):
        return self.client.send(f"{method} {path} HTTP/{version}\r\nHost: {self.host}\r\n{fields}\r\n{body}")


@pytest.fixture
def ask(front, wire):
    front.wait_answer(wire, "/hello")
    one = Ask(front, wire)
    yield one
    one.client.close()


def test_head_no_content_and_not_modified_leave_the_connection_whole(ask):
    head = ask.send("HEAD", "/hello").answer("HEAD")
    assert head.status == 200 and head.body == b""
    assert ask.send("GET", "/nothing").answer().status == 204
    unchanged = ask.send("GET", "/unchanged", 'If-None-Match: "1"\r\n').answer()
    assert unchanged.status == 304 and unchanged.header("etag") == '"1"'
    assert ask.send("GET", "/hello").answer().body == b"hello"


@pytest.fixture
def straight(stack, wire):
    """The proxy's own port: Traefik passes neither interim answers nor trailers of a request."""
    stack.preview.wait_answer(wire, "/hello")
    one = Ask(stack.preview, wire)
    yield one
    one.client.close()


def test_early_hints_come_early(straight):
    interim = []
    answer = straight.send("GET", "/hints").answer(interim=interim)
    assert answer.body == b"after the hints"
    assert [status for status, _fields in interim] == [103] and "style.css" in dict(interim[0][1])["link"]


def test_trailers_pass_both_ways(straight):
    body = "3\r\nabc\r\n0\r\nX-Sent: yes\r\n\r\n"
    answer = straight.send("POST", "/trailers", "TE: trailers\r\nTrailer: X-Sent\r\nTransfer-Encoding: chunked\r\n", body).answer()
    assert answer.body == b"got yes"
    assert [line.lower() for line in answer.trailers] == ["x-sum: 3"]


def test_trailers_of_an_answer_pass_the_edge(ask):
    answer = ask.send("POST", "/trailers", "TE: trailers\r\nContent-Length: 0\r\n").answer()
    assert [line.lower() for line in answer.trailers] == ["x-sum: 3"]


def test_a_body_waits_for_the_apps_100(ask):
    client = ask.send("POST", "/echo", "Expect: 100-continue\r\nContent-Length: 5\r\n")
    assert client.head()[0] == 100
    assert client.send("howdy").answer().body == b"howdy"


def test_an_answer_without_length_is_whole_only_when_the_app_ended_it(ask, front, wire):
    whole = ask.send("GET", "/old").answer()
    assert whole.whole and whole.body == b"to the end"
    cut = Ask(front, wire).send("GET", "/old-cut").answer()
    assert not cut.whole, "a reset is never a clean end"


def test_an_old_client_is_served_until_close(ask):
    client = ask.send("GET", "/hello", version="1.0")
    answer = client.answer()
    assert (answer.status, answer.body) == (200, b"hello")
    assert not client.fill(), "closed"


def test_pipelined_requests_are_answered_in_order(ask):
    for n in range(10):
        ask.send("POST", f"/echo?{n}", "Content-Length: 2\r\n", f"{n:02}")
    assert [ask.client.answer().body for _ in range(10)] == [f"{n:02}".encode() for n in range(10)]


def test_absolute_form_is_the_same_request(ask):
    assert ask.send("GET", f"http://{ask.host}/hello").answer().body == b"hello"


@pytest.mark.parametrize("name", ["{h}", "{H}", "{h}:1", "{h}.", "x.{h}", "{h}%00", "[::1]", "{h}, {h}"])
def test_a_host_is_the_previews_or_nobodys(front, wire, name):
    front.wait_answer(wire, "/hello")
    host = front.host(wire)
    text = name.replace("{h}", host).replace("{H}", host.upper())
    answer = raw_request(front.port, f"GET /hello HTTP/1.1\r\nHost: {text}\r\nConnection: close\r\n\r\n".encode())
    served = name in ("{h}", "{H}", "{h}:1")
    assert (answer.status == 200 and b"hello" in answer.body) if served else answer.status in (400, 404), answer


@pytest.mark.parametrize("fields", ["Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "Content-Length: 3\r\nContent-Length: 4\r\n", "Transfer-Encoding: gzip, chunked\r\n", "Content-Length : 3\r\n"])
def test_what_two_servers_could_read_differently_never_reaches_an_app(front, wire, fields):
    """The edge refuses it, or reads it as RFC 9112 says (chunked wins) and sends on one framing only."""
    front.wait_answer(wire, "/hello")
    host = front.host(wire)
    hidden = f"0\r\n\r\nGET /hello HTTP/1.1\r\nHost: {host}\r\n\r\n"
    client = Client(front.port).send(f"POST /echo HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n{hidden}")
    answer = client.answer()
    if answer.status == 200:
        assert "Transfer-Encoding" in fields and answer.body == b"", "read as chunked, and sent on as nothing else"
    else:
        assert answer.status in (400, 501) and not client.fill(), answer.status
    client.close()
