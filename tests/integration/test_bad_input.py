"""Bad input: each a 4xx in the one error shape within milliseconds, nothing changed, nothing secret
logged (issue 3, "Bad input"; the last is checked for all logs when the stack ends).
"""

import json
import re

import pytest

from tests.integration.client import assert_error, raw_request

# A sanitised program on a busy machine; the promise is "no waiting", the figure is the bench's.
ANSWER_SECONDS_MAX = 1.0
ULID = "01arz3ndektsv4rrffq69g5fav"


@pytest.fixture
def app(apps):
    return apps.app()


@pytest.fixture(scope="module")
def sleeper(stack):
    """A stopped sandbox that nothing in this file may wake."""
    app = stack.api.make_app("node-http", "sleeper")
    sandbox = stack.api.make_sandbox(app["id"])
    assert stack.api.post(f"/v1/sandboxes/{sandbox['id']}/stop").status_code == 200
    yield sandbox
    assert stack.api.delete(f"/v1/apps/{app['id']}").status_code in (202, 204)


@pytest.fixture(autouse=True)
def nothing_changes(request, api):
    """The apps before and after each test are the same; disk use is measured when it is measured."""

    def seen():
        return re.sub(r'"disk_(bytes|measured_at)":[^,}]*', "", api.get("/v1/apps?limit=200").text)

    # What a test makes for itself is made before this looks.
    for made in ("app", "sleeper"):
        if made in request.fixturenames:
            request.getfixturevalue(made)
    before = seen()
    yield
    assert seen() == before


def send(stack, head, body=b"", token=True):
    """A request as raw lines; Host and token are added unless the head has them."""
    lines = head.split("\n")
    if not any(line.lower().startswith("host:") for line in lines[1:]):
        lines.append("Host: 127.0.0.1")
    if token:
        lines.append(f"Authorization: Bearer {stack.token}")
    data = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
    return raw_request(stack.api_port, data)


def assert_refused(answer, *statuses):
    assert answer is not None, "closed without an answer"
    assert answer.status in statuses, f"{answer.status} {answer.body[:300]}"
    body = json.loads(answer.body)
    assert set(body) == {"error"}, body
    assert body["error"]["code"] and body["error"]["message"], body
    assert body["error"]["retryable"] in (True, False), body
    assert b'"id"' not in answer.body
    assert answer.seconds < ANSWER_SECONDS_MAX, f"{answer.seconds:.3f} s"


BAD_JSON = [
    b"{",
    b"",
    b"null",
    b"[]",
    b'"name"',
    b'{"name":"x"',
    b'{"name":"x",}',
    b"{'name':'x'}",
    b'{"name":"x"} {"name":"y"}',
    b'{"name":"x","name":"y","runtime_preset":"node-http"}',
    b'{"name":"\xff\xfe","runtime_preset":"node-http"}',
    b'{"name":"\\ud800","runtime_preset":"node-http"}',
    b'{"name":"a\x00b","runtime_preset":"node-http"}',
    b'\xef\xbb\xbf{"name":"x","runtime_preset":"node-http"}',
    b"[" * 10000,
    b'{"name":' + b"[" * 5000 + b"]" * 5000 + b',"runtime_preset":"node-http"}',
    b'{"name":NaN,"runtime_preset":"node-http"}',
    b'{"name":"x","runtime_preset":"node-http"/* */}',
]


@pytest.mark.parametrize("body", BAD_JSON, ids=range(len(BAD_JSON)))
def test_malformed_json_is_a_400(stack, body):
    head = f"POST /v1/apps HTTP/1.1\nContent-Type: application/json\nContent-Length: {len(body)}"
    assert_refused(send(stack, head, body), 400)


def test_an_unknown_field_is_refused_with_its_name(api):
    answer = api.post("/v1/apps", {"name": "x", "runtime_preset": "node-http", "colour": "red"})
    error = assert_error(answer, 400, "unknown_field")
    assert "colour" in error["message"]


