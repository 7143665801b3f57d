"""Who may load a preview, tried on sandboxd-preview-proxy by itself: passes, tickets, revocation, limits of wakes.

sandboxd is a script here, its key is the test's; browsers' own part is in test_preview_access.py.
"""

import base64
import json
import time

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.integration.proxy_fakes import encode, new_id, wait_for
from tests.integration.test_proxy_preview_alone import World, leftovers  # noqa: F401

KEY = Ed25519PrivateKey.generate()
OTHER_KEY = Ed25519PrivateKey.generate()
SESSION = "0123456789abcdef0123456789abcdef"
PAGE = "Accept: text/html\r\nSec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Site: none\r\n"
FRAME = PAGE.replace("document", "iframe")
UPGRADE = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\n"
CLOSE_1008 = b"\x88\x02\x03\xf0"


def public(key):
    return key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()


def sign(statement, key=KEY):
    signature = key.sign(b"sandboxd preview pass\n" + statement.encode())
    return f"{statement}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


class Guarded(World):
    """A private app at epoch 7. Tickets that sandboxd knows are in `tickets`, each with its pass."""

    settings = {}

    def __init__(self, base):
        super().__init__(base)
        self.epoch = 7
        self.access = "private"
        self.tickets = {}
        self.broker.handlers["enter"] = self.on_enter

    def row(self, state="running", **more):
        return super().row(state, **{"access": self.access, "epoch": self.epoch, **more})

    def tell_settings(self, **more):
        fields = {"preview_domain": "example.com", "console_host": "console.example.com", "http_port": 80,
                  "pass_key": public(KEY), **more}
        return encode("settings", fields)

    def serve(self, state="running", **settings):
        self.broker.greeting = [self.tell_settings(**settings), encode("route", self.row(state)), encode("synced")]
        self.proxy.start()
        wait_for(lambda: self.broker.connections, what="the proxy at the broker")
        if state == "running":
            self.relay.start()
        wait_for(lambda: self.ask("/.sandboxd/wake", headers=self.cookie()).status == 200, what="the route")
        if state == "running":
            wait_for(lambda: self.ask("/up", headers=self.cookie()).status == 200, what="the app")
        return self

    def statement(self, sandbox=None, session=SESSION, epoch=None, left_s=12 * 3600):
        return f"v1.{sandbox or self.id}.{session}.{self.epoch if epoch is None else epoch}.{int(time.time()) + left_s}"

    def cookie(self, text=None, name="sandboxd_pass"):
        return f"Cookie: {name}={text or sign(self.statement())}\r\n"

    def on_enter(self, record):
        given = self.tickets.pop(record["ticket"], None)
        answer = {"n": record["n"], "id": record["id"]}
        self.broker.send("pass", {**answer, **({"pass": given, "max_age_s": 43200} if given else {"message": "no"})})

    def raise_epoch(self):
        self.epoch += 1
        self.route("running")

    def seen(self, path):
        return self.app.last(path)["headers"]


@pytest.fixture
def world(tmp_path):
    w = Guarded(tmp_path)
    yield w
    w.stop()
    assert "AddressSanitizer" not in w.proxy.log() and "runtime error" not in w.proxy.log(), w.proxy.log()


@pytest.fixture
def private(world):
    return world.serve()


# ---- without a pass ----------------------------------------------------------------------------------


def test_only_a_page_load_is_sent_to_the_console(private):
    got = private.ask("/a/b?c=%2F&d=e", headers=PAGE)
    assert got.status == 303
    assert got.header("location") == (f"http://console.localhost/enter?sandbox={private.id}&port=3000"
                                      "&to=/a/b%3Fc%3D%252F%26d%3De")
    assert "no-store" in got.header("cache-control")
    for method, headers in (("GET", ""), ("GET", "Accept: text/html\r\n"), ("GET", FRAME), ("POST", PAGE),
                            ("GET", PAGE.replace("navigate", "no-cors")), ("GET", UPGRADE), ("HEAD", PAGE),
                            ("GET", PAGE + "Sec-Purpose: prefetch\r\n"), ("OPTIONS", "Origin: http://x\r\n")):
        got = private.ask("/", method=method, headers=headers)
        assert got.status == 401, (method, headers)
    assert [r for r in private.app.requests if r["path"] == "/"] == []


