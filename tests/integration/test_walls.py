"""Walls on the network: what a sandbox can reach, tried from inside one (issue 3, item 13).

Every "does not reach" is a pair: the same address answers the host, or another stack that lets it
through, so that silence is the wall's and not an empty wire's.
"""

import json
import re
import socket
import subprocess
import threading
import time

import pytest

from tests.integration import docker
from tests.integration.harness import Stack, tables_of
from tests.integration.network import Neighbour
from tests.integration.programs import wait_until

PRIVATE = {
    "10/8": "10.213.97.2",
    "172.16/12": "172.29.213.9",
    "192.168/16": "192.168.213.9",
    "100.64/10": "100.77.213.9",
    "169.254/16, where clouds keep metadata": "169.254.213.9",
}

# Connects to each [address, port] of its argument and prints which one connected.
PROBE = """
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor
def reach(target):
    try:
        socket.create_connection(tuple(target), timeout=2).close()
        return True
    except OSError:
        return False
targets = json.loads(sys.argv[1])
with ThreadPoolExecutor(32) as pool:
    reached = list(pool.map(reach, targets))
print(json.dumps([t for t, r in zip(targets, reached) if r]))
"""


def reached(sandbox, targets):
    """Those of the targets that a process of the sandbox can connect to."""
    return json.loads(docker.python_inside(sandbox["id"], PROBE, json.dumps([list(t) for t in targets])))


def host_addresses():
    """Every address of this machine, loopback apart: a sandbox has a loopback of its own."""
    text = subprocess.run(["ip", "-j", "address"], capture_output=True, check=True, timeout=30).stdout
    return [
        a["local"]
        for link in json.loads(text)
        for a in link["addr_info"]
        if not a["local"].startswith(("127.", "fe80:")) and a["local"] != "::1"
    ]


class Listener:
    """Listens on every address of the host."""

    def __enter__(self):
        self.socket = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        self.port = self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()
        return self

    def _serve(self):
        while True:
            try:
                self.socket.accept()[0].close()
            except OSError:
                return

    def __exit__(self, *_error):
        self.socket.close()


@pytest.fixture(scope="module")
def neighbour():
    with Neighbour(list(PRIVATE.values())) as there:
        yield there


def test_a_sandbox_reaches_no_listener_of_the_host_on_any_of_its_addresses(apps, stack):
    sandbox = apps.sandbox()
    addresses = host_addresses()
    assert len(addresses) >= 2, addresses
    with Listener() as listener:
        for address in addresses:
            socket.create_connection((address, listener.port), timeout=5).close()
        ports = (listener.port, stack.api_port, stack.console_port, stack.preview_port, 22, 53, 80, 2375)
        assert reached(sandbox, [(a, p) for a in addresses for p in ports]) == []


def test_its_own_gateway_is_the_host_and_closed(apps):
    sandbox = apps.sandbox()
    route = docker.run_inside(sandbox["id"], "cat", "/proc/net/route")
    gateway = next(line.split()[2] for line in route.splitlines()[1:] if line.split()[1] == "00000000")
    address = socket.inet_ntoa(bytes.fromhex(gateway)[::-1])
    with Listener() as listener:
        socket.create_connection((address, listener.port), timeout=5).close()
        assert reached(sandbox, [(address, listener.port)]) == []


def test_our_listeners_are_on_loopback_only(stack):
    """From the host's own other addresses too: 9080, 9090 and 9091 answer nothing from outside."""
    for address in host_addresses():
        for port in (stack.api_port, stack.console_port, stack.preview_port):
            with pytest.raises(OSError):
                socket.create_connection((address, port), timeout=2).close()