@pytest.mark.parametrize(
    "body",
    [
        {"name": 5, "runtime_preset": "node-http"},
        {"name": None, "runtime_preset": "node-http"},
        {"name": ["x"], "runtime_preset": "node-http"},
        {"name": "", "runtime_preset": "node-http"},
        {"name": "x" * 10_000, "runtime_preset": "node-http"},
        {"name": "x", "runtime_preset": True},
        {"runtime_preset": "node-http"},
        {"name": "x\u0000y", "runtime_preset": "node-http"},
    ],
    ids=["number", "null", "list", "empty", "long", "preset", "missing", "nul"],
)
def test_a_field_of_the_wrong_type_is_a_400(api, body):
    assert_error(api.post("/v1/apps", body), 400, "invalid_request")


@pytest.mark.parametrize("preset", ["no-such", "", "../base", "base/../node-http", "NODE-HTTP", "node-http\n"])
def test_an_unknown_preset_is_a_400_that_says_so(api, preset):
    error = assert_error(api.post("/v1/apps", {"name": "x", "runtime_preset": preset}), 400, "invalid_request")
    assert "preset" in error["message"]


@pytest.mark.parametrize(
    "ports",
    [[0], [65536], ["3000"], [-1], [3000.5], [None], [True], 3000, "3000", [3000, 3000], [3000] * 1000, {"a": 1}, [1e400]],
    ids=str,
)
def test_a_bad_port_is_a_400(api, app, ports):
    body = json.dumps({"ports": ports}).replace("Infinity", "1e400")
    assert_error(api.post(f"/v1/apps/{app['id']}/sandbox", body), 400, "invalid_request")
    assert api.get(f"/v1/apps/{app['id']}").json()["sandbox"] is None


def test_ten_mebibytes_are_too_large_and_refused_at_once(stack):
    body = b'{"name":"' + b"x" * (10 * 1024 * 1024) + b'","runtime_preset":"node-http"}'
    head = f"POST /v1/apps HTTP/1.1\nContent-Type: application/json\nContent-Length: {len(body)}"
    assert_refused(send(stack, head, body), 413)


def test_ten_mebibytes_in_chunks_are_too_large(stack):
    chunk = b"%x\r\n%s\r\n" % (65536, b"x" * 65536)
    head = "POST /v1/apps HTTP/1.1\nContent-Type: application/json\nTransfer-Encoding: chunked"
    assert_refused(send(stack, head, chunk * 160 + b"0\r\n\r\n"), 400, 411, 413)


def test_an_announced_giant_is_refused_before_it_is_sent(stack):
    head = "POST /v1/apps HTTP/1.1\nContent-Type: application/json\nContent-Length: 99999999999"
    assert_refused(send(stack, head), 413)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonx"])
def test_a_bearer_call_needs_no_media_type_but_its_body_must_still_be_json(api, kind):
    answer = api.post("/v1/apps", "name=x&runtime_preset=node-http", headers={"content-type": kind})
    assert_error(answer, 400, "invalid_request")


@pytest.mark.parametrize(
    "value",
    ["", "Bearer", "Bearer ", "bearer", "Bearer sk_", "Bearer \x7f", "Token x", "Bearer " + "a" * 8000, "Bearer sk_\xe9"],
    ids=range(9),
)
def test_a_malformed_token_is_a_401(stack, value):
    answer = send(stack, f"GET /v1/apps HTTP/1.1\nAuthorization: {value}", token=False)
    assert_refused(answer, 401, 400, 413)


def test_a_wrong_token_is_never_logged(stack):
    wrong = stack.secret("sk_")
    answer = send(stack, f"GET /v1/apps HTTP/1.1\nAuthorization: Bearer {wrong}", token=False)
    assert_refused(answer, 401)