def test_what_is_no_page_load_gets_json_and_a_frame_gets_a_page_that_leads_out(private):
    got = private.ask("/data")
    assert got.header("content-type") == "application/json"
    assert json.loads(got.body)["error"]["code"] == "unauthorized"
    got = private.ask("/", headers=FRAME)
    assert got.header("content-type").startswith("text/html")
    assert b'target="_blank"' in got.body and f"/enter?sandbox={private.id}&amp;port=3000".encode() in got.body


@pytest.mark.parametrize("headers", ["", PAGE, FRAME, UPGRADE, "Cookie: sandboxd_pass=x\r\n"], ids=range(5))
@pytest.mark.parametrize("path", ["/", "/.sandboxd/wake", "/.sandboxd/enter?ticket=x", "/.sandboxd/other"])
def test_unknown_forbidden_and_undeclared_look_alike_and_wake_nothing(world, headers, path):
    world.serve("asleep")
    unknown = new_id()

    def seen(sandbox, port):
        got = world.ask(path, headers=headers, host=f"s-{sandbox}-{port}.preview.localhost")
        plain = [(k, v.replace(sandbox, "ID").replace(str(port), "PORT")) for k, v in got.headers if k != "content-length"]
        return got.status, plain, got.body.decode().replace(sandbox, "ID").replace(str(port), "PORT")

    answers = [seen(world.id, 3000), seen(world.id, 4000), seen(unknown, 3000)]
    assert answers[0] == answers[1] == answers[2]
    assert answers[0][0] in (303, 401)
    assert world.broker.count("wake") == 0


@pytest.mark.parametrize("host,settings,origin", [
    ("s-{id}-3000.preview.localhost:8080", {}, "http://console.localhost:8080"),
    ("s-{id}-3000.preview.example.com", {"tls": True}, "https://console.example.com"),
    ("s-{id}-3000.preview.example.com:8443", {"tls": True}, "https://console.example.com:8443"),
    ("s-{id}-3000.preview.localhost:8080", {"tls": True}, "http://console.localhost:8080"),
    ("s-{id}-3000.preview.dev.localhost", {"preview_domain": "dev.localhost", "console_host": "c.dev.localhost"},
     "http://c.dev.localhost"),
])
def test_the_console_is_where_the_person_has_it(world, host, settings, origin):
    name = "__Host-sandboxd_pass" if settings.get("tls") else "sandboxd_pass"
    world.cookie = lambda text=None, name=name: Guarded.cookie(world, text)
    world.serve(**settings)
    got = world.ask("/", headers=PAGE, host=host.replace("{id}", world.id))
    assert got.status == 303 and got.header("location").startswith(f"{origin}/enter?"), got.header("location")


# ---- with one --------------------------------------------------------------------------------------------


def test_a_pass_opens_and_never_reaches_the_app(private):
    good = sign(private.statement())
    for cookies in (f"Cookie: sandboxd_pass={good}\r\n", f"Cookie: a=1;sandboxd_pass={good};b=2\r\n",
                    f"Cookie: a=1\r\nCookie:   sandboxd_pass={good} ;  b=2\r\n",
                    f"Cookie: sandboxd_pass=old; a=1; sandboxd_pass={good}; sandboxd_pass=; b=2\r\n",
                    "Cookie: " + "; ".join(f"c{i}=x" for i in range(300)) + f"; sandboxd_pass={good}\r\n"):
        got = private.ask("/in", headers=cookies + "Authorization: Basic YTpi\r\n")
        assert got.status == 200, cookies
        fields = private.seen("/in")
        assert not [v for k, v in fields if "sandboxd_pass" in v or good in v], cookies
        assert dict(fields)["authorization"] == "Basic YTpi"
        if "a=1" in cookies:
            together = "; ".join(v for k, v in fields if k == "cookie")
            assert sorted(together.split("; ")) == ["a=1", "b=2"], cookies


