"""A task outlives the crash of everything around it and ends once (issue 3, items 6 and 14)."""

import json
import subprocess
import threading
import time

import pytest

from tests.integration import docker, harness, records
from tests.integration.harness import Stack
from tests.integration.programs import wait_until
from tests.integration.test_tasks_opencode import assert_gapless
from tests.stubs.model_scenarios import directive

SLOW_SECONDS = 8


@pytest.fixture(scope="module")
def crashing(model):
    with Stack(model=model) as running:
        key = running.secret("sk-ant-")
        assert running.api.post("/v1/agents/claude-code/api-key", {"api_key": key}).status_code in (200, 204)
        yield running


@pytest.fixture
def box(crashing, apps_of):
    apps = apps_of(crashing)
    sandbox = apps.sandbox()
    crashing.preview.wait_answer(sandbox["id"])
    yield sandbox
    apps.delete_all()


@pytest.fixture(autouse=True)
def fresh_model(model):
    model.forget()


def start_slow(crashing, box, model, agent="opencode"):
    """A task whose model is in the middle of a long answer."""
    task = crashing.api.make_task(box["id"], directive("slow", f"{SLOW_SECONDS} /home/sandbox/slow.txt"), agent)
    wait_until(model.posts, 200, "the model was asked")
    time.sleep(1)
    assert model.posts()[0].outcome == "", "it still talks"
    return task


def assert_succeeded_once(crashing, box, task):
    done = crashing.api.wait_task(box["id"], task["id"])
    assert done["status"] == "succeeded", done
    text = (crashing.workspace(box["id"]) / "slow.txt").read_text(encoding="utf-8")
    assert text == "done\n", "the agent's tool ran once"
    events = list(crashing.api.events(box["id"], task["id"]))
    assert_gapless(events)
    ends = [e for e in crashing.events() if e["task_id"] == task["id"] and "succeeded" in json.dumps(e)]
    assert len(ends) <= 1, ends
    return done


@pytest.mark.parametrize("agent", ["opencode", "claude-code"])
def test_kill_9_of_the_control_plane_in_the_middle_of_a_task(crashing, box, model, agent):
    task = start_slow(crashing, box, model, agent)
    crashing["control"].kill9()
    time.sleep(2)
    crashing["control"].start()
    crashing.wait_ready()
    assert crashing.api.task(box["id"], task["id"])["status"] == "running"
    assert_succeeded_once(crashing, box, task)
    assert len([p for p in model.posts() if p.turn == 0]) == 1, "the model was asked once"


# Dials as soon as somebody listens, says everything at once, and prints what came until the second record.
FIRST_QUESTION = """
import socket, sys, time
path, said, end, got = sys.argv[1], bytes.fromhex(sys.argv[2]), time.monotonic() + 60, b""
while True:
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.connect(path)
        break
    except OSError:
        assert time.monotonic() < end, "nobody listened"
print("asked", flush=True)
sock.settimeout(15)
sock.sendall(said)
while b"status" not in got:
    piece = sock.recv(65536)
    assert piece, "closed"
    got += piece
print(got.hex())
"""


def test_a_token_is_good_at_the_first_question_after_a_crash(crashing, box, model):
    """An unknown one is an ended one: the model's answer would be cut, and asked and paid for once more."""
    task = start_slow(crashing, box, model)
    found = docker.run_inside(box["id"], "sh", "-c", "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -o 'sbt_[A-Za-z0-9_-]*' | head -1")
    token = found.strip()
    assert token, "the agent has a token"
    question = records.encode("hello", ("protocol", records.PROTOCOL), ("role", "credentials"), ("boot_id", "first"))
    question += records.encode("grant", ("n", 1), ("sandbox_id", box["id"]), ("token", token))
    crashing["control"].kill9()
    socket_path = crashing.data / "run/broker/credentials/broker.sock"
    socket_path.unlink()
    uid = crashing.uid_base - harness.CREDENTIALS_UID_BELOW
    command = ["python3", "-c", FIRST_QUESTION, str(socket_path), question.hex()]
    with subprocess.Popen(command, user=uid, group=uid, extra_groups=[], cwd="/", stdout=subprocess.PIPE, text=True) as asker:
        crashing["control"].start()
        answer = bytes.fromhex(asker.communicate(timeout=90)[0].split()[-1])
    length = int.from_bytes(answer[:4], "big")
    grant = records.Record(answer[4 + length + 4 :])
    assert (grant.kind, grant.get("status"), grant.get("task_id")) == ("grant", "ok", task["id"]), grant
    crashing.wait_ready()
    assert_succeeded_once(crashing, box, task)