BAD_IDS = [
    "..",
    "../apps",
    "%2e%2e",
    "%2E%2E%2Fapps",
    f"{ULID}%2F..",
    f"{ULID}%2f",
    ULID.upper(),
    ULID[:-1],
    ULID + "a",
    "8" + ULID[1:],
    ULID[:-1] + "u",
    ULID[:-1] + "%00",
    ULID + "%0a",
    ULID + ".",
    "%",
    "%zz",
    "a" * 5000,
    ".",
    "~",
    "\xe9" * 13,
]


@pytest.mark.parametrize("bad", BAD_IDS, ids=range(len(BAD_IDS)))
@pytest.mark.parametrize("resource", ["apps", "sandboxes"])
def test_what_is_no_id_is_found_nowhere(stack, resource, bad):
    answer = send(stack, f"GET /v1/{resource}/{bad} HTTP/1.1")
    assert_refused(answer, 400, 404, 413)
    answer = send(stack, f"DELETE /v1/{resource}/{bad} HTTP/1.1")
    assert_refused(answer, 400, 404, 405, 413)


@pytest.mark.parametrize("path", ["/v1/apps/../apps", "/v1/%61pps", "/v1//apps", "/./v1/apps", "/v1/apps%2F", "/v1/apps;x=1", "/v1/apps\\"])
def test_a_path_has_one_spelling(stack, path):
    answer = send(stack, f"GET {path} HTTP/1.1")
    assert answer.status in (400, 404), answer
    assert b'"apps"' not in answer.body


@pytest.mark.parametrize("host", ["127.0.0.1.", "localhost.", "localhost.:9090", "[::1].", "127.0.0.1:", "127.0.0.1:x", "a@127.0.0.1"])
def test_a_host_with_a_trailing_dot_or_worse_is_refused(stack, host):
    assert_refused(send(stack, f"GET /v1/apps HTTP/1.1\nHost: {host}"), 400, 403, 404, 421)


SMUGGLING = {
    "two lengths": "POST /v1/apps HTTP/1.1\nContent-Type: application/json\nContent-Length: 2\nContent-Length: 3",
    "two equal lengths": "POST /v1/apps HTTP/1.1\nContent-Type: application/json\nContent-Length: 2\nContent-Length: 2",
    "length and chunked": "POST /v1/apps HTTP/1.1\nContent-Type: application/json\nContent-Length: 2\nTransfer-Encoding: chunked",
    "chunked twice": "POST /v1/apps HTTP/1.1\nContent-Type: application/json\nTransfer-Encoding: chunked\nTransfer-Encoding: chunked",
    "gzip, chunked": "POST /v1/apps HTTP/1.1\nContent-Type: application/json\nTransfer-Encoding: gzip, chunked",
    "chunked, identity": "POST /v1/apps HTTP/1.1\nContent-Type: application/json\nTransfer-Encoding: chunked, identity",
    "list of lengths": "POST /v1/apps HTTP/1.1\nContent-Type: application/json\nContent-Length: 2, 2",
    "plus": "POST /v1/apps HTTP/1.1\nContent-Type: application/json\nContent-Length: +2",
    "minus": "POST /v1/apps HTTP/1.1\nContent-Type: application/json\nContent-Length: -2",
    "hexadecimal": "POST /v1/apps HTTP/1.1\nContent-Type: application/json\nContent-Length: 0x2",
    "length overflows": "POST /v1/apps HTTP/1.1\nContent-Type: application/json\nContent-Length: 18446744073709551618",
    "space before the colon": "POST /v1/apps HTTP/1.1\nContent-Type: application/json\nContent-Length : 2",
    "folded": "POST /v1/apps HTTP/1.1\nContent-Type: application/json\nX: a\n b\nContent-Length: 2",
    "two hosts": "GET /v1/apps HTTP/1.1\nHost: 127.0.0.1\nHost: localhost",
    "absolute form": "GET http://127.0.0.1/v1/apps HTTP/1.1",
    "authority form": "CONNECT 127.0.0.1:9090 HTTP/1.1",
    "asterisk": "OPTIONS * HTTP/1.1",
    "no version": "GET /v1/apps",
    "version 2": "GET /v1/apps HTTP/2.0",
    "trace": "TRACE /v1/apps HTTP/1.1",
    "lower case": "get /v1/apps HTTP/1.1",
    "long path": "GET /v1/" + "a" * 20000 + " HTTP/1.1",
    "long header": "GET /v1/apps HTTP/1.1\nX: " + "a" * 70000,
    "many headers": "GET /v1/apps HTTP/1.1\n" + "\n".join(f"X-{n}: y" for n in range(200)),
    "nul in a header": "GET /v1/apps HTTP/1.1\nX: a\x00b",
    "no name": "GET /v1/apps HTTP/1.1\n: x",
}


