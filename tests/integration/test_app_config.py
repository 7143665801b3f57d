"""What an app is given: as environment to its processes, at each boot and when it is applied; nowhere else
(issue 5, item 8).
"""

import base64
import json
import sqlite3

import pytest

from tests.integration import docker
from tests.integration.client import assert_error
from tests.integration.conftest import Apps
from tests.integration.programs import wait_until
from tests.stubs.model_scenarios import directive

SERVER = """
import http from 'node:http';
const key = process.env.API_KEY || 'none';
console.log('the key is ' + key + ' and the colour ' + process.env.COLOUR);
console.error(process.env.PEM || 'no pem');
process.stdout.write('in two ' + key.slice(0, 9));
setTimeout(() => console.log(key.slice(9) + ' pieces'), 300);
http.createServer((q, s) => s.end(JSON.stringify(process.env))).listen(process.env.PORT, process.env.HOST);
"""
PEM_LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"
PEM = f"-----BEGIN PRIVATE KEY-----\n{PEM_LINE}\nab==\n-----END PRIVATE KEY-----\n"


class Given:
    def __init__(self, stack, apps):
        self.stack, self.api = stack, stack.api
        self.app = apps.app()
        self.secret = stack.secret("app-")
        self.hint = stack.secret("hint-")
        self.put("API_KEY", 201, value=self.secret)
        self.put("PEM", 201, value=PEM)
        self.put("COLOUR", 201, value="green", sensitive=False)
        self.put("AGENT_HINT", 201, value=self.hint, scope="agent")
        self.sandbox = self.api.make_sandbox(self.app["id"])
        stack.preview.wait_answer(self.sandbox["id"])
        stack.put_file(self.sandbox["id"], "server.js", SERVER)
        apps.stop(self.sandbox["id"])
        apps.start(self.sandbox["id"])
        self.wait_env("API_KEY", self.secret)

    def path(self, key=""):
        return f"/v1/apps/{self.app['id']}/config" + (f"/{key}" if key else "")

    def put(self, key, status=200, **body):
        answer = self.api.call("PUT", self.path(key), body)
        assert answer.status_code == status, answer.text
        return answer.json()

    def list(self):
        answer = self.api.get(self.path())
        assert answer.status_code == 200, answer.text
        return answer.json()

    def item(self, key):
        return self.api.get(self.path(key)).json()

    def env(self):
        return self.stack.preview.wait_answer(self.sandbox["id"]).json()

    def wait_env(self, key, value):
        wait_until(lambda: self.env().get(key) == value, 60, f"the app has the right {key}")

    def apply(self):
        answer = self.api.post(f"/v1/sandboxes/{self.sandbox['id']}/apply-config")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def changed(self):
        whole = self.list()
        sandbox = self.api.sandbox(self.sandbox["id"])
        assert whole["changed_since_start"] == sandbox["config_changed_since_start"]
        return whole["changed_since_start"], [i["key"] for i in whole["config"] if i["changed_since_start"]]

    def lines(self):
        return "".join(p["lines"] for p in self.api.sandbox(self.sandbox["id"])["processes"])


@pytest.fixture(scope="module")
def given(stack):
    apps = Apps(stack)
    yield Given(stack, apps)
    apps.delete_all()
    # Others share this stack, and some of them want an agent that is not connected.
    stack.api.post("/v1/agents/claude-code/disconnect")


def test_the_app_gets_it_and_answers_do_not_show_it(given):
    env = given.env()
    assert env["API_KEY"] == given.secret and env["COLOUR"] == "green" and env["PEM"] == PEM
    assert "AGENT_HINT" not in env
    whole = given.list()
    items = {i["key"]: i for i in whole["config"]}
    assert list(items) == sorted(items) and whole["changed_since_start"] is False
    assert "not a wall" in whole["note"] and "not a wall" in given.item("COLOUR")["note"]
    for key, scope in {"API_KEY": "runtime", "PEM": "runtime", "AGENT_HINT": "agent"}.items():
        assert items[key]["set"] is True and items[key]["value"] is None and items[key]["scope"] == scope
        assert items[key]["sensitive"] is True and items[key]["masked"] is True
    assert items["COLOUR"]["value"] == "green" and items["COLOUR"]["masked"] is False
    # Its scope may change without its value being known; opening it needs the value.
    assert given.put("PEM", scope="both")["scope"] == "both"
    assert given.put("PEM", scope="runtime")["value"] is None
    assert_error(given.api.call("PUT", given.path("PEM"), {"sensitive": False}), 400, "invalid_request")
    given.apply()


def test_what_the_app_prints_does_not_show_it(given):
    def logged():
        found = docker.docker("logs", f"s-{given.sandbox['id']}", check=False)
        return found.stdout + found.stderr

    wait_until(lambda: "pieces" in logged(), 20, "the app has printed")
    assert "in two *** pieces" in logged()
    for text in (given.lines(), logged()):
        assert "the key is *** and the colour green" in text, text
        assert given.secret not in text and PEM_LINE not in text and "BEGIN PRIVATE" not in text


