"""What a part of the bench needs around it: rows, apps, an edge with a way past us, a copy of an app."""

import os
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from tests.bench import measure
from tests.integration import rows
from tests.integration.conftest import Apps
from tests.integration.edge import Edge
from tests.integration.harness import ROOT

# More calls at once would wait for each other: starts are two at a time anyway.
MAKERS = 4
FIRST_ANSWER_SECONDS_MAX = 60


def known_apps(stack, count):
    """Rows of apps, each with a sandbox that sleeps and whose container was thrown away. Replaces all."""
    stack["control"].stop()
    rows.delete_apps(stack)
    rows.insert_apps(stack, count)
    stack["control"].start()
    stack.wait_ready()


def count_apps(stack):
    answer = stack.api.get("/v1/apps?limit=200")
    assert answer.status_code == 200, answer.text
    return len(answer.json()["apps"])


def edge_with_direct(stack, folder, address):
    """The project's edge with one more router of the owner's, straight to the container. The folder must
    lie where the engine sees it too."""
    source = folder / "traefik"
    shutil.copytree(ROOT / "traefik", source)
    (source / "dynamic" / "bench.yml").write_text(
        "http:\n"
        "  routers:\n"
        '    bench: {rule: "Host(`bench.localhost`)", entryPoints: [web], middlewares: [retry@file], service: bench}\n'
        "  services:\n"
        f'    bench: {{loadBalancer: {{servers: [{{url: "http://{address}:3000"}}]}}}}\n',
        encoding="utf-8",
    )
    folder.chmod(0o755)
    return Edge(stack, source=source)


def address_of(sandbox):
    networks = measure.engine("GET", f"/containers/s-{sandbox}/json")["NetworkSettings"]["Networks"]
    return next(iter(networks.values()))["IPAddress"]


def own_copy(stack, sandbox):
    """The sandbox's files once more, for a container that the engine starts by itself."""
    target = stack.data / f"bench-{os.urandom(3).hex()}"
    subprocess.run(["cp", "-a", str(stack.workspace(sandbox)), str(target)], check=True)
    return target


def create_to_preview(stack, preset, edge):
    """Milliseconds from POST /v1/apps to the first good answer of the app, and the ids."""
    start = time.monotonic()
    app = stack.api.make_app(preset, "bench creation")
    sandbox = stack.api.make_sandbox(app["id"])["id"]
    end = start + FIRST_ANSWER_SECONDS_MAX
    while True:
        status, body = measure.get(edge.port, stack.preview.host(sandbox))
        if status == 200:
            return (time.monotonic() - start) * 1000, app["id"], sandbox
        assert time.monotonic() < end, f"{preset}: {status} {body[:300]}"


def stop(stack, sandbox):
    answer = stack.api.post(f"/v1/sandboxes/{sandbox}/stop")
    assert answer.status_code == 200, answer.text


class Server(Apps):
    """An app that answers with the tests' own server (it knows WebSocket). A context manager."""

    def __enter__(self):
        self.id = self.server()["id"]
        return self

    def __exit__(self, *_error):
        self.delete_all()


class Sleepers:
    """Apps of node-http that answered once and sleep. A context manager."""

    def __init__(self, stack, count):
        self.stack = stack
        self.count = count
        self.apps = []
        self.ids = []

    def _make(self, number):
        app = self.stack.api.make_app("node-http", f"sleeper {number}")
        self.apps.append(app["id"])
        sandbox = self.stack.api.make_sandbox(app["id"])["id"]
        self.stack.preview.wait_answer(sandbox)
        stop(self.stack, sandbox)
        self.ids.append(sandbox)

    def __enter__(self):
        try:
            with ThreadPoolExecutor(MAKERS) as pool:
                list(pool.map(self._make, range(self.count)))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error):
        with ThreadPoolExecutor(MAKERS) as pool:
            list(pool.map(lambda app: self.stack.api.delete(f"/v1/apps/{app}"), self.apps))

    def hosts(self):
        return [self.stack.preview.host(sandbox) for sandbox in self.ids]
