"""What the bench measures with: wrk, clocks, the kernel's figures of a process, the engine's own API.

Nothing here knows a target.
"""

import asyncio
import http.client
import json
import math
import os
import re
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.integration.docker import docker, own_image

ENGINE_SOCKET = "/var/run/docker.sock"
LISTEN_SECONDS_MAX = 60
EVENTS_OPEN_SECONDS = 1
WRK_THREADS = 1


def median(values):
    return statistics.median(values)


def quantile(values, share):
    """The smallest value that so large a share of them does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


# --- load ------------------------------------------------------------------------------------------


# Printed by wrk's own statistics, in microseconds.
REPORT = """
function done(summary, latency, requests)
    local failed = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout
    io.write(string.format("bench %d %d %d %d %d %d %d\\n", latency:percentile(50), latency:percentile(95),
        latency:percentile(99), summary.requests, summary.duration, summary.errors.status, failed))
end
"""


@dataclass
class Latency:
    """Of one run of load: milliseconds, and requests per second."""

    p50: float
    p95: float
    p99: float
    rate: float
    requests: int


class Wrk:
    """Load on one address from one thread. pause_ms: each connection rests between requests, so that
    latency is the path's and not a queue's. A context manager; result() waits for the end, stop() ends it
    early."""

    def __init__(self, url, *, headers=None, connections=16, seconds=6, pause_ms=0):
        self.url = url
        self.seconds = seconds
        self.script = tempfile.NamedTemporaryFile("w", suffix=".lua")  # noqa: SIM115 closed by __exit__
        pause = f"function delay() return {pause_ms} end\n" if pause_ms else ""
        self.script.write(pause + REPORT)
        self.script.flush()
        command = ["wrk", f"-t{WRK_THREADS}", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s", "-s", self.script.name]
        for name, value in (headers or {}).items():
            command += ["-H", f"{name}: {value}"]
        self.process = subprocess.Popen([*command, url], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.script.close()

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        return self.result()

    def result(self):
        text, _ = self.process.communicate(timeout=self.seconds + 60)
        found = re.search(r"^bench ([\d ]+)$", text, re.M)
        assert found, f"{self.url}: {text}"
        p50, p95, p99, requests, duration, status, failed = (int(n) for n in found.group(1).split())
        assert requests > 0 and status == 0 and failed == 0, f"{self.url}: {text}"
        return Latency(p50 / 1000, p95 / 1000, p99 / 1000, requests * 1e6 / duration, requests)


def wrk(url, **how):
    with Wrk(url, **how) as load:
        return load.result()


# --- one request -----------------------------------------------------------------------------------


def get(port, host, path="/", seconds=60, address="127.0.0.1"):
    """(status, body) of one request on a connection of its own; no client library in between."""
    connection = http.client.HTTPConnection(address, port, timeout=seconds)
    try:
        connection.request("GET", path, headers={"Host": host, "Connection": "close"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


async def _get_soon(port, host, path, seconds):
    start = time.monotonic()
    reader, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port), seconds)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    answer = await asyncio.wait_for(reader.read(), seconds)
    writer.close()
    return int(answer.split(b" ", 2)[1]), (time.monotonic() - start) * 1000


def get_all(port, hosts, path="/", seconds=60):
    """(status, milliseconds) of one request to each host, all of them at once, each on its own connection."""

    async def every():
        return await asyncio.gather(*(_get_soon(port, host, path, seconds) for host in hosts))

    return asyncio.run(every())


# --- processes -------------------------------------------------------------------------------------


def status_kib(pid, name):
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(re.search(rf"^{name}:\s+(\d+) kB", text, re.M).group(1))


def pss_kib(pids):
    """Sum over processes. The kernel shows it to who may trace them: a container with that right asks."""
    files = [f"/proc/{pid}/smaps_rollup" for pid in pids]
    rights = ("--pid", "host", "--cap-add", "SYS_PTRACE", "--security-opt", "apparmor=unconfined")
    text = docker("run", "--rm", "--network", "none", *rights, "--entrypoint", "cat", own_image(), *files)
    found = re.findall(r"^Pss:\s+(\d+) kB", text, re.M)
    assert len(found) == len(files), text
    return sum(int(kib) for kib in found)


def cpu_ns(pid):
    """Time on a CPU of all threads that live, in ns."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text(encoding="utf-8").split()[0])
    return total


