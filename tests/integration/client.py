"""What a person has: curl, a browser's requests, a WebSocket, an event stream, and a raw socket.

Nothing here knows how the product is started (harness.py) or what a test expects.
"""

import json
import os
import re
import socket
import time
from dataclasses import dataclass

import requests
from websockets.sync.client import connect as websocket_connect

CALL_SECONDS_MAX = 90
IMAGE_SECONDS_MAX = 2400
LAST_ID = re.compile(r'.*"id":"([^"]+)".*', re.S)
TASK_ENDS = ("succeeded", "failed", "cancelled", "timed_out", "budget_reached", "interrupted")


def last_id(text):
    """The id that people's sed takes out of an answer: the last "id" in it."""
    return LAST_ID.sub(r"\1", text)


# Every exchange of the run, for test_openapi.py: (method, path, request, status, content type, JSON text).
TRAFFIC = []
TRAFFIC_MAX = 20_000


class Api:
    """The API at its loopback port with a bearer token."""

    def __init__(self, port, token):
        self.base = f"http://127.0.0.1:{port}"
        self.port = port
        self.token = token
        self._session = requests.Session()
        self._session.trust_env = False

    def call(self, method, path, body=None, *, token=..., headers=None, timeout=CALL_SECONDS_MAX, stream=False):
        sent = {}
        wanted = self.token if token is ... else token
        if wanted:
            sent["authorization"] = f"Bearer {wanted}"
        sent.update(headers or {})
        data = None
        if body is not None:
            data = json.dumps(body) if not isinstance(body, (str, bytes)) else body
            sent.setdefault("content-type", "application/json")
        # A connection of its own for each call, as curl has.
        sent.setdefault("connection", "close")
        answer = self._session.request(
            method, self.base + path, data=data, headers=sent, timeout=timeout, stream=stream, allow_redirects=False
        )
        if not stream and len(TRAFFIC) < TRAFFIC_MAX:
            kind = answer.headers.get("content-type", "")
            TRAFFIC.append((method, path, body, answer.status_code, kind, answer.text if "json" in kind else None))
        return answer

    def get(self, path, **more):
        return self.call("GET", path, **more)

    def post(self, path, body=None, **more):
        return self.call("POST", path, body, **more)

    def patch(self, path, body, **more):
        return self.call("PATCH", path, body, **more)

    def delete(self, path, **more):
        return self.call("DELETE", path, **more)

    # --- the few steps that every test takes -------------------------------------------------

    def make_app(self, preset="node-http", name="test app"):
        answer = self.post("/v1/apps", {"name": name, "runtime_preset": preset})
        assert answer.status_code == 201, answer.text
        return answer.json()

    def make_sandbox(self, app_id, ports=(3000,)):
        """Waits while the image is built, as the answer asks to, and while the container starts."""
        end = time.monotonic() + IMAGE_SECONDS_MAX
        while True:
            answer = self.post(f"/v1/apps/{app_id}/sandbox", {"ports": list(ports)})
            if answer.status_code == 503 and answer.json()["error"]["code"] == "image_building":
                assert time.monotonic() < end, f"the image is not there after {IMAGE_SECONDS_MAX} s: {answer.text}"
                assert int(answer.headers["retry-after"]) > 0, answer.headers
                time.sleep(5)
                continue
            assert answer.status_code in (201, 202), answer.text
            made = answer.json()
            if answer.status_code == 202:
                return self.wait_sandbox(made["id"], "running")
            return made

    def sandbox(self, sandbox_id):
        answer = self.get(f"/v1/sandboxes/{sandbox_id}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def wait_sandbox(self, sandbox_id, *states, seconds=60):
        end = time.monotonic() + seconds
        while True:
            row = self.sandbox(sandbox_id)
            if row["status"] in states:
                return row
            assert time.monotonic() < end, f"not {states} after {seconds} s: {row}"
            time.sleep(0.1)

    def make_task(self, sandbox_id, prompt, agent="opencode", **more):
        answer = self.post(f"/v1/sandboxes/{sandbox_id}/tasks", {"prompt": prompt, "agent": agent, **more})
        assert answer.status_code == 202, answer.text
        return answer.json()

    def task(self, sandbox_id, task_id):
        answer = self.get(f"/v1/sandboxes/{sandbox_id}/tasks/{task_id}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def wait_task(self, sandbox_id, task_id, *states, seconds=400):
        end = time.monotonic() + seconds
        while True:
            row = self.task(sandbox_id, task_id)
            if row["status"] in (states or TASK_ENDS):
                return row
            assert row["status"] not in TASK_ENDS, f"ended as {row['status']}, waited for {states}: {row}"
            assert time.monotonic() < end, f"not {states or TASK_ENDS} after {seconds} s: {row}"
            time.sleep(0.2)

    def events(self, sandbox_id, task_id, last_event_id=None, timeout=400):
        """The events of a task until the stream ends, each checked for the form of an SSE event."""
        headers = {"last-event-id": str(last_event_id)} if last_event_id is not None else {}
        path = f"/v1/sandboxes/{sandbox_id}/tasks/{task_id}/events"
        with self.call("GET", path, headers=headers, stream=True, timeout=timeout) as answer:
            assert answer.status_code == 200, answer.text
            assert answer.headers["content-type"].startswith("text/event-stream"), answer.headers
            yield from read_sse(answer)


@dataclass
class SseEvent:
    id: str
    event: str
    data: dict


def read_sse(answer):
    """Events off a streamed answer; comments are passed over."""
    fields = {}
    for raw in answer.iter_lines(chunk_size=1):
        line = raw.decode("utf-8")
        if line == "":
            if "data" in fields:
                data = json.loads(fields["data"])
                yield SseEvent(fields.get("id", ""), fields.get("event", "message"), data)
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")


class Preview:
    """Requests to previews: at the proxy's own port, or at the edge's."""

    def __init__(self, port, domain="localhost"):
        self.port = port
        self.domain = domain

    def host(self, sandbox_id, app_port=3000):
        return f"s-{sandbox_id}-{app_port}.preview.{self.domain}"

    def request(self, method, sandbox_id, path="/", *, app_port=3000, headers=None, timeout=CALL_SECONDS_MAX, **more):
        sent = {"host": self.host(sandbox_id, app_port), "connection": "close", **(headers or {})}
        url = f"http://127.0.0.1:{self.port}{path}"
        with requests.Session() as session:
            session.trust_env = False
            return session.request(method, url, headers=sent, timeout=timeout, allow_redirects=False, **more)

    def get(self, sandbox_id, path="/", **more):
        return self.request("GET", sandbox_id, path, **more)

    def post(self, sandbox_id, path="/", **more):
        return self.request("POST", sandbox_id, path, **more)

    def browse(self, sandbox_id, path="/", **more):
        """A page load as a browser makes it."""
        headers = {
            "accept": "text/html,application/xhtml+xml,*/*;q=0.8",
            "sec-fetch-dest": "document",
            "sec-fetch-mode": "navigate",
            "user-agent": "Mozilla/5.0 (X11; Linux x86_64) Chrome/130.0",
        }
        return self.request("GET", sandbox_id, path, headers={**headers, **more.pop("headers", {})}, **more)

    def websocket(self, sandbox_id, path="/ws", app_port=3000, **more):
        """An open WebSocket; a context manager."""
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=CALL_SECONDS_MAX)
        uri = f"ws://{self.host(sandbox_id, app_port)}:{self.port}{path}"
        return websocket_connect(uri, sock=sock, open_timeout=CALL_SECONDS_MAX, proxy=None, **more)

    def wait_answer(self, sandbox_id, path="/", seconds=60, **more):
        """The first answer that is the app's: pages of ours carry 5xx."""
        end = time.monotonic() + seconds
        while True:
            answer = self.get(sandbox_id, path, **more)
            if answer.status_code < 500:
                return answer
            assert time.monotonic() < end, f"no answer of the app after {seconds} s: {answer.status_code} {answer.text}"
            time.sleep(0.2)


@dataclass
class RawAnswer:
    status: int
    headers: list
    body: bytes
    seconds: float

    def header(self, name):
        return next((v for k, v in self.headers if k == name.lower()), None)

    def json(self):
        return json.loads(self.body)


def raw_request(port, data, seconds=10, host="127.0.0.1"):
    """Sends bytes as they are and reads one answer until the server closes. None: closed unanswered."""
    start = time.monotonic()
    received = b""
    with socket.create_connection((host, port), timeout=seconds) as sock:
        try:
            sock.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            # Refused while the body was still on its way: the answer may be waiting all the same.
            pass
        try:
            while len(received) < 4 * 1024 * 1024:
                piece = sock.recv(65536)
                if not piece:
                    break
                received += piece
                if _complete(received):
                    break
        except ConnectionResetError:
            pass
    if not received:
        return None
    return _parse_answer(received, time.monotonic() - start)


def _complete(received):
    head, mark, body = received.partition(b"\r\n\r\n")
    if not mark:
        return False
    found = re.search(rb"\r\ncontent-length: *(\d+)", head, re.I)
    return bool(found) and len(body) >= int(found.group(1))


def _parse_answer(received, seconds):
    head, _, body = received.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    assert lines[0].startswith("HTTP/1."), received[:200]
    headers = []
    for line in lines[1:]:
        name, _, value = line.partition(":")
        headers.append((name.lower(), value.strip()))
    return RawAnswer(int(lines[0].split(" ")[1]), headers, body, seconds)


def assert_error(answer, status, code, retryable=None):
    """The one shape of an error; it holds no key "id", or people's sed would take it for an object."""
    body = answer.json()
    assert answer.status_code == status, f"{answer.status_code} {answer.text}"
    assert set(body) == {"error"} and set(body["error"]) >= {"code", "message", "retryable"}, body
    assert body["error"]["code"] == code, body
    assert body["error"]["message"], body
    assert isinstance(body["error"]["retryable"], bool), body
    assert '"id"' not in answer.text, answer.text
    assert "\n" not in answer.text.strip(), answer.text
    if retryable is not None:
        assert body["error"]["retryable"] is retryable, body
    return body["error"]


def api_id():
    """A fresh id of the product's form: a ULID in lower case."""
    alphabet = "0123456789abcdefghjkmnpqrstvwxyz"
    value = (int(time.time() * 1000) << 80) | int.from_bytes(os.urandom(10), "big")
    return "".join(alphabet[(value >> shift) & 31] for shift in range(125, -1, -5))
