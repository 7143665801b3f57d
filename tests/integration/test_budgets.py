"""Budgets and usage with the real agents, through the credentials proxy (issue 5, 6 and 7)."""

import json

import pytest

from tests.integration import docker
from tests.integration.client import assert_error
from tests.integration.conftest import Apps
from tests.integration.harness import Stack
from tests.integration.programs import wait_until
from tests.stubs.model_formats import USAGE_CACHED, USAGE_INPUT, USAGE_OUTPUT
from tests.stubs.model_scenarios import directive

AGENTS = {"opencode": "zen", "claude-code": "anthropic"}
PATH = "/home/sandbox/workspace/app/progress.txt"
SLOW_SECONDS = "6"


@pytest.fixture(scope="module")
def metered(model):
    with Stack(model=model) as running:
        for agent in AGENTS:
            answer = running.api.post(f"/v1/agents/{agent}/api-key", {"api_key": running.secret("sk-")})
            assert answer.status_code == 200, answer.text
        yield running


@pytest.fixture(scope="module")
def box(metered):
    apps = Apps(metered)
    yield apps.sandbox()
    apps.delete_all()


@pytest.fixture(autouse=True)
def no_budget(metered, box, model):
    model.forget()
    yield
    for path in ("/v1/budgets/task", "/v1/budgets/day", "/v1/budgets/installation", f"/v1/apps/{box['app_id']}/budget"):
        assert metered.api.delete(path).status_code == 204


def put(stack, path, **limits):
    answer = stack.api.call("PUT", path, limits)
    assert answer.status_code == 200, answer.text
    return answer.json()


def usage(stack, **query):
    answer = stack.api.get("/v1/usage?" + "&".join(f"{k}={v}" for k, v in query.items()))
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("agent", AGENTS)
def test_a_tasks_spend_is_counted_and_priced(metered, box, model, agent):
    task = metered.api.make_task(box["id"], directive("shell", "true"), agent)
    done = metered.api.wait_task(box["id"], task["id"])
    assert done["status"] == "succeeded", done
    asked = len(model.posts())
    found = wait_until(
        lambda: next((u for u in usage(metered, group="task_id")["usage"] if u["task_id"] == task["id"] and u["requests"] == asked), None),
        20,
        lambda: f"all of {asked} requests are counted: {usage(metered, group='task_id')}",
    )
    assert found["app_id"] == box["app_id"]
    assert found["tokens"]["output"] == asked * USAGE_OUTPUT
    assert found["tokens"]["input"] == asked * USAGE_INPUT
    assert found["tokens"]["cached_read"] == asked * USAGE_CACHED
    # claude-sonnet-5: 2, 10 and 0.2 USD for a million tokens; a fraction is rounded up per request.
    exact = USAGE_INPUT * 2 + USAGE_OUTPUT * 10 + USAGE_CACHED * 0.2
    assert exact * asked <= found["cost_microusd"] <= (exact + 1) * asked
    row = metered.api.task(box["id"], task["id"])
    assert row["metered"] == {"requests": asked, "unpriced_requests": 0}
    assert row["cost_microusd"] == found["cost_microusd"]
    assert row["tokens"] == {k: found["tokens"][v] for k, v in (("input", "input"), ("output", "output"), ("cached", "cached_read"))}
    assert f'sandboxd_model_requests_total{{provider="{AGENTS[agent]}"}}' in metered.api.get("/metrics").text
    keys = usage(metered, group="key_id", provider=AGENTS[agent])["usage"]
    assert len(keys) == 1 and len(keys[0]["key_id"]) == 26
    metrics = metered.api.get("/metrics").text
    for name, label, value in (("app", "app_id", box["app_id"]), ("key", "key_id", keys[0]["key_id"])):
        line = next(u for u in usage(metered, group=label)["usage"] if u[label] == value)
        assert f'sandboxd_{name}_cost_microusd_total{{{label}="{value}"}} {line["cost_microusd"]}\n' in metrics
        assert f'sandboxd_{name}_tokens_total{{{label}="{value}"}} {sum(line["tokens"].values())}\n' in metrics
    assert "\nsandboxd_today_cost_microusd " in metrics and "\nsandboxd_today_tokens " in metrics


