"""Stock dev servers behind the edge, with their own settings: Vite, Next.js and uvicorn (issue 4, item 4).

One sandbox runs all three; what they are comes from npm and PyPI once. They are met by two names: on a
localhost name at a port of its own, and on a real name under TLS at 443, where a browser puts no port
into Host and Origin.
"""

import os
import re
import shutil
import time

import pytest
import requests

from tests.integration import docker
from tests.integration.browser import Browser
from tests.integration.client import Preview
from tests.integration.conftest import Apps
from tests.integration.edge import Edge
from tests.integration.harness import ROOT, TEST_DIR, Stack
from tests.integration.programs import free_port, wait_until

DOMAIN = "example.test"
NEXT, VITE, API = 3000, 5173, 8000
INSTALL_SECONDS_MAX = 300
FORGOTTEN_AFTER_SECONDS, ASLEEP_SECONDS_MAX = 10, 90
# Next's client asks again after one second, then less and less often, down to every ten.
RECONNECT_SECONDS = 20
FILES = ROOT / "tests" / "integration" / "apps" / "dev"
INSTALLS = (
    "cd workspace/app/next && npm install --no-audit --no-fund next react react-dom",
    "cd workspace/app/vite && npm install --no-audit --no-fund vite",
    "cd workspace/app && python3 -m venv venv && venv/bin/pip install -q fastapi uvicorn websockets",
)
pytestmark = pytest.mark.filterwarnings("ignore:Unverified HTTPS request")


@pytest.fixture(scope="module")
def stack(model):
    with Stack(model=model, settings={"PREVIEW_DOMAIN": DOMAIN, "PREVIEW_TLS": "true"}) as running:
        yield running


@pytest.fixture(scope="module")
def plain(stack):
    """The edge of a first day: localhost names at some port."""
    settings = {"PREVIEW_DOMAIN": "localhost", "PREVIEW_TLS": "false", "HTTP_PORT": str(free_port())}
    with Edge(stack, settings) as edge:
        yield edge


@pytest.fixture(scope="module")
def secure_port(stack):
    """The edge of a real domain, with the entry point that traefik.yml only hints at."""
    folder, port = TEST_DIR / f"{stack.name}.traefik", free_port()
    shutil.copytree(ROOT / "traefik", folder)
    text = (folder / "traefik.yml").read_text(encoding="utf-8")
    text = text.replace("  # websecure:\n  #   address: \":443\"", f"  websecure:\n    address: \":{port}\"")
    assert f":{port}" in text, "traefik.yml names websecure"
    (folder / "traefik.yml").write_text(text, encoding="utf-8")
    settings = {"HTTP_PORT": str(free_port()), "PREVIEW_ENTRYPOINT": "websecure", "PREVIEW_TLS": "true"}
    try:
        with Edge(stack, settings, folder):
            yield port
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def dev(stack):
    """The sandbox with the three servers running."""
    apps = Apps(stack)
    sandbox = apps.sandbox(ports=(NEXT, VITE, API))["id"]
    stack.preview.wait_answer(sandbox)
    for path in sorted(p for p in FILES.rglob("*") if p.is_file()):
        stack.put_file(sandbox, path.relative_to(FILES), path.read_text(encoding="utf-8"))
    for command in INSTALLS:
        docker.run_inside(sandbox, "env", "TMPDIR=/home/sandbox/.tmp", "sh", "-c", command, timeout=INSTALL_SECONDS_MAX)
    apps.stop(sandbox)
    apps.start(sandbox)
    for port, path in ((API, "/items/"), (VITE, "/"), (NEXT, "/")):
        stack.preview.wait_answer(sandbox, path, seconds=120, app_port=port)
    yield sandbox
    apps.delete_all()


@pytest.fixture(scope="module")
def browser(plain, secure_port):
    with Browser([f"MAP *.{DOMAIN}:443 127.0.0.1:{secure_port}"]) as running:
        yield running


