"""The two neighbours of sandboxd-proxy, written from docs/protocols.md: sandboxd's broker socket and the relay of a sandbox.

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
    """One running sandboxd-proxy."""

    def __init__(self, program, role, data_dir, port=None, env=None):
        self.argv = [str(program), role, "--data-dir", str(data_dir)]
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