@pytest.mark.parametrize("agent", AGENTS)
def test_a_budget_ends_a_task_before_its_next_request_and_keeps_its_work(metered, box, model, agent):
    path = f"/v1/apps/{box['app_id']}/budget"
    task = metered.api.make_task(box["id"], directive("slow", f"{SLOW_SECONDS} {PATH}"), agent)
    wait_until(model.posts, 400, "the model is asked")
    put(metered, path, limit_tokens=1)
    done = metered.api.wait_task(box["id"], task["id"])
    assert (done["status"], done["failure_reason"]) == ("budget_reached", "budget_reached"), done
    assert "the budget of this app (1 tokens) is reached" in done["error_message"], done
    assert len(model.posts()) == 1, "nothing more went upstream"
    assert (metered.app_dir(box["id"]) / "progress.txt").read_text(encoding="utf-8").startswith("done"), "the work is kept"
    assert done["metered"]["requests"] == 1
    told = [e for e in metered.events() if e["task_id"] == task["id"]]
    kinds = [e["kind"] for e in told]
    assert "budget.reached" in kinds and "budget.warning" in kinds and "task.budget_reached" in kinds, kinds
    assert metered.api.get(path).json()["status"] == "reached"
    # The next one is not let through either, and is as soon as the budget allows it.
    again = metered.api.make_task(box["id"], directive("say", "hello"), agent)
    assert metered.api.wait_task(box["id"], again["id"])["status"] == "budget_reached"
    put(metered, path, limit_tokens=10**9, reset=True)
    again = metered.api.make_task(box["id"], directive("say", "hello"), agent)
    assert metered.api.wait_task(box["id"], again["id"])["status"] == "succeeded"


# What hostile code in a sandbox does with its task's token: as many requests at once as it is told.
FLOOD = r"""
import collections, json, sys, threading, urllib.error, urllib.request
token, prompt, count = open("/home/sandbox/token").read().strip(), sys.argv[1], int(sys.argv[2])
body = json.dumps({"model": "big-pickle", "max_tokens": 1000, "stream": True, "messages": [{"role": "user", "content": prompt}]})
seen, words = collections.Counter(), set()
def ask():
    request = urllib.request.Request("http://127.0.0.1:9100/zen/chat/completions", body.encode(),
                                     {"authorization": f"Bearer {token}", "content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()
            seen[answer.status] += 1
    except urllib.error.HTTPError as error:
        seen[error.code] += 1
        words.add(error.read().decode())
threads = [threading.Thread(target=ask) for _ in range(count)]
[t.start() for t in threads]
[t.join() for t in threads]
print(json.dumps({"seen": seen, "words": sorted(words)}))
"""


def flood(box, prompt, count):
    found = json.loads(docker.python_inside(box["id"], FLOOD, prompt, str(count)))
    return {int(status): times for status, times in found["seen"].items()}, " ".join(found["words"])


def task_with_a_token(metered, box, seconds):
    """A task whose agent's tool left the token where other code of the sandbox finds it, and goes on for a while."""
    token = metered.workspace(box["id"]) / "token"
    token.unlink(missing_ok=True)
    keep = f"printf %s \"$OPENCODE_CONFIG_CONTENT\" | jq -r '[.provider[].options.apiKey][0]' > ~/token; sleep {seconds}"
    task = metered.api.make_task(box["id"], directive("shell", keep), "opencode")
    wait_until(lambda: token.exists() and token.read_text(encoding="utf-8").strip(), 100, "the agent's tool runs")
    return task


def test_requests_side_by_side_do_not_pass_a_budget_together(metered, box, model):
    path = f"/v1/apps/{box['app_id']}/budget"
    task = task_with_a_token(metered, box, 20)
    before = len(model.posts())
    put(metered, path, limit_tokens=5000, reset=True)
    seen, words = flood(box, directive("slow", "3"), 20)
    # Each holds its prompt and 1,000 tokens while it runs, so four fit; what comes later finds them spent.
    assert 1 <= seen[200] <= 4 and set(seen) <= {200, 429, 403}, (seen, words)
    assert sum(seen.values()) == 20 and "budget of this app" in words, (seen, words)
    assert len(model.posts()) - before == seen[200]
    done = metered.api.wait_task(box["id"], task["id"])
    assert done["status"] == ("budget_reached" if 403 in seen else "succeeded"), (done, seen)


def test_a_loop_of_requests_is_held_to_its_minute(metered, box, model):
    task = task_with_a_token(metered, box, 20)
    before = len(model.posts())
    seen, words = flood(box, directive("say", "hello"), 140)
    assert set(seen) == {200, 429} and "in a minute" in words, (seen, words)
    assert len(model.posts()) - before == seen[200] <= 120
    metered.api.post(f"/v1/sandboxes/{box['id']}/tasks/{task['id']}/cancel")
    assert metered.api.wait_task(box["id"], task["id"])["status"] in ("cancelled", "succeeded")