def switches(pid):
    """How often its threads that live gave up their CPU so far."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        lines = (task / "status").read_text(encoding="utf-8").splitlines()
        total += sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))
    return total


# --- the engine's own way --------------------------------------------------------------------------


class EngineConnection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(ENGINE_SOCKET)


def engine(method, path, body=None):
    connection = EngineConnection("engine")
    try:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status >= 400:
            raise AssertionError(f"{method} {path}: {answer.status} {text.decode()}")
        return json.loads(text) if text.strip() else None
    finally:
        connection.close()


class Starts:
    """Counts the starts that the engine sees while it is open: of past events it keeps 256 of all kinds. A
    context manager."""

    LABEL = "sandboxd.sandbox"

    def __init__(self, data_dir):
        command = ["docker", "events", "--filter", "event=start", "--filter", f"label=sandboxd.instance={data_dir}"]
        command += ["--format", '{{index .Actor.Attributes "%s"}}' % self.LABEL]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        time.sleep(EVENTS_OPEN_SECONDS)

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def count(self, sandboxes):
        """One count for each, at the end: nothing is counted any more after this."""
        time.sleep(EVENTS_OPEN_SECONDS)
        self.process.terminate()
        seen = self.process.communicate(timeout=60)[0].split()
        return [seen.count(sandbox) for sandbox in sandboxes]


class PlainContainer:
    """The same server in a container of the same image and the same walls, started by the engine alone:
    what a start costs without us."""

    def __init__(self, sandbox_id, directory, port=3000):
        self.name = f"bench-{os.urandom(4).hex()}"
        self.port = port
        self.address = None
        self.spec = self._spec_like(engine("GET", f"/containers/s-{sandbox_id}/json"), directory)

    @staticmethod
    def _spec_like(model, directory):
        host = {k: model["HostConfig"][k] for k in (
            "NetworkMode", "Memory", "MemorySwap", "PidsLimit", "CapDrop", "SecurityOpt", "ReadonlyRootfs",
            "Tmpfs", "CpuShares", "Runtime", "LogConfig", "Ulimits",
        )}  # fmt: skip
        host["Mounts"] = [{"Type": "bind", "Source": str(directory), "Target": "/home/sandbox"}]
        return {
            "Image": model["Image"],
            "User": model["Config"]["User"],
            "WorkingDir": "/home/sandbox/workspace/app",
            "Entrypoint": ["node", "server.js"],
            "Cmd": [],
            "Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "PORT=3000"],
            "HostConfig": host,
        }

    def create(self):
        engine("POST", f"/containers/create?name={self.name}", self.spec)

    def start_and_listen(self):
        """Until the port takes a connection."""
        self._start()
        self._repeat(lambda: socket.create_connection((self.address, self.port), timeout=1).close())

    def start_and_answer(self):
        """Until the app answered a request, sent straight to it."""
        self._start()
        self._repeat(self._get)

    def _start(self):
        engine("POST", f"/containers/{self.name}/start")
        if self.address is None:
            networks = engine("GET", f"/containers/{self.name}/json")["NetworkSettings"]["Networks"]
            self.address = next(iter(networks.values()))["IPAddress"]

    def _get(self):
        status, body = get(self.port, "localhost", address=self.address)
        assert status == 200, f"{status} {body[:300]}"

    @staticmethod
    def _repeat(attempt):
        end = time.monotonic() + LISTEN_SECONDS_MAX
        while True:
            try:
                attempt()
                return
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.001)

    def stop(self):
        # The engine gives a container that starts again another address when somebody took the old one.
        engine("POST", f"/containers/{self.name}/stop?t=5")
        self.address = None

    def remove(self):
        try:
            engine("DELETE", f"/containers/{self.name}?force=true")
        except AssertionError:
            pass  # never made
        self.address = None
