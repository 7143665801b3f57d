"""The API as a person with curl meets it (issue 3, item 4)."""

import re

import pytest

from tests.integration.client import assert_error, last_id, raw_request
from tests.integration.programs import wait_until

ULID = re.compile(r"^[0-7][0-9a-hjkmnp-tv-z]{25}$")
TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
MEASURE_SECONDS_MAX = 120
NO_SUCH = "01arz3ndektsv4rrffq69g5fav"


def test_healthz_says_ok_to_anyone(api):
    answer = api.get("/healthz", token=None)
    assert answer.status_code == 200
    assert answer.text.strip() == "ok"


def test_readyz_is_200_while_everything_works(api):
    answer = api.get("/readyz", token=None)
    assert answer.status_code == 200, answer.text


def test_metrics_are_prometheus_text(api):
    answer = api.get("/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain")
    assert re.search(r"^sandboxd_\w+(\{[^}]*\})? [0-9.e+-]+$", answer.text, re.M), answer.text


def test_an_app_is_made_listed_read_renamed_and_deleted(api):
    answer = api.post("/v1/apps", {"name": "shopping", "runtime_preset": "node-http"})
    assert answer.status_code == 201, answer.text
    assert answer.headers["content-type"].startswith("application/json")
    made = answer.json()
    assert ULID.match(made["id"]), made
    assert list(made)[-1] == "id", "the object's own id is its last key"
    assert made["name"] == "shopping" and made["runtime_preset"] == "node-http"
    assert made["sandbox"] is None
    assert TIME.match(made["created_at"]) and TIME.match(made["updated_at"])

    listed = api.get("/v1/apps").json()
    assert set(listed) == {"apps", "next_cursor"}
    assert made["id"] in [a["id"] for a in listed["apps"]]

    changed = api.patch(f"/v1/apps/{made['id']}", {"name": "groceries", "description": "for the week"})
    assert changed.status_code == 200, changed.text
    assert changed.json()["name"] == "groceries"
    read = api.get(f"/v1/apps/{made['id']}").json()
    assert read["name"] == "groceries" and read["description"] == "for the week"

    assert api.delete(f"/v1/apps/{made['id']}").status_code == 204
    assert_error(api.get(f"/v1/apps/{made['id']}"), 404, "not_found")
    assert_error(api.delete(f"/v1/apps/{made['id']}"), 404, "not_found")


def test_two_apps_may_have_one_name(api, apps):
    first, second = apps.app(name="twin"), apps.app(name="twin")
    assert first["id"] != second["id"]


def test_answers_are_one_line_and_sed_finds_the_id(api, apps):
    app = apps.app()
    answer = api.get(f"/v1/apps/{app['id']}")
    assert "\n" not in answer.text.strip()
    assert '": ' not in answer.text and '", "' not in answer.text, "compact JSON"
    assert last_id(answer.text) == app["id"]


def test_the_list_shows_sandbox_status_image_and_disk_awake_and_asleep(api, apps):
    sandbox = apps.sandbox()

    def listed():
        rows = api.get("/v1/apps?limit=200").json()["apps"]
        return next(a for a in rows if a["id"] == sandbox["app_id"])

    # Null until it was measured for the first time.
    wait_until(lambda: listed()["sandbox"]["disk_bytes"] is not None, MEASURE_SECONDS_MAX, listed)
    for status in ("running", "stopped"):
        row = listed()
        assert row["sandbox"]["sandbox_id"] == sandbox["id"]
        assert row["sandbox"]["status"] == status
        assert row["sandbox"]["image"], row
        assert row["sandbox"]["disk_bytes"] > 0
        assert row["sandbox"]["ports"] == [3000]
        assert row["sandbox"]["preview_url"].startswith("http://s-" + sandbox["id"] + "-3000.preview.localhost")
        if status == "running":
            apps.stop(sandbox["id"])


def test_the_preview_address_names_the_edge_port(api, apps, stack):
    sandbox = apps.sandbox()
    expected = f"http://s-{sandbox['id']}-3000.preview.localhost:{stack.http_port}"
    assert sandbox["preview_url"].rstrip("/") == expected


def test_lists_are_walked_by_cursor(api, apps):
    wanted = {apps.app(name=f"page {n}")["id"] for n in range(5)}
    seen, cursor, pages = [], "", 0
    while True:
        answer = api.get(f"/v1/apps?limit=2{cursor}")
        assert answer.status_code == 200, answer.text
        page = answer.json()
        assert len(page["apps"]) <= 2
        seen += [a["id"] for a in page["apps"]]
        pages += 1
        assert pages < 200
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert len(seen) == len(set(seen)), "no app twice"
    assert wanted <= set(seen)
    assert pages >= 3


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "limit=ten", "limit=-1", "cursor=%00", "cursor=..%2F.."])
def test_a_bad_page_is_a_400(api, query):
    assert_error(api.get(f"/v1/apps?{query}"), 400, "invalid_request")


def test_presets_are_listed(api):
    answer = api.get("/v1/presets")
    assert answer.status_code == 200, answer.text
    assert {p["id"] for p in answer.json()["presets"]} >= {"react-vite", "node-http"}, answer.text


