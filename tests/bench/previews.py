"""The preview proxy: what its hop costs, the look-up of a route, the memory of idle connections."""

import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.bench import measure, stacks
from tests.bench.figures import at_least, at_most, exactly, note
from tests.bench.measure import median
from tests.integration import harness

ROUNDS = 3
# Connections, the rest between two requests of one, and what the hop may add to Traefik's own way in
# ms, p50 and p99. With so long a rest 256 connections ask for no more than two cores can serve.
HOPS = ((1, 5, 0.3, 1.0), (16, 10, 0.5, 3.0), (256, 150, None, None))
HOP_SECONDS = 2
BUSY_SECONDS = 3
SHARE_MIN = 0.7

ROWS_FEW, ROWS_MANY = 10, 5000
LOOKUP_US_MAX = 5

IDLE_CONNECTIONS = 5000
IDLE_WEBSOCKETS = 1000  # what one sandbox's door takes
IDLE_MIB_MAX = 40
IDLE_SETTLE_SECONDS = 5


# --- the hop ----------------------------------------------------------------------------------------


def ways_of(stack, edge, sandbox, address):
    """name → (url, headers): four ways to one app."""
    ours, straight = {"Host": stack.preview.host(sandbox)}, {"Host": "bench.localhost"}
    front = f"http://127.0.0.1:{edge.port}/"
    return {
        "direct": (f"http://{address}:3000/", {}),
        "proxy": (f"http://127.0.0.1:{stack.preview_port}/", ours),
        "traefik": (front, straight),
        "both": (front, ours),
    }


def rested(ways, connections, pause_ms):
    """name → (p50, p99): medians of rounds that take turns."""
    found = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, (url, headers) in ways.items():
            how = {"headers": headers, "connections": connections, "pause_ms": pause_ms, "seconds": HOP_SECONDS}
            found[name].append(measure.wrk(url, **how))
    return {name: (median([r.p50 for r in runs]), median([r.p99 for r in runs])) for name, runs in found.items()}


def print_hop(connections, pause_ms, seen, p50_max, p99_max):
    for at, (quantile, limit) in enumerate((("p50", p50_max), ("p99", p99_max))):
        name = f"hop, {connections} connections: {quantile} added to Traefik alone"
        added = seen["both"][at] - seen["traefik"][at]
        if limit is None:
            note(f"{name} {added:.2f} ms (no target)")
        else:
            at_most(name, added, limit, " ms", digits=2)
    told = ", ".join(f"{name} {p50:.2f}/{p99:.2f}" for name, (p50, p99) in seen.items())
    note(f"p50/p99 in ms: {told}; each rests {pause_ms} ms between requests")
    note(f"the proxy alone adds {seen['proxy'][0] - seen['direct'][0]:.2f}/{seen['proxy'][1] - seen['direct'][1]:.2f} ms to direct")


def print_busy(ways):
    """Connections that never rest measure the queue, not the path: throughput says it."""
    runs = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, (url, headers) in ways.items():
            runs[name].append(measure.wrk(url, headers=headers, seconds=BUSY_SECONDS))
    rates = {name: median([r.rate for r in found]) for name, found in runs.items()}
    at_least("preview: throughput at 16 busy connections, share of Traefik alone", rates["both"] / rates["traefik"], SHARE_MIN)
    note("requests/s: " + ", ".join(f"{name} {rate:.0f}" for name, rate in rates.items()))


def hop(stack):
    app = stack.api.make_app("node-http", "bench preview")
    sandbox = stack.api.make_sandbox(app["id"])["id"]
    stack.preview.wait_answer(sandbox)
    address = stacks.address_of(sandbox)
    with ExitStack() as left:
        folder = Path(left.enter_context(tempfile.TemporaryDirectory(dir=harness.TEST_DIR)))
        edge = left.enter_context(stacks.edge_with_direct(stack, folder, address))
        ways = ways_of(stack, edge, sandbox, address)
        for url, headers in ways.values():
            measure.wrk(url, headers=headers, seconds=2)
        for connections, pause_ms, p50_max, p99_max in HOPS:
            print_hop(connections, pause_ms, rested(ways, connections, pause_ms), p50_max, p99_max)
        print_busy(ways)
    stack.api.delete(f"/v1/apps/{app['id']}")


# --- the look-up ------------------------------------------------------------------------------------


def lookup(_stack):
    program = harness.ROOT / "build" / "release" / "bench" / "routes"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "state" / "preview").mkdir(parents=True)
        command = [str(program), folder, str(ROWS_FEW), str(ROWS_MANY)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    few_ns, many_ns = (int(text) for text in done.stdout.split())
    at_most(f"route: look-up of a Host at {ROWS_MANY} sandboxes", many_ns / 1000, LOOKUP_US_MAX, " µs", digits=2)
    note(f"{few_ns} ns at {ROWS_FEW}")


# --- idle connections -------------------------------------------------------------------------------


def keep_alive(stack, host, count):
    """Connections as the edge keeps them: each has had an answer and waits for its next request."""
    made = []
    for _ in range(count):
        sock = socket.create_connection(("127.0.0.1", stack.preview_port), timeout=30)
        sock.sendall(f"GET /hello HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        head = sock.recv(65536)
        assert head.startswith(b"HTTP/1.1 200"), head[:200]
        made.append(sock)
    return made


def web_sockets(stack, host, count):
    """Open and quiet ones."""
    made = []
    key = "dGhlIHNhbXBsZSBub25jZQ=="
    ask = (
        f"GET /ws HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n"
    )
    for _ in range(count):
        sock = socket.create_connection(("127.0.0.1", stack.preview_port), timeout=30)
        sock.sendall(ask.encode())
        head = sock.recv(65536)
        assert head.startswith(b"HTTP/1.1 101"), head[:200]
        made.append(sock)
    return made


def is_held(sock):
    """Whether the other side kept it: an end or a reset would be there to read."""
    sock.setblocking(False)  # with a timeout Python itself waits for something to read
    try:
        return sock.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def idle_memory(stack, name, make):
    stack.restart("preview")
    pid = stack["preview"].pid
    before_kib = measure.status_kib(pid, "RssAnon")
    made = make()
    time.sleep(IDLE_SETTLE_SECONDS)
    after_kib = measure.status_kib(pid, "RssAnon")
    held = sum(is_held(sock) for sock in made)
    for sock in made:
        sock.close()
    at_most(f"proxy: RssAnon with {name}", after_kib / 1024, IDLE_MIB_MAX, " MiB", counts=True)
    each = (after_kib - before_kib) * 1024 / IDLE_CONNECTIONS
    note(f"{before_kib / 1024:.1f} MiB before, {each:.0f} bytes for each")
    exactly("proxy: connections of those that it still held when that was read", held, IDLE_CONNECTIONS)


def connections(stack):
    with stacks.Server(stack) as server:
        host = stack.preview.host(server.id)
        idle_memory(
            stack, f"{IDLE_CONNECTIONS} idle connections of the edge", lambda: keep_alive(stack, host, IDLE_CONNECTIONS)
        )
        stack.preview.wait_answer(server.id, "/hello")
        others = IDLE_CONNECTIONS - IDLE_WEBSOCKETS
        idle_memory(
            stack,
            f"{others} of them and {IDLE_WEBSOCKETS} open WebSockets",
            lambda: web_sockets(stack, host, IDLE_WEBSOCKETS) + keep_alive(stack, host, others),
        )
