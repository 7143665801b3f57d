"""The two neighbours of a proxy, written from docs/protocols.md: sandboxd's broker socket and the relay of a sandbox.

Both run in threads, keep what they were told, and do what a test says. Nothing of the proxy itself is imitated.
"""

import contextlib
import os
import pathlib
import select
import signal
import socket
import struct
import subprocess
import threading
import time

ULID_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
WAIT_SECONDS = 10


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def new_id():
    return "01" + "".join(ULID_ALPHABET[b % 32] for b in os.urandom(24))


def wait_for(condition, seconds=WAIT_SECONDS, what="a condition"):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"{what} did not come true within {seconds} s")


# ---- records -----------------------------------------------------------------------------------------


def encode(kind, fields=()):
    out = b""
    for key, value in [("kind", kind), *(fields.items() if isinstance(fields, dict) else fields)]:
        if isinstance(value, bool):
            value = "yes" if value else "no"
        value = value if isinstance(value, bytes) else str(value).encode()
        out += bytes([len(key)]) + key.encode() + struct.pack(">I", len(value)) + value
    return struct.pack(">I", len(out)) + out


def decode(frame):
    fields, at = [], 0
    while at < len(frame):
        size = frame[at]
        key = frame[at + 1:at + 1 + size].decode()
        at += 1 + size
        (length,) = struct.unpack(">I", frame[at:at + 4])
        fields.append((key, frame[at + 4:at + 4 + length].decode(errors="replace")))
        at += 4 + length
    return dict(fields), fields


def read_exact(sock, size):
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def read_record(sock):
    (length,) = struct.unpack(">I", read_exact(sock, 4))
    return decode(read_exact(sock, length))[0]


# ---- sandboxd's side of a broker socket ----------------------------------------------------------------


class Broker:
    """Listens on run/broker/<role>/broker.sock; `on_connect` lines are sent after each hello."""

    def __init__(self, data_dir, role):
        self.path = pathlib.Path(data_dir, "run/broker", role, "broker.sock")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.received = []
        self.greeting = []
        self.handlers = {}
        self.connections = 0
        self.sock = None
        self.listener = None
        self.lock = threading.Lock()

    def start(self):
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.path))
        os.chmod(self.path, 0o666)
        self.listener.listen()
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()
        return self

    def stop(self):
        with self.lock:
            for s in (self.sock, self.listener):
                if s:
                    with contextlib.suppress(OSError):
                        s.shutdown(socket.SHUT_RDWR)
                    s.close()
            self.sock = self.listener = None
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()

    def _accept(self, listener):
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        try:
            hello = read_record(sock)
            assert hello["kind"] == "hello" and hello["protocol"] == "1", hello
            sock.sendall(encode("hello", {"protocol": 1}))
            with self.lock:
                self.sock = sock
                self.connections += 1
                for frame in self.greeting:
                    sock.sendall(frame)
            while True:
                record = read_record(sock)
                self.received.append(record)
                handler = self.handlers.get(record["kind"])
                if handler:
                    handler(record)
        except (EOFError, OSError):
            pass

    def send(self, kind, fields=()):
        wait_for(lambda: self.sock, what="a connection of the proxy to the broker")
        with self.lock:
            self.sock.sendall(encode(kind, fields))

    def count(self, kind):
        return sum(r["kind"] == kind for r in self.received)

    def of(self, kind):
        return [r for r in self.received if r["kind"] == kind]


# ---- the relay of one sandbox ---------------------------------------------------------------------------


