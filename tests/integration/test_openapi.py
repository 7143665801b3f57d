"""What the API really said in this run, held against docs/openapi.yaml. Runs last; alone it makes a
little traffic of its own first.
"""

import json
import re

import jsonschema
import pytest
import yaml

from tests.integration.client import TRAFFIC
from tests.integration.programs import ROOT
from tests.stubs.model_scenarios import directive

METHODS = ("get", "post", "put", "patch", "delete")
# What is made wrong on purpose is answered by the gate, before any path is known.
GATE_STATUSES = (400, 401, 403, 404, 405, 411, 413, 415, 429, 431)


@pytest.fixture(scope="module")
def described():
    return yaml.safe_load((ROOT / "docs" / "openapi.yaml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module", autouse=True)
def some_traffic(stack):
    api = stack.api
    app = api.make_app("node-http", "for the description")
    sandbox = api.make_sandbox(app["id"])
    task = api.make_task(sandbox["id"], directive("say", "hello"))
    api.wait_task(sandbox["id"], task["id"])
    for path in (
        "/v1/apps", f"/v1/apps/{app['id']}", f"/v1/apps/{app['id']}/tasks", f"/v1/apps/{app['id']}/events",
        f"/v1/sandboxes/{sandbox['id']}/tasks", "/v1/events", "/v1/agents", "/v1/presets",
    ):  # fmt: skip
        assert api.get(path).status_code == 200, path
    api.patch(f"/v1/apps/{app['id']}", {"description": "x"})
    api.post(f"/v1/sandboxes/{sandbox['id']}/stop")
    api.delete(f"/v1/sandboxes/{sandbox['id']}")
    api.delete(f"/v1/apps/{app['id']}")


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


def test_every_answer_of_the_run_is_described(described):
    checked, faults = set(), []
    for method, path, _, status, kind, text in TRAFFIC:
        template, operation = operation_of(described, method, path)
        if operation is None:
            if path.startswith("/v1/") and status not in GATE_STATUSES:
                faults.append(f"{method} {path} {status}: not described")
            continue
        try:
            schema = schema_of(described, operation, status)
            if text is not None and schema is not None:
                whole = {**schema, "components": described.get("components", {})}
                jsonschema.Draft202012Validator(whole).validate(json.loads(text))
            elif text:
                faults.append(f"{method} {template} {status}: a body that is not described")
            checked.add((method, template, status))
        except (AssertionError, jsonschema.ValidationError) as error:
            words = error.message if isinstance(error, jsonschema.ValidationError) else str(error)
            faults.append(f"{method} {template} {status} ({kind}): {words}"[:400])
    assert not faults, "\n".join(sorted(set(faults)))
    assert len(checked) >= 12, checked


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
