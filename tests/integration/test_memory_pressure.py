"""A machine short of memory stops what is worth least, and says so (issue 4, items 10 and 11).

The pressure is real to the programs: the marks are set above what this machine has free. Nothing here
fills the machine's memory.
"""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration.client import assert_error
from tests.integration.conftest import Apps
from tests.integration.harness import Stack
from tests.integration.programs import wait_until
from tests.stubs.model_scenarios import directive

HELD_MIB = 120
STOP_SECONDS_MAX = 40
CALM = {"SANDBOXD_MEMORY_LOW_PERCENT": "10", "SANDBOXD_MEMORY_CRITICAL_PERCENT": "4"}
# Low memory, but the machine is not about to die.
LOW = {"SANDBOXD_MEMORY_LOW_PERCENT": "99", "SANDBOXD_MEMORY_CRITICAL_PERCENT": "0"}
DYING = {"SANDBOXD_MEMORY_LOW_PERCENT": "99", "SANDBOXD_MEMORY_CRITICAL_PERCENT": "99"}


@pytest.fixture(scope="module")
def own_stack(model):
    with Stack(model=model, settings={**CALM, "SANDBOXD_MEMORY_WATCHED_SECONDS": "1"}) as running:
        yield running


def use(stack, marks):
    """Another setting, as a person changes it: in .env, then the service anew."""
    stack["control"].env.update(marks)
    stack.restart("control")


def stops(stack):
    """The stops for memory, oldest first: (sandbox, its numbers)."""
    found = [e for e in stack.events() if e["kind"] == "sandbox.memory_stop"]
    payloads = [e["payload"] if isinstance(e["payload"], dict) else json.loads(e["payload"]) for e in found]
    ids = [int(e["id"]) for e in found]
    return [(e["sandbox_id"], p) for _, e, p in sorted(zip(ids, found, payloads), key=lambda x: x[0])]


def short_by_a_little(stack):
    """Marks at which this machine has nothing to give, and an empty one of its size would."""
    own = stack.api.get("/v1/status").json()["memory"]
    free_percent = own["available_bytes"] * 100 // own["total_bytes"]
    return {"SANDBOXD_MEMORY_LOW_PERCENT": str(min(free_percent + 3, 98)), "SANDBOXD_MEMORY_CRITICAL_PERCENT": "0"}


def test_pressure_takes_the_least_valuable_first(own_stack):
    api, preview = own_stack.api, own_stack.preview
    apps = Apps(own_stack)
    small, large, watched, working = (apps.server(source="memory.js")["id"] for _ in range(4))
    assert preview.get(large, f"/hold?mib={HELD_MIB}").text == "held"
    task = api.make_task(working, directive("slow", "300"))
    api.wait_task(working, task["id"], "running")
    own_stack.put_file(working, "kept.txt", "work of the task")

    use(own_stack, LOW)
    assert api.post(f"/v1/sandboxes/{watched}/watching").status_code == 204
    api.wait_sandbox(watched, "stopped", seconds=STOP_SECONDS_MAX)
    seen = stops(own_stack)
    assert [s for s, _ in seen] == [large, small, watched], seen
    assert [p["class"] for _, p in seen] == ["idle", "idle", "watched"], seen
    for _, numbers in seen:
        assert numbers["level"] == "low"
        assert 0 < numbers["available_bytes"] < numbers["low_bytes"] < numbers["total_bytes"], numbers
    assert seen[0][1]["memory_bytes"] > HELD_MIB << 20, seen

    # What the task works in stays as long as the machine lives.
    assert api.sandbox(working)["status"] == "running"
    assert api.task(working, task["id"])["status"] == "running"

    row = api.sandbox(watched)
    assert row["error"]["code"] == "memory", row
    assert "ran out of memory" in row["error"]["message"]

    use(own_stack, DYING)
    ended = api.wait_task(working, task["id"], seconds=STOP_SECONDS_MAX)
    assert (ended["status"], ended["failure_reason"]) == ("interrupted", "memory"), ended
    assert ended["error_message"].startswith("stopped for memory"), ended
    api.wait_sandbox(working, "stopped", seconds=STOP_SECONDS_MAX)
    sandbox, numbers = stops(own_stack)[-1]
    assert (sandbox, numbers["class"], numbers["level"]) == (working, "task", "critical")
    assert (own_stack.app_dir(working) / "kept.txt").read_text(encoding="utf-8") == "work of the task"

    # And when there is memory again, the next request wakes what was stopped.
    use(own_stack, CALM)
    assert preview.get(watched, "/").text == "hello"
    row = api.sandbox(watched)
    assert row["error"] is None, row
    apps.delete_all()


def test_a_start_that_does_not_fit_waits_and_is_refused_with_both_figures(own_stack):
    api, preview = own_stack.api, own_stack.preview
    apps = Apps(own_stack)
    sandbox = apps.server(source="memory.js")["id"]
    apps.stop(sandbox)
    use(own_stack, short_by_a_little(own_stack))
    begun = api.post(f"/v1/sandboxes/{sandbox}/start", timeout=90)
    message = assert_error(begun, 503, "no_memory", retryable=True)["message"]
    assert "MiB are available" in message and "stop another app" in message, message
    assert api.sandbox(sandbox)["status"] == "stopped"
    said = preview.get(sandbox, "/", headers={"accept": "application/json"}, timeout=90)
    assert said.status_code == 503 and int(said.headers["retry-after"]) > 0, said.text

    use(own_stack, CALM)
    # A failure is remembered for a moment.
    wait_until(lambda: preview.get(sandbox, "/").text == "hello", 30, "it does not start with memory enough")
    apps.delete_all()


def test_memory_that_comes_back_lets_a_waiting_start_go_on(own_stack):
    api = own_stack.api
    apps = Apps(own_stack)
    sandbox = apps.server(source="memory.js")["id"]
    apps.stop(sandbox)
    use(own_stack, short_by_a_little(own_stack))
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(own_stack.preview.get, sandbox, "/")
        wait_until(lambda: api.sandbox(sandbox)["preview"].get("phase") == "queued", 20, "no start was queued")
        assert "waiting for memory" in api.sandbox(sandbox)["preview"]["detail"]
        use(own_stack, CALM)
        # On a busy machine its own time may be over before the service is back: then it is told so.
        answer = held.result(90)
        assert answer.text == "hello" or answer.status_code == 503, answer.text
    wait_until(lambda: own_stack.preview.get(sandbox, "/").text == "hello", 30, "it does not start with memory enough")
    apps.delete_all()