class Relay:
    """Holds the standing connection and answers `open` as a supervisor does; `ports` maps app ports to real ones."""

    def __init__(self, data_dir, sandbox_id, ports):
        self.dir = pathlib.Path(data_dir, "run/in", sandbox_id)
        self.path = self.dir / "in.sock"
        self.ports = dict(ports)
        self.opened = []
        self.streams = 0
        self.standing = None
        self.answer = None
        self.lock = threading.Lock()

    def start(self):
        self.dir.mkdir(parents=True, exist_ok=True)
        self.standing = wait_for(self._dial, what=f"a listener at {self.path}")
        self.standing.sendall(encode("hello", {"protocol": 1, "role": "standing", "boot_id": "b1"}))
        hello = read_record(self.standing)
        assert hello == {"kind": "hello", "protocol": "1"}, hello
        threading.Thread(target=self._serve, args=(self.standing,), daemon=True).start()
        return self

    def stop(self):
        if self.standing:
            with contextlib.suppress(OSError):
                self.standing.shutdown(socket.SHUT_RDWR)
            self.standing.close()
            self.standing = None

    def _dial(self):
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(str(self.path))
        except OSError:
            sock.close()
            return None
        return sock

    def tell(self, kind, n):
        with self.lock, contextlib.suppress(OSError, AttributeError):
            self.standing.sendall(encode(kind, {"n": n}))

    def _serve(self, standing):
        try:
            while True:
                record = read_record(standing)
                assert record["kind"] == "open", record
                self.opened.append(int(record["port"]))
                threading.Thread(target=self._stream, args=(record,), daemon=True).start()
        except (EOFError, OSError):
            pass

    def _stream(self, record):
        n, port = record["n"], int(record["port"])
        app = None
        result = self.answer
        if result is None:
            try:
                app = socket.create_connection(("127.0.0.1", self.ports[port]), 5)
                app.settimeout(None)
                result = "ok"
            except (OSError, KeyError):
                result = "refused"
        sock = self._dial()
        if not sock:
            return
        sock.sendall(encode("hello", {"protocol": 1, "role": "stream", "n": n, "result": result}))
        if app is None:
            sock.close()
            return
        self.streams += 1
        try:
            self._splice(sock, app, n)
        finally:
            self.streams -= 1
            sock.close()
            app.close()

    def _splice(self, sock, app, n):
        """Raw bytes both ways; how the app ended is told on the standing connection."""
        open_sides = [sock, app]
        while app in open_sides:
            for side in select.select(open_sides, [], [])[0]:
                other = app if side is sock else sock
                try:
                    data = side.recv(65536)
                except OSError:
                    if side is app:
                        self.tell("reset", n)
                    return
                if data:
                    try:
                        other.sendall(data)
                    except OSError:
                        return
                    continue
                open_sides.remove(side)
                if side is app:
                    self.tell("end", n)
                    return
                try:
                    app.shutdown(socket.SHUT_WR)
                except OSError:
                    return
                if not self._proxy_is_there(sock):
                    return

    @staticmethod
    def _proxy_is_there(sock):
        """A proxy that only half-closed can still be written to."""
        poll = select.poll()
        poll.register(sock, select.POLLHUP | select.POLLERR)
        return not poll.poll(0)


# ---- the program ------------------------------------------------------------------------------------------


class Proxy:
    """One running proxy."""

    def __init__(self, program, role, data_dir, port=None, env=None, before=()):
        self.argv = [*before, str(program), "--data-dir", str(data_dir)]
        if port:
            self.argv += ["--port", str(port)]
        self.port = port
        self.env = {**os.environ, "SANDBOXD_LOG_LEVEL": "debug", **(env or {})}
        self.log_path = pathlib.Path(data_dir, f"{role}.log")
        self.process = None

    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.argv, stderr=log, stdin=subprocess.DEVNULL, env=self.env)
        if self.port:
            wait_for(self._answers, what="the listener of the proxy")
        return self

    def _answers(self):
        assert self.process.poll() is None, self.log()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def stop(self, seconds=10):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError("the proxy did not leave") from None
        return self.process.returncode if self.process else None

    def log(self):
        return self.log_path.read_text(errors="replace")


# ---- an app, and a client -----------------------------------------------------------------------------------


