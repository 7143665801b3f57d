"""What the API really said in this run, held against docs/openapi.yaml. Runs last; alone it makes
traffic of its own first, so that every described operation has worked at least once.
"""

import json
import re

import jsonschema
import pytest
import yaml

from tests.integration.client import TASK_ENDS, TRAFFIC, Api
from tests.integration.programs import ROOT
from tests.stubs.model_scenarios import directive

METHODS = ("get", "post", "put", "patch", "delete")
# What is made wrong on purpose is answered by the gate, before any path is known.
GATE_STATUSES = (400, 401, 403, 404, 405, 411, 413, 415, 429, 431)


@pytest.fixture(scope="module")
def described():
    return yaml.safe_load((ROOT / "docs" / "openapi.yaml").read_text(encoding="utf-8"))


def money_and_keys(stack, oauth, app_id):
    """Changes of providers, logins, budgets and prices; what they leave is as before."""
    key = stack.secret("own-")
    oauth.good_keys.add(key)
    bundle = json.dumps({"claudeAiOauth": {"accessToken": stack.secret("oat-"), "expiresAt": 4102444800000}})
    started = stack.api.post("/v1/agents/claude-code/oauth/start")
    code = stack.keep(oauth.browse(started.json()["authorize_url"]))
    own = {"kind": "openai-compatible", "base_url": oauth.base_url, "default_model": "m", "label": "Own"}
    price = {"provider": "openai", "model": "home-made", "input": 1, "output": 2, "cached_read": 1, "cached_write": 1}
    return [
        ("POST", "/v1/agents/claude-code/import", {"credentials": bundle}),
        ("POST", "/v1/agents/claude-code/oauth/finish", {"code": code}),
        ("POST", "/v1/providers/anthropic/disconnect", None),
        ("PUT", "/v1/providers/own", own),
        ("POST", "/v1/providers/own/api-key", {"api_key": key, "check": True}),
        ("POST", "/v1/providers/own/check", None),
        ("GET", "/v1/providers", None),
        ("DELETE", "/v1/providers/own", None),
        ("PUT", "/v1/budgets/day", {"limit_microusd": 10**9, "limit_tokens": None, "allow_unknown_price": True}),
        ("GET", "/v1/budgets", None),
        ("DELETE", "/v1/budgets/day", None),
        ("PUT", f"/v1/apps/{app_id}/budget", {"limit_tokens": 10**9, "reset": True}),
        ("GET", f"/v1/apps/{app_id}/budget", None),
        ("DELETE", f"/v1/apps/{app_id}/budget", None),
        ("PUT", "/v1/prices", price),
        ("GET", "/v1/prices?provider=openai", None),
        ("DELETE", "/v1/prices?provider=openai&model=home-made", None),
        ("GET", "/v1/usage?group=day&from=2026-01-01", None),
        ("GET", "/v1/usage", None),
    ]


@pytest.fixture(scope="module", autouse=True)
def some_traffic(stack, oauth):
    """Every operation of the API's port, once, in the order of an app's life."""
    api = stack.api
    app = api.make_app("node-http", "for the description")
    sandbox = api.make_sandbox(app["id"])
    task = api.make_task(sandbox["id"], directive("say", "hello"))
    api.wait_task(sandbox["id"], task["id"])
    of_task = f"/v1/sandboxes/{sandbox['id']}/tasks/{task['id']}"
    for path in (
        "/healthz", "/readyz", "/metrics", "/v1/openapi.json", "/v1/status",
        "/v1/apps", f"/v1/apps/{app['id']}", f"/v1/apps/{app['id']}/tasks", f"/v1/apps/{app['id']}/events",
        f"/v1/sandboxes/{sandbox['id']}", f"/v1/sandboxes/{sandbox['id']}/tasks", of_task,
        "/v1/events", "/v1/agents", "/v1/presets", "/v1/apps?limit=1", "/v1/events?limit=1",
    ):  # fmt: skip
        answer = api.get(path)
        assert answer.status_code == 200, f"{path}: {answer.text}"
    changes = [
        ("PATCH", f"/v1/apps/{app['id']}", {"description": "x"}),
        ("POST", f"{of_task}/cancel", None),
        ("POST", f"/v1/sandboxes/{sandbox['id']}/stop", None),
        ("POST", f"/v1/sandboxes/{sandbox['id']}/start", None),
        ("POST", f"/v1/sandboxes/{sandbox['id']}/preview-ticket", {}),
        ("POST", f"/v1/sandboxes/{sandbox['id']}/keep-alive", {"seconds": 60}),
        ("POST", f"/v1/sandboxes/{sandbox['id']}/watching", None),
        ("POST", "/v1/presets/node-http/image", None),
        ("POST", "/v1/agents/claude-code/api-key", {"api_key": stack.secret("sk-ant-")}),
        ("POST", "/v1/agents/claude-code/disconnect", None),
        ("PUT", f"/v1/apps/{app['id']}/config/COLOUR", {"value": "green", "sensitive": False}),
        ("PUT", f"/v1/apps/{app['id']}/config/COLOUR", {"scope": "both"}),
        ("GET", f"/v1/apps/{app['id']}/config/COLOUR", None),
        ("GET", f"/v1/apps/{app['id']}/config", None),
        ("POST", f"/v1/sandboxes/{sandbox['id']}/apply-config", None),
        ("DELETE", f"/v1/apps/{app['id']}/config/COLOUR", None),
        *money_and_keys(stack, oauth, app["id"]),
        ("DELETE", f"/v1/sandboxes/{sandbox['id']}", None),
        ("DELETE", f"/v1/apps/{app['id']}", None),
    ]
    yield {"events": list(api.events(sandbox["id"], task["id"])), "changes": [api.call(*each) for each in changes]}


