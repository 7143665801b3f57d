"""Visitors of an installed preview, and the app that counts them: who came, how often, what it was told.

They live on the machine itself, as the edge serves a loopback name to nobody else. Every request has a
name of its own that the app writes down: lost is a name that is missing, doubled one that stands there twice.
"""

import json
import pathlib
import re
import shlex
import subprocess
import time
from collections import Counter

from tests.install.story import last_id

SERVER = pathlib.Path(__file__).parents[1] / "integration" / "apps" / "echo.js"
DIR = "/run/visitors"
BUILD_SECONDS_MAX = 300
END_SECONDS_MAX = 90

# One visitor: a short GET, a GET of 1.2 s, a POST, and again, until the file `go` is gone.
VISIT = """\
visit() { # number
    for ((i = 1; ; i++)); do
        [ -e go ] || return 0
        more=()
        case $((i % 3)) in
        0) path="/hit?v$1-$i" ;;
        1) path="/slow-hit?ms=1200&v$1-$i" ;;
        2) path="/v$1-$i" more=(--data-binary @body) ;;
        esac
        echo "$path $(curl -s -m 60 -o /dev/null -w '%{http_code}' "${more[@]}" "$url$path")"
        sleep 0.2
    done
}
"""


class CountingApp:
    """An app of the person's with one sandbox, whose server writes down each request by its name."""

    def __init__(self, story):
        self.story = story
        self.app = self._make("/v1/apps", '{"name":"counts","runtime_preset":"node-http"}')
        self.sandbox = self._make(f"/v1/apps/{self.app}/sandbox", '{"ports":[3000]}')
        self.url = f"http://s-{self.sandbox}-3000.preview.localhost"
        self.wait("/", BUILD_SECONDS_MAX)
        server = f"/var/lib/sandboxed/workspaces/{self.sandbox}/workspace/app/server.js"
        story.machine.sh(f"test -f {server} && cat >{server}", stdin=SERVER.read_text(encoding="utf-8"))
        story.api("POST", f"/v1/sandboxes/{self.sandbox}/stop")
        self.wait("/hello", 60)

    def _make(self, path, body):
        """The id of what was made; a 503 says that its image is being built."""
        end = time.monotonic() + BUILD_SECONDS_MAX
        while not re.fullmatch(r"[0-9a-z]{26}", made := last_id(self.story.api("POST", path, body))):
            assert '"image_building"' in made and time.monotonic() < end, made
            time.sleep(1)
        return made

    def get(self, path):
        """Status and body."""
        text = self.story.out(f"curl -s -m 60 -w '\\n%{{http_code}}' {shlex.quote(self.url + path)} || true")
        body, _, status = text.rpartition("\n")
        return int(status), body

    def wait(self, path, seconds):
        """The body of the first 200."""
        end = time.monotonic() + seconds
        while True:
            status, body = self.get(path)
            if status == 200:
                return body
            assert time.monotonic() < end, f"{path} answers {status}: {body[-2000:]}"
            time.sleep(0.5)

    def came(self):
        return Counter(line.split()[0] for line in json.loads(self.wait("/posts", 30)))

    def delete(self):
        self.story.api("DELETE", f"/v1/apps/{self.app}")


class Visitors:
    """A context manager; `answers` has what each request was told, by its name, when they have left."""

    def __init__(self, machine, url, count):
        self.machine, self.answers, self.process = machine, {}, None
        script = f"cd {DIR}; url={url}\n{VISIT}\nfor n in $(seq {count}); do visit $n & done; wait"
        self.command = ["docker", "exec", machine.name, "bash", "-c", script]

    def __enter__(self):
        self.machine.sh(f"mkdir -p {DIR} && touch {DIR}/go && head -c 20000 /dev/zero >{DIR}/body")
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_):
        self.machine.sh(f"rm -f {DIR}/go")
        words, _ = self.process.communicate(timeout=END_SECONDS_MAX)
        self.answers = dict(line.split() for line in words.splitlines())


class LongDownload:
    """One request whose answer never ends by itself; `curl`'s exit status when somebody cut it."""

    CUT = 18

    def __init__(self, machine, url):
        self.process = subprocess.Popen(["docker", "exec", machine.name, "curl", "-s", "-N", "-o", "/dev/null", f"{url}/drip"])

    def status(self):
        return self.process.wait(END_SECONDS_MAX)
