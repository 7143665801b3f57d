"""sandboxd-init as PID 1 of a real container, between a control plane and two proxies that do what a test says.

The neighbours are written from docs/protocols.md, sections 5 to 7; nothing of sandboxd-init is imitated.
"""

import contextlib
import os
import queue
import secrets
import shutil
import socket
import struct
import threading
import time

from tests.integration import docker as engine
from tests.integration.programs import ROOT, SANITISER_REPORT, TEST_DIR
from tests.integration.records import PROTOCOL, Record, encode

UID = 2_000_000_001
PROGRAM = os.environ.get("SANDBOXD_TEST_INIT", str(ROOT / "build" / "release" / "bin" / "sandboxd-init"))
ULID_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
WAIT_SECONDS = 15


def new_id():
    return "01" + "".join(ULID_ALPHABET[b % 32] for b in os.urandom(24))


def wait_for(condition, what, seconds=WAIT_SECONDS):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.005)
    raise AssertionError(f"{what}: not within {seconds} s")


def read_exact(sock, size):
    data = b""
    while len(data) < size:
        try:
            piece = sock.recv(size - len(data))
        except ConnectionResetError:
            piece = b""
        if not piece:
            raise EOFError
        data += piece
    return data


def read_record(sock):
    (length,) = struct.unpack(">I", read_exact(sock, 4))
    return Record(read_exact(sock, length))