def test_what_is_no_pass_of_this_preview_opens_nothing(private):
    good = private.statement()
    wrong = {
        "another sandbox's": sign(private.statement(sandbox=new_id())),
        "expired": sign(private.statement(left_s=-1)),
        "epoch before": sign(private.statement(epoch=6)),
        "epoch to come": sign(private.statement(epoch=8)),
        "another key's": sign(good, OTHER_KEY),
        "changed": sign(good).replace(f".{SESSION}.", f".{'f' * 32}."),
        "no signature": good,
        "empty signature": good + ".",
        "more": sign(good) + ".x",
        "quoted": f'"{sign(good)}"',
        "capitals": sign(good).upper(),
        "long": "v1." + "a" * 5000,
        "nothing": "",
        "version": sign(good.replace("v1.", "v2.")),
        "another context": good + "." + base64.urlsafe_b64encode(KEY.sign(good.encode())).decode().rstrip("="),
    }
    assert private.ask("/x", headers=private.cookie()).status == 200
    for name, text in wrong.items():
        assert private.ask("/wrong", headers=private.cookie(text or "-")).status == 401, name
    for name in ("Sandboxd_pass", "xsandboxd_pass", "__Host-sandboxd_pass", "sandboxd_pass2"):
        assert private.ask("/wrong", headers=private.cookie(name=name)).status == 401, name
    assert not [r for r in private.app.requests if r["path"] == "/wrong"]


def test_a_pass_expires_while_the_connection_stays(private):
    short = private.cookie(sign(private.statement(left_s=2)))
    c = private.client()
    assert c.send(private.text("GET", "/1", short)).answer().status == 200
    wait_for(lambda: c.send(private.text("GET", "/2", short)).answer().status == 401)
    c.close()


def test_under_tls_only_the_name_that_nobody_else_can_plant_counts(world):
    world.cookie = lambda text=None, name="__Host-sandboxd_pass": Guarded.cookie(world, text, name)
    host = f"s-{world.id}-3000.preview.example.com"
    world.broker.greeting = [world.tell_settings(tls=True), encode("route", world.row()), encode("synced")]
    world.proxy.start()
    world.relay.start()
    wait_for(lambda: world.ask("/", headers=world.cookie(), host=host).status == 200)
    assert world.ask("/", headers=world.cookie(name="sandboxd_pass"), host=host).status == 401


# ---- from whose page -------------------------------------------------------------------------------------


def test_what_another_page_sends_does_not_count_as_the_owners(private):
    mine = private.cookie()
    other = f"http://s-{new_id()}-3000.preview.localhost"
    own = f"http://{private.host()}"
    refused = (
        f"Origin: {other}\r\n", "Origin: null\r\n", "Sec-Fetch-Site: same-site\r\nSec-Fetch-Mode: no-cors\r\n",
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: cors\r\n", f"Sec-Fetch-Site: same-site\r\nOrigin: {own}\r\n",
        f"Origin: {own}.evil.com\r\n", f"Origin: {own}:1\r\n",
    )
    for headers in refused:
        assert private.ask("/call", headers=mine + headers).status == 401, headers
        if own + "\r\n" not in headers and "Origin" in headers:
            assert private.ask("/ws", headers=mine + UPGRADE + headers).status == 401, headers
    form = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n"
    assert private.ask("/form", method="POST", headers=mine + form, body="a=1").status == 401
    assert not [r for r in private.app.requests if r["path"] in ("/call", "/ws", "/form")]
    got = private.ask("/ws2", headers=mine + UPGRADE + f"Sec-Fetch-Site: same-site\r\nOrigin: {own}\r\n")
    assert got.status == 200, "a socket's origin is what counts"
    for headers in ("", f"Origin: {own}\r\n", "Sec-Fetch-Site: same-origin\r\nOrigin: null\r\n", "Sec-Fetch-Site: none\r\n", form):
        assert private.ask("/call", headers=mine + headers).status == 200, headers


