"""The main job: a prompt, and the app appears in the open browser through Traefik without a reload
(issue 3, item 14).
"""

from tests.integration.browser import Browser
from tests.integration.edge import Edge
from tests.integration.programs import wait_until

PROMPT = "Add a todo list with a text input, an add button, and a delete button on each row. Keep the list in localStorage."


def add(browser, text):
    """Types into the page as React sees it and presses the button."""
    browser.run(
        "(() => { const input = document.querySelector('input');"
        "Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(input, %r);"
        "input.dispatchEvent(new Event('input', { bubbles: true })); })()" % text
    )
    browser.run("[...document.querySelectorAll('button')].find((b) => b.innerText === 'Add').click()")


def test_a_prompt_becomes_a_todo_list_in_the_open_page(stack, apps):
    with Edge(stack) as edge, Browser() as browser:
        sandbox = apps.sandbox("react-vite")
        address = sandbox["preview_url"]
        assert f":{edge.port}" in address, address
        browser.open(address)
        wait_until(lambda: browser.run("!!document.querySelector('#root')?.children.length"), 60, browser.text)
        assert "Todo list" not in browser.text()
        browser.run("window.neverReloaded = true")
        task = stack.api.make_task(sandbox["id"], PROMPT)
        browser.wait_text("Todo list", 120)
        assert browser.run("window.neverReloaded === true"), "hot replaced, not reloaded"
        assert stack.api.wait_task(sandbox["id"], task["id"])["status"] == "succeeded"

        for text in ("milk", "bread"):
            add(browser, text)
            browser.wait_text(text)
        browser.run("[...document.querySelectorAll('li')].find((r) => r.innerText.includes('milk')).querySelector('button').click()")
        wait_until(lambda: "milk" not in browser.text(), 10, browser.text)
        assert "bread" in browser.text()
        browser.open(address)
        browser.wait_text("bread")
        assert "milk" not in browser.text(), "kept in localStorage as it was left"


def test_a_browser_that_opens_a_sleeping_app_is_taken_to_it(stack, apps):
    with Edge(stack), Browser() as browser:
        sandbox = apps.server(source="late.js")
        apps.stop(sandbox["id"])
        browser.open(sandbox["preview_url"])
        wait_until(lambda: browser.text().strip() == "hello", 60, browser.text)