def test_a_sandbox_reaches_no_other_sandbox(apps):
    one, two = apps.sandbox(), apps.sandbox()
    networks = docker.inspect(two["id"])["NetworkSettings"]["Networks"]
    address = next(n["IPAddress"] for n in networks.values())
    serve = "import socket,time; s=socket.create_server(('0.0.0.0', 8123)); print('up', flush=True); time.sleep(60)"
    server = subprocess.Popen(
        ["docker", "exec", f"s-{two['id']}", "python3", "-c", serve], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout.readline().strip() == "up"
        assert reached(two, [(address, 8123)]) == [[address, 8123]], "it listens"
        assert reached(one, [(address, 8123), (f"s-{two['id']}", 8123)]) == []
    finally:
        server.kill()
        server.wait()


def test_a_sandbox_reaches_no_container_of_another_bridge(apps):
    sandbox = apps.sandbox()
    name = f"sbt-other-{sandbox['id'][-6:]}"
    docker.docker("run", "-d", *docker.owned(), "--name", name, docker.own_image(), "python3", "-m", "http.server", "8124")
    try:
        address = docker.docker("inspect", "-f", "{{.NetworkSettings.IPAddress}}", name).strip()
        wait_until(lambda: connects(address, 8124), 15, "the other container listens")
        assert reached(sandbox, [(address, 8124)]) == []
    finally:
        docker.docker("rm", "-f", name)


def connects(address, port):
    try:
        socket.create_connection((address, port), timeout=2).close()
        return True
    except OSError:
        return False


@pytest.mark.parametrize("what", PRIVATE)
def test_a_sandbox_reaches_no_private_address(apps, neighbour, what):
    sandbox = apps.sandbox()
    assert neighbour.answers(PRIVATE[what]), "the host itself reaches it"
    assert reached(sandbox, [(PRIVATE[what], neighbour.port)]) == []


@pytest.mark.parametrize("setting", ["address", "address:port", "network"])
def test_what_the_owner_lets_through_is_let_through_and_nothing_else(model, apps_of, neighbour, setting):
    """The other half of the pairs above: with the owner's word the same packet arrives."""
    open_one, closed = PRIVATE["10/8"], PRIVATE["192.168/16"]
    value = {
        "address": open_one,
        "address:port": f"{open_one}:{neighbour.port}",
        "network": f"{open_one.rsplit('.', 1)[0]}.0/24",
    }[setting]
    with Stack(model=model, settings={"SANDBOXD_EGRESS_ALLOW": value}) as own_stack:
        apps = apps_of(own_stack)
        sandbox = apps.sandbox()
        targets = [(open_one, neighbour.port), (closed, neighbour.port)]
        assert reached(sandbox, targets) == [[open_one, neighbour.port]]
        apps.delete_all()


def test_without_walls_by_the_owners_word_a_private_address_answers(model, apps_of, neighbour):
    with Stack(model=model, settings={"SANDBOXD_WALLS": "off"}) as own_stack:
        apps = apps_of(own_stack)
        sandbox = apps.sandbox()
        address = PRIVATE["10/8"]
        assert reached(sandbox, [(address, neighbour.port)]) == [[address, neighbour.port]]
        assert tables_of(own_stack.bridge) == []
        apps.delete_all()


def test_names_resolve_inside(apps):
    """Through the engine's resolvers: the name of a registry, taken from the client's own settings."""
    sandbox = apps.sandbox()
    host = docker.run_inside(sandbox["id"], "sh", "-c", "npm config get registry | sed -E 's#https?://([^/:]+).*#\\1#'").strip()
    script = "import socket, sys; print(socket.getaddrinfo(sys.argv[1], 443)[0][4][0])"
    assert re.match(r"[0-9a-f.:]+$", docker.python_inside(sandbox["id"], script, host).strip())


def test_the_registry_answers_its_client_inside(apps):
    sandbox = apps.sandbox()
    script = "cd $(mktemp -d -p ~) && npm view is-number version"
    done = docker.run_inside(sandbox["id"], "sh", "-c", script, check=False)
    assert re.match(r"\d+\.\d+", done.stdout.strip()), done.stdout + done.stderr


def rules_of(bridge):
    family, name = tables_of(bridge)[0]
    return subprocess.run(["nft", "list", "table", family, name], capture_output=True, text=True, check=True, timeout=30).stdout


def test_the_table_names_every_closed_range(stack):
    text = rules_of(stack.bridge)
    for network in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16", "127.0.0.0/8"):
        first = network.split("/", maxsplit=1)[0]
        assert network in text or first in text, f"{network} is not in\n{text}"
    assert re.search(r"fe80::|fc00::", text), "their IPv6 kin"
    # 224/4 and 240/4 may stand as one range.
    assert "224.0.0.0" in text, text


@pytest.mark.parametrize("damage", ["delete table", "flush table"])
def test_a_table_that_somebody_removes_is_back_within_a_second(stack, damage):
    before = rules_of(stack.bridge)
    family, name = tables_of(stack.bridge)[0]
    subprocess.run(["nft", *damage.split(), family, name], check=True, timeout=30)

    def is_back():
        return tables_of(stack.bridge) and without_handles(rules_of(stack.bridge)) == without_handles(before)

    start = time.monotonic()
    wait_until(is_back, 5, "the rules are back", pause=0.02)
    assert time.monotonic() - start < 1.0


def without_handles(text):
    """Counters move; rules do not."""
    return re.sub(r"packets \d+ bytes \d+", "", text)


def test_a_flush_of_everything_leaves_a_sandbox_behind_walls_again(apps, stack, neighbour):
    sandbox = apps.sandbox()
    family, name = tables_of(stack.bridge)[0]
    subprocess.run(["nft", "flush", "table", family, name], check=True, timeout=30)
    time.sleep(1.0)
    assert reached(sandbox, [(a, neighbour.port) for a in PRIVATE.values()]) == []


def test_nothing_of_ours_listens_anywhere_but_on_loopback(stack):
    text = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True, timeout=30).stdout
    pids = {program.pid for program in stack.programs.values()}
    for line in text.splitlines():
        if any(f"pid={pid}," in line for pid in pids):
            assert line.split()[3].startswith(("127.0.0.1:", "[::1]:")), line
