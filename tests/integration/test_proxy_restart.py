"""The preview proxy made anew under load, behind the real Traefik; sandboxd and its engine away (issue 4, item 8).

Every request carries an id, and the app writes down each id that reaches it: lost is an id that is
missing, doubled is one that stands there twice.
"""

import itertools
import re
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from websockets.exceptions import ConnectionClosed

from tests.integration.client import Preview
from tests.integration.conftest import Apps
from tests.integration.edge import Edge
from tests.integration.programs import wait_until

VISITORS = 6
ROUNDS = 3
ROUND_PAUSE_SECONDS = 2
LONG_MS = 30_000


@pytest.fixture(scope="module")
def front(stack):
    with Edge(stack):
        yield Preview(stack.http_port)


@pytest.fixture(scope="module")
def echo(stack):
    apps = Apps(stack)
    yield apps.server()["id"]
    apps.delete_all()


def reached(stack, sandbox):
    return Counter(line.split()[0] for line in stack.preview.get(sandbox, "/posts").json())


class Visitor:
    """Asks one thing after the other over a kept connection, as a browser does, until it is told to stop."""

    numbers = itertools.count()

    def __init__(self, front, sandbox, stop):
        self.front, self.sandbox, self.stop, self.answers = front, sandbox, stop, {}

    def run(self):
        with requests.Session() as session:
            session.trust_env = False
            session.headers["host"] = self.front.host(self.sandbox)
            while not self.stop.is_set():
                self._ask(session, f"v{next(self.numbers)}")
                time.sleep(0.02)
        return self.answers

    def _ask(self, session, name):
        base, kind = f"http://127.0.0.1:{self.front.port}", hash(name) % 3
        try:
            if kind == 0:
                path = f"/hit?{name}"
                answer = session.get(base + path, timeout=60)
            elif kind == 1:
                path = f"/slow-hit?ms=1200&{name}"
                answer = session.get(base + path, timeout=60)
            else:
                path = f"/{name}"
                answer = session.post(base + path, data=b"x" * 20_000, timeout=60)
            self.answers[path] = answer.status_code
        except requests.RequestException as error:
            self.answers[path] = repr(error)


def test_rounds_of_restarts_under_load_lose_and_double_nothing(stack, front, echo):
    front.wait_answer(echo, "/hello")
    stop = threading.Event()
    with ThreadPoolExecutor(VISITORS) as pool:
        running = [pool.submit(Visitor(front, echo, stop).run) for _ in range(VISITORS)]
        try:
            for _ in range(ROUNDS):
                time.sleep(ROUND_PAUSE_SECONDS)
                stack.restart("preview")
            time.sleep(1)
        finally:
            stop.set()
        answers = {path: status for one in running for path, status in one.result().items()}
    assert {p: s for p, s in answers.items() if s != 200} == {}
    assert len(answers) > ROUNDS * VISITORS * 3, len(answers)
    came = reached(stack, echo)
    assert {p: came[p] for p in answers if came[p] != 1} == {}


def cut_counts(stack):
    return [int(n) for n in re.findall(r'cut by the restart","count":"(\d+)"', stack["preview"].log().replace('": "', '":"'))]


def test_what_takes_longer_is_cut_told_and_counted(stack, front, echo):
    """Both are in the app when the proxy goes: one has not been answered, the other has begun to be."""
    front.wait_answer(echo, "/hello")
    before = len(cut_counts(stack))
    with ThreadPoolExecutor(2) as pool:
        silent = pool.submit(front.get, echo, f"/slow-hit?ms={LONG_MS}&silent")
        begun = front.get(echo, "/drip?begun", stream=True)
        wait_until(lambda: reached(stack, echo)["/drip?begun"] and reached(stack, echo)[f"/slow-hit?ms={LONG_MS}&silent"], 20, "the app has them")
        stack.restart("preview")
        with pytest.raises((requests.exceptions.ChunkedEncodingError, requests.exceptions.ConnectionError)):
            assert begun.content is None, "never a clean end"
        answer = silent.result()
    assert answer.status_code == 502 and answer.json()["error"]["code"] == "restarting", answer.text
    came = reached(stack, echo)
    assert came["/drip?begun"] == 1 and came[f"/slow-hit?ms={LONG_MS}&silent"] == 1, "nobody sends it again"
    assert cut_counts(stack)[before:] == [2]


def test_a_held_request_gets_the_honest_503_and_a_person_the_page(stack, front, apps):
    sandbox = apps.server(source="late.js")["id"]
    apps.stop(sandbox)
    with ThreadPoolExecutor(2) as pool:
        held = pool.submit(front.post, sandbox, "/held", data=b"x")
        time.sleep(0.5)
        person = pool.submit(front.browse, sandbox)
        time.sleep(0.3)
        stack["preview"].stop()
        answer, page = held.result(), person.result()
    stack["preview"].start()
    stack.wait_ready()
    assert answer.status_code == 503 and answer.headers["retry-after"] == "1", answer.text
    assert answer.json()["error"]["code"] == "restarting"
    assert page.status_code == 503 and "/.sandboxd/wake" in page.text
    assert front.wait_answer(sandbox, "/hello").text == "hello"


def test_websockets_close_with_1012_and_a_new_one_opens(stack, front, echo):
    sockets = [front.websocket(echo) for _ in range(5)]
    for n, socket_ in enumerate(sockets):
        socket_.send(str(n))
        assert socket_.recv(timeout=20) == str(n)
    stack.restart("preview")
    for socket_ in sockets:
        with pytest.raises(ConnectionClosed) as closed:
            socket_.recv(timeout=20)
        assert closed.value.rcvd.code == 1012, closed.value
    with front.websocket(echo) as socket_:
        socket_.send("again")
        assert socket_.recv(timeout=20) == "again"


@pytest.mark.parametrize("role", ["control", "engine"])
def test_running_previews_do_not_notice_that_a_program_is_away(stack, front, echo, role):
    front.wait_answer(echo, "/hello")
    with front.websocket(echo) as socket_:
        stack[role].stop()
        try:
            assert front.get(echo, "/hello").text == "hello"
            assert front.post(echo, f"/away/{role}", data=b"x" * 100_000).status_code == 200
            socket_.send("still here")
            assert socket_.recv(timeout=20) == "still here"
            with front.websocket(echo) as another:
                another.send("and new")
                assert another.recv(timeout=20) == "and new"
        finally:
            stack[role].start()
        stack.wait_ready()
        socket_.send("afterwards")
        assert socket_.recv(timeout=20) == "afterwards"
    assert front.get(echo, "/hello").text == "hello"
    assert reached(stack, echo)[f"/away/{role}"] == 1


def test_a_proxy_that_starts_while_sandboxd_is_away_serves_what_runs(stack, front, echo):
    front.wait_answer(echo, "/hello")
    stack["control"].stop()
    try:
        stack["preview"].stop()
        stack["preview"].start()
        assert front.wait_answer(echo, "/hello", seconds=20).text == "hello"
    finally:
        stack["control"].start()
    stack.wait_ready()
    assert front.get(echo, "/hello").text == "hello"
