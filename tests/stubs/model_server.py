"""A scripted model provider: answers of OpenAI's and Anthropic's shape, decided by model_scenarios.

As a module:

    with ModelServer() as server:
        server.base_url            # http://127.0.0.1:<port>
        server.requests            # every request so far, oldest first

As a program (prints its address, logs one JSON line per request):

    python3 -m tests.stubs.model_server --port 0 --log requests.jsonl

Any path prefix is taken; the last part decides: /chat/completions, /messages, /responses, /models,
and HEAD for anything. One thread per connection; the list of requests is guarded by a lock.
"""

import argparse
import json
import select
import socket
import struct
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.stubs import model_scenarios
from tests.stubs.model_formats import ChatCompletions, format_of
from tests.stubs.model_scenarios import Broken, Failure

BODY_BYTES_MAX = 32 * 1024 * 1024
BODY_HEAD_CHARS = 4096
HANG_SECONDS_MAX = 900
KEY_HEADERS = ("authorization", "x-api-key", "x-goog-api-key")
MODELS = ("big-pickle", "grok-code", "claude-sonnet-4-6", "gpt-5.5")


@dataclass
class Request:
    """One request as it arrived upstream."""

    method: str
    path: str
    headers: list
    body_bytes: int
    body_head: str
    at: float
    model: str = ""
    prompt: str = ""
    scenario: str = ""
    turn: int = -1
    status: int = 0
    outcome: str = ""
    keys: dict = field(default_factory=dict)

    def header(self, name):
        return next((v for k, v in self.headers if k.lower() == name.lower()), None)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "model-stub"
    sys_version = ""
    disable_nagle_algorithm = True

    def log_message(self, *_args):
        """The request list is the log."""

    def do_HEAD(self):
        self._note(b"")
        self._finish_headers(200, {"content-length": "0"})
        self._done("ok")

    def do_GET(self):
        self._note(b"")
        path = urlsplit(self.path).path
        if path == "/_stub/requests":
            self._json(200, [asdict(r) for r in self.server.stub.requests])
        elif path.endswith("/models"):
            known = [m for m in MODELS if m not in self.server.stub.unknown_models]
            self._json(200, {"object": "list", "data": [{"id": m, "object": "model"} for m in known]})
        else:
            self._json(404, ChatCompletions.error(404, "not_found_error", f"no {path} here"))

    def do_POST(self):
        body = self._read_body()
        self._note(body)
        fmt = format_of(urlsplit(self.path).path)
        if fmt is None:
            return self._json(404, ChatCompletions.error(404, "not_found_error", f"no {self.path} here"))
        try:
            conversation = fmt.parse(json.loads(body))
        except (ValueError, AttributeError, TypeError) as error:
            return self._json(400, fmt.error(400, "invalid_request_error", f"unreadable: {error}"))
        self.record.model = conversation.model
        self.record.prompt = conversation.prompt[:BODY_HEAD_CHARS]
        self.record.turn = len(conversation.tool_results)
        self.record.scenario = model_scenarios.scenario_of(conversation.prompt)[0]
        if conversation.model in self.server.stub.unknown_models:
            message = f"Model {conversation.model} is not supported"
            return self._json(401, fmt.error(401, "ModelError", message))
        self._answer(fmt, conversation, model_scenarios.answer(conversation))
        return None

    # --- in ---------------------------------------------------------------------------------

    def _read_body(self):
        if "chunked" in (self.headers.get("transfer-encoding") or "").lower():
            return self._read_chunked()
        length = int(self.headers.get("content-length") or 0)
        return self.rfile.read(min(length, BODY_BYTES_MAX))

    def _read_chunked(self):
        body = b""
        while len(body) <= BODY_BYTES_MAX:
            size = int(self.rfile.readline().split(b";")[0].strip() or b"0", 16)
            body += self.rfile.read(size)
            self.rfile.readline()
            if size == 0:
                break
        return body

    def _note(self, body):
        headers = [(k.lower(), v) for k, v in self.headers.items()]
        self.record = Request(
            self.command,
            self.path,
            headers,
            len(body),
            body[:BODY_HEAD_CHARS].decode("utf-8", "replace"),
            time.time(),
            keys={k: v for k, v in headers if k in KEY_HEADERS},
        )
        self.server.stub.add(self.record)

    # --- out --------------------------------------------------------------------------------

    def _finish_headers(self, status, headers):
        self.record.status = status
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.flush()

    def _json(self, status, value, headers=None):
        text = json.dumps(value).encode()
        named = {"content-type": "application/json", "content-length": str(len(text))}
        self._finish_headers(status, {**named, **(headers or {})})
        self.wfile.write(text)
        self._done("ok")

    def _answer(self, fmt, conversation, outcome):
        if isinstance(outcome, Failure):
            error = fmt.error(outcome.status, outcome.kind, outcome.message)
            self._json(outcome.status, error, outcome.headers)
        elif isinstance(outcome, Broken):
            self._break(fmt, conversation, outcome)
        elif conversation.stream:
            self._stream(fmt, conversation, outcome)
        else:
            time.sleep(outcome.piece_delay_s * len(outcome.pieces))
            self._json(200, fmt.whole(conversation, outcome))

    def _start_stream(self):
        named = {
            "content-type": "text/event-stream",
            "cache-control": "no-cache",
            "transfer-encoding": "chunked",
        }
        self._finish_headers(200, named)

    def _chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _stream(self, fmt, conversation, reply):
        try:
            self._start_stream()
            for data, is_text in fmt.stream(conversation, reply):
                self._chunk(data)
                if is_text and reply.piece_delay_s and self._client_left(reply.piece_delay_s):
                    self._done("client left")
                    self.close_connection = True
                    return
            self.wfile.write(b"0\r\n\r\n")
            self._done("ok")
        except OSError as error:
            self._done(f"client left: {error}")
            self.close_connection = True

    def _break(self, fmt, conversation, broken):
        """Starts an answer and does not end it as the provider would."""
        self.close_connection = True
        if broken.how == "hang":
            self._wait_for_client()
            return
        if not conversation.stream:
            return self._reset()
        self._start_stream()
        for sent, (data, _) in enumerate(fmt.stream(conversation, broken.reply)):
            if sent == 6:
                break
            self._chunk(data)
        if broken.how == "truncate":
            self.wfile.write(b"0\r\n\r\n")
            self._done("truncated")
        elif broken.how == "stall":
            self._wait_for_client()
        else:
            self._reset()
        return None

    def _client_left(self, seconds):
        """Waits; true as soon as the client closes. Its next request may not come early."""
        readable, _, _ = select.select([self.connection], [], [], seconds)
        if not readable:
            return False
        try:
            return self.connection.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return True

    def _wait_for_client(self):
        end = time.monotonic() + HANG_SECONDS_MAX
        while time.monotonic() < end and not self.server.stub.closing.is_set():
            if self._client_left(0.5):
                self._done("client left")
                return
        self._done("never answered")

    def _reset(self):
        """Ends the connection with a reset, never in order."""
        self._done("cut")
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # shutdown() by the base class would send a FIN first.
        self.connection.close()

    def _done(self, outcome):
        self.server.stub.finish(self.record, outcome)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request, client_address):
        """A client that goes away is no news; anything else is a fault of the stub."""
        error = sys.exc_info()[1]
        if not isinstance(error, (OSError, ValueError)):
            super().handle_error(request, client_address)

    def shutdown_request(self, request):
        try:
            super().shutdown_request(request)
        except OSError:
            pass