class App:
    """An HTTP/1.1 server on a real port that does what its path says, down to the byte; keeps what reached it."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        self.requests = []
        self.connections = 0
        self.gone = threading.Event()
        self.release = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.listener.close()

    def count(self, path):
        return sum(r["path"] == path for r in self.requests)

    def last(self, path):
        return [r for r in self.requests if r["path"] == path][-1]

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        file = sock.makefile("rb")
        with contextlib.suppress(OSError, EOFError), sock, file:
            while self._request(sock, file):
                pass

    def _request(self, sock, file):
        line = file.readline().decode("latin-1").split()
        if len(line) != 3:
            return False
        headers = []
        while (text := file.readline().decode("latin-1").rstrip("\r\n")):
            name, _, value = text.partition(":")
            headers.append((name.lower(), value.strip()))
        request = {"method": line[0], "path": line[1], "headers": headers, "body": b"", "trailers": []}
        self.requests.append(request)
        name = line[1].split("?")[0].strip("/").replace("-", "_").replace("/", "_").replace(":", "_")
        act = getattr(self, "do_" + name, self.do_ok)
        if getattr(act, "reads_body", True):
            self._body(sock, file, request)
        return act(sock, request)

    def _body(self, sock, file, request):
        fields = dict(request["headers"])
        if fields.get("expect"):
            sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if fields.get("transfer-encoding") == "chunked":
            parts = []
            while (size := int(file.readline().strip() or b"0", 16)):
                parts.append(file.read(size))
                file.readline()
            request["body"] = b"".join(parts)
            while (text := file.readline().decode().rstrip("\r\n")):
                request["trailers"].append(text)
        else:
            left = int(fields.get("content-length", 0))
            while left:
                part = file.read(min(left, 1 << 20))
                if not part:
                    raise EOFError
                left -= len(part)
                request["body"] += part
        request["whole"] = True

    def do_ok(self, sock, request):
        body = f"{request['method']} {request['path']} {len(request['body'])}".encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nX-App: yes\r\nKeep-Alive: timeout=30\r\n\r\n".encode()
        sock.sendall(head + (b"" if request["method"] == "HEAD" else body))
        return True

    def do_chunked(self, sock, _request):
        sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n"
                     b"X-Sum: 11\r\n\r\n")
        return True

    def do_until_close(self, sock, _request):
        sock.sendall(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nto the end")
        return False

    def do_cut_until_close(self, sock, _request):
        sock.sendall(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nto the e")
        time.sleep(0.1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
        return False

    def do_cut_length(self, sock, _request):
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
        return False

    def do_cut_chunked(self, sock, _request):
        sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        return False

    def do_no_answer(self, _sock, _request):
        return False

    def do_rubbish(self, sock, _request):
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello")
        return False

    def do_no_content(self, sock, _request):
        sock.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
        return True

    def do_not_modified(self, sock, _request):
        sock.sendall(b"HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\nContent-Length: 99\r\n\r\n")
        return True

    def do_hints(self, sock, _request):
        sock.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        return True

    def do_cookies(self, sock, _request):
        sock.sendall(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nConnection: X-Hop\r\nX-Hop: no\r\n"
                     b"Content-Length: 0\r\n\r\n")
        return True

    def do_our_cookies(self, sock, _request):
        sock.sendall(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: sandboxd_pass=x; Path=/\r\n"
                     b"Set-Cookie:  __Host-sandboxd_pass=; Max-Age=0\r\nset-cookie: c=3\r\nContent-Length: 0\r\n\r\n")
        return True

    def do_sse(self, sock, _request):
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            for i in range(3):
                part = f"data: {i}\n\n".encode()
                sock.sendall(b"%x\r\n%s\r\n" % (len(part), part))
                time.sleep(0.15)
        except OSError:
            self.gone.set()
        self._wait_gone(sock)
        return False

    def _wait_gone(self, sock):
        """Says `gone` the moment the other side has left."""
        sock.settimeout(10)
        try:
            if not sock.recv(1):
                self.gone.set()
        except TimeoutError:
            pass
        except OSError:
            self.gone.set()

    def do_hang(self, sock, _request):
        self._wait_gone(sock)
        return False

    def do_slow(self, sock, request):
        time.sleep(1)
        return self.do_ok(sock, request)

    def do_gate(self, sock, request):
        self.release.wait(10)
        return self.do_ok(sock, request)

    def do_big(self, sock, _request):
        size = 64 << 20
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        block = bytes(range(256)) * 4096
        for _ in range(size // len(block)):
            sock.sendall(block)
        return True

    def do_early_answer(self, sock, _request):
        sock.sendall(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 4\r\nConnection: close\r\n\r\nless")
        time.sleep(0.2)
        return False

    do_early_answer.reads_body = False

    def do_ws(self, sock, request):
        """Switches and echoes whatever comes, byte by byte."""
        fields = dict(request["headers"])
        sock.sendall(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: {fields['upgrade']}\r\nConnection: Upgrade\r\n"
                     f"Sec-WebSocket-Accept: x\r\n\r\n".encode() + b"\x81\x02hi")
        while (data := sock.recv(65536)):
            sock.sendall(data)
        self.gone.set()
        return False

    def do_uninvited(self, sock, _request):
        sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nraw")
        return False


class Answer:
    """One HTTP/1.1 answer as it came."""

    def __init__(self, status, headers, body, whole, raw):
        self.status, self.headers, self.body, self.whole, self.raw = status, headers, body, whole, raw

    def header(self, name):
        return next((v for k, v in self.headers if k == name.lower()), None)

    def all(self, name):
        return [v for k, v in self.headers if k == name.lower()]


class Client:
    """A connection that sends bytes as given and reads answers strictly."""

    def __init__(self, port, path=None, hello=b""):
        if path:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.connect(str(path))
            self.sock.sendall(hello)
        else:
            self.sock = socket.create_connection(("127.0.0.1", port), 5)
        self.sock.settimeout(40)
        self.buffer = b""
        self.closed = False

    def close(self):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data.encode("latin-1") if isinstance(data, str) else data)
        return self

    def fill(self):
        try:
            data = self.sock.recv(262144)
        except ConnectionError:
            data = b""
        if not data:
            self.closed = True
        self.buffer += data
        return bool(data)

    def take(self, size):
        while len(self.buffer) < size:
            if not self.fill():
                raise EOFError
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        return data

    def line(self):
        while b"\r\n" not in self.buffer:
            if not self.fill():
                raise EOFError
        text, self.buffer = self.buffer.split(b"\r\n", 1)
        return text.decode("latin-1")

    def head(self):
        status = int(self.line().split()[1])
        headers = []
        while (text := self.line()):
            name, _, value = text.partition(":")
            headers.append((name.lower(), value.strip()))
        return status, headers

    def answer(self, method="GET", interim=None):
        """Reads one; interim ones go to the list. `whole` is False when the connection broke off."""
        while True:
            status, headers = self.head()
            if status >= 200 or status == 101:
                break
            if interim is not None:
                interim.append((status, headers))
        got = Answer(status, headers, b"", True, b"")
        try:
            self._body(got, method)
        except EOFError:
            got.whole = False
        return got

    def _body(self, got, method):
        if method == "HEAD" or got.status in (101, 204, 304):
            return
        if got.header("transfer-encoding") == "chunked":
            while (size := int(self.line(), 16)):
                got.body += self.take(size)
                assert self.line() == ""
            got.trailers = []
            while (text := self.line()):
                got.trailers.append(text)
        elif got.header("content-length") is not None:
            left = int(got.header("content-length"))
            parts = []
            while left:
                part = self.take(min(left, max(1, len(self.buffer)))) if self.buffer else (self.fill() or self._eof()) and b""
                parts.append(part)
                left -= len(part)
            got.body = b"".join(parts)
        else:
            while self.fill():
                pass
            got.body, self.buffer = self.buffer, b""

    @staticmethod
    def _eof():
        raise EOFError