def test_a_tasks_own_budget_in_money_survives_a_kill(metered, box, model):
    """So small that not even the first request fits: nothing is sent, whoever restarts."""
    put(metered, "/v1/budgets/task", limit_microusd=100)
    task = metered.api.make_task(box["id"], directive("say", "hello"), "claude-code")
    assert task["budget"] == {"limit_microusd": 100, "limit_tokens": None}
    metered.kill9_and_start("control")
    done = metered.api.wait_task(box["id"], task["id"])
    assert done["status"] == "budget_reached", done
    assert "the budget of this task (0.0001 USD)" in done["error_message"], done
    assert model.posts() == []
    richer = metered.api.make_task(box["id"], directive("say", "hello"), "claude-code", budget={"limit_microusd": 10**8})
    assert metered.api.wait_task(box["id"], richer["id"])["status"] == "succeeded", "its own word wins"


def test_a_model_without_a_price_is_refused_under_money_unless_allowed(metered, box, model):
    put(metered, "/v1/budgets/day", limit_microusd=10**9)
    task = metered.api.make_task(box["id"], directive("say", "hello"), "claude-code", model="home-made-1")
    done = metered.api.wait_task(box["id"], task["id"])
    assert (done["status"], done["failure_reason"]) == ("failed", "price_unknown"), done
    assert "home-made-1" in done["error_message"] and model.posts() == [], done
    put(metered, "/v1/budgets/day", limit_microusd=10**9, allow_unknown_price=True)
    task = metered.api.make_task(box["id"], directive("say", "hello"), "claude-code", model="home-made-1")
    done = metered.api.wait_task(box["id"], task["id"])
    assert done["status"] == "succeeded" and done["cost_microusd"] is None, done
    unknown = next(u for u in usage(metered, group="model")["usage"] if u["model"] == "home-made-1")
    assert unknown["cost_microusd"] is None and unknown["unpriced_requests"] == unknown["requests"] > 0


def test_spend_is_counted_once_over_kills_of_either_side(metered, box, model):
    before = usage(metered)["total"]["requests"]
    task = metered.api.make_task(box["id"], directive("slow", f"{SLOW_SECONDS} {PATH}"), "claude-code")
    wait_until(model.posts, 400, "the model is asked")
    metered.kill9_and_start("control")
    done = metered.api.wait_task(box["id"], task["id"])
    assert done["status"] == "succeeded", done
    wanted = before + len(model.posts())
    wait_until(lambda: usage(metered)["total"]["requests"] == wanted, 20, lambda: f"{usage(metered)['total']}, wanted {wanted}")
    metered.kill9_and_start("control")
    assert usage(metered)["total"]["requests"] == wanted


@pytest.mark.parametrize(
    "path,body",
    [
        ("/v1/budgets/day", {}), ("/v1/budgets/day", {"limit_tokens": -1}), ("/v1/budgets/day", {"limit_tokens": "many"}),
        ("/v1/budgets/app", {"limit_tokens": 1}), ("/v1/budgets/nothing", {"limit_tokens": 1}),
        ("/v1/apps/01arz3ndektsv4rrffq69g5fav/budget", {"limit_tokens": 1}), ("/v1/budgets/day", {"limit_tokens": 1, "more": 1}),
        ("/v1/prices", {"provider": "openai", "model": "m", "input": -1, "output": 1}), ("/v1/prices", {"provider": "nobody", "model": "m", "input": 1, "output": 1}),
    ],
)  # fmt: skip
def test_malformed_budgets_and_prices_are_refused(metered, path, body):
    answer = metered.api.call("PUT", path, body)
    assert 400 <= answer.status_code < 500, answer.text


@pytest.mark.parametrize("query", ["from=yesterday", "to=2026-02-30", "group=colour", "limit=0"])
def test_malformed_questions_about_usage_are_refused(metered, query):
    assert_error(metered.api.get(f"/v1/usage?{query}"), 400, "invalid_request")


def test_the_events_of_prices_name_them(metered):
    of = {"provider": "openai", "model": 'a "quoted" one'}
    assert metered.api.call("PUT", "/v1/prices", {**of, "input": 0, "output": 0}).status_code == 200
    assert metered.api.call("DELETE", "/v1/prices?provider=openai&model=a%20%22quoted%22%20one").status_code == 204
    told = [(e["kind"], e["payload"]) for e in metered.events() if e["kind"].startswith("price.")]
    assert told[:2] == [("price.removed", of), ("price.changed", of)], told  # newest first


def test_the_events_of_budgets_name_them(metered):
    payloads = [json.loads(e["payload"]) if isinstance(e["payload"], str) else e["payload"] for e in metered.events() if e["kind"].startswith("budget.")]
    assert payloads and all("budget" in p for p in payloads)