def test_the_control_plane_away_until_after_the_end(crashing, box, model):
    task = start_slow(crashing, box, model)
    crashing["control"].kill9()
    wait_until(lambda: (crashing.workspace(box["id"]) / "slow.txt").exists(), 60, "the agent finished alone")
    time.sleep(4)
    crashing["control"].start()
    crashing.wait_ready()
    assert_succeeded_once(crashing, box, task)


def test_five_crashes_in_one_task(crashing, box, model):
    task = start_slow(crashing, box, model)
    for _ in range(5):
        crashing.kill9_and_start("control")
    assert_succeeded_once(crashing, box, task)


def test_an_orderly_restart_in_the_middle_of_a_task(crashing, box, model):
    task = start_slow(crashing, box, model)
    crashing.restart("control")
    assert_succeeded_once(crashing, box, task)


def test_kill_9_of_the_engine_program_in_the_middle_of_a_task(crashing, box, model):
    task = start_slow(crashing, box, model)
    crashing.kill9_and_start("engine")
    assert_succeeded_once(crashing, box, task)


def test_a_follower_of_the_events_can_take_up_after_the_crash(crashing, box, model):
    task = start_slow(crashing, box, model)
    seen = []

    def follow():
        try:
            for event in crashing.api.events(box["id"], task["id"]):
                seen.append(event)
        except OSError:
            pass

    thread = threading.Thread(target=follow)
    thread.start()
    wait_until(lambda: seen, 20, "an event came")
    crashing["control"].kill9()
    thread.join(20)
    crashing["control"].start()
    crashing.wait_ready()
    rest = list(crashing.api.events(box["id"], task["id"], last_event_id=seen[-1].id))
    assert_gapless(seen + rest)
    assert_succeeded_once(crashing, box, task)


def test_a_queued_task_is_not_forgotten(crashing, box, model):
    first = start_slow(crashing, box, model)
    second = crashing.api.make_task(box["id"], directive("shell", "echo second >> ~/second.txt"))
    crashing.kill9_and_start("control")
    assert_succeeded_once(crashing, box, first)
    assert crashing.api.wait_task(box["id"], second["id"])["status"] == "succeeded"
    assert (crashing.workspace(box["id"]) / "second.txt").read_text(encoding="utf-8") == "second\n"


def test_a_container_that_ends_while_the_control_plane_is_away_interrupts_its_task(crashing, box, model):
    task = start_slow(crashing, box, model)
    crashing["control"].kill9()
    docker.docker("kill", f"s-{box['id']}")
    crashing["control"].start()
    crashing.wait_ready()
    done = crashing.api.wait_task(box["id"], task["id"], seconds=30)
    assert done["status"] == "interrupted", done
    assert len([p for p in model.posts() if p.turn == 0]) == 1, "it is never started again"


def test_a_cancel_just_before_a_crash_is_carried_out(crashing, box, model):
    task = start_slow(crashing, box, model)
    assert crashing.api.post(f"/v1/sandboxes/{box['id']}/tasks/{task['id']}/cancel").status_code in (200, 202)
    crashing.kill9_and_start("control")
    assert crashing.api.wait_task(box["id"], task["id"], seconds=30)["status"] == "cancelled"
    assert not (crashing.workspace(box["id"]) / "slow.txt").exists()


def test_a_killed_credentials_proxy_is_a_break_the_agent_gets_over(crashing, box, model):
    """The answer in flight is cut, the agent asks again, and the work is done once."""
    task = start_slow(crashing, box, model)
    crashing.kill9_and_start("credentials")
    assert_succeeded_once(crashing, box, task)
    assert len([p for p in model.posts() if p.turn == 0]) == 2
