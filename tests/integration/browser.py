"""A real Chromium without a screen, driven over its debugging socket: open a page, look at it, type."""

import json
import subprocess
import tempfile
import time
from pathlib import Path

import requests
from websockets.sync.client import connect

START_SECONDS_MAX = 60
CALL_SECONDS_MAX = 60
FRAME_BYTES_MAX = 64 * 1024 * 1024


class Browser:
    """One browser with one page. A context manager. Names and ports may lead elsewhere: `leads` are
    rules of Chromium's --host-resolver-rules; certificates are not looked at then."""

    def __init__(self, leads=()):
        self.options = [f"--host-resolver-rules={','.join(leads)}", "--ignore-certificate-errors"] if leads else []

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.process = subprocess.Popen(
            [
                "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                "--no-first-run", "--remote-debugging-port=0", f"--user-data-dir={self.folder.name}",
                *self.options, "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.calls = 0
        try:
            self.socket = connect(self._page_address(), max_size=FRAME_BYTES_MAX, proxy=None)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error):
        if hasattr(self, "socket"):
            self.socket.close()
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()

    def _page_address(self):
        file = Path(self.folder.name) / "DevToolsActivePort"
        end = time.monotonic() + START_SECONDS_MAX
        while not (file.exists() and file.read_text(encoding="utf-8").count("\n")):
            assert time.monotonic() < end, "Chromium does not start"
            assert self.process.poll() is None, "Chromium ended"
            time.sleep(0.1)
        self.port = file.read_text(encoding="utf-8").split("\n")[0]
        while time.monotonic() < end:
            found = self._targets("page")
            if found:
                return found[0]["webSocketDebuggerUrl"]
            time.sleep(0.1)
        raise AssertionError("Chromium has no page")

    def _targets(self, kind):
        listed = requests.get(f"http://127.0.0.1:{self.port}/json/list", timeout=10).json()
        return [target for target in listed if target["type"] == kind]

    def frame_text(self):
        """The text of the first frame of another site: such a frame is a target of its own. Empty without one."""
        question = {"id": 1, "method": "Runtime.evaluate", "params": {"expression": "document.body?.innerText ?? ''"}}
        for target in self._targets("iframe"):
            with connect(target["webSocketDebuggerUrl"], proxy=None) as socket:
                socket.send(json.dumps(question))
                return json.loads(socket.recv(timeout=CALL_SECONDS_MAX)).get("result", {}).get("result", {}).get("value", "")
        return ""

    def call(self, method, **params):
        self.calls += 1
        number = self.calls
        self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        end = time.monotonic() + CALL_SECONDS_MAX
        while time.monotonic() < end:
            answer = json.loads(self.socket.recv(timeout=CALL_SECONDS_MAX))
            if answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
        raise AssertionError(f"{method} was not answered")

    def open(self, url):
        """A container that starts beside us changes the host's interfaces: Chromium then gives up what it loads."""
        end = time.monotonic() + CALL_SECONDS_MAX
        while (result := self.call("Page.navigate", url=url)).get("errorText") == "net::ERR_NETWORK_CHANGED":
            assert time.monotonic() < end, f"{url}: the network does not come to rest"
            time.sleep(0.5)
        assert not result.get("errorText"), f"{url}: {result['errorText']}"

    def run(self, script):
        """The value of a JavaScript expression in the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def text(self):
        return self.run("document.body ? document.body.innerText : ''") or ""

    def wait_text(self, wanted, seconds=30):
        end = time.monotonic() + seconds
        while wanted not in self.text():
            assert time.monotonic() < end, f"no {wanted!r} after {seconds} s in: {self.text()[:2000]}"
            time.sleep(0.1)
