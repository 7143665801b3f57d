"""Run by tests/long/test_docker_itself.py inside a machine whose Docker engine nobody else uses."""

import os
import shutil
import signal
import subprocess
import time

import pytest

from tests.integration import docker
from tests.integration.client import assert_error
from tests.integration.conftest import Apps
from tests.integration.harness import TEST_DIR, Stack
from tests.integration.programs import wait_until

DOCKER_SECONDS_MAX = 60
BUILD_SECONDS_MAX = 1800
MIB = 1 << 20


@pytest.fixture(scope="module")
def own(model):
    with Stack(model=model) as running:
        yield running


@pytest.fixture(scope="module")
def box(own):
    apps = Apps(own)
    yield apps.server()
    apps.delete_all()


# --- a disk that is full to the last byte ---------------------------------------------------------

# Takes the last page, and whatever becomes free afterwards.
FILLER = """
import os
f = os.open('/home/sandbox/big', os.O_CREAT | os.O_RDWR)
at, step = 0, 64 << 20
while True:
    try:
        os.posix_fallocate(f, at, step)
        at += step
    except OSError:
        step = step // 2 if step > 4096 else 4096
"""


def test_full_stops_the_filler_and_everybody_else_goes_on(own, box):
    apps = Apps(own)
    filler = apps.server()
    wait_until(lambda: own.api.sandbox(filler["id"])["disk_bytes"], 30, "measured once")
    docker.docker("exec", "-d", docker.container_name(filler["id"]), "python3", "-c", FILLER)
    # What is written in the very middle of it: late perhaps, never lost.
    made = []
    while own.api.sandbox(filler["id"])["status"] == "running":
        answer = own.api.post("/v1/apps", {"name": "made meanwhile", "runtime_preset": "node-http"}, timeout=60)
        if answer.status_code == 503:  # full between the look and the write
            assert "disk of the data directory is full" in assert_error(answer, 503, "unavailable", True)["message"]
            assert answer.headers["Retry-After"]
            continue
        assert answer.status_code == 201, answer.text
        made.append(answer.json()["id"])
        assert own.preview.get(box["id"], "/hello").text == "hello"
        time.sleep(0.2)
    row = own.api.wait_sandbox(filler["id"], "stopped", seconds=40)
    assert row["error"]["code"] == "disk_full", row
    assert docker.state(filler["id"]) == "exited"
    free = shutil.disk_usage(TEST_DIR).free
    assert free < 40 * MIB, "it was full: what is free now is what the reserve gave back"
    assert not (own.data / "state" / "reserve").exists()
    kinds = [(e["kind"], e["sandbox_id"]) for e in own.events()]
    assert ("sandbox.disk_full", filler["id"]) in kinds and ("sandbox.stopped", filler["id"]) in kinds, kinds
    assert own.api.sandbox(box["id"])["status"] == "running"
    known = {app["id"] for app in own.api.get("/v1/apps?limit=200").json()["apps"]}
    assert made and set(made) <= known
    # A crash now finds all of it again.
    own.kill9_and_start("control")
    assert own.api.sandbox(filler["id"])["error"]["code"] == "disk_full"
    assert own.preview.get(box["id"], "/hello").text == "hello"
    (own.workspace(filler["id"]) / "big").unlink()
    wait_until((own.data / "state" / "reserve").exists, 15, "the reserve is made again")
    assert own.preview.wait_answer(filler["id"], "/hello").text == "hello"
    for app in made:
        own.api.delete(f"/v1/apps/{app}")
    apps.delete_all()


# --- Docker restarted -----------------------------------------------------------------------------


def dockerd_pid():
    found = subprocess.run(["pidof", "dockerd"], capture_output=True, text=True, check=False).stdout.split()
    return int(found[0]) if found else None