@pytest.fixture(scope="module", autouse=True)
def console_traffic(stack):
    """The sign-in of a browser, at the console's port. Another test may have signed in before."""
    console = Api(stack.console_port, None)
    own = {"host": f"console.localhost:{stack.http_port}", "origin": f"http://console.localhost:{stack.http_port}"}
    said = stack["control"].run_to_end("console-code")
    code = re.search(r"#setup=([\w-]+)", said.stdout + said.stderr).group(1)
    password = stack.secret("password-")
    calls = [
        ("GET", "/v1/session", None),
        ("POST", "/v1/session/setup", {"code": code, "password": password}),
        ("POST", "/v1/session", {"password": password}),
        ("DELETE", "/v1/session", {}),
    ]
    return [console.call(method, path, body, headers=own) for method, path, body in calls]


def operation_of(described, method, path):
    path = path.split("?")[0]
    for template, operations in described["paths"].items():
        pattern = re.sub(r"\\\{[^/]+?\\\}", "[^/]+", re.escape(template))
        if re.fullmatch(pattern, path) and method.lower() in operations:
            return template, operations[method.lower()]
    return None, None


def resolve(described, node):
    while "$ref" in node:
        target = described
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = target
    return node


def schema_of(described, operation, status):
    """The schema of a JSON answer; None when the answer has no body in the description."""
    answers = operation["responses"]
    found = answers.get(str(status)) or answers.get(f"{status // 100}XX") or answers.get("default")
    assert found is not None, f"status {status} is not described"
    content = resolve(described, found).get("content", {})
    return content.get("application/json", {}).get("schema")


def faults_of(described, schema, value):
    """What the description says against a value, in words; None: nothing."""
    whole = {**schema, "components": described.get("components", {})}
    error = next(jsonschema.Draft202012Validator(whole).iter_errors(value), None)
    return f"{error.json_path}: {error.message}" if error else None


def test_traffic_of_this_file_worked(some_traffic, console_traffic):
    for answer in some_traffic["changes"] + console_traffic:
        assert answer.status_code < 300, f"{answer.request.method} {answer.request.url}: {answer.text}"


def test_every_answer_of_the_run_is_described(described):
    checked, faults = set(), []
    for method, path, _, status, kind, text in TRAFFIC:
        template, operation = operation_of(described, method, path)
        if operation is None:
            if path.startswith("/v1/") and status not in GATE_STATUSES:
                faults.append(f"{method} {path} {status}: not described")
            continue
        where = f"{method} {template} {status} ({kind})"
        try:
            schema = schema_of(described, operation, status)
        except AssertionError as error:
            faults.append(f"{where}: {error}")
            continue
        if text is not None and schema is not None:
            said = faults_of(described, schema, json.loads(text))
            if said:
                faults.append(f"{where}: {said}"[:400])
        elif text:
            faults.append(f"{where}: a body that is not described")
        checked.add((method, template, status))
    assert not faults, "\n".join(sorted(set(faults)))
    assert len(checked) >= 12, checked


def test_every_accepted_body_is_described(described):
    """What the API took, the description allows: a field that only the code knows would fail here."""
    faults, checked = set(), 0
    for method, path, body, status, _, _ in TRAFFIC:
        template, operation = operation_of(described, method, path)
        if operation is None or status >= 300 or not isinstance(body, dict) or not body:
            continue
        assert "requestBody" in operation, f"{method} {template} took {sorted(body)}"
        said = faults_of(described, operation["requestBody"]["content"]["application/json"]["schema"], body)
        if said:
            faults.add(f"{method} {template}: {said}"[:400])
        checked += 1
    assert not faults, "\n".join(sorted(faults))
    assert checked >= 4


def test_every_described_operation_worked(described):
    """Once at least in this run, with a status below 300. Event streams are not in the traffic."""
    worked = set()
    for method, path, _, status, _, _ in TRAFFIC:
        template, operation = operation_of(described, method, path)
        if operation is not None and status < 300:
            worked.add((method.lower(), template))
    wanted = {
        (method, template)
        for template, operations in described["paths"].items()
        for method, operation in operations.items()
        if method in METHODS and "text/event-stream" not in operation["responses"].get("200", {}).get("content", {})
    }
    missing = sorted(wanted - worked)
    assert not missing


def test_events_of_a_task_are_described(described, some_traffic):
    seen = some_traffic["events"]
    schema = {"$ref": "#/components/schemas/TaskEvent"}
    for number, event in enumerate(seen, 1):
        assert faults_of(described, schema, event.data) is None, (event, faults_of(described, schema, event.data))
        assert event.id == str(number) and event.data["seq"] == number
        assert event.event == event.data["type"]
    assert seen[-1].event == "done"


def test_the_description_is_served(described, stack):
    served = stack.api.get("/v1/openapi.json").json()
    assert served == json.loads(json.dumps(described, default=str))
    assert set(served["components"]["schemas"]["TaskStatus"]["enum"]) >= set(TASK_ENDS)


def test_every_described_path_exists(described, stack):
    """A path in the description answers something better than «no such path» or «no such method»."""
    for template, operations in described["paths"].items():
        path = re.sub(r"\{[^/]+?\}", "01arz3ndektsv4rrffq69g5fav", template)
        for method in operations:
            if method not in METHODS or "stream" in template:
                continue
            if template.startswith("/v1/session"):
                continue  # the console's own, at the console's port
            answer = stack.api.call(method.upper(), path, {} if method in ("post", "put", "patch") else None)
            assert answer.status_code != 405, f"{method} {template}: {answer.text}"
            assert answer.status_code < 500 or answer.status_code == 503, f"{method} {template}: {answer.text}"