# The server closes on these two without a word; a proxy's form of a target has nothing to ask here.
CLOSED_UNANSWERED = ("absolute form", "asterisk")


@pytest.mark.parametrize("name", SMUGGLING)
def test_a_request_that_two_servers_could_read_differently_is_refused(stack, name):
    body = b"{}" if SMUGGLING[name].startswith("POST") else b""
    if name in CLOSED_UNANSWERED:
        assert send(stack, SMUGGLING[name], body) is None
        return
    assert_refused(send(stack, SMUGGLING[name], body), 400, 403, 404, 405, 411, 413, 414, 431, 501, 505)


def test_bare_line_feeds_are_no_line_ends(stack):
    data = f"GET /v1/apps HTTP/1.1\nHost: 127.0.0.1\nAuthorization: Bearer {stack.token}\n\n".encode()
    answer = raw_request(stack.api_port, data)
    assert_refused(answer, 400)


def test_without_a_host_there_is_no_answer_of_ours(stack):
    data = f"GET /v1/apps HTTP/1.1\r\nAuthorization: Bearer {stack.token}\r\n\r\n".encode()
    assert_refused(raw_request(stack.api_port, data), 400, 403)


def test_a_second_request_in_the_body_is_never_read(stack):
    """Keep-alive is off: what follows a request is not a request."""
    inner = f"DELETE /v1/apps/{ULID} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {stack.token}\r\n\r\n"
    data = f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n{inner}".encode()
    answer = raw_request(stack.api_port, data)
    assert answer.status == 200 and answer.body.count(b"HTTP/1.1") == 0


def test_bytes_that_are_no_http_get_no_more_than_a_4xx(stack):
    for data in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64, b"\x00" * 128 + b"\r\n\r\n", b"hello\r\n\r\n"):
        answer = raw_request(stack.api_port, data, seconds=5)
        assert answer is None or 400 <= answer.status < 500 or answer.status == 505, answer


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"prompt": ""},
        {"prompt": 5},
        {"prompt": "x", "agent": "no-such"},
        {"prompt": "x", "agent": 5},
        {"prompt": "x", "timeout_s": 0},
        {"prompt": "x", "timeout_s": -5},
        {"prompt": "x", "timeout_s": "60"},
        {"prompt": "x", "timeout_s": 1e12},
        {"prompt": "x", "model": ""},
        {"prompt": "x", "model": "a\nb"},
        {"prompt": "x" * 5_000_000},
        {"prompt": "x", "shell": "id"},
    ],
    ids=range(13),
)
def test_a_bad_task_is_refused_before_anything_is_woken(api, sleeper, body):
    answer = api.post(f"/v1/sandboxes/{sleeper['id']}/tasks", body)
    assert 400 <= answer.status_code < 500, answer.text
    assert set(answer.json()) == {"error"}
    assert api.sandbox(sleeper["id"])["status"] == "stopped"
    assert api.get(f"/v1/sandboxes/{sleeper['id']}/tasks").json()["tasks"] == []