def test_a_private_preview_is_framed_by_the_console_only(private):
    got = private.ask("/", headers=private.cookie())
    assert got.all("content-security-policy") == ["frame-ancestors 'self' http://console.localhost http://console.localhost:*"]
    private.access = "public"
    private.raise_epoch()
    wait_for(lambda: private.ask("/").status == 200)
    assert private.ask("/").all("content-security-policy") == []


# ---- entering --------------------------------------------------------------------------------------------


def test_a_ticket_becomes_a_cookie_once(private):
    private.tickets["t1"] = sign(private.statement())
    got = private.ask("/.sandboxd/enter?ticket=t1&to=/a%3Fb%3Dc", headers=PAGE)
    assert (got.status, got.header("location")) == (303, "/a?b=c")
    name, _, rest = got.header("set-cookie").partition("=")
    value, *attributes = rest.split("; ")
    assert name == "sandboxd_pass"
    assert attributes == ["Path=/", "Max-Age=43200", "HttpOnly", "Secure", "SameSite=None", "Partitioned"]
    assert private.ask("/", headers=private.cookie(value)).status == 200
    again = private.ask("/.sandboxd/enter?ticket=t1&to=/", headers=PAGE)
    assert again.status == 401 and again.header("set-cookie") is None


def test_a_ticket_works_on_a_public_preview_too(private):
    private.access = "public"
    private.raise_epoch()
    private.tickets["t"] = sign(private.statement())
    got = private.ask("/.sandboxd/enter?ticket=t", headers=FRAME)
    assert (got.status, got.header("location")) == (303, "/") and got.header("set-cookie")


@pytest.mark.parametrize("settings,name,attributes", [
    ({"tls": True}, "__Host-sandboxd_pass", ["Secure", "SameSite=None", "Partitioned"]),
    ({}, "sandboxd_pass", ["SameSite=Lax"]),
])
def test_on_a_real_name_the_cookie_follows_tls(world, settings, name, attributes):
    host = f"s-{world.id}-3000.preview.example.com"
    world.broker.greeting = [world.tell_settings(**settings), encode("route", world.row()), encode("synced")]
    world.proxy.start()
    wait_for(lambda: world.ask("/", host=host).status == 401)
    world.tickets["t"] = sign(world.statement())
    got = world.ask("/.sandboxd/enter?ticket=t&to=/", headers=PAGE, host=host)
    found, _, rest = got.header("set-cookie").partition("=")
    assert (found, rest.split("; ")[4:]) == (name, attributes)


@pytest.mark.parametrize("to", [
    "//evil.com", "%2F%2Fevil.com", "/%2Fevil.com/", "http://evil.com/", "evil", "", "/%5Cevil.com", "%5C%5Cevil.com",
    "/a%0D%0ASet-Cookie:x=1", "/a%00b", "/%0A/evil.com", "/a%20b", "/%", "/%zz", "/a%80", "/a%23b", "/.sandboxd/enter?ticket=t",
    "/" + "a" * 3000,
])
def test_a_path_that_could_lead_elsewhere_spends_no_ticket(private, to):
    private.tickets["t"] = sign(private.statement())
    got = private.ask(f"/.sandboxd/enter?ticket=t&to={to}", headers=PAGE)
    assert got.status == 401 and got.header("location") is None and got.header("set-cookie") is None
    assert private.broker.count("enter") == 0 and "t" in private.tickets


@pytest.mark.parametrize("query", ["", "?", "?ticket=", "?ticket=t&ticket=t", "?ticket=t&to=/&to=/b", "?xticket=t", "?ticket=" + "t" * 200])
def test_a_query_that_is_not_ours_spends_no_ticket(private, query):
    private.tickets["t"] = sign(private.statement())
    assert private.ask(f"/.sandboxd/enter{query}", headers=PAGE).status == 401
    assert private.broker.count("enter") == 0


@pytest.mark.parametrize("method,headers", [
    ("POST", PAGE), ("HEAD", PAGE), ("GET", "Sec-Fetch-Mode: cors\r\nSec-Fetch-Dest: empty\r\n"),
    ("GET", "Sec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: image\r\n"),
])
def test_only_a_page_load_spends_a_ticket(private, method, headers):
    private.tickets["t"] = sign(private.statement())
    got = private.ask("/.sandboxd/enter?ticket=t&to=/", method=method, headers=headers)
    assert got.status == 401 and got.header("set-cookie") is None and "t" in private.tickets