def test_agents_are_listed_with_how_they_are_connected(api):
    answer = api.get("/v1/agents")
    assert answer.status_code == 200, answer.text
    agents = {a["id"]: a for a in answer.json()["agents"]}
    assert agents["opencode"]["status"] == "keyless"
    assert agents["claude-code"]["status"] in ("not_connected", "connected")
    assert agents["claude-code"]["provider"] == "anthropic"


def test_what_was_done_is_an_event_with_its_actor(api, apps, stack):
    app = apps.app()
    events = stack.events()
    mine = [e for e in events if e["app_id"] == app["id"]]
    assert mine, "making an app is an event"
    assert mine[0]["actor"] == "test", "the token's name is the actor"
    assert TIME.match(mine[0]["at"]) and mine[0]["severity"]
    of_app = api.get(f"/v1/apps/{app['id']}/events")
    assert of_app.status_code == 200, of_app.text
    assert {e["app_id"] for e in of_app.json()["events"]} == {app["id"]}


def test_every_answer_has_its_request_id(api):
    first = api.get("/v1/apps").headers["x-request-id"]
    second = api.get("/v1/apps").headers["x-request-id"]
    assert first and second and first != second


@pytest.mark.parametrize("token", [None, "", "sk_wrong", "sk_" + "0" * 40])
def test_without_the_token_it_says_401_and_where_the_token_is(api, token):
    error = assert_error(api.get("/v1/apps", token=token), 401, "unauthorized")
    assert error["message"].startswith("401")
    assert ".env" in error["message"], "it says where the installer wrote the token"


def test_a_token_in_another_form_is_no_token(api, stack):
    for value in (stack.token, f"Basic {stack.token}", f"Bearer {stack.token} ", f"Bearer  {stack.token}x"):
        answer = api.call("GET", "/v1/apps", token=None, headers={"authorization": value})
        if value == f"Bearer {stack.token} ":
            continue  # trailing space is not part of a header's value
        assert_error(answer, 401, "unauthorized")


@pytest.mark.parametrize("path", ["/v1/nothing", "/v1", "/v2/apps", "/nothing", "/v1/apps/x/y/z"])
def test_an_unknown_path_is_a_404(api, path):
    assert_error(api.get(path), 404, "not_found")


@pytest.mark.parametrize("path", ["/v1/apps/", "/v1/apps//"])
def test_a_path_with_an_empty_part_is_nothing(api, path):
    answer = api.get(path)
    assert_error(answer, answer.status_code, {400: "invalid_request", 404: "not_found"}[answer.status_code])


@pytest.mark.parametrize("method,path", [("PUT", "/v1/apps"), ("DELETE", "/v1/apps"), ("POST", "/v1/presets")])
def test_a_wrong_method_is_a_405_that_names_the_right_ones(api, method, path):
    answer = api.call(method, path, {} if method != "DELETE" else None)
    assert_error(answer, 405, "method_not_allowed")
    assert "GET" in answer.headers["allow"]


def test_a_call_without_body_type_or_length_is_complete(stack):
    for path in ("stop", "start"):
        request = (
            f"POST /v1/sandboxes/{NO_SUCH}/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Authorization: Bearer {stack.token}\r\n\r\n"
        )
        answer = raw_request(stack.api_port, request.encode())
        assert answer.status == 404, answer
        assert answer.json()["error"]["code"] == "not_found"


@pytest.mark.parametrize("host", ["evil.example.com", "console.localhost", "169.254.0.1", "127.0.0.1.evil.com", ""])
def test_the_api_answers_to_loopback_names_only(stack, host):
    request = f"GET /v1/apps HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {stack.token}\r\n\r\n"
    answer = raw_request(stack.api_port, request.encode())
    assert 400 <= answer.status < 500, answer
    assert set(answer.json()) == {"error"}
    assert b'"apps"' not in answer.body


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "LOCALHOST"])
def test_each_loopback_name_is_good_with_and_without_port(stack, host):
    for name in (host, f"{host}:{stack.api_port}"):
        request = f"GET /v1/apps HTTP/1.1\r\nHost: {name}\r\nAuthorization: Bearer {stack.token}\r\n\r\n"
        assert raw_request(stack.api_port, request.encode()).status == 200, name


def test_a_page_in_a_browser_cannot_use_the_api(api):
    for origin in ("http://127.0.0.1:9090", "null", "http://evil.example.com"):
        assert_error(api.get("/v1/apps", headers={"origin": origin}), 403, "forbidden")


def test_openapi_is_served(api):
    answer = api.get("/v1/openapi.json")
    assert answer.status_code == 200, answer.text
    described = answer.json()
    assert described["openapi"].startswith("3.")
    assert "/v1/apps" in described["paths"]


def test_the_token_at_the_console_port_opens_nothing(stack):
    request = f"GET /v1/apps HTTP/1.1\r\nHost: console.localhost\r\nAuthorization: Bearer {stack.token}\r\n\r\n"
    answer = raw_request(stack.console_port, request.encode())
    assert answer.status == 403, answer
    error = answer.json()["error"]
    assert error["code"] == "forbidden"
    assert "127.0.0.1" in error["message"], "it names the loopback address"


@pytest.mark.parametrize("path", ["/metrics", "/readyz"])
def test_the_console_port_has_nothing_of_the_api_outside_v1(stack, path):
    request = f"GET {path} HTTP/1.1\r\nHost: console.localhost\r\n\r\n"
    answer = raw_request(stack.console_port, request.encode())
    assert answer.status == 404, answer
