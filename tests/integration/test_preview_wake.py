"""Previews: the first request wakes the app, once, and gets the app's answer (issue 3, items 10, 14)."""

import hashlib
import json
import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration import docker
from tests.integration.client import api_id, raw_request
from tests.integration.harness import Stack
from tests.integration.programs import wait_until

CROWD = 50


@pytest.fixture(scope="module")
def echo(stack):
    """One sandbox with the tests' own server for this file; every test leaves it as it likes."""
    from tests.integration.conftest import Apps

    apps = Apps(stack)
    yield apps.server()
    apps.delete_all()


def sleep(stack, sandbox):
    answer = stack.api.post(f"/v1/sandboxes/{sandbox['id']}/stop")
    assert answer.status_code == 200, answer.text
    assert docker.state(sandbox["id"]) == "exited"


def starts(sandbox):
    """How often the container was started, told by Docker: its events since the test began."""
    since = str(int(time.time()) - 300)
    text = docker.docker(
        "events", "--since", since, "--until", str(int(time.time()) + 1), "--filter", f"container=s-{sandbox['id']}",
        "--filter", "event=start", "--format", "{{.TimeNano}}",
    )  # fmt: skip
    return len(text.split())


def posts(stack, sandbox):
    return stack.preview.get(sandbox["id"], "/posts").json()


# --- wake -----------------------------------------------------------------------------------------


def test_a_stopped_app_answers_its_first_request(stack, echo):
    sleep(stack, echo)
    answer = stack.preview.get(echo["id"], "/hello")
    assert (answer.status_code, answer.text) == (200, "hello")
    assert stack.api.sandbox(echo["id"])["status"] == "running"


