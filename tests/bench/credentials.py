"""The credentials proxy: what its hop costs a request and an event of a stream, and its memory."""

import tempfile
from pathlib import Path

from tests.bench import measure, streams
from tests.bench.figures import at_least, at_most, note

PROGRAM = streams.ROOT / "build/release/bin/sandboxd-credentials-proxy"
ROUNDS = 3


def median_of(runs, field):
    return measure.median([getattr(run, field) for run in runs])


def stolen_ms():
    """CPU time that a hypervisor gave to others while this machine wanted it."""
    return int(Path("/proc/stat").read_text(encoding="ascii").split()[8]) * 10


def credentials(_stack):
    with tempfile.TemporaryDirectory() as folder, streams.Ways(Path(folder), PROGRAM) as ways:
        direct, ours = ways.latencies()
        stolen = stolen_ms()
        runs = {"straight": [], "through": []}
        for _ in range(ROUNDS):
            for way, found in runs.items():
                found.append(ways.streams(way))
        stolen = stolen_ms() - stolen
    at_most("credentials: p50 added to a request of 50 kB, admission included", ours - direct, 1, " ms", digits=2)
    note(f"p50 {ours:.2f} ms through us, {direct:.2f} ms straight to the provider")
    p50, p99, most, rate, cpu, own, queued = (
        {way: median_of(found, field) for way, found in runs.items()}
        for field in ("p50_ms", "p99_ms", "most_ms", "rate", "cpu_us", "measurer_us", "queued_ms")
    )
    count = streams.STREAMS
    name = f"credentials: {count} streams, p99 added to an event's way, median of {ROUNDS}"
    at_most(name, p99["through"] - p99["straight"], 5, " ms", digits=2)
    note(f"p99 of the rounds: {', '.join(f'{run.p99_ms:.2f}' for run in runs['through'])} ms; {stolen} ms of CPU went to other machines")
    note(f"through us p50 {p50['through']:.2f}, p99 {p99['through']:.2f}, most {most['through']:.1f} ms")
    note(f"straight   p50 {p50['straight']:.2f}, p99 {p99['straight']:.2f}, most {most['straight']:.1f} ms: what the machine does by itself")
    at_least(f"credentials: {count} streams, events per second as a share of straight", rate["through"] / rate["straight"], 0.95, counts=False)
    note(f"{rate['through']:.0f} events/s through us, {rate['straight']:.0f} straight, medians of {ROUNDS}; all of them came")
    note(f"{cpu['through']:.0f} us of the proxy's CPU for an event, {own['through']:.0f} us of who measures")
    note(f"the proxy was ready to run and had no CPU for {queued['through']:.0f} ms of the {streams.EVENTS * streams.PERIOD_US / 1e6:.0f} s")
    memory = max(run.memory_kib for run in runs["through"])
    at_most(f"credentials: private memory with {count} streams", memory / 1024, 64, " MiB", counts=True)
