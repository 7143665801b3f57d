"""The credentials proxy: what its hop costs a request and an event of a stream, and its memory."""

import tempfile
from pathlib import Path

from tests.bench import streams
from tests.bench.figures import at_least, at_most, note
from tests.bench.measure import median

PROGRAM = Path(__file__).resolve().parents[2] / "build/release/bin/sandboxd-credentials-proxy"


def credentials(_stack):
    with tempfile.TemporaryDirectory() as folder, streams.Path(Path(folder), PROGRAM) as path:
        ours, direct = path.latencies()
        at_most("credentials: p50 added to a request, admission included", median(ours) - median(direct), 1, " ms", digits=2)
        note(f"p50 {median(ours):.2f} ms through us, {median(direct):.2f} ms straight to the provider")
        straight, through = path.streams(straight=True), path.streams(straight=False)
    count = streams.STREAMS
    at_most(f"credentials: {count} streams, p99 added to an event's way", through.p99_ms - straight.p99_ms, 5, " ms", digits=2)
    note(f"p99 {through.p99_ms:.2f} ms through us, {straight.p99_ms:.2f} ms straight; p50 {through.p50_ms:.2f} and {straight.p50_ms:.2f} ms")
    at_least(f"credentials: {count} streams, events per second as a share of straight", through.rate / straight.rate, 0.95, counts=False)
    note(
        f"{through.rate:.0f} events/s through us, {straight.rate:.0f} straight; all of {through.events} came, in order; "
        f"{through.cpu_us:.0f} us of the proxy's CPU each"
    )
    at_most(f"credentials: private memory with {count} streams", through.memory_kib / 1024, 64, " MiB", counts=True)