def test_one_post_to_a_stopped_app_is_answered_by_it_exactly_once(stack, echo):
    body = os.urandom(20_000)
    before = posts(stack, echo)
    sleep(stack, echo)
    answer = stack.preview.post(echo["id"], "/order", data=body)
    assert answer.status_code == 200, answer.text
    assert answer.json() == {"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
    assert posts(stack, echo)[len(before) :] == [f"/order {len(body)} {hashlib.sha256(body).hexdigest()}"]


@pytest.mark.parametrize("chunked", [False, True])
def test_a_large_post_waits_whole_for_the_app(stack, echo, chunked):
    body = os.urandom(6 * 1024 * 1024)
    sleep(stack, echo)
    data = (body[at : at + 65536] for at in range(0, len(body), 65536)) if chunked else body
    answer = stack.preview.post(echo["id"], "/upload", data=data)
    assert answer.status_code == 200, answer.text
    assert answer.json() == {"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}


def test_fifty_first_requests_at_once_are_one_start_and_fifty_answers(stack, echo):
    sleep(stack, echo)
    before = starts(echo)
    with ThreadPoolExecutor(CROWD) as pool:
        answers = list(pool.map(lambda n: stack.preview.get(echo["id"], f"/hello?n={n}"), range(CROWD)))
    assert [(a.status_code, a.text) for a in answers] == [(200, "hello")] * CROWD
    assert starts(echo) - before == 1


def test_fifty_posts_at_once_are_each_done_once(stack, echo):
    already = len(posts(stack, echo))
    sleep(stack, echo)
    with ThreadPoolExecutor(CROWD) as pool:
        answers = list(pool.map(lambda n: stack.preview.post(echo["id"], f"/n{n}", data=b"x" * n), range(CROWD)))
    assert [a.status_code for a in answers] == [200] * CROWD
    paths = [line.split()[0] for line in posts(stack, echo)[already:]]
    assert sorted(paths) == sorted(f"/n{n}" for n in range(CROWD))


def test_a_websocket_wakes_and_passes(stack, echo):
    sleep(stack, echo)
    with stack.preview.websocket(echo["id"], "/ws") as socket_:
        for text in ("one", "two", "three"):
            socket_.send(text)
            assert socket_.recv(timeout=20) == text


def test_a_visitor_that_leaves_hurts_nobody(stack, echo):
    sleep(stack, echo)
    host = stack.preview.host(echo["id"])
    for _ in range(10):
        with socket.create_connection(("127.0.0.1", stack.preview_port)) as visitor:
            visitor.sendall(f"GET /hello HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    assert stack.preview.get(echo["id"], "/hello").text == "hello"


def test_a_start_by_api_and_a_first_request_at_once_are_one_start(stack, echo):
    sleep(stack, echo)
    before = starts(echo)
    with ThreadPoolExecutor(2) as pool:
        api = pool.submit(stack.api.post, f"/v1/sandboxes/{echo['id']}/start")
        visit = pool.submit(stack.preview.get, echo["id"], "/hello")
        assert api.result().status_code in (200, 202)
        assert visit.result().text == "hello"
    assert starts(echo) - before == 1


def test_a_request_while_it_stops_gets_an_answer(stack, echo):
    stack.preview.wait_answer(echo["id"], "/hello")
    for delay_ms in (0, 20, 100, 300):
        with ThreadPoolExecutor(2) as pool:
            stop = pool.submit(stack.api.post, f"/v1/sandboxes/{echo['id']}/stop")
            time.sleep(delay_ms / 1000)
            answer = stack.preview.get(echo["id"], "/hello")
            assert stop.result().status_code == 200
        assert answer.status_code in (200, 502, 503), answer.text
        assert stack.preview.wait_answer(echo["id"], "/hello").text == "hello"


# --- running --------------------------------------------------------------------------------------


def test_bytes_pass_as_they_are(stack, echo):
    stack.preview.wait_answer(echo["id"], "/hello")
    answer = stack.preview.get(echo["id"], "/big")
    assert answer.status_code == 200
    assert answer.content == b"x" * (8 * 1024 * 1024)


def test_an_event_stream_arrives_while_it_is_written(stack, echo):
    stack.preview.wait_answer(echo["id"], "/hello")
    answer = stack.preview.get(echo["id"], "/sse", stream=True)
    times = [time.monotonic() for line in answer.iter_lines(chunk_size=1) if line.startswith(b"data:")]
    assert len(times) == 5
    assert times[-1] - times[0] > 0.2, "not held back until the end"


def test_an_answer_that_breaks_off_is_broken_for_the_visitor(stack, echo):
    """Never a clean end: a download that is cut must not look complete."""
    stack.preview.wait_answer(echo["id"], "/hello")
    host = stack.preview.host(echo["id"])
    with socket.create_connection(("127.0.0.1", stack.preview_port), timeout=10) as visitor:
        visitor.sendall(f"GET /cut HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        received = b""
        try:
            while piece := visitor.recv(65536):
                received += piece
        except ConnectionResetError:
            pass
    assert b"this answer is cut" in received
    assert not received.endswith(b"0\r\n\r\n"), received


def test_the_app_sees_the_hosts_name_and_no_credential_of_ours(stack, echo):
    stack.preview.wait_answer(echo["id"], "/hello")
    headers = {"cookie": "theme=dark", "x-custom": "kept", "authorization": "Basic YTpi"}
    seen = stack.preview.get(echo["id"], "/headers", headers=headers).json()
    assert seen["host"].startswith(f"s-{echo['id']}-3000.preview.localhost")
    assert seen["x-custom"] == "kept" and seen["cookie"] == "theme=dark"
    assert seen["authorization"] == "Basic YTpi", "an app's own sign-in passes"
    assert stack.token not in json.dumps(seen)


def test_a_cookie_of_the_console_does_not_reach_an_app(stack, echo):
    """Browsers keep it to the console's host; where one is talked into sending it, it ends here."""
    stack.preview.wait_answer(echo["id"], "/hello")
    cookies = "theme=dark; sandboxd_session=secret1; __Host-sandboxd_session=secret2; lang=en"
    seen = stack.preview.get(echo["id"], "/headers", headers={"cookie": cookies}).json()
    assert "secret" not in json.dumps(seen)
    assert "theme=dark" in seen["cookie"] and "lang=en" in seen["cookie"]


def test_our_token_shown_to_a_preview_does_not_reach_the_app(stack, echo):
    stack.preview.wait_answer(echo["id"], "/hello")
    seen = stack.preview.get(echo["id"], "/headers", headers={"authorization": f"Bearer {stack.token}"}).text
    assert stack.token not in seen


def test_many_requests_over_one_connection_are_answered_in_order(stack, echo):
    stack.preview.wait_answer(echo["id"], "/hello")
    host = stack.preview.host(echo["id"])
    request = f"GET /hello HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", stack.preview_port), timeout=20) as visitor:
        for _ in range(20):
            visitor.sendall(request)
            head = b""
            while b"hello" not in head.partition(b"\r\n\r\n")[2]:
                piece = visitor.recv(4096)
                assert piece, head
                head += piece
            assert head.startswith(b"HTTP/1.1 200")


# --- who is asked ---------------------------------------------------------------------------------


def ask(stack, host, path="/hello", extra=""):
    return raw_request(stack.preview_port, f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{extra}\r\n".encode())


def test_a_port_that_was_not_declared_is_refused_without_a_wake(stack, echo):
    sleep(stack, echo)
    for port in (3001, 22, 9100, 1):
        answer = stack.preview.get(echo["id"], "/", app_port=port)
        assert answer.status_code == 401, (port, answer.status_code, answer.text)
    assert stack.api.sandbox(echo["id"])["status"] == "stopped"


@pytest.mark.parametrize("form", ["unknown", "not an id", "port 0", "port 65536", "port word", "no port", "leading zero", "other name", "ip", "trailing dot", "userinfo", "underscore", "two labels"])
def test_a_host_that_is_no_preview_is_refused_and_wakes_nothing(stack, echo, form):
    sandbox = echo["id"]
    host = {
        "unknown": stack.preview.host(api_id()),
        "not an id": "s-abc-3000.preview.localhost",
        "port 0": f"s-{sandbox}-0.preview.localhost",
        "port 65536": f"s-{sandbox}-65536.preview.localhost",
        "port word": f"s-{sandbox}-http.preview.localhost",
        "no port": f"s-{sandbox}.preview.localhost",
        "leading zero": f"s-{sandbox}-03000.preview.localhost",
        "other name": f"s-{sandbox}-3000.preview.example.com",
        "ip": "127.0.0.1",
        "trailing dot": f"s-{sandbox}-3000.preview.localhost.",
        "userinfo": f"x@s-{sandbox}-3000.preview.localhost",
        "underscore": f"s_{sandbox}_3000.preview.localhost",
        "two labels": f"s-{sandbox}-3000.x.preview.localhost",
    }[form]
    sleep(stack, echo)
    answer = ask(stack, host)
    assert answer is not None and answer.status in (400, 401, 404), answer
    assert stack.api.sandbox(sandbox)["status"] == "stopped"


def test_a_host_in_capitals_with_a_port_is_the_same_host(stack, echo):
    host = stack.preview.host(echo["id"]).upper()
    for name in (host, f"{host}:8080"):
        answer = ask(stack, name)
        assert (answer.status, answer.body) == (200, b"hello") or b"hello" in answer.body, answer


@pytest.mark.parametrize(
    "lines",
    [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Content-Length : 5\r\n",
        "X: a\r\n b\r\n",
        "Host: other\r\n",
    ],
    ids=range(6),
)
def test_what_two_servers_could_read_differently_is_refused(stack, echo, lines):
    stack.preview.wait_answer(echo["id"], "/hello")
    before = posts(stack, echo)
    host = stack.preview.host(echo["id"])
    data = f"POST /smuggled HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n0\r\n\r\nGET /hello HTTP/1.1\r\n\r\n".encode()
    answer = raw_request(stack.preview_port, data)
    assert answer is None or answer.status in (400, 411, 413, 501), answer
    assert posts(stack, echo) == before


def test_slow_headers_are_not_waited_for_for_ever(stack, echo):
    with socket.create_connection(("127.0.0.1", stack.preview_port), timeout=120) as visitor:
        visitor.sendall(b"GET / HTTP/1.1\r\nHost: ")
        start = time.monotonic()
        try:
            while visitor.recv(4096):
                pass
        except ConnectionResetError:
            pass
        assert time.monotonic() - start < 110


def test_an_endless_header_is_refused(stack, echo):
    host = stack.preview.host(echo["id"])
    answer = ask(stack, host, extra="X: " + "a" * 200_000 + "\r\n")
    assert answer is None or answer.status in (400, 413, 431), answer


def test_a_favicon_does_not_wake(stack, echo):
    sleep(stack, echo)
    answer = stack.preview.get(echo["id"], "/favicon.ico")
    assert answer.status_code == 204
    assert stack.api.sandbox(echo["id"])["status"] == "stopped"


def test_a_prefetch_does_not_wake(stack, echo):
    sleep(stack, echo)
    answer = stack.preview.get(echo["id"], "/hello", headers={"sec-purpose": "prefetch"})
    assert answer.status_code == 503 and answer.headers["retry-after"] == "3600"
    assert stack.api.sandbox(echo["id"])["status"] == "stopped"


# --- pages ----------------------------------------------------------------------------------------


def test_a_browser_gets_a_page_that_moves_on_by_itself_when_a_start_takes_long(stack, apps):
    """A server that takes seconds to listen: page first, app afterwards."""
    sandbox = apps.server(source="late.js")
    sleep(stack, sandbox)
    start = time.monotonic()
    answer = stack.preview.browse(sandbox["id"])
    took = time.monotonic() - start
    assert answer.status_code == 503, answer.text
    assert 0.4 < took < 3.0, took
    assert answer.headers["content-type"].startswith("text/html")
    assert "no-store" in answer.headers["cache-control"]
    assert "noindex" in answer.headers.get("x-robots-tag", "") + answer.text
    assert int(answer.headers["retry-after"]) >= 1
    assert "<noscript>" in answer.text and "http-equiv" in answer.text.lower()
    assert stack.preview.wait_answer(sandbox["id"], "/hello").text == "hello"


def test_a_call_that_is_no_page_load_is_held_instead(stack, apps):
    sandbox = apps.server(source="late.js")
    sleep(stack, sandbox)
    answer = stack.preview.get(sandbox["id"], "/hello", headers={"accept": "application/json"})
    assert (answer.status_code, answer.text) == (200, "hello")


@pytest.fixture
def broken(stack, apps):
    """An app whose server ends at once, saying why."""
    sandbox = apps.sandbox()
    stack.preview.wait_answer(sandbox["id"])
    text = "console.error('cannot find the database <b>anywhere</b>')\nprocess.exit(3)\n"
    stack.put_file(sandbox["id"], "server.js", text)
    sleep(stack, sandbox)
    return sandbox


def test_a_failing_command_is_told_with_its_last_lines_on_a_localhost_name(stack, broken):
    def failed():
        # In a list: an answer of 4xx or 5xx counts as false by itself.
        answer = stack.preview.browse(broken["id"])
        return [answer] if "cannot find the database" in answer.text else None

    (answer,) = wait_until(failed, 60, lambda: stack.preview.browse(broken["id"]).text)
    assert answer.status_code in (502, 503)
    assert "3" in answer.text, "it exited with 3"
    assert "<b>anywhere</b>" not in answer.text, "what an app prints is no markup of ours"
    assert "&lt;b&gt;" in answer.text
    assert "script-src" in answer.headers.get("content-security-policy", "") or "default-src" in answer.headers.get(
        "content-security-policy", ""
    )


def test_a_failing_command_shows_in_the_sandbox_and_as_json(stack, broken):
    answer = stack.preview.get(broken["id"], "/", headers={"accept": "application/json"})
    assert answer.status_code in (502, 503), answer.text
    assert answer.headers["content-type"].startswith("application/json")
    assert "error" in answer.json()

    wait_until(lambda: web_restarts(stack, broken), 30, lambda: stack.api.sandbox(broken["id"]))


def web_restarts(stack, sandbox):
    """The web process as the API tells it, once it was started again after ending with 3."""
    processes = stack.api.sandbox(sandbox["id"])["processes"]
    return [p for p in processes if p["type"] == "web" and p["restarts"] >= 1 and p["exit_code"] == 3]


def test_under_a_real_name_a_visitor_sees_one_plain_sentence_and_no_log_line(model, apps_of):
    with Stack(model=model, settings={"PREVIEW_DOMAIN": "example.test"}) as own_stack:
        apps = apps_of(own_stack)
        sandbox = apps.sandbox()
        own_stack.preview.wait_answer(sandbox["id"])
        text = "console.error('cannot find the database')\nprocess.exit(3)\n"
        own_stack.put_file(sandbox["id"], "server.js", text)
        sleep(own_stack, sandbox)

        own_stack.preview.get(sandbox["id"], headers={"accept": "application/json"})
        wait_until(lambda: web_restarts(own_stack, sandbox), 45, lambda: own_stack.api.sandbox(sandbox["id"]))
        answer = own_stack.preview.browse(sandbox["id"])
        assert answer.status_code in (502, 503)
        for secret in ("cannot find the database", "server.js", "/home/sandbox", "docker", "s-" + sandbox["id"] + ":"):
            assert secret not in answer.text, answer.text
        apps.delete_all()


def test_a_server_that_listens_on_another_port_is_named_as_the_reason(stack, apps):
    sandbox = apps.sandbox()
    stack.preview.wait_answer(sandbox["id"])
    stack.put_file(sandbox["id"], "server.js", "import { createServer } from 'node:http'\ncreateServer((_, r) => r.end('x')).listen(4321, '127.0.0.1')\n")
    sleep(stack, sandbox)

    def told():
        """What the waiting page asks for and shows."""
        return stack.preview.browse(sandbox["id"]).text + stack.preview.get(sandbox["id"], "/.sandboxd/wake").text

    wait_until(lambda: "4321" in told(), 45, told)


def test_an_app_on_a_second_declared_port_is_reached(stack, apps):
    sandbox = apps.sandbox(ports=(3000, 4000))
    stack.preview.wait_answer(sandbox["id"])
    text = "import { createServer } from 'node:http'\nfor (const [p, a] of [[3000, '127.0.0.1'], [4000, '0.0.0.0']]) createServer((_, r) => r.end(String(p))).listen(p, a)\n"
    stack.put_file(sandbox["id"], "server.js", text)
    sleep(stack, sandbox)
    assert stack.preview.wait_answer(sandbox["id"]).text == "3000"
    assert stack.preview.wait_answer(sandbox["id"], app_port=4000).text == "4000"


# --- restarts of the proxy ------------------------------------------------------------------------


def test_a_terminated_proxy_finishes_what_is_in_flight(model, apps_of):
    with Stack(model=model) as own_stack:
        apps = apps_of(own_stack)
        sandbox = apps.server()
        with ThreadPoolExecutor(1) as pool:
            slow = pool.submit(own_stack.preview.get, sandbox["id"], "/slow?ms=1500")
            time.sleep(0.5)
            own_stack["preview"].stop()
            assert slow.result().text == "slow"
        own_stack["preview"].start()
        own_stack.wait_ready()
        assert own_stack.preview.wait_answer(sandbox["id"], "/hello").text == "hello"
        apps.delete_all()


def test_a_killed_proxy_comes_back_with_all_routes(model, apps_of):
    with Stack(model=model) as own_stack:
        apps = apps_of(own_stack)
        sandbox = apps.server()
        own_stack.kill9_and_start("preview")
        assert own_stack.preview.wait_answer(sandbox["id"], "/hello", seconds=15).text == "hello"
        with own_stack.preview.websocket(sandbox["id"]) as socket_:
            socket_.send("again")
            assert socket_.recv(timeout=10) == "again"
        apps.delete_all()


def test_a_killed_relay_in_the_sandbox_is_back_at_once(stack, echo):
    """The relay is a child of PID 1: whoever kills it inside has killed it for a moment."""
    stack.preview.wait_answer(echo["id"], "/hello")
    script = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline | grep -q 'sandboxd-init.*relay' && echo ${p#/proc/}; done; true"
    pids = docker.run_inside(echo["id"], "sh", "-c", script).split()
    assert pids, "a relay runs"
    docker.run_inside(echo["id"], "sh", "-c", f"kill -9 {' '.join(pids)}", check=False)
    assert stack.preview.wait_answer(echo["id"], "/hello", seconds=5).text == "hello"


def test_requests_go_on_while_others_are_slow(stack, echo):
    stack.preview.wait_answer(echo["id"], "/hello")
    done = threading.Event()

    def slow():
        stack.preview.get(echo["id"], "/slow?ms=3000")
        done.set()

    threads = [threading.Thread(target=slow) for _ in range(30)]
    for thread in threads:
        thread.start()
    start = time.monotonic()
    for _ in range(10):
        assert stack.preview.get(echo["id"], "/hello").text == "hello"
    assert time.monotonic() - start < 3
    for thread in threads:
        thread.join()
