"""Requests and token streams through the credentials proxy and straight to the provider. What stands around the proxy is
tokens.c, one program that is cheaper than what it measures; here it is started and asked.

Nothing here knows a target.
"""

import dataclasses
import subprocess
import threading
from pathlib import Path

from tests.bench.measure import cpu_ns, status_kib
from tests.integration.proxy_fakes import Proxy, new_id, wait_for

ROOT = Path(__file__).resolve().parents[2]
STREAMS = 200
EVENTS = 200
PERIOD_US = 20_000  # 50 tokens a second and stream
REQUESTS = 400
LOOK_SECONDS = 0.2


@dataclasses.dataclass
class Measured:
    p50_ms: float
    p99_ms: float
    most_ms: float
    events: int
    rate: float  # events a second
    memory_kib: int  # the proxy's private memory, at most
    cpu_us: float  # of the proxy, per event
    measurer_us: float  # CPU of tokens, per event
    queued_ms: float  # that the proxy was ready to run and had no CPU


def queued_ns(pid):
    """How long a process of one thread has waited for a CPU so far."""
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[1])


class Ways:
    """Both ways to one provider."""

    def __init__(self, folder, program):
        self.sandbox = new_id()
        (folder / "run/out" / self.sandbox).mkdir(parents=True)
        (folder / "run/broker/credentials").mkdir(parents=True)
        argv = [ROOT / "build/release/bench/tokens", folder, self.sandbox, STREAMS, EVENTS, PERIOD_US]
        self.tokens = subprocess.Popen([str(word) for word in argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.tokens.stdout.readline() == "ready\n"
        self.proxy = Proxy(program, "credentials", folder, env={"SANDBOXD_LOG_LEVEL": "info"})
        self.door = folder / "run/out" / self.sandbox / "out.sock"

    def __enter__(self):
        self.proxy.start()
        wait_for(self.door.exists, what="the door")
        return self

    def __exit__(self, *_error):
        self.tokens.kill()
        self.tokens.communicate()
        self.proxy.stop()

    def ask(self, line):
        self.tokens.stdin.write(line + "\n")
        self.tokens.stdin.flush()
        answer = self.tokens.stdout.readline().split()
        assert answer, f"tokens ended at {line}\n{self.proxy.log()[-2000:]}"
        return [int(word) for word in answer]

    def latencies(self):
        """p50 of requests one after the other, in ms: straight, and through the proxy, in turn."""
        return [us / 1000 for us in self.ask(f"requests {REQUESTS}")]

    def streams(self, way):
        """All of them at once, to their ends."""
        pid = self.proxy.process.pid
        memory, done = [status_kib(pid, "RssAnon")], threading.Event()

        def look():
            while not done.wait(LOOK_SECONDS):
                memory.append(status_kib(pid, "RssAnon"))

        looker = threading.Thread(target=look)
        looker.start()
        cpu, queued = cpu_ns(pid), queued_ns(pid)
        try:
            p50, p99, most, events, took, own = self.ask(way)
        finally:
            done.set()
            looker.join()
        cpu, queued = (cpu_ns(pid) - cpu) / 1000 / events, (queued_ns(pid) - queued) / 1e6
        return Measured(p50 / 1000, p99 / 1000, most / 1000, events, events / took * 1e6, max(memory), cpu, own / events, queued)