def test_it_is_nowhere_else(given):
    inspected = docker.docker("inspect", f"s-{given.sandbox['id']}")
    audit = json.dumps(given.stack.events())
    needles = [given.secret, given.hint, PEM_LINE]
    needles += [base64.b64encode(n.encode()).decode().rstrip("=") for n in needles]
    for needle in needles:
        assert needle not in inspected and needle not in audit
        for path in given.stack.data.rglob("*"):
            if path.is_file() and not path.is_symlink():
                assert needle.encode() not in path.read_bytes(), path
    connection = sqlite3.connect(f"file:{given.stack.data}/state/sandboxd.db?mode=ro", uri=True)
    boxes = [box for (box,) in connection.execute("SELECT box FROM app_config")]
    connection.close()
    assert len(boxes) >= 4 and all(box.startswith("v1.") for box in boxes)
    assert '"key":"API_KEY"' in audit.replace(" ", "").replace("\\", ""), "that it was set is told"


def test_a_change_waits_until_it_is_applied(given):
    before = given.secret
    given.secret = given.stack.secret("app-")
    assert given.put("API_KEY", value=given.secret)["changed_since_start"] is True
    assert given.changed() == (True, ["API_KEY"])
    assert given.env()["API_KEY"] == before
    # Killed in the middle of it, we know both what is stored and what is in force.
    given.stack.kill9_and_start("control")
    wait_until(lambda: given.changed() == (True, ["API_KEY"]), 30, "the supervisor is back")
    assert given.env()["API_KEY"] == before
    # A process that ends starts again with what it had.
    docker.run_inside(given.sandbox["id"], "sh", "-c", "pkill -9 -x node; true")
    given.wait_env("API_KEY", before)
    container = docker.inspect(given.sandbox["id"])["Id"]
    after = given.apply()
    assert after["config_changed_since_start"] is False and after["status"] == "running"
    given.wait_env("API_KEY", given.secret)
    assert given.changed() == (False, [])
    assert docker.inspect(given.sandbox["id"])["Id"] == container, "the sandbox was not lost"
    assert before not in given.lines() and given.secret not in given.lines()


def test_the_same_again_and_what_only_agents_get_change_nothing(given):
    given.put("API_KEY", value=given.secret)
    assert given.put("API_KEY") is not None
    given.put("AGENT_HINT", value=given.hint + "x")
    given.put("AGENT_HINT", value=given.hint)
    assert given.changed() == (False, [])


def test_it_is_deleted(given):
    given.put("GONE", 201, value="soon-to-be-gone")
    given.apply()
    given.wait_env("GONE", "soon-to-be-gone")
    assert given.api.delete(given.path("GONE")).status_code == 204
    assert_error(given.api.delete(given.path("GONE")), 404, "not_found")
    assert_error(given.api.get(given.path("GONE")), 404, "not_found")
    assert given.changed() == (True, [])
    given.apply()
    given.wait_env("GONE", None)


def test_a_sleeping_one_has_it_at_its_next_start(given, stack):
    apps = Apps(stack)
    apps.stop(given.sandbox["id"])
    given.put("COLOUR", value="blue")
    assert given.changed() == (False, []), "nothing runs with something else"
    assert given.apply()["status"] == "stopped"
    assert given.env()["COLOUR"] == "blue", "woken by the request"
    assert given.changed() == (False, [])


@pytest.mark.parametrize("agent", ["opencode", "claude-code"])
def test_an_agent_gets_what_is_for_agents(given, agent):
    """The environment of its shell, and what of it stands in the task's events."""
    if agent == "claude-code":
        answer = given.api.post("/v1/agents/claude-code/api-key", {"api_key": given.stack.secret("sk-ant-")})
        assert answer.status_code in (200, 204), answer.text
    # Changed and not applied: the app still runs with what was there before.
    before, given.secret = given.secret, given.stack.secret("app-")
    given.put("API_KEY", value=given.secret)
    command = "env > seen.txt; env; cat /proc/[0-9]*/environ | tr '\\0' '\\n'; printf 'hint: %s' \"$AGENT_HINT\" >&2"
    task = given.api.make_task(given.sandbox["id"], directive("shell", command), agent)
    done = given.api.wait_task(given.sandbox["id"], task["id"])
    assert done["status"] == "succeeded", done
    seen = given.stack.app_dir(given.sandbox["id"]) / "seen.txt"
    env = seen.read_text(encoding="utf-8")
    seen.unlink()
    assert f"AGENT_HINT={given.hint}\n" in env
    assert "API_KEY" not in env.replace("ANTHROPIC_API_KEY", "") and "COLOUR" not in env and PEM_LINE not in env
    events = json.dumps([e.data for e in given.api.events(given.sandbox["id"], task["id"])])
    assert "AGENT_HINT=***" in events
    # It can look into its neighbours: care, not a wall. Events do not show what it saw.
    assert "COLOUR=blue" in events and "API_KEY=***" in events
    for needle in (given.hint, before, given.secret, PEM_LINE):
        assert needle not in events and needle not in json.dumps(done)
    given.apply()
    connection = sqlite3.connect(f"file:{given.stack.data}/state/sandboxd.db?mode=ro", uri=True)
    former = connection.execute("SELECT count(*) FROM app_config_former").fetchone()
    connection.close()
    assert former == (0,), "what nobody runs with is forgotten"