class ModelServer:
    """The running stub. `unknown_models` are refused as the provider refuses a model it dropped."""

    def __init__(self, host="127.0.0.1", port=0, log=None):
        self.closing = threading.Event()
        self.unknown_models = set()
        self._lock = threading.Lock()
        self._requests = []
        self._log = open(log, "a", encoding="utf-8") if log else None
        self._http = Server((host, port), Handler)
        self._http.stub = self
        self.port = self._http.server_address[1]
        self.base_url = f"http://{host}:{self.port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.1,), daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_error):
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        if self._log:
            self._log.close()
            self._log = None

    def add(self, record):
        with self._lock:
            self._requests.append(record)

    def finish(self, record, outcome):
        with self._lock:
            record.outcome = outcome
            if self._log:
                self._log.write(json.dumps(asdict(record)) + "\n")
                self._log.flush()

    @property
    def requests(self):
        with self._lock:
            return list(self._requests)

    def posts(self):
        """The model requests: what an agent asked, without probes."""
        return [r for r in self.requests if r.method == "POST"]

    def forget(self):
        with self._lock:
            self._requests.clear()


def main():
    parser = argparse.ArgumentParser(description="scripted model provider")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", help="one JSON line per request; it holds the keys as they came")
    args = parser.parse_args()
    with ModelServer(args.host, args.port, args.log) as server:
        print(server.base_url, flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
