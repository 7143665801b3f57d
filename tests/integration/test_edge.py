"""Traefik with the project's own files: each router is asked, for a bad rule fails silently
(issue 3, items 11 and 13).
"""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration import docker
from tests.integration.client import Preview, raw_request
from tests.integration.edge import Edge
from tests.integration.harness import Stack
from tests.integration.network import Neighbour
from tests.integration.test_walls import host_addresses, reached

ADDRESS = "10.214.97.2"


@pytest.fixture(scope="module")
def edge(stack):
    with Edge(stack) as running:
        yield running


@pytest.fixture(scope="module")
def outside(edge):
    with Neighbour([ADDRESS]) as there:
        yield there


@pytest.fixture(scope="module")
def echo(stack):
    from tests.integration.conftest import Apps

    apps = Apps(stack)
    yield apps.server()
    apps.delete_all()


@pytest.fixture
def front(stack):
    """Previews as a visitor asks for them: through the edge."""
    return Preview(stack.http_port)


def ask(port, host, path="/", extra="", address="127.0.0.1"):
    data = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{extra}\r\n"
    return raw_request(port, data.encode(), host=address)


def host_address():
    return next(a for a in host_addresses() if ":" not in a and not a.startswith("169.254."))


def test_a_preview_comes_through(stack, echo, front, edge):
    assert front.get(echo["id"], "/hello").text == "hello"
    assert front.get(echo["id"], "/big").content == b"x" * (8 * 1024 * 1024)


def test_the_console_comes_through(edge):
    answer = ask(edge.port, f"console.localhost:{edge.port}")
    assert answer.status == 200, answer
    assert b"<html" in answer.body.lower() or b"<!doctype" in answer.body.lower()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "example.com", "s-x.preview.example.com", "api.localhost", "traefik.localhost", "", "console.localhost.", "x.console.localhost"])
def test_everything_else_is_a_404_that_says_nothing(edge, host):
    for path in ("/", "/v1/apps", "/api/rawdata", "/dashboard/", "/ping", "/metrics", "/healthz"):
        answer = ask(edge.port, host, path)
        assert answer is None or answer.status in (400, 404), (host, path, answer)
        if answer and answer.status == 404:
            assert b"sandboxd" not in answer.body.lower(), answer.body


def test_the_api_has_no_host_at_the_edge(stack, edge):
    extra = f"Authorization: Bearer {stack.token}\r\n"
    for host in ("127.0.0.1", "localhost", f"127.0.0.1:{stack.api_port}"):
        assert ask(edge.port, host, "/v1/apps", extra).status == 404
    assert ask(edge.port, "console.localhost", "/v1/apps", extra).status == 403
    for path in ("/metrics", "/readyz"):
        assert ask(edge.port, "console.localhost", path).status == 404


def test_loopback_names_are_for_loopback_clients(stack, edge, outside, echo):
    stack.preview.wait_answer(echo["id"], "/hello")
    for host in ("console.localhost", stack.preview.host(echo["id"])):
        assert ask(edge.port, host, "/hello").status in (200, 404)
        for forged in ([], ["X-Forwarded-For: 127.0.0.1"], ["X-Real-Ip: 127.0.0.1", "Forwarded: for=127.0.0.1"]):
            text = outside.fetch_body(f"http://{host_address()}:{edge.port}/hello", f"Host: {host}", *forged)
            assert text.startswith("HTTP/1.1 404"), text
            assert "hello" not in text


def test_from_outside_our_own_ports_answer_nothing(stack, edge, outside):
    for port in (stack.api_port, stack.console_port, stack.preview_port):
        code, status = outside.fetch(f"http://{host_address()}:{port}/healthz")
        assert code != 0 and status == 0, (port, code, status)
    code, status = outside.fetch(f"http://{host_address()}:{edge.port}/")
    assert (code, status) == (0, 404), "the edge itself does"


def test_a_sandbox_does_not_reach_the_edge(stack, edge, apps):
    sandbox = apps.sandbox()
    assert reached(sandbox, [(a, edge.port) for a in host_addresses()]) == []


def test_a_websocket_comes_through(echo, front, edge):
    with front.websocket(echo["id"]) as socket_:
        socket_.send("through the edge")
        assert socket_.recv(timeout=20) == "through the edge"


def test_vites_hot_reload_comes_through(stack, apps, front, edge):
    sandbox = apps.sandbox("react-vite")
    front.wait_answer(sandbox["id"])
    client = front.get(sandbox["id"], "/@vite/client").text
    token = client.split('wsToken = "', 1)[1].split('"', 1)[0] if 'wsToken = "' in client else ""
    with front.websocket(sandbox["id"], f"/?token={token}", subprotocols=["vite-hmr"]) as socket_:
        assert json.loads(socket_.recv(timeout=20))["type"] == "connected"
        path = stack.app_dir(sandbox["id"]) / "src" / "App.tsx"
        front.get(sandbox["id"], "/src/main.tsx")
        front.get(sandbox["id"], "/src/App.tsx")
        stack.put_file(sandbox["id"], "src/App.tsx", path.read_text(encoding="utf-8") + "\n// changed\n")
        end = time.monotonic() + 20
        while time.monotonic() < end:
            message = json.loads(socket_.recv(timeout=20))
            if message["type"] in ("update", "full-reload"):
                return
    raise AssertionError("no update came")


