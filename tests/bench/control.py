"""The control plane: creation, its own start, the API, memory and idling."""

import subprocess
import time

from tests.bench import measure, stacks
from tests.bench.figures import at_least, at_most, figure, note
from tests.bench.measure import PlainContainer, median
from tests.integration import harness
from tests.integration.edge import Edge

CREATIONS = 7
STARTS = 9
BOOT_APPS = 1000
BOOT_MS_MAX = 200
ROUNDS = 3
IDLE_SECONDS = 30
SETTLE_SECONDS = 12
BARE_WAKES = 20


# --- creation ---------------------------------------------------------------------------------------


def engine_creation(plain):
    start = time.monotonic()
    plain.create()
    plain.start_and_listen()
    took = (time.monotonic() - start) * 1000
    plain.remove()
    return took


def creation(stack):
    with Edge(stack) as edge:
        took, app, sandbox = stacks.create_to_preview(stack, "node-http", edge)
        plain = PlainContainer(sandbox, stacks.own_copy(stack, sandbox))
        stack.api.delete(f"/v1/apps/{app}")
        ours, engines, vite = [], [], []
        try:
            for _ in range(CREATIONS):
                engines.append(engine_creation(plain))
                took, app, _ = stacks.create_to_preview(stack, "node-http", edge)
                ours.append(took)
                stack.api.delete(f"/v1/apps/{app}")
        finally:
            plain.remove()
        for _ in range(ROUNDS):
            took, app, _ = stacks.create_to_preview(stack, "react-vite", edge)
            vite.append(took)
            stack.api.delete(f"/v1/apps/{app}")
    at_most("react-vite: POST app and sandbox to the first good preview, p50", median(vite) / 1000, 6, " s")
    at_most("node-http: the same, added to the engine's create, start and listen", median(ours) - median(engines), 100, " ms")
    note(f"p50 {median(ours):.0f} ms with us, {median(engines):.0f} ms by the engine alone, {CREATIONS} times")


# --- start ------------------------------------------------------------------------------------------


def start_ms(stack):
    """From the start of the control plane to its first good /readyz, some times."""
    took = []
    for _ in range(STARTS):
        stack["control"].stop()
        start = time.monotonic()
        stack["control"].start()
        while True:
            try:
                if measure.get(stack.api_port, "127.0.0.1", "/readyz")[0] == 200:
                    break
            except OSError:
                pass
            assert time.monotonic() - start < 60, stack.tails()
            time.sleep(0.002)
        took.append((time.monotonic() - start) * 1000)
    return took


def starts(stack):
    """The ratio is of the best ones, which tell least of what else the machine does."""
    stacks.known_apps(stack, 0)
    none = start_ms(stack)
    stacks.known_apps(stack, BOOT_APPS)
    many = start_ms(stack)
    at_most(f"boot: start to /readyz with {BOOT_APPS} apps known, p50 of {STARTS}", median(many), BOOT_MS_MAX, " ms", digits=0)
    note(f"p50 {median(none):.0f} ms with none; best {min(many):.0f} and {min(none):.0f} ms")
    ratio = min(many) / min(none)
    figure(f"boot: the best with {BOOT_APPS} apps as a multiple of the best with none", f"{ratio:.2f}", "≤ 3", ratio <= 3, "", True)


# --- API --------------------------------------------------------------------------------------------


def api(stack):
    stacks.known_apps(stack, 50)
    assert stacks.count_apps(stack) == 50
    base = f"http://127.0.0.1:{stack.api_port}"
    token = {"Authorization": f"Bearer {stack.token}"}
    lists, health = [], []
    for _ in range(ROUNDS):
        health.append(measure.wrk(f"{base}/healthz", seconds=4).rate)
        lists.append(measure.wrk(f"{base}/v1/apps", headers=token, seconds=4).rate)
    at_least("GET /v1/apps with 50 apps, 16 connections, as a share of /healthz", median(lists) / median(health), 1 / 3)
    note(f"{median(lists):.0f} lists/s, {median(health):.0f} /healthz per second")


# --- memory and idle --------------------------------------------------------------------------------


def with_200(stack):
    """200 apps known, looked at once, and some seconds to settle."""
    stacks.known_apps(stack, 200)
    stack.restart("engine")
    stack.restart("preview")
    stack.restart("credentials")
    assert stacks.count_apps(stack) == 200
    time.sleep(SETTLE_SECONDS)


def memory(stack):
    with_200(stack)
    for role, limit in (("control", 6), ("engine", 3), ("preview", 3), ("credentials", 3)):
        pid = stack[role].pid
        private = measure.status_kib(pid, "RssAnon") / 1024
        resident = measure.status_kib(pid, "VmRSS") / 1024
        name = f"memory of {role}, 200 apps known and none running: RssAnon"
        at_most(name, private, limit, " MiB", counts=True, digits=2)
        note(f"resident {resident:.1f} MiB")
    pss = measure.pss_kib([stack[role].pid for role in harness.START_ORDER]) / 1024
    at_most("memory: Pss of the four together", pss, 20, " MiB", counts=True)


def bare_wake_us(stack):
    """CPU of a program that wakes up, asks for the disk's free space and sleeps on."""
    command = [harness.ROOT / "build/release/bench/wake", stack.data, str(BARE_WAKES)]
    return int(subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout)


def idle(stack):
    with_200(stack)
    pids = [stack[role].pid for role in harness.START_ORDER]
    before = {role: measure.cpu_ns(stack[role].pid) for role in harness.START_ORDER}
    woken = sum(measure.switches(pid) for pid in pids)
    start = time.monotonic()
    time.sleep(IDLE_SECONDS)
    seconds = time.monotonic() - start
    woken = sum(measure.switches(pid) for pid in pids) - woken
    share = {role: (measure.cpu_ns(stack[role].pid) - before[role]) / seconds / 1e7 for role in harness.START_ORDER}
    at_most(f"idle: CPU of the four together over {IDLE_SECONDS} s", sum(share.values()), 0.1, " %", digits=3)
    note(", ".join(f"{role} {value:.3f} %" for role, value in share.items()))
    note(f"woken {woken / seconds:.1f} times a second; a program that only asks for free space takes {bare_wake_us(stack)} us each time here")
