"""A hit during a stop: every request is answered by the app, once, whatever the stop was at (issue 4, item 2)."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration.harness import Stack
from tests.integration.programs import wait_until

# An idle stop begins one to two seconds after the last answer, and takes a fraction of one.
THRESHOLD = 1
IDLE_ROUNDS = 14
APPS = 3
STOP_ROUNDS = 6


@pytest.fixture(scope="module")
def sleepy(model):
    with Stack(model=model, settings={"SANDBOXD_IDLE_THRESHOLD_SECONDS": str(THRESHOLD)}) as running:
        yield running


@pytest.fixture
def boxes(sleepy, apps_of):
    made = apps_of(sleepy)
    yield made
    made.delete_all()


def post(stack, box, body):
    answer = stack.preview.post(box["id"], "/hit", data=body, timeout=60)
    assert answer.status_code == 200, f"{body}: {answer.status_code} {answer.text}"
    assert answer.json()["bytes"] == len(body), answer.text


def assert_each_once(stack, box, sizes):
    """The app's own log: the size of a body is its number."""
    seen = sorted(int(line.split()[1]) for line in stack.preview.get(box["id"], "/posts").json())
    assert seen == sorted(sizes), f"sent {sorted(sizes)}, arrived {seen}"


def stops(stack, box):
    return [e for e in stack.events() if e["sandbox_id"] == box["id"] and e["kind"] == "sandbox.stopped"]


def test_every_hit_at_any_moment_of_an_idle_stop_is_answered_once(sleepy, boxes):
    made = [boxes.server() for _ in range(APPS)]

    def visit(box):
        dice = random.Random(box["id"])
        for n in range(1, IDLE_ROUNDS + 1):
            post(sleepy, box, b"x" * n)
            time.sleep(dice.uniform(THRESHOLD, THRESHOLD + 1.6))

    with ThreadPoolExecutor(APPS) as pool:
        list(pool.map(visit, made))
    for box in made:
        assert_each_once(sleepy, box, range(1, IDLE_ROUNDS + 1))
    # The dice did fall into stops, else this test says nothing.
    assert sum(len([e for e in stops(sleepy, box) if e["actor"] == "idle"]) for box in made) >= APPS


def test_an_idle_stop_never_cuts_a_slow_answer(sleepy, boxes):
    """Its bytes are older than the threshold when the stop is thought of; the connection is open."""
    box = boxes.server()
    answer = sleepy.preview.get(box["id"], f"/slow?ms={THRESHOLD * 5000}")
    assert (answer.status_code, answer.text) == (200, "slow")
    assert sleepy.api.sandbox(box["id"])["status"] == "running"


def test_a_stop_by_hand_lets_finish_what_is_at_work_and_holds_what_comes(sleepy, boxes):
    box = boxes.server()
    sent, answered, ended = [], [], threading.Event()
    lock = threading.Lock()

    def visit(_):
        while not ended.is_set():
            with lock:
                sent.append(len(sent) + 1)
                size = sent[-1]
            post(sleepy, box, b"x" * size)
            assert sleepy.preview.get(box["id"], "/slow?ms=200").text == "slow"
            answered.append(size)

    with ThreadPoolExecutor(3) as pool:
        visitors = [pool.submit(visit, n) for n in range(2)]
        for _ in range(STOP_ROUNDS):
            answer = sleepy.api.post(f"/v1/sandboxes/{box['id']}/stop")
            assert answer.status_code == 200, answer.text
            # Who stops it again before it was up makes everybody wait for ever, and says so.
            before = len(answered)
            wait_until(lambda was=before: len(answered) > was, 60, "it is up again")
            time.sleep(random.uniform(0, 1))
        ended.set()
        for visitor in visitors:
            visitor.result(timeout=120)
    assert_each_once(sleepy, box, sent)
    assert len([e for e in stops(sleepy, box) if e["actor"] == "api"]) >= STOP_ROUNDS // 2