def test_a_pass_for_another_sandbox_is_not_set(private):
    private.tickets["t"] = sign(private.statement(sandbox=new_id()))
    got = private.ask("/.sandboxd/enter?ticket=t&to=/", headers=PAGE)
    assert got.status == 401 and got.header("set-cookie") is None


def test_a_ticket_while_sandboxd_is_away_is_an_honest_503(private):
    private.broker.handlers["enter"] = lambda record: None
    c = private.client().send(private.text("GET", "/.sandboxd/enter?ticket=t&to=/", PAGE))
    wait_for(lambda: private.broker.count("enter"))
    private.broker.stop()
    got = c.answer()
    assert got.status == 503 and int(got.header("retry-after")) > 0
    wait_for(lambda: private.ask("/.sandboxd/enter?ticket=t&to=/", headers=PAGE).status == 503)


def test_a_visitor_who_leaves_while_entering_hurts_nobody(private):
    private.broker.handlers["enter"] = lambda record: None
    for i in range(5):
        c = private.client().send(private.text("GET", f"/.sandboxd/enter?ticket=t{i}&to=/", PAGE))
        wait_for(lambda want=i + 1: private.broker.count("enter") == want)
        c.close()
    assert private.ask("/", headers=private.cookie()).status == 200


# ---- the end of access -------------------------------------------------------------------------------


def test_a_raised_epoch_ends_what_is_open(private):
    mine = private.cookie()
    socket = private.client().send(private.text("GET", "/ws", mine + UPGRADE))
    assert socket.answer().status == 101 and socket.take(4) == b"\x81\x02hi"
    stream = private.client().send(private.text("GET", "/hang", mine))
    download = private.client().send(private.text("GET", "/sse", mine))
    wait_for(lambda: {"/hang", "/sse"} <= {r["path"] for r in private.app.requests})
    time.sleep(0.2)
    private.raise_epoch()
    assert stream.answer().status == 401
    assert not download.answer().whole, "cut, never ended in order"
    assert socket.take(4) == CLOSE_1008 and not socket.fill()
    assert private.ask("/", headers=mine).status == 401
    assert private.ask("/", headers=private.cookie()).status == 200


def test_a_held_request_is_not_sent_on_when_its_access_ends(world):
    world.serve("asleep")
    c = world.client().send(world.text("POST", "/held", world.cookie(), body="x"))
    world.held()
    world.epoch += 1
    world.wake()
    assert c.answer().status == 401
    assert not [r for r in world.app.requests if r["path"] == "/held"]


def test_what_was_public_and_becomes_private_ends(private):
    private.access = "public"
    private.raise_epoch()
    wait_for(lambda: private.ask("/").status == 200)
    socket = private.client().send(private.text("GET", "/ws", UPGRADE))
    assert socket.answer().status == 101 and socket.take(4) == b"\x81\x02hi"
    private.access = "private"
    private.raise_epoch()
    assert socket.take(4) == CLOSE_1008


# ---- renewal -------------------------------------------------------------------------------------------


def test_a_pass_is_renewed_in_passing_and_nobody_waits(private):
    old = sign(private.statement(left_s=5 * 3600))
    new = sign(private.statement(left_s=12 * 3600))
    private.broker.handlers["renew"] = lambda r: None
    got = private.ask("/1", headers=private.cookie(old))
    assert got.status == 200 and got.header("set-cookie") is None
    asked = wait_for(lambda: [r for r in private.broker.received if r["kind"] == "renew"])
    assert asked[0]["id"] == private.id and asked[0]["pass"] == old
    private.broker.send("pass", {"n": asked[0]["n"], "id": private.id, "pass": new, "max_age_s": 43200})
    wait_for(lambda: private.ask("/2", headers=private.cookie(old)).header("set-cookie"))
    given = private.ask("/3", headers=private.cookie(old)).header("set-cookie")
    assert given.startswith(f"sandboxd_pass={new}; Path=/; Max-Age=43")
    assert private.broker.count("renew") == 1
    assert private.ask("/4", headers=private.cookie(new)).header("set-cookie") is None