@pytest.fixture(params=["localhost", "tls"])
def address(request, dev, plain, secure_port):
    """The public address of an app's port, as a person types it."""

    def of(port):
        name = f"s-{dev}-{port}.preview"
        return f"http://{name}.localhost:{plain.port}" if request.param == "localhost" else f"https://{name}.{DOMAIN}"

    return of


def wait_value(browser, script, wanted, seconds=60):
    wait_until(lambda: browser.run(script) == wanted, seconds, lambda: f"{browser.run(script)!r}, wanted {wanted!r}")


def in_calm(browser, steps, tries=3):
    """A container that starts beside this test changes the host's interfaces, and Chromium drops what is open."""
    for left in range(tries, 0, -1):
        try:
            return steps()
        except AssertionError:
            if left == 1 or "ERR_NETWORK_CHANGED" not in browser.text():
                raise
    return None


def change_until_seen(stack, sandbox, path, template, browser, shown):
    """Saves the file, anew every few seconds: a dev server may miss what is saved while a page has just come."""
    for n in range(6):
        words = f"words {os.urandom(3).hex()}"
        stack.put_file(sandbox, path, template.replace("first words", words))
        end = time.monotonic() + 10
        while time.monotonic() < end:
            if words in (browser.run(shown) or ""):
                return words
            time.sleep(0.1)
    raise AssertionError(f"{n + 1} changes and none is shown: {browser.text()[:500]}")


# --- Vite -------------------------------------------------------------------------------------------


def test_vites_page_changes_without_a_reload(stack, dev, browser, address):
    template = (FILES / "vite" / "src" / "words.js").read_text(encoding="utf-8")
    shown = "document.getElementById('words')?.textContent"

    def steps():
        browser.open(address(VITE))
        wait_until(lambda: browser.run(shown), 60, browser.text)
        browser.run("window.here = true")
        change_until_seen(stack, dev, "vite/src/words.js", template, browser, shown)
        stack.put_file(dev, "vite/src/style.css", f"h1 {{ color: {colour}; }}")
        wait_value(browser, "getComputedStyle(document.querySelector('h1')).color", colour)
        assert browser.run("window.here") is True, "the page was loaded anew"

    colour = f"rgb(1, 2, {os.urandom(1)[0]})"
    in_calm(browser, steps)


# --- Next.js ----------------------------------------------------------------------------------------


def test_nexts_page_changes_without_a_reload_and_keeps_its_state(stack, dev, browser, address):
    template = (FILES / "next" / "app" / "greeting.js").read_text(encoding="utf-8")
    shown, click = "document.getElementById('greeting')?.textContent", "document.getElementById('greeting').click()"

    def count():
        return int((browser.run(shown) or "0").split()[-1])

    def steps():
        browser.open(address(NEXT))
        wait_until(lambda: browser.run(shown), 120, browser.text)
        wait_until(lambda: browser.run(click) or count() > 0, 60, "no click is heard")
        browser.run("window.here = true")
        before = count()
        change_until_seen(stack, dev, "next/app/greeting.js", template, browser, shown)
        assert count() == before and browser.run("window.here") is True, "the page was loaded anew"

    in_calm(browser, steps)


def test_nexts_server_actions_take_the_form_of_their_own_page(stack, dev, browser, address):
    def steps():
        item = f"item {os.urandom(3).hex()}"
        browser.open(address(NEXT))
        wait_until(lambda: browser.run("!!document.getElementById('add')"), 120, browser.text)
        browser.run(f"document.getElementById('item').value = {item!r}; document.getElementById('add').click()")
        wait_until(lambda: item in (browser.run("document.getElementById('list')?.innerText") or ""), 60, browser.text)
        kept = (stack.workspace(dev) / "items.txt").read_text(encoding="utf-8")
        assert kept.split("\n").count(item) == 1, kept

    in_calm(browser, steps)


