"""Waking: one sleeper, one sleeper with many visitors, many sleepers at once."""

import os
import time

from tests.bench import measure, stacks
from tests.bench.figures import at_most, exactly, figure, note
from tests.bench.measure import PlainContainer, Starts, Wrk, median, quantile
from tests.integration.edge import Edge

WAKES = 31
WAKE_P50_MAX, WAKE_P99_MAX = 30, 100

VISITORS = 200

SLEEPERS = 40
HOT_TIMES_MAX = 3
HOT_CONNECTIONS, HOT_PAUSE_MS, HOT_QUIET_SECONDS, HOT_SECONDS_MAX = 4, 20, 8, 120


# --- one --------------------------------------------------------------------------------------------


def one_engine(plain):
    start = time.monotonic()
    plain.start_and_answer()
    took = (time.monotonic() - start) * 1000
    plain.stop()
    return took


def one_wake(edge, host):
    start = time.monotonic()
    status, body = measure.get(edge.port, host)
    took = (time.monotonic() - start) * 1000
    assert status == 200, f"{status} {body[:300]}"
    return took


def wakes(stack):
    """Both take turns, so that what else the machine does falls on both."""
    app = stack.api.make_app("node-http", "bench wake")
    sandbox = stack.api.make_sandbox(app["id"])["id"]
    stack.preview.wait_answer(sandbox)
    plain = PlainContainer(sandbox, stacks.own_copy(stack, sandbox))
    ours, engines = [], []
    try:
        plain.create()
        with Edge(stack) as edge:
            for _ in range(WAKES):
                engines.append(one_engine(plain))
                stacks.stop(stack, sandbox)
                ours.append(one_wake(edge, stack.preview.host(sandbox)))
    finally:
        plain.remove()
    stack.api.delete(f"/v1/apps/{app['id']}")
    for share, limit in ((0.5, WAKE_P50_MAX), (0.99, WAKE_P99_MAX)):
        name = f"wake: p{share * 100:.0f} added to the engine's start and the app's first answer, {WAKES} times"
        at_most(name, quantile(ours, share) - quantile(engines, share), limit, " ms")
    note(f"p50 {median(ours):.0f} ms through the edge, {median(engines):.0f} ms by the engine alone; best {min(ours):.0f} and {min(engines):.0f}")


# --- many visitors of one ---------------------------------------------------------------------------


def visitors(stack):
    with stacks.Sleepers(stack, 1) as sleeper, Edge(stack) as edge:
        with Starts(stack.data) as seen:
            answers = measure.get_all(edge.port, sleeper.hosts() * VISITORS)
            starts = seen.count(sleeper.ids)
        exactly(f"{VISITORS} first hits on one sleeper: answered by the app", sum(s == 200 for s, _ in answers), VISITORS)
        exactly(f"{VISITORS} first hits on one sleeper: starts", sum(starts), 1)
        note(f"the last one after {max(ms for _, ms in answers):.0f} ms")


# --- many sleepers ----------------------------------------------------------------------------------


def hot_load(url, host, seconds):
    return Wrk(url, headers={"Host": host}, connections=HOT_CONNECTIONS, pause_ms=HOT_PAUSE_MS, seconds=seconds)


def herd(stack):
    app = stack.api.make_app("node-http", "bench hot")
    hot = stack.api.make_sandbox(app["id"])["id"]
    stack.preview.wait_answer(hot)
    with stacks.Sleepers(stack, SLEEPERS) as sleepers, Edge(stack) as edge:
        url, host = f"http://127.0.0.1:{edge.port}/", stack.preview.host(hot)
        with hot_load(url, host, HOT_QUIET_SECONDS) as load:
            quiet = load.result()
        with Starts(stack.data) as seen, hot_load(url, host, HOT_SECONDS_MAX) as load:
            answers = measure.get_all(edge.port, sleepers.hosts())
            busy = load.stop()
            starts = seen.count(sleepers.ids)
    stack.api.delete(f"/v1/apps/{app['id']}")
    took = [ms for _, ms in answers]
    exactly(f"{SLEEPERS} sleepers woken at once: answered by their app", sum(s == 200 for s, _ in answers), SLEEPERS)
    exactly(f"{SLEEPERS} sleepers woken at once: started once each", sum(n == 1 for n in starts), SLEEPERS)
    name = f"a hot preview meanwhile: its p95 as a multiple of the quiet one, {os.cpu_count()} cores"
    figure(name, f"{busy.p95 / quiet.p95:.2f}", f"≤ {HOT_TIMES_MAX}", busy.p95 <= HOT_TIMES_MAX * quiet.p95, "", True)
    note(f"p50/p95 {quiet.p50:.2f}/{quiet.p95:.2f} ms quiet, {busy.p50:.2f}/{busy.p95:.2f} ms over {busy.requests} requests meanwhile")
    if any(status != 200 for status, _ in answers):
        note(f"the others got {sorted({status for status, _ in answers} - {200})}; a request waits 30 s at most")
    note(f"the sleepers answered after {median(took):.0f} ms in the middle, the last after {max(took):.0f} ms")
