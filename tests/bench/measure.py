"""What the bench measures with: wrk, clocks, the kernel's figures of a process, the engine's own API.

Nothing here knows a target.
"""

import http.client
import json
import os
import re
import socket
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from tests.integration.docker import docker, own_image

ENGINE_SOCKET = "/var/run/docker.sock"
LISTEN_SECONDS_MAX = 60
WRK_THREADS = 1
UNITS = {"us": 0.001, "ms": 1.0, "s": 1000.0}


def median(values):
    return statistics.median(values)


# --- load ------------------------------------------------------------------------------------------


def wrk(url, *, headers=None, connections=16, seconds=6, pause_ms=0):
    """(median latency in ms, requests per second). pause_ms: each connection rests between requests,
    so that latency is the path's and not a queue's."""
    command = ["wrk", f"-t{WRK_THREADS}", f"-c{connections}", f"-d{seconds}s", "--latency", "--timeout", "10s"]
    for name, value in (headers or {}).items():
        command += ["-H", f"{name}: {value}"]
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        if pause_ms:
            script.write(f"function delay() return {pause_ms} end\n")
            script.flush()
            command += ["-s", script.name]
        done = subprocess.run([*command, url], capture_output=True, text=True, timeout=seconds + 60, check=True)
    failed = re.search(r"Non-2xx or 3xx responses: (\d+)|Socket errors: (.*)", done.stdout)
    if failed:
        raise AssertionError(f"{url}: {failed.group(0)}")
    found = re.search(r"50%\s+([\d.]+)(us|ms|s)", done.stdout)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
    return float(found.group(1)) * UNITS[found.group(2)], float(rate.group(1))


# --- one request -----------------------------------------------------------------------------------


def get(port, host, path="/", seconds=60):
    """(status, body) of one request on a connection of its own; no client library in between."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        connection.request("GET", path, headers={"Host": host, "Connection": "close"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


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
        engine("POST", f"/containers/{self.name}/start")
        if self.address is None:
            networks = engine("GET", f"/containers/{self.name}/json")["NetworkSettings"]["Networks"]
            self.address = next(iter(networks.values()))["IPAddress"]
        end = time.monotonic() + LISTEN_SECONDS_MAX
        while True:
            try:
                socket.create_connection((self.address, self.port), timeout=1).close()
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
