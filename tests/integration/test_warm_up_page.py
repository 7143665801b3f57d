"""The page that waits, in a real Chromium: alone, in a frame, without JavaScript, below a service worker (issue 4, item 1)."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.integration.browser import Browser
from tests.integration.client import Preview
from tests.integration.conftest import Apps
from tests.integration.edge import Edge
from tests.integration.programs import wait_until

POSTS = 20
POST_BYTES = 10 * 1024 * 1024
OURS = "Waking the app"


@pytest.fixture(scope="module")
def front(stack):
    with Edge(stack):
        yield Preview(stack.http_port)


@pytest.fixture(scope="module")
def late(stack):
    """An app that takes seconds to listen; every test finds it asleep."""
    apps = Apps(stack)
    yield apps.server(source="worker.js")["id"]
    apps.delete_all()


@pytest.fixture
def asleep(stack, late):
    Apps(stack).stop(late)
    return late


@pytest.fixture
def browser():
    with Browser() as running:
        yield running


def url(front, sandbox, path="/"):
    return f"http://{front.host(sandbox)}:{front.port}{path}"


def test_a_person_sees_where_the_start_is_and_then_the_app(front, asleep, browser):
    browser.open(url(front, asleep, "/some/page?x=1#part"))
    browser.wait_text(OURS)
    page = browser.run("""({
        lang: document.documentElement.lang, title: document.title, live: document.querySelector('[aria-live]')?.id,
        bar: document.querySelector('[role=progressbar]')?.getAttribute('aria-label'), foot: document.querySelector('.foot').innerText,
        fits: document.documentElement.scrollWidth <= innerWidth })""")
    assert page["lang"] == "en" and page["title"] and page["live"] == "p" and page["bar"] and page["fits"], page
    assert " s" in page["foot"] and "usually" in page["foot"], page
    seen = set()

    def app():
        seen.add(browser.run("document.getElementById('p')?.textContent"))
        return "the app at /some/page?x=1" in browser.text()

    wait_until(app, 60, browser.text)
    assert any("port 3000" in text for text in seen if text), seen
    assert browser.run("location.href").endswith("/some/page?x=1#part")
    assert browser.run("history.length") <= 2, "nothing to go back through"


def test_without_javascript_the_page_loads_itself_again_until_the_app_is_there(front, asleep, browser):
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(url(front, asleep))
    wait_until(lambda: OURS in browser.text(), 20, browser.text)
    wait_until(lambda: "the app at /" in browser.text(), 60, browser.text)


def test_in_a_frame_of_another_site_it_works_the_same(front, asleep, browser):
    """The console shows a preview in a frame; to the browser that is another site."""
    page = f'<!doctype html><title>outside</title><iframe id="f" width="600" height="400" src="{url(front, asleep)}"></iframe>'

    class Outside(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_args):
            """Nothing to say."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Outside)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        browser.open(f"http://outside.localhost:{server.server_port}/")
        wait_until(lambda: OURS in browser.frame_text(), 20, browser.frame_text)
        wait_until(lambda: "the app at /" in browser.frame_text(), 60, browser.frame_text)
    finally:
        server.shutdown()
        server.server_close()


def test_a_service_worker_neither_keeps_the_page_nor_swallows_its_questions(stack, front, asleep, browser):
    browser.open(url(front, asleep))
    browser.wait_text("the app at /", 60)
    wait_until(lambda: browser.run("!!navigator.serviceWorker.controller"), 20, "the worker does not take over")
    Apps(stack).stop(asleep)
    browser.open(url(front, asleep, "/deeper"))
    browser.wait_text(OURS)
    browser.wait_text("the app at /deeper", 60)
    kept = browser.run("caches.open('everything').then(c => c.keys()).then(k => k.map(r => new URL(r.url).pathname))")
    assert "/.sandboxd/wake" not in kept and "/deeper" in kept, kept
    assert "the app at /deeper" in browser.run("caches.match('/deeper').then(r => r.text())")


def test_twenty_large_posts_to_a_sleeper_all_arrive_once(stack, front, apps):
    sandbox = apps.server()["id"]
    apps.stop(sandbox)
    body = b"y" * POST_BYTES
    with ThreadPoolExecutor(POSTS) as pool:
        answers = list(pool.map(lambda n: front.post(sandbox, f"/large{n}", data=body), range(POSTS)))
    assert [a.status_code for a in answers] == [200] * POSTS
    assert {a.json()["bytes"] for a in answers} == {POST_BYTES}
    came = [line.split()[0] for line in json.loads(front.get(sandbox, "/posts").text)]
    assert sorted(came) == sorted(f"/large{n}" for n in range(POSTS))


def test_what_is_no_page_load_is_answered_by_the_app_itself(front, asleep):
    methods = ["HEAD", "OPTIONS", "GET", "POST", "PUT", "DELETE"]
    with ThreadPoolExecutor(len(methods)) as pool:
        answers = list(pool.map(lambda m: front.request(m, asleep, "/hello", headers={"accept": "*/*"}), methods))
    for method, answer in zip(methods, answers):
        assert answer.status_code == 200 and "wake" in answer.headers["server-timing"], (method, answer.headers)
        assert answer.text == ("" if method == "HEAD" else "hello")