def test_one_post_to_a_sleeping_app_through_the_edge_is_answered_once(stack, echo, front, edge):
    before = len(stack.preview.get(echo["id"], "/posts").json())
    assert stack.api.post(f"/v1/sandboxes/{echo['id']}/stop").status_code == 200
    assert front.post(echo["id"], "/through", data=b"x" * 100_000).status_code == 200
    assert len(stack.preview.get(echo["id"], "/posts").json()) == before + 1


def test_a_restart_of_the_preview_proxy_loses_no_request(stack, echo, front, edge):
    """An orderly restart under load: the edge holds new requests over the gap."""
    front.wait_answer(echo["id"], "/hello")
    stop = time.monotonic() + 8

    def visitor(n):
        answers = []
        while time.monotonic() < stop:
            answers.append(front.post(echo["id"], f"/restart{n}", data=b"x").status_code)
            time.sleep(0.05)
        return answers

    with ThreadPoolExecutor(4) as pool:
        visitors = [pool.submit(visitor, n) for n in range(4)]
        time.sleep(2)
        stack.restart("preview")
        answers = [status for v in visitors for status in v.result()]
    assert answers and set(answers) == {200}, answers


def test_links_carry_the_port_that_the_person_used(edge, echo):
    """Through `ssh -L 8080:127.0.0.1:80` the port in Host is the person's."""
    answer = ask(edge.port, "console.localhost:8080", "/v1/session")
    assert answer.status == 200, answer
    assert b'"authenticated":false' in answer.body


def test_a_real_domain_is_served_to_the_world_and_its_console_is_not_without_tls(model, apps_of):
    with Stack(model=model, settings={"PREVIEW_DOMAIN": "example.test"}) as own_stack:
        with Edge(own_stack) as edge, Neighbour(["10.215.97.2"]) as outside:
            apps = apps_of(own_stack)
            sandbox = apps.server()
            url = f"http://{host_address()}:{edge.port}"
            text = outside.fetch_body(f"{url}/hello", f"Host: {own_stack.preview.host(sandbox['id'])}")
            assert text.startswith("HTTP/1.1 200") and text.endswith("hello"), text
            console = outside.fetch_body(f"{url}/", "Host: console.example.test")
            assert console.startswith("HTTP/1.1 403"), console
            for way in ("TLS", "ssh", "CONSOLE_INSECURE_HTTP"):
                assert way.lower() in console.lower(), console
            assert outside.fetch_body(f"{url}/", "Host: console.localhost").startswith("HTTP/1.1 404")
            apps.delete_all()


def test_the_wake_limit_counts_the_visitor_that_the_edge_saw(model, apps_of):
    """Not the address that a visitor gives himself, and never the owner's own machine."""
    settings = {"PREVIEW_DOMAIN": "example.test", "SANDBOXD_WAKES_PER_MINUTE_PER_CLIENT": "1"}
    with Stack(model=model, settings=settings) as own_stack, Edge(own_stack) as edge, Neighbour(["10.216.97.2"]) as outside:
        apps = apps_of(own_stack)
        sandbox = apps.server()["id"]
        url = f"http://{host_address()}:{edge.port}/hello"

        def visit(*headers):
            return outside.fetch_body(url, f"Host: {own_stack.preview.host(sandbox)}", *headers, timeout_s=30)

        def sleep():
            assert own_stack.api.post(f"/v1/sandboxes/{sandbox}/stop").status_code == 200

        sleep()
        assert visit().startswith("HTTP/1.1 200"), "the first start is free"
        sleep()
        for forged in ([], ["X-Forwarded-For: 203.0.113.9"], ["X-Real-Ip: 127.0.0.1"]):
            text = visit(*forged)
            assert text.startswith("HTTP/1.1 429") and "retry-after:" in text.lower(), text
        assert docker.state(sandbox) == "exited"
        assert ask(edge.port, own_stack.preview.host(sandbox), "/hello").status == 200
        apps.delete_all()


def test_an_unreadable_addition_is_one_line_and_the_rest_runs(stack, edge, tmp_path):
    """Our folder copied with an owner's broken file in it, on a port of its own."""
    from tests.integration.harness import TEST_DIR
    from tests.integration.programs import ROOT, free_port
    import shutil

    folder = TEST_DIR / f"{stack.name}.traefik"
    shutil.copytree(ROOT / "traefik", folder)
    try:
        (folder / "dynamic" / "broken.yml").write_text("http: [not: yaml\n", encoding="utf-8")
        (folder / "dynamic" / "good.yml").write_text(
            "http:\n  routers:\n    mine:\n      rule: Host(`mine.test`)\n      service: mine\n  services:\n    mine:\n"
            f"      loadBalancer:\n        servers:\n          - url: http://127.0.0.1:{stack.api_port}\n",
            encoding="utf-8",
        )
        with Edge(stack, {"HTTP_PORT": str(free_port())}, folder) as other:
            assert ask(other.port, "console.localhost").status == 200
            assert "broken.yml" in other.log()
            assert ask(other.port, "mine.test", "/healthz").status != 404, "the owner's good file is kept"
    finally:
        shutil.rmtree(folder)


def test_traefik_holds_no_secret_and_no_socket(edge, stack):
    inspected = docker.docker("inspect", edge.name)
    assert "docker.sock" not in inspected and stack.token not in inspected
