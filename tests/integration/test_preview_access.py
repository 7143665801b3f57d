"""Private previews of a whole sandboxd: tickets, passes, their end, and what strangers can tell (issue 4, items 5 and 6).

What the proxy does with hostile passes, paths and fields by itself is in test_proxy_access_alone.py,
what browsers make of the cookies in tests/console/access.spec.ts.
"""

import re
import time

import pytest
import requests

from tests.integration import docker
from tests.integration.client import api_id, assert_error
from tests.integration.harness import Stack
from tests.integration.programs import wait_until
from tests.integration.test_proxy_access_alone import CLOSE_1008, UPGRADE

PAGE = {"accept": "text/html", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document", "sec-fetch-site": "none"}
PASSWORD = "five dry umbrellas"
TELL_SECONDS_MAX = 5
TICKET_SECONDS = 30
HELD_SECONDS = 1.5


class Owner:
    """A browser signed in to the console, by hand."""

    def __init__(self, stack, code=None):
        self.stack = stack
        self.session = requests.Session()
        self.session.trust_env = False
        self.host = "console.localhost"
        path, body = ("/v1/session/setup", {"code": code, "password": PASSWORD}) if code else ("/v1/session", {"password": PASSWORD})
        answer = self.call("POST", path, body)
        assert answer.status_code == 204, answer.text
        self.cookie = answer.headers["set-cookie"].split(";")[0]

    def call(self, method, path, body=None, **headers):
        sent = {"host": self.host, "origin": f"http://{self.host}", "content-type": "application/json", "connection": "close",
                **({"cookie": self.cookie} if hasattr(self, "cookie") else {}), **headers}
        url = f"http://127.0.0.1:{self.stack.console_port}{path}"
        return self.session.request(method, url, json=body if body is not None else {}, headers=sent, timeout=30, cookies=None)

    def ticket(self, sandbox, **body):
        answer = self.call("POST", f"/v1/sandboxes/{sandbox}/preview-ticket", body)
        assert answer.status_code == 201, answer.text
        return answer.json()


def console_code(stack):
    said = stack["control"].run_to_end("console-code")
    return re.search(r"#setup=([\w-]+)", said.stdout).group(1)


@pytest.fixture(scope="module")
def owner(stack):
    return Owner(stack, console_code(stack))


@pytest.fixture(scope="module")
def echo(stack):
    from tests.integration.conftest import Apps

    apps = Apps(stack)
    yield apps.server(ports=(3000, 3001))
    apps.delete_all()


@pytest.fixture(scope="module", autouse=True)
def old_ticket(owner, echo):
    """Asked for before the first test; by the last one it is old."""
    return owner.ticket(echo["id"])["ticket"], time.monotonic()


def set_access(stack, sandbox, access):
    answer = stack.api.patch(f"/v1/apps/{sandbox['app_id']}", {"preview_access": access})
    assert answer.status_code == 200 and answer.json()["preview_access"] == access, answer.text


@pytest.fixture
def private(stack, echo):
    """The app, awake and private, with no pass of before."""
    set_access(stack, echo, "public")
    stack.preview.wait_answer(echo["id"], "/hello")
    set_access(stack, echo, "private")
    wait_until(lambda: stack.preview.get(echo["id"], "/hello").status_code == 401, TELL_SECONDS_MAX, "the proxy knows")
    return echo


def exchange(stack, sandbox, ticket, to="/hello", app_port=3000):
    return stack.preview.request("GET", sandbox["id"], f"/.sandboxd/enter?ticket={ticket}&to={to}", app_port=app_port, headers=PAGE)


def enter(stack, sandbox, ticket):
    """The cookie that a ticket is good for."""
    answer = exchange(stack, sandbox, ticket)
    assert (answer.status_code, answer.headers.get("location")) == (303, "/hello"), answer.text
    return answer.headers["set-cookie"].split(";")[0]


def status(stack, sandbox, cookie=None, path="/hello"):
    return stack.preview.get(sandbox["id"], path, headers={"cookie": cookie} if cookie else {}).status_code


# --- the owner ------------------------------------------------------------------------------------


def test_an_app_is_public_unless_said_otherwise_and_says_so_where_its_address_is(stack, echo):
    set_access(stack, echo, "public")
    row = stack.api.sandbox(echo["id"])["preview"]
    assert (row["access"], row["note"]) == ("public", "whoever has the preview address can load the app")
    set_access(stack, echo, "private")
    row = stack.api.sandbox(echo["id"])["preview"]
    assert row["access"] == "private" and "only you" in row["note"]
    app = stack.api.post("/v1/apps", {"name": "mine", "runtime_preset": "node-http", "preview_access": "private"}).json()
    assert app["preview_access"] == "private"
    assert stack.api.delete(f"/v1/apps/{app['id']}").status_code in (202, 204)
    for wrong in ("secret", "", 1, None, True):
        assert_error(stack.api.patch(f"/v1/apps/{echo['app_id']}", {"preview_access": wrong}), 400, "invalid_request")


def test_a_ticket_of_the_console_opens_the_preview_once(stack, owner, private):
    made = owner.ticket(private["id"], path="/hello?x=1")
    assert made["url"] == f"http://s-{private['id']}-3000.preview.localhost/.sandboxd/enter?ticket={made['ticket']}&to=/hello%3Fx%3D1"
    cookie = enter(stack, private, made["ticket"])
    answer = stack.preview.get(private["id"], "/headers", headers={"cookie": f"a=1; {cookie}", "authorization": "Basic YTpi"})
    seen = answer.json()
    assert seen["cookie"] == "a=1" and seen["authorization"] == "Basic YTpi"
    assert cookie.split("=", 1)[1] not in answer.text
    assert exchange(stack, private, made["ticket"]).status_code == 401, "a ticket is good once"


def test_an_api_token_gets_a_ticket_too_that_no_session_ends(stack, owner, private):
    answer = stack.api.post(f"/v1/sandboxes/{private['id']}/preview-ticket", {})
    assert answer.status_code == 201, answer.text
    cookie = enter(stack, private, answer.json()["ticket"])
    assert status(stack, private, cookie) == 200
    set_access(stack, private, "public")
    set_access(stack, private, "private")
    wait_until(lambda: status(stack, private, cookie) == 401, TELL_SECONDS_MAX, "a change of access ends it")


def test_who_may_not_ask_for_a_ticket(stack, owner, private):
    path = f"/v1/sandboxes/{private['id']}/preview-ticket"
    preview = f"http://s-{private['id']}-3000.preview.localhost"
    assert owner.call("POST", path, origin=preview).status_code == 403, "the page of a preview"
    assert owner.call("POST", path, **{"content-type": "text/plain"}).status_code == 415
    assert owner.call("POST", path, cookie="sandboxd_session=x").status_code == 401
    assert stack.api.post(path, {}, token=None).status_code == 401
    assert stack.api.post(path, {}, token="sk_wrong_wrong_wrong").status_code == 401
    assert_error(stack.api.post(f"/v1/sandboxes/{api_id()}/preview-ticket", {}), 404, "not_found")
    for body in ({"port": 3002}, {"port": 0}, {"port": "3000"}, {"path": "//evil.com"}, {"path": "/\\evil.com"}, {"path": "evil"},
                 {"path": ""}, {"path": "/a#b"}, {"path": "/a b"}, {"path": "/é"}, {"path": "/.sandboxd/enter"}, {"path": "/" + "a" * 2048}):
        assert_error(stack.api.post(path, body), 400, "invalid_request")


def test_a_ticket_is_for_its_sandbox(stack, owner, private, apps):
    other = apps.sandbox()
    ticket = owner.ticket(private["id"])["ticket"]
    assert exchange(stack, other, ticket).status_code == 401
    assert exchange(stack, private, ticket).status_code == 401, "somebody tried it out: it is spent"
    set_access(stack, other, "private")
    cookie = enter(stack, private, owner.ticket(private["id"])["ticket"])
    assert status(stack, other, cookie, "/") == 401, "nor is the pass for another"


# --- strangers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("headers", [{}, PAGE, {"accept": "text/html"}], ids=["call", "page", "old browser"])
def test_a_stranger_cannot_tell_private_from_missing_and_wakes_nothing(stack, private, headers):
    assert stack.api.post(f"/v1/sandboxes/{private['id']}/stop").status_code == 200
    unknown = api_id()

    def seen(sandbox, port):
        answer = stack.preview.request("GET", sandbox, "/hello", app_port=port, headers=headers)
        fields = {k: v.replace(sandbox, "ID").replace(str(port), "PORT") for k, v in answer.headers.items()}
        fields.pop("content-length", None)
        return answer.status_code, fields, answer.text.replace(sandbox, "ID").replace(str(port), "PORT")

    forbidden = seen(private["id"], 3000)
    assert forbidden == seen(unknown, 3000) == seen(private["id"], 3002)
    assert forbidden[0] == (303 if headers is PAGE else 401)
    time.sleep(0.3)
    assert docker.state(private["id"]) == "exited"


def test_an_undeclared_port_is_refused_and_a_declared_one_has_its_own_name(stack, owner, echo):
    set_access(stack, echo, "public")
    assert stack.preview.wait_answer(echo["id"], "/hello").text == "hello"
    with pytest.raises(requests.ReadTimeout):
        stack.preview.get(echo["id"], "/", app_port=3001, timeout=HELD_SECONDS)  # declared: it is waited for
    assert stack.preview.get(echo["id"], "/", app_port=3002).status_code == 401
    assert stack.preview.get(echo["id"], "/", app_port=9100).status_code == 401


# --- the end of access ----------------------------------------------------------------------------


def open_socket(stack, sandbox, cookie):
    import socket

    sock = socket.create_connection(("127.0.0.1", stack.preview_port), timeout=20)
    host = stack.preview.host(sandbox["id"])
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    upgrade = UPGRADE.replace("Sec-WebSocket-Key: x\r\n", key)
    sock.sendall(f"GET /ws HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n{upgrade}\r\n".encode())
    assert sock.recv(4096).startswith(b"HTTP/1.1 101")
    return sock


def ends(sock):
    received = b""
    try:
        while piece := sock.recv(4096):
            received += piece
    except ConnectionResetError:
        pass
    sock.close()
    return received


def test_signing_out_ends_the_passes_of_that_session_and_what_is_open(stack, owner, private):
    second = Owner(stack)
    mine = enter(stack, private, second.ticket(private["id"])["ticket"])
    sock = open_socket(stack, private, mine)
    unused = second.ticket(private["id"])["ticket"]
    assert second.call("DELETE", "/v1/session").status_code == 204
    assert ends(sock).endswith(CLOSE_1008)
    wait_until(lambda: status(stack, private, mine) == 401, TELL_SECONDS_MAX, "the pass has ended")
    assert exchange(stack, private, unused).status_code == 401, "nor is a ticket of that session good"
    assert status(stack, private, enter(stack, private, owner.ticket(private["id"])["ticket"])) == 200


def test_a_change_of_access_ends_what_is_open(stack, owner, private):
    mine = enter(stack, private, owner.ticket(private["id"])["ticket"])
    sock = open_socket(stack, private, mine)
    set_access(stack, private, "public")
    set_access(stack, private, "private")
    assert ends(sock).endswith(CLOSE_1008)
    assert status(stack, private, mine) == 401
    kinds = [e["payload"]["preview_access"] for e in stack.events() if e["kind"] == "app.preview_access_changed"]
    assert kinds[:2] == ["private", "public"]


def test_a_new_code_from_the_command_line_ends_all_sessions_and_their_passes(stack, private):
    """Another process writes the database: sandboxd notices by itself."""
    somebody = Owner(stack)
    mine = enter(stack, private, somebody.ticket(private["id"])["ticket"])
    assert status(stack, private, mine) == 200
    code = console_code(stack)
    wait_until(lambda: status(stack, private, mine) == 401, TELL_SECONDS_MAX, "the pass has ended")
    Owner(stack, code)


# --- without sandboxd -----------------------------------------------------------------------------


def test_a_running_private_preview_goes_on_while_sandboxd_is_killed_and_restarted(stack, private):
    mine = enter(stack, private, Owner(stack).ticket(private["id"])["ticket"])
    stack["control"].kill9()
    try:
        stack["preview"].stop()
        stack["preview"].start()
        wait_until(lambda: listens(stack) and status(stack, private, mine) == 200, 15, "the pass is good without sandboxd")
        assert status(stack, private) == 401
        answer = exchange(stack, private, "some-ticket")
        assert answer.status_code == 503 and int(answer.headers["retry-after"]) > 0
    finally:
        stack["control"].start()
        stack.wait_ready()
    assert status(stack, private, mine) == 200, "the key is the same after a restart"


def listens(stack):
    try:
        return stack.preview.get(api_id()).status_code
    except requests.ConnectionError:
        return None


def test_a_ticket_is_for_thirty_seconds(stack, private, old_ticket):
    ticket, asked = old_ticket
    time.sleep(max(0, asked + TICKET_SECONDS + 1 - time.monotonic()))
    assert exchange(stack, private, ticket).status_code == 401


# --- settings -------------------------------------------------------------------------------------


def test_new_apps_are_private_where_the_owner_says_so_and_plain_http_gets_no_ticket(model, apps_of):
    settings = {"SANDBOXD_PREVIEW_ACCESS": "private", "PREVIEW_DOMAIN": "plain.test"}
    with Stack(model=model, settings=settings) as stack:
        made = apps_of(stack)
        app = made.app()
        assert app["preview_access"] == "private"
        sandbox = stack.api.make_sandbox(app["id"])
        assert sandbox["preview"]["access"] == "private"
        answer = stack.api.post(f"/v1/sandboxes/{sandbox['id']}/preview-ticket", {})
        assert "PREVIEW_TLS" in assert_error(answer, 409, "conflict")["message"]
        answer = stack.preview.get(sandbox["id"], "/", headers={"accept": "text/html"})
        assert answer.status_code == 303 and answer.headers["location"].startswith("http://console.plain.test/enter?")
        made.delete_all()