def test_a_fresh_pass_and_one_of_a_token_are_not_renewed(private):
    assert private.ask("/1", headers=private.cookie()).status == 200
    token = sign(private.statement(session="0", left_s=3600))
    assert private.ask("/2", headers=private.cookie(token)).status == 200
    assert private.broker.count("renew") == 0


def test_private_previews_outlive_sandboxd_and_a_restart_of_the_proxy(private):
    wait_for((private.dir / "state/preview/routes").exists, what="the kept table")
    private.broker.stop()
    due = private.cookie(sign(private.statement(left_s=3600)))
    assert private.ask("/1", headers=due).status == 200, "renewal is not waited for"
    private.proxy.stop()
    private.proxy.start()
    private.relay.stop()
    private.relay.start()
    wait_for(lambda: private.ask("/2", headers=due).status == 200, what="the app again")
    assert private.ask("/3").status == 401


# ---- the app and our cookie --------------------------------------------------------------------------------


def test_an_app_cannot_set_or_clear_our_cookie(private):
    got = private.ask("/our_cookies", headers=private.cookie())
    assert got.all("set-cookie") == ["a=1", "c=3"]


# ---- limits of wakes -------------------------------------------------------------------------------------


@pytest.fixture
def sleepers(world):
    """Six sleeping public apps, three wakes a minute for one address and five for all."""
    world.access = "public"
    world.ids = [world.id, *(new_id() for _ in range(7))]
    rows = [encode("route", [("id", i), *world.row("asleep")[1:]]) for i in world.ids]
    settings = world.tell_settings(wakes_per_minute_per_client=3, wakes_per_minute=5)
    world.broker.greeting = [settings, *rows, encode("synced")]
    world.proxy.start()
    wait_for(lambda: world.poll()["state"] == "asleep")
    return world


def visit(world, number, address, headers=""):
    """Asks for one app by way of the edge; None while it is held."""
    forwarded = f"X-Forwarded-For: {address}\r\n" if address else ""
    c = world.client()
    c.send(world.text("GET", "/", forwarded + headers, host=f"s-{world.ids[number]}-3000.preview.localhost"))
    c.sock.settimeout(0.4)
    try:
        return c.answer()
    except TimeoutError:
        return None


def test_one_address_wakes_so_many_and_then_waits(sleepers):
    for number in range(3):
        assert visit(sleepers, number, "203.0.113.5") is None
    for number in range(3):
        assert visit(sleepers, number, "203.0.113.5") is None, "joining a start is free"
    got = visit(sleepers, 3, "203.0.113.5")
    assert got.status == 429 and 1 <= int(got.header("retry-after")) <= 60
    assert json.loads(got.body)["error"]["code"] == "too_many_requests"
    page = visit(sleepers, 3, "203.0.113.5", PAGE)
    assert page.status == 429 and page.header("content-type").startswith("text/html")
    assert visit(sleepers, 3, "198.51.100.1, 203.0.113.5").status == 429, "the last element counts"
    assert visit(sleepers, 3, "203.0.113.5, 198.51.100.1") is None
    assert sleepers.broker.count("wake") == 4


def test_all_addresses_together_wake_so_many(sleepers):
    for number in range(5):
        assert visit(sleepers, number, f"203.0.113.{number}") is None
    assert visit(sleepers, 5, "203.0.113.99").status == 429
    assert visit(sleepers, 5, None) is None, "this machine and its tunnels are not limited"
    assert visit(sleepers, 6, "127.0.0.1") is None
    assert visit(sleepers, 7, "::1") is None


def test_an_ipv6_network_is_one_client(sleepers):
    for number in range(3):
        assert visit(sleepers, number, f"2001:db8:1:2:{number}::9") is None
    assert visit(sleepers, 3, "2001:db8:1:2:ffff::1").status == 429
    assert visit(sleepers, 3, "2001:db8:1:3::1") is None