def test_nexts_server_actions_refuse_a_foreign_origin(stack, dev, plain):
    """The check of Next itself is still there: it compares Origin with what the edge says the host is."""
    front = Preview(plain.port)
    page = front.get(dev, "/", app_port=NEXT).text
    action = re.search(r'name="(\$ACTION_ID_[0-9a-f]+)"', page).group(1)
    kept = stack.workspace(dev) / "items.txt"
    before = kept.read_text(encoding="utf-8") if kept.exists() else ""
    forged = {"origin": "http://evil.example", "x-forwarded-host": "evil.example"}
    answer = front.post(dev, "/", app_port=NEXT, headers=forged, files={action: (None, ""), "item": (None, "forged")})
    assert answer.status_code >= 400, answer.status_code
    assert (kept.read_text(encoding="utf-8") if kept.exists() else "") == before


# --- FastAPI and uvicorn ----------------------------------------------------------------------------


@pytest.mark.parametrize("host_port", ["", ":8443"])
def test_a_redirect_names_scheme_host_and_port_of_the_visitor(dev, plain, secure_port, host_port):
    """Host is what the person typed, whatever port the edge itself has (`ssh -L`, a proxy in front)."""
    for scheme, port, domain in (("http", plain.port, "localhost"), ("https", secure_port, DOMAIN)):
        host = f"s-{dev}-{API}.preview.{domain}{host_port}"
        with requests.Session() as session:
            session.trust_env = False
            answer = session.get(f"{scheme}://127.0.0.1:{port}/items", headers={"host": host}, allow_redirects=False, verify=False, timeout=30)
            assert (answer.status_code, answer.headers["location"]) == (307, f"{scheme}://{host}/items/")
            seen = session.get(f"{scheme}://127.0.0.1:{port}/items/", headers={"host": host}, verify=False, timeout=30).json()
        assert seen["url"] == seen["self"] == f"{scheme}://{host}/items/"


def test_a_visitor_cannot_name_another_scheme_host_or_address(dev, plain):
    forged = {
        "x-forwarded-proto": "https", "x-forwarded-host": "evil.example", "x-forwarded-for": "203.0.113.7",
        "x-forwarded-port": "1", "x-forwarded-prefix": "/evil", "forwarded": "for=203.0.113.7;host=evil.example;proto=https",
    }  # fmt: skip
    seen = Preview(plain.port).get(dev, "/items/", app_port=API, headers=forged).json()
    assert seen["url"].startswith(f"http://s-{dev}-{API}.preview.localhost"), seen
    assert seen["client"] in ("127.0.0.1", "::1"), seen


def test_uvicorns_streams_ranges_and_sockets(dev, plain):
    front = Preview(plain.port)
    events = front.get(dev, "/events", app_port=API)
    assert events.headers["content-type"].startswith("text/event-stream") and events.text.count("data:") == 3
    part = front.get(dev, "/file", app_port=API, headers={"range": "bytes=3-12"})
    assert part.status_code == 206 and part.text == (FILES / "api" / "main.py").read_text(encoding="utf-8")[3:13]
    assert part.headers["content-range"].startswith("bytes 3-12/")
    with front.websocket(dev, "/ws", app_port=API) as socket_:
        assert socket_.recv(timeout=20) == f"ws://s-{dev}-{API}.preview.localhost:{plain.port}/ws"
        socket_.send("hello")
        assert socket_.recv(timeout=20) == "hello"


# --- left alone (last: all three stop) ----------------------------------------------------------------


def test_a_forgotten_tab_of_next_sleeps_and_its_reconnects_wake_nothing(stack, dev, browser, plain):
    """Its client goes on asking for its server after it went. (Vite's: test_idle_policy.py.)"""
    app = stack.api.sandbox(dev)["app_id"]
    browser.open(f"http://s-{dev}-{NEXT}.preview.localhost:{plain.port}")
    wait_until(lambda: browser.run("document.getElementById('greeting')?.textContent"), 120, browser.text)
    answer = stack.api.patch(f"/v1/apps/{app}", {"idle_threshold_s": FORGOTTEN_AFTER_SECONDS})
    assert answer.status_code == 200, answer.text
    stack.api.wait_sandbox(dev, "stopped", seconds=ASLEEP_SECONDS_MAX)
    time.sleep(RECONNECT_SECONDS)
    assert stack.api.sandbox(dev)["status"] == "stopped"