def is_gone(pid):
    """Collected too, if it is a child of this test: 20.10 does not start beside the remains of the one before."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass
    return not os.path.exists(f"/proc/{pid}")


def stop_docker(number=signal.SIGTERM):
    pid = dockerd_pid()
    os.kill(pid, number)
    wait_until(lambda: is_gone(pid), DOCKER_SECONDS_MAX, "dockerd ended")


def start_docker(*options):
    with open("/var/log/dockerd.log", "ab") as log:
        subprocess.Popen(["dockerd", *options], stdout=log, stderr=log, start_new_session=True)
    wait_until(lambda: docker.docker("version", check=False).returncode == 0, DOCKER_SECONDS_MAX, "dockerd is up")


def pids(stack):
    return {role: program.pid for role, program in stack.programs.items()}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_restart_that_ends_all_containers(own, box, number):
    """After a kill they run on until Docker is there again, which ends them then."""
    own.preview.wait_answer(box["id"], "/hello")
    before = pids(own)
    stop_docker(number)
    start_docker()
    start = time.monotonic()
    assert own.preview.wait_answer(box["id"], "/hello", seconds=60).text == "hello"
    print(f"answered {time.monotonic() - start:.1f} s after Docker was back")
    assert pids(own) == before
    assert docker.state(box["id"]) == "running" and own.api.sandbox(box["id"])["status"] == "running"


def test_restart_with_live_restore_leaves_previews_alone(own, box):
    stop_docker()
    start_docker("--live-restore")
    own.preview.wait_answer(box["id"], "/hello", seconds=60)
    container = docker.inspect(box["id"])["State"]["Pid"]
    before = pids(own)
    stop_docker()
    wait_until(lambda: "Docker does not answer" in own.ready().text, 15, "/readyz says so")
    assert own.ready().status_code == 503
    assert own.preview.get(box["id"], "/hello").text == "hello"
    refused = own.api.post(f"/v1/apps/{own.api.make_app()['id']}/sandbox", {"ports": [3000]})
    assert refused.status_code == 503 and refused.json()["error"]["code"] == "engine_unavailable", refused.text
    start_docker("--live-restore")
    own.wait_ready()
    assert docker.inspect(box["id"])["State"]["Pid"] == container and pids(own) == before
    # Followed again: what ends now is seen.
    docker.docker("kill", docker.container_name(box["id"]))
    own.api.wait_sandbox(box["id"], "stopped", seconds=10)
    assert own.preview.get(box["id"], "/hello").text == "hello"
    stop_docker()
    start_docker()


# --- everything pruned ----------------------------------------------------------------------------


def sleep(stack, box):
    assert stack.api.post(f"/v1/sandboxes/{box['id']}/stop").status_code == 200


def test_prune_of_networks_and_containers_is_made_good_by_the_next_request(own, box):
    own.preview.wait_answer(box["id"], "/hello")
    sleep(own, box)
    docker.docker("network", "prune", "-f")
    assert own.preview.get(box["id"], "/hello").text == "hello"
    sleep(own, box)
    docker.docker("system", "prune", "-f")
    assert docker.state(box["id"]) == "missing"
    assert own.preview.get(box["id"], "/hello").text == "hello"


@pytest.mark.timeout(BUILD_SECONDS_MAX + 300)
def test_prune_of_all_images_is_rebuilt_in_the_background_and_the_page_says_so(own, box):
    made = docker.docker("create", "debian:trixie-slim", "true").strip()
    docker.docker("export", "-o", str(own.data / "state" / "images" / "debian.tar"), made)
    docker.docker("rm", made)
    own.preview.wait_answer(box["id"], "/hello")
    sleep(own, box)
    docker.docker("system", "prune", "-a", "-f")
    assert docker.docker("image", "ls", "-q").split() == []
    page = own.preview.browse(box["id"])
    assert page.status_code == 503 and "<noscript>" in page.text, page.text
    told = []

    def poll():
        told.append(own.preview.get(box["id"], "/.sandboxd/wake").json())
        return told[-1]["state"] != "waking"

    wait_until(poll, BUILD_SECONDS_MAX, lambda: told[-1], pause=1)
    assert any(t["phase"] == "image" and "%" in t["detail"] for t in told), told[:5]
    assert own.preview.wait_answer(box["id"], "/hello", seconds=60).text == "hello"