def test_an_app_that_fails_does_not_show_it(given):
    """Its last words stand on the page that waits, with the sandbox and in its errors."""
    given.api.call("PUT", given.path("API_KEY"), {"value": given.secret})
    path = given.stack.app_dir(given.sandbox["id"]) / "server.js"
    server = path.read_text(encoding="utf-8")
    given.stack.put_file(
        given.sandbox["id"], "server.js", "throw new Error('refused: ' + process.env.API_KEY + '\\n' + process.env.PEM);\n"
    )
    given.put("COLOUR", value="red")
    after = given.api.post(f"/v1/sandboxes/{given.sandbox['id']}/apply-config")
    assert after.status_code in (200, 202), after.text
    wait_until(lambda: "refused: ***" in given.lines(), 60, "it has failed")
    sandbox = given.api.sandbox(given.sandbox["id"])
    page = given.stack.preview.get(given.sandbox["id"], headers={"accept": "text/html", "sec-fetch-dest": "document"}).text
    state = given.stack.preview.get(given.sandbox["id"], "/.sandboxd/wake").text
    for text in (json.dumps(sandbox), page, state, json.dumps(given.stack.events())):
        assert given.secret not in text and PEM_LINE not in text, text
    given.stack.put_file(given.sandbox["id"], "server.js", server)
    given.api.post(f"/v1/sandboxes/{given.sandbox['id']}/stop")
    given.wait_env("COLOUR", "red")


BAD = [
    ("PATH", {"value": "x"}, "programs"),
    ("HOME", {"value": "x"}, "sandbox sets it"),
    ("PORT", {"value": "x"}, "preview"),
    ("LD_PRELOAD", {"value": "x"}, "linker"),
    ("SANDBOXD_X", {"value": "x"}, "belong"),
    ("ANTHROPIC_API_KEY", {"value": "x", "scope": "both"}, "runtime"),
    ("https_proxy", {"value": "x", "scope": "agent"}, "token"),
    ("1A", {"value": "x"}, "digit"),
    ("A-B", {"value": "x"}, "letters"),
    ("A" * 129, {"value": "x"}, "128"),
    ("NEW", {}, "value is wanted"),
    ("NEW", {"value": 3}, "string"),
    ("NEW", {"value": "a\0b"}, "NUL"),
    ("NEW", {"value": "x", "scope": "all"}, "both"),
    ("NEW", {"value": "x", "sensitive": "yes"}, "sensitive"),
    ("NEW", {"value": "v" * 16385}, "16384"),
]


@pytest.mark.parametrize("key,body,says", BAD, ids=[f"{k[:20]}-{n}" for n, (k, _, _) in enumerate(BAD)])
def test_what_cannot_be_set_is_refused_with_the_reason(given, key, body, says):
    answer = given.api.call("PUT", given.path(key), body)
    assert_error(answer, 400, "invalid_request")
    assert says in answer.json()["error"]["message"], answer.text


def test_bounds(given, apps):
    app = apps.app()
    path = f"/v1/apps/{app['id']}/config"
    assert_error(given.api.call("PUT", f"{path}/A", {"value": "x", "who": 1}), 400, "unknown_field")
    assert_error(given.api.call("PUT", f"/v1/apps/{'0' * 26}/config/A", {"value": "x"}), 404, "not_found")
    assert given.api.call("PUT", f"{path}/SHORT", {"value": "12345"}).json()["masked"] is False
    for key in ("A", "B"):
        answer = given.api.call("PUT", f"{path}/{key}", {"value": key * 16000})
        assert answer.status_code == 201, answer.text
    answer = given.api.call("PUT", f"{path}/C", {"value": "c" * 1000})
    assert_error(answer, 413, "too_large")
    assert "together" in answer.json()["error"]["message"]
    for n in range(97):
        assert given.api.call("PUT", f"{path}/K{n}", {"value": ""}).status_code == 201
    answer = given.api.call("PUT", f"{path}/ONE_MORE", {"value": ""})
    assert "100 keys" in answer.json()["error"]["message"], answer.text
    # All of it reaches a sandbox at once.
    given.stack.preview.wait_answer(given.api.make_sandbox(app["id"])["id"])
