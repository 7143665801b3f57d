"""Other places on the network, all made on this machine: a neighbour with private addresses.

A neighbour is a network namespace of its own (a container without network) joined to the host by a
pair of interfaces. The host routes its addresses there, so that a packet of a sandbox would arrive
if no wall stood in between. It serves HTTP on every address it has.
"""

import os
import subprocess
import time

from tests.integration.docker import docker, own_image, owned

LISTENER = """
import http.server, socket
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"neighbour")
    def log_message(self, *args):
        pass
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
Server(("::", %d), Handler).serve_forever()
"""
NEIGHBOUR_PORT = 8099
START_SECONDS_MAX = 20


def run(*command):
    subprocess.run(command, check=True, capture_output=True, timeout=30)


class Neighbour:
    """Holds the given addresses (IPv4, one each of any private range). A context manager."""

    def __init__(self, addresses):
        self.addresses = addresses
        token = os.urandom(2).hex()
        self.name = f"sbt-neighbour-{token}"
        self.outer, self.inner = f"sbto{token}", f"sbti{token}"
        self.port = NEIGHBOUR_PORT

    def __enter__(self):
        docker(
            "run", "-d", *owned(), "--name", self.name, "--network", "none", "--cap-add", "NET_ADMIN",
            own_image(), "python3", "-c", LISTENER % self.port,
        )  # fmt: skip
        try:
            self._join()
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _join(self):
        pid = docker("inspect", "-f", "{{.State.Pid}}", self.name).strip()
        run("ip", "link", "add", self.outer, "type", "veth", "peer", "name", self.inner, "netns", pid)
        run("ip", "link", "set", self.outer, "up")
        docker("exec", self.name, "ip", "link", "set", self.inner, "up")
        for address in self.addresses:
            docker("exec", self.name, "ip", "address", "add", f"{address}/32", "dev", self.inner)
            run("ip", "route", "add", f"{address}/32", "dev", self.outer)
        docker("exec", self.name, "ip", "route", "add", "default", "dev", self.inner)

    def _wait(self):
        end = time.monotonic() + START_SECONDS_MAX
        for address in self.addresses:
            while not self.answers(address):
                assert time.monotonic() < end, f"the neighbour does not answer at {address}"
                time.sleep(0.1)

    def answers(self, address):
        """Does the host itself reach it: the other half of every test that a sandbox does not."""
        command = ["curl", "-s", "-m", "2", "--noproxy", "*", f"http://{address}:{self.port}/"]
        return subprocess.run(command, capture_output=True, timeout=10, check=False).stdout == b"neighbour"

    def fetch(self, url, timeout_s=3):
        """A request from the neighbour's place on the network: (curl's exit code, status)."""
        done = docker(
            "exec", self.name, "curl", "-s", "-o", "/dev/null", "-m", str(timeout_s), "--noproxy", "*",
            "-w", "%{http_code}", url, check=False,
        )  # fmt: skip
        return done.returncode, int(done.stdout or 0)

    def fetch_body(self, url, *headers, timeout_s=3):
        named = [o for h in headers for o in ("-H", h)]
        done = docker("exec", self.name, "curl", "-s", "-i", "-m", str(timeout_s), "--noproxy", "*", *named, url, check=False)
        return done.stdout

    def __exit__(self, *_error):
        docker("rm", "-f", self.name, check=False)
        subprocess.run(["ip", "link", "delete", self.outer], capture_output=True, timeout=30, check=False)
