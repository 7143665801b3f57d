"""The control plane starts with 1,000 apps known: it serves before it has asked Docker anything, and what it then
finds is what its rows say afterwards (issue 4, item 14). How many milliseconds that takes is in `make bench`.
"""

import time

import pytest

from tests.integration import docker, rows
from tests.integration.conftest import Apps
from tests.integration.harness import Stack
from tests.integration.programs import wait_until

APPS = 1000
GONE = 100  # rows that say running, of containers that went with the machine
READY_SECONDS_MAX = 10
SETTLE_SECONDS_MAX = 60


@pytest.fixture(scope="module")
def boot():
    """A stack whose engine is away while its control plane starts with many rows and two real sandboxes."""
    with Stack() as stack:
        apps = Apps(stack)
        runs, ends = apps.server()["id"], apps.server()["id"]
        stack["control"].kill9()
        stack["engine"].stop()
        docker.docker("kill", docker.container_name(ends))
        gone = rows.insert_apps(stack, GONE, "running")
        rows.insert_apps(stack, APPS - GONE, "stopped", first=GONE)
        stack["control"].start()
        yield stack, runs, ends, gone
        apps.delete_all()


def counts(stack):
    answer = stack.api.get("/v1/status")
    assert answer.status_code == 200, answer.text
    return answer.json()["sandboxes"]


def running(stack):
    with rows.database(stack) as db:
        found = {sandbox for (sandbox,) in db.execute("SELECT id FROM sandbox WHERE status='running'")}
    db.close()
    return found


def died(stack):
    return {e["sandbox_id"]: e["payload"]["code"] for e in stack.events() if e["kind"] == "sandbox.died"}


def serves(stack):
    answer = stack.ready()
    return answer is not None and answer.status_code in (200, 503)


def test_it_serves_its_apps_before_anything_was_asked(boot):
    stack, runs, _, _ = boot
    wait_until(lambda: serves(stack), READY_SECONDS_MAX, "an answer of /readyz")
    answer = stack.ready()
    assert answer.status_code == 503 and "sandboxd-engine" in answer.text, answer.text
    page = stack.api.get("/v1/apps?limit=200")
    assert (page.status_code, len(page.json()["apps"])) == (200, 200)
    assert counts(stack)["total"] == APPS + 2
    # Nobody was asked, so nothing is claimed to have ended.
    assert len(running(stack)) == GONE + 2
    assert died(stack) == {}
    # What ran goes on being served by the proxy.
    assert stack.preview.get(runs, "/hello").text == "hello"


def test_it_is_ready_with_the_engine_and_its_rows_are_right_afterwards(boot):
    stack, runs, ends, gone = boot
    stack["engine"].start()
    start = time.monotonic()
    wait_until(lambda: stack.ready().status_code == 200, READY_SECONDS_MAX, "ready")
    assert time.monotonic() - start < READY_SECONDS_MAX
    wait_until(lambda: running(stack) == {runs}, SETTLE_SECONDS_MAX, lambda: f"{len(running(stack))} rows say running")
    assert counts(stack) == {"running": 1, "total": APPS + 2}
    assert died(stack) == {**dict.fromkeys(gone, "removed"), ends: "killed"}
    assert stack.preview.get(runs, "/hello").text == "hello"


def test_the_next_start_is_ready_at_once_and_asks_in_the_background(boot):
    stack, runs, ends, _ = boot
    stack["control"].stop()
    stack["control"].start()
    wait_until(lambda: serves(stack), READY_SECONDS_MAX, "an answer of /readyz")
    wait_until(lambda: stack.ready().status_code == 200, READY_SECONDS_MAX, "ready")
    assert counts(stack) == {"running": 1, "total": APPS + 2}
    # A row that was right wakes as ever.
    assert stack.preview.get(ends, "/hello").text == "hello"
    assert running(stack) == {runs, ends}
