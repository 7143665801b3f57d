"""The truth about signal 9: the sandbox's own limit, Node's own heap, or somebody's hand (issue 4, item 12).

A kill because the whole machine ran out cannot be had without running it out: that one is told apart in
tests/unit/engine/test_meter.c, over what the kernel writes.
"""

import json
import time

import pytest

from tests.integration import docker
from tests.integration.conftest import Apps
from tests.integration.harness import ROOT, Stack
from tests.integration.programs import wait_until

LIMIT_BYTES = 320 << 20
KILL_SECONDS_MAX = 60
# What ends together with a kill is that kill.
LATER_SECONDS = 2


@pytest.fixture(scope="module")
def own_stack(model):
    with Stack(model=model) as running:
        yield running


def limited(stack, apps, limit_bytes=LIMIT_BYTES):
    app = apps.app()
    answer = stack.api.post(f"/v1/apps/{app['id']}/sandbox", {"ports": [3000], "memory_bytes": limit_bytes})
    assert answer.status_code == 201, answer.text
    sandbox = answer.json()["id"]
    stack.preview.wait_answer(sandbox)
    text = (stack_app("memory.js")).read_text(encoding="utf-8")
    stack.put_file(sandbox, "server.js", text)
    apps.stop(sandbox)
    apps.start(sandbox)
    wait_until(lambda: stack.preview.get(sandbox, "/").text == "hello", 30, "the server of the test does not answer")
    return sandbox


def stack_app(name):


    return ROOT / "tests" / "integration" / "apps" / name


def kills(stack, sandbox):
    found = [e for e in stack.events() if e["kind"] == "sandbox.memory_kill" and e["sandbox_id"] == sandbox]
    return [e["payload"] if isinstance(e["payload"], dict) else json.loads(e["payload"]) for e in found]


@pytest.fixture(scope="module")
def box(own_stack):
    apps = Apps(own_stack)
    yield limited(own_stack, apps)
    apps.delete_all()


def test_a_build_killed_at_the_limit_is_told_while_the_app_lives(own_stack, box):
    """The build is a child; PID 1 and the server live on."""
    api, preview = own_stack.api, own_stack.preview
    ended = preview.get(box, "/build").json()
    assert ended["signal"] == "SIGKILL", ended
    row = wait_until(lambda: api.sandbox(box)["error"] and api.sandbox(box), KILL_SECONDS_MAX, "the kill was not told")
    assert row["status"] == "running", row
    assert row["error"]["code"] == "out_of_memory", row
    assert "memory limit of 320 MiB" in row["error"]["message"], row
    assert "memory_bytes" in row["error"]["message"], row
    assert preview.get(box, "/").text == "hello"
    told = kills(own_stack, box)
    assert told[0]["code"] == "out_of_memory" and told[0]["memory_limit_bytes"] == LIMIT_BYTES, told
    assert "out_of_memory" in own_stack["control"].log()


def test_a_later_end_is_not_blamed_on_it(own_stack, box):
    """Docker's own word of the kill stays for the whole run."""
    api = own_stack.api
    assert api.sandbox(box)["error"]["code"] == "out_of_memory"
    time.sleep(LATER_SECONDS)
    docker.docker("kill", docker.container_name(box))
    row = api.wait_sandbox(box, "stopped")
    assert row["error"]["code"] == "killed", row
    assert own_stack.preview.get(box, "/").text == "hello"
    assert api.sandbox(box)["error"] is None
    assert own_stack.preview.get(box, "/build").json()["signal"] == "SIGKILL"
    wait_until(lambda: api.sandbox(box)["error"], KILL_SECONDS_MAX, "the second run's kill was not told")
    answer = api.post(f"/v1/sandboxes/{box}/stop")
    assert answer.status_code == 200 and answer.json()["error"] is None, answer.text
    assert own_stack.preview.get(box, "/").text == "hello"
    assert api.sandbox(box)["error"] is None


def test_the_remedy_is_there_to_be_taken(own_stack, box):
    """What the message asks for can be done, and holds from the next start on."""
    api = own_stack.api
    app_id = api.sandbox(box)["app_id"]
    raised = LIMIT_BYTES + (64 << 20)
    assert api.patch(f"/v1/apps/{app_id}", {"memory_bytes": raised}).status_code == 200
    assert api.sandbox(box)["memory_limit_bytes"] == raised
    assert api.post(f"/v1/sandboxes/{box}/stop").status_code == 200
    assert own_stack.preview.get(box, "/").text == "hello"
    assert docker.inspect(box)["HostConfig"]["Memory"] == raised


def test_a_killed_start_command_says_so(own_stack, box):
    api, preview = own_stack.api, own_stack.preview
    before = len(kills(own_stack, box))
    assert preview.get(box, "/eat").text == "eating"
    wait_until(lambda: len(kills(own_stack, box)) > before, KILL_SECONDS_MAX, "the kill was not told")

    def ended():
        web = [p for p in api.sandbox(box)["processes"] if p["type"] == "web"][0]
        return web["restarts"] >= 1 or web["state"] in ("backoff", "failed")

    wait_until(ended, KILL_SECONDS_MAX, "its supervisor did not see it end")
    assert api.sandbox(box)["error"]["code"] == "out_of_memory"
    wait_until(lambda: preview.get(box, "/").text == "hello", KILL_SECONDS_MAX, "it was not started again")


def test_nodes_own_heap_is_told_apart(own_stack, box):
    api, preview = own_stack.api, own_stack.preview
    apps = Apps(own_stack)
    apps.stop(box)
    apps.start(box)
    wait_until(lambda: preview.get(box, "/").text == "hello", 30, "it does not answer")
    before = len(kills(own_stack, box))
    assert preview.get(box, "/heap").text == "filling"
    row = wait_until(
        lambda: (api.sandbox(box)["error"] or {}).get("code") == "node_heap_limit" and api.sandbox(box),
        KILL_SECONDS_MAX,
        lambda: f"Node's heap was not named: {api.sandbox(box)}",
    )
    assert "NODE_OPTIONS=--max-old-space-size" in row["error"]["message"], row
    assert len(kills(own_stack, box)) == before, "no kernel killed anything"