class Listener:
    """A Unix socket that hands each connection to `serve` in a thread of its own."""

    def __init__(self, path):
        self.path = path
        self.sock = None
        self.connections = []
        self.lock = threading.Lock()

    def start(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.bind(str(self.path))
        os.chmod(self.path, 0o666)
        self.sock.listen(1024)
        threading.Thread(target=self._accept, args=(self.sock,), daemon=True).start()

    def stop(self):
        """Dies: the listener and every connection are gone at once, the socket's file stays."""
        with self.lock:
            gone = [self.sock, *self.connections]
            self.connections = []
        for sock in gone:
            if sock:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
                sock.close()
        self.sock = None

    def _accept(self, listener):
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            with self.lock:
                self.connections.append(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        try:
            self.serve(sock)
        except (EOFError, OSError, struct.error):
            pass

    def serve(self, sock):
        raise NotImplementedError


class Control(Listener):
    """The control plane: keeps every record with its time, acknowledges lines when `acks` is on."""

    def __init__(self, path):
        super().__init__(path)
        self.configuration = [("web_port", 3000)]
        self.records = []
        self.hellos = []
        self.acks = True
        self.reads = threading.Event()
        self.reads.set()
        self.current = None

    def serve(self, sock):
        hello = read_record(sock)
        assert hello.kind == "hello" and hello.get("protocol") == str(PROTOCOL), hello
        self.hellos.append(hello)
        sock.sendall(encode("hello", ("protocol", PROTOCOL)) + encode("configure", *self.configuration))
        self.current = sock
        while True:
            self.reads.wait()
            record = read_record(sock)
            self.records.append((time.monotonic(), record))
            if self.acks and record.kind in ("line", "exit"):
                sock.sendall(encode("ack", ("task_id", record.get("task_id")), ("seq", record.get("seq"))))

    def send(self, kind, *fields):
        wait_for(lambda: self.current, "the supervisor's connection").sendall(encode(kind, *fields))

    def configure(self, *fields):
        self.configuration = list(fields)
        self.send("configure", *fields)

    def of(self, kind, **wanted):
        return [r for _, r in list(self.records) if r.kind == kind and all(r.get(k) == v for k, v in wanted.items())]

    def wait(self, kind, seconds=WAIT_SECONDS, **wanted):
        return wait_for(lambda: self.of(kind, **wanted), f"{kind} {wanted}", seconds)[-1]

    def last(self, kind, **wanted):
        found = self.of(kind, **wanted)
        return found[-1] if found else None

    def time_of(self, kind, **wanted):
        for at, record in list(self.records):
            if record.kind == kind and all(record.get(k) == v for k, v in wanted.items()):
                return at
        return None

    def forget(self):
        self.records.clear()

    # --- tasks --------------------------------------------------------------------------------

    def start_task(self, *argv, stdin=b"", env=(), cwd="/home/sandbox", timeout_ms=60000, task_id=None):
        task_id = task_id or new_id()
        pairs = {"PATH": "/usr/local/bin:/usr/bin:/bin", **dict(env)}
        self.send(
            "start",
            ("task_id", task_id),
            *(("argv", a) for a in argv),
            *(("env", f"{k}={v}") for k, v in pairs.items()),
            ("cwd", cwd),
            ("timeout_ms", timeout_ms),
            ("stdin_bytes", len(stdin)),
        )
        for at in range(0, len(stdin), 50000):
            self.send("stdin", ("task_id", task_id), ("data", stdin[at : at + 50000]))
        return task_id

    def wait_exit(self, task_id, seconds=WAIT_SECONDS):
        return self.wait("exit", seconds, task_id=task_id)

    def lines(self, task_id, stream="out"):
        """Data of a task's lines in the order of their numbers, parts joined, repeats left out."""
        by_seq = {int(r.get("seq")): r for r in self.of("line", task_id=task_id)}
        found, part = [], b""
        for seq in sorted(by_seq):
            record = by_seq[seq]
            if record.get("stream") != stream:
                continue
            part += dict(record.fields)["data"]
            if record.get("part") != "yes":
                found.append(part.decode())
                part = b""
        return found


class Preview(Listener):
    """The preview proxy's end of `in`: asks for streams on the standing connection."""

    def __init__(self, path):
        super().__init__(path)
        self.standing = None
        self.standing_hellos = []
        self.ends = queue.Queue()
        self.streams = {}
        self.n = 0

    def serve(self, sock):
        hello = read_record(sock)
        if hello.get("role") == "stream":
            self.streams[int(hello.get("n"))] = (hello.get("result"), sock)
            return
        assert hello.get("role") == "standing" and hello.get("boot_id"), hello
        sock.sendall(encode("hello", ("protocol", PROTOCOL)))
        self.standing_hellos.append(hello)
        self.standing = sock
        while True:
            record = read_record(sock)
            self.ends.put((record.kind, int(record.get("n"))))

    def open(self, port, seconds=WAIT_SECONDS):
        """(number, result, socket)"""
        wait_for(lambda: self.standing, "the standing connection")
        with self.lock:
            self.n += 1
            n = self.n
        self.standing.sendall(encode("open", ("n", n), ("port", port)))
        result, sock = wait_for(lambda: self.streams.get(n), f"stream {n}", seconds)
        sock.settimeout(WAIT_SECONDS)
        return n, result, sock

    def request(self, port, data=b"GET / HTTP/1.0\r\n\r\n"):
        n, result, sock = self.open(port)
        assert result == "ok", result
        sock.sendall(data)
        answer = b""
        while piece := sock.recv(65536):
            answer += piece
        sock.close()
        return n, answer


class Credentials(Listener):
    """The credentials proxy's end of `out`: says hello, then answers what it got."""

    def serve(self, sock):
        hello = read_record(sock)
        assert hello.kind == "hello" and hello.get("protocol") == str(PROTOCOL), hello
        request = b""
        while b"\r\n\r\n" not in request:
            piece = sock.recv(65536)
            if not piece:
                return
            request += piece
        body = b"got " + request.split(b"\r\n", 1)[0]
        sock.sendall(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        sock.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def own_network():
    """A network of its own, with the engine's resolver in each container, as a sandbox's has."""
    name = f"init-{secrets.token_hex(4)}"
    engine.docker("network", "create", name)
    try:
        yield name
    finally:
        engine.docker("network", "rm", name)


class Sandbox:
    """One container with sandboxd-init as its PID 1, hardened as a sandbox is. A context manager."""

    def __init__(self, files=None, template=None, options=("--network", "none")):
        self.name = f"init-{secrets.token_hex(4)}"
        self.dir = TEST_DIR / self.name
        self.home = self.dir / "home"
        self.options = options
        for door in ("control", "in", "out", "init", "templates"):
            (self.dir / door).mkdir(parents=True)
        for door in ("control", "in", "out"):
            (self.dir / door).chmod(0o711)
        self.home.mkdir(mode=0o700)
        shutil.copy(PROGRAM, self.dir / "init" / "sandboxd-init")
        for path, text in (template or {}).items():
            self._write(self.dir / "templates" / path, text)
        for path, text in (files or {}).items():
            self._write(self.home / "workspace" / "app" / path, text)
        for path in (self.home, *self.home.rglob("*")):
            os.chown(path, UID, UID, follow_symlinks=False)
        self.control = Control(self.dir / "control" / "control.sock")
        self.preview = Preview(self.dir / "in" / "in.sock")
        self.credentials = Credentials(self.dir / "out" / "out.sock")

    @staticmethod
    def _write(path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    @property
    def app(self):
        return self.home / "workspace" / "app"

    def put(self, path, text):
        """As an agent writes a file of the app."""
        self._write(self.app / path, text)
        os.chown(self.app / path, UID, UID)

    def __enter__(self):
        try:
            for door in (self.control, self.preview, self.credentials):
                door.start()
            self.run()
        except BaseException:
            self.__exit__(AssertionError)
            raise
        return self

    def run(self):
        mounts = [
            f"{self.home}:/home/sandbox",
            f"{self.dir}/templates:/opt/sandboxd/templates:ro",
            *(f"{self.dir}/{door}:/run/sandboxd/{door}:ro" for door in ("control", "in", "out", "init")),
        ]
        engine.docker(
            "run", "-d", "--name", self.name, "--hostname", self.name, "--user", f"{UID}:{UID}", "--read-only",
            "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--pids-limit", "512", "--memory", "512m",
            "--tmpfs", "/tmp:noexec,nosuid,nodev", *(x for m in mounts for x in ("-v", m)), *self.options,
            "--entrypoint", "/run/sandboxd/init/sandboxd-init", engine.own_image(),
        )

    def __exit__(self, kind, *_error):
        logs = self.logs()
        engine.docker("rm", "-f", self.name, check=False)
        for door in (self.control, self.preview, self.credentials):
            door.stop()
        shutil.rmtree(self.dir, ignore_errors=True)
        assert kind is not None or not SANITISER_REPORT.search(logs), logs[-4000:]

    # --- looking from outside -----------------------------------------------------------------

    def inside(self, *command, check=True):
        done = engine.docker("exec", self.name, *command, check=False)
        if check:
            assert done.returncode == 0, f"{command}: {done.stdout} {done.stderr}"
        return done.stdout

    def processes(self):
        """pid → command line, of everything in the container but zombies."""
        text = self.inside("sh", "-c", "for p in /proc/[0-9]*; do printf '%s %s %s\\n' \"${p#/proc/}\" "
                           "\"$(sed 's/.*) //' $p/stat 2>/dev/null | cut -c1)\" \"$(tr '\\0\\n' '  ' <$p/cmdline 2>/dev/null)\"; done")
        found = {}
        for line in text.splitlines():
            pid, state, command = (line.split(" ", 2) + ["", ""])[:3]
            if state not in ("Z", "") and "/proc/[0-9]*" not in command:
                found[int(pid)] = command.strip()
        return found

    def running(self, marker):
        return [pid for pid, command in self.processes().items() if marker in command]

    def relay_pid(self):
        return next(iter(self.running("child relay")), None)

    def stop(self, seconds=10):
        """docker stop; returns the exit code."""
        engine.docker("stop", "-t", str(seconds), self.name)
        return self.exit_code()

    def exit_code(self):
        return int(engine.docker("inspect", "-f", "{{.State.ExitCode}}", self.name))

    def logs(self):
        done = engine.docker("logs", self.name, check=False)
        return done.stdout + done.stderr
