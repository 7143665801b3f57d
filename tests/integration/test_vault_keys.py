"""Connecting providers: keys that are checked, logins and their renewal, imports, own providers (issue 5, 1 to 3).

The OAuth server and the providers are scripted; nothing here was tried with a real one.
"""

import contextlib
import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.integration.client import assert_error
from tests.integration.conftest import Apps
from tests.integration.credentials_fakes import Provider, make_certificate, serve_tls
from tests.integration.harness import Stack
from tests.integration.programs import wait_until
from tests.stubs.model_scenarios import directive
from tests.stubs.oauth_server import OAuthServer

CLAUDE = "/v1/agents/claude-code"
LONG = 3600
SHORT = 60  # below what is renewed ahead


@pytest.fixture(scope="module")
def login():
    with OAuthServer() as server:
        yield server


@pytest.fixture(scope="module")
def vault(model, login):
    with Stack(model=model, settings={"SANDBOXD_CLAUDE_TOKEN_URL": login.token_url}) as running:
        login.keep = running.keep
        yield running


@pytest.fixture(scope="module")
def box(vault):
    apps = Apps(vault)
    yield apps.sandbox()
    apps.delete_all()


@pytest.fixture(autouse=True)
def disconnected(vault, login, model):
    login.mode, login.renew_mode, login.expires_in = "ok", None, LONG
    login.asked.clear()
    model.forget()
    vault.api.post(f"{CLAUDE}/disconnect")


def provider(vault, name):
    return {p["id"]: p for p in vault.api.get("/v1/providers").json()["providers"]}[name]


def start_login(vault, login):
    answer = vault.api.post(f"{CLAUDE}/oauth/start")
    assert answer.status_code == 200, answer.text
    assert "not tried" in answer.json()["note"]
    return vault.keep(login.browse(answer.json()["authorize_url"]))


def finish(vault, code):
    return vault.api.post(f"{CLAUDE}/oauth/finish", {"code": code})


def connect(vault, login):
    answer = finish(vault, start_login(vault, login))
    assert answer.status_code == 200, answer.text
    return answer.json()


# --- logins ---------------------------------------------------------------------------------------


def test_a_login_connects_the_agent_and_its_token_goes_upstream(vault, login, box, model):
    agent = connect(vault, login)
    assert (agent["status"], agent["method"], agent["ready"]) == ("connected", "login", True)
    task = vault.api.make_task(box["id"], directive("say", "hello"), "claude-code")
    assert vault.api.wait_task(box["id"], task["id"])["status"] == "succeeded"
    sent = model.posts()[0]
    assert sent.keys == {"authorization": f"Bearer {login.access_tokens[-1]}"}


def test_a_code_is_good_once_and_with_its_own_state(vault, login):
    code = start_login(vault, login)
    word, state = code.split("#")
    for wrong in (word, f"{word}#", f"{word}#{state[:-1]}", f"{word}#{'A' * len(state)}", f"#{state}", "", f"{word}# {state}"):
        answer = finish(vault, wrong)
        assert_error(answer, 400, "invalid_request")
    assert login.count("authorization_code") == 0, "nothing of that reached the provider"
    assert finish(vault, code).status_code == 200
    assert_error(finish(vault, code), 400, "invalid_request")
    assert login.count("authorization_code") == 1


def test_a_refused_code_is_told_in_the_providers_words_and_uses_the_state_up(vault, login):
    code = start_login(vault, login)
    login.mode = "refuse"
    error = assert_error(finish(vault, code), 422, "key_refused")
    assert "that grant is not known here" in error["message"], error
    login.mode = "ok"
    assert_error(finish(vault, code), 400, "invalid_request")
    assert provider(vault, "anthropic")["status"] == "not_connected"


@pytest.mark.parametrize("mode", ["error", "garbage", "large", "redirect"])
def test_a_provider_that_fails_is_no_login(vault, login, mode):
    code = start_login(vault, login)
    login.mode = mode
    assert_error(finish(vault, code), 503, "unavailable")
    assert provider(vault, "anthropic")["status"] == "not_connected"


def test_a_login_is_renewed_once_however_many_tasks_run(vault, login, box):
    login.expires_in = SHORT
    login.mode = "ok"
    code = start_login(vault, login)
    login.expires_in = 1
    assert finish(vault, code).status_code == 200
    login.expires_in = LONG
    threads = [
        threading.Thread(target=vault.api.make_task, args=(box["id"], directive("say", "hello"), "claude-code")) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for task in vault.api.get(f"/v1/sandboxes/{box['id']}/tasks?limit=3").json()["tasks"]:
        assert vault.api.wait_task(box["id"], task["id"])["status"] == "succeeded"
    # One token that lasts a second is renewed by one that lasts, or by the one in between.
    assert 1 <= login.count("refresh_token") <= 2
    assert provider(vault, "anthropic")["status"] == "connected"


def test_a_refused_renewal_is_reconnect_and_no_storm(vault, login, box):
    login.renew_mode, login.expires_in = "refuse", SHORT
    assert finish(vault, start_login(vault, login)).status_code == 200
    wait_until(lambda: provider(vault, "anthropic")["status"] == "reconnect", 30, "it is refused")
    asked = login.count("refresh_token")
    said = provider(vault, "anthropic")
    assert "that grant is not known here" in said["message"] and "connect again" in said["message"], said
    for _ in range(3):
        answer = vault.api.post(f"/v1/sandboxes/{box['id']}/tasks", {"prompt": "x", "agent": "claude-code"})
        assert_error(answer, 422, "agent_not_connected")
    vault.kill9_and_start("control")
    time.sleep(2)
    assert login.count("refresh_token") == asked, "nobody asks again"
    assert provider(vault, "anthropic")["status"] == "reconnect", "over a restart too"
    assert any(e["kind"] == "provider.reconnect" for e in vault.events())
    login.renew_mode, login.expires_in = None, LONG
    connect(vault, login)
    assert provider(vault, "anthropic")["status"] == "connected"


def hang_in_a_renewal(vault, login):
    """A login whose renewal was asked for and is not answered."""
    login.renew_mode, login.expires_in = "hang", SHORT
    assert finish(vault, start_login(vault, login)).status_code == 200
    wait_until(lambda: login.count("refresh_token") > 0, 60, "its renewal was asked for")


@pytest.mark.parametrize("rotated", [True, False])
def test_a_crash_in_a_renewal_ends_in_one_of_two_states(vault, login, rotated):
    hang_in_a_renewal(vault, login)
    if rotated:
        login.refresh_tokens.clear()  # the provider has given out new ones that never arrived
    login.renew_mode, login.expires_in = None, LONG
    vault.kill9_and_start("control")
    wanted = "reconnect" if rotated else "connected"
    wait_until(lambda: provider(vault, "anthropic")["status"] == wanted and not renewing(vault), 60, wanted)
    if rotated:
        assert "interrupted" in provider(vault, "anthropic")["message"]
        asked = login.count("refresh_token")
        time.sleep(1)
        assert login.count("refresh_token") == asked


def renewing(vault):
    said = provider(vault, "anthropic")
    return said["status"] == "connected" and said["expires_at"] < time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + SHORT + 60))


# --- the program that asks ------------------------------------------------------------------------


def askers(vault):
    """Process ids of sandboxd-fetch that this stack's control plane started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = path.read_text().rsplit(")", 1)
        except OSError:
            continue
        state, parent = rest.split()[:2]
        if name.endswith("(sandboxd-fetch") and int(parent) == vault["control"].pid and state != "Z":
            found.append(int(path.parent.name))
    return found


def wait_asker(vault):
    return wait_until(lambda: askers(vault), 30, "a program asks the provider")[0]


def test_who_asks_has_no_rights_shows_no_secret_and_dies_with_sandboxd(vault, login):
    hang_in_a_renewal(vault, login)
    proc = Path(f"/proc/{wait_asker(vault)}")
    status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
    assert set(status["Uid"].split()) == set(status["Gid"].split()) == {"65534"}, status
    assert status["Groups"].split() == [] and status["NoNewPrivs"].strip() == "1"
    assert {int(status[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")} == {0}
    assert os.stat(proc / "environ").st_uid == 0, "not dumpable: what it holds is root's"
    limits = (proc / "limits").read_text().splitlines()
    for name in ("Max core file size", "Max file size"):
        assert [line[len(name) :].split()[:2] for line in limits if line.startswith(name)] == [["0", "0"]], limits
    assert (proc / "cmdline").read_bytes() == b"sandboxd-fetch\0"
    login.renew_mode, login.expires_in = None, LONG
    vault["control"].kill9()
    wait_until(lambda: not proc.exists(), 10, "it went along")
    vault["control"].start()
    vault.wait_ready()
    wait_until(lambda: provider(vault, "anthropic")["status"] == "connected" and not renewing(vault), 60, "renewed afterwards")


def test_a_renewal_goes_on_after_who_asks_was_killed(vault, login):
    hang_in_a_renewal(vault, login)
    asked = login.count("refresh_token")
    login.renew_mode, login.expires_in = None, LONG
    os.kill(wait_asker(vault), signal.SIGKILL)
    wait_until(lambda: "could not be renewed yet" in (provider(vault, "anthropic")["message"] or ""), 10, "it says so")
    assert "signal 9" in provider(vault, "anthropic")["message"]
    wait_until(lambda: login.count("refresh_token") == asked + 1 and not renewing(vault), 40, "it is tried again, once")
    assert provider(vault, "anthropic")["status"] == "connected"


def test_who_asks_and_hangs_is_killed_in_time(vault, login):
    good = vault.secret("good-")
    own = {"kind": "anthropic-compatible", "base_url": login.base_url, "label": "Stub"}
    assert vault.api.call("PUT", "/v1/providers/stub", own).status_code == 200
    login.good_keys = {good}
    login.check_seconds = 60
    answers = []
    thread = threading.Thread(
        target=lambda: answers.append(vault.api.post("/v1/providers/stub/api-key", {"api_key": good, "check": True}, timeout=60))
    )
    thread.start()
    pid = wait_asker(vault)
    os.kill(pid, signal.SIGSTOP)
    thread.join()
    login.check_seconds = 0
    error = assert_error(answers[0], 504, "timeout")
    assert "did not end in time" in error["message"], error
    assert not Path(f"/proc/{pid}").exists(), "killed and waited for"
    assert provider(vault, "stub")["status"] == "not_connected"
    assert vault.api.delete("/v1/providers/stub").status_code == 204


def test_disconnect_wipes_key_and_login(vault, login):
    connect(vault, login)
    path = vault.data / "agent-auth" / "anthropic.box"
    assert path.exists()
    answer = vault.api.post(f"{CLAUDE}/disconnect")
    assert answer.json()["status"] == "not_connected"
    assert not path.exists()
    assert provider(vault, "anthropic")["key"] is None


# --- imports --------------------------------------------------------------------------------------


def test_a_clis_own_login_is_taken_over(vault):
    access, refresh = vault.secret("oat-"), vault.secret("ort-")
    text = json.dumps({"claudeAiOauth": {"accessToken": access, "refreshToken": refresh, "expiresAt": 4102444800000, "scopes": ["a"]}})
    answer = vault.api.post(f"{CLAUDE}/import", {"credentials": text})
    assert answer.status_code == 200 and answer.json()["method"] == "imported_login", answer.text
    vault.kill9_and_start("control")
    assert provider(vault, "anthropic")["method"] == "imported_login", "over a restart too"
    assert access not in answer.text and refresh not in answer.text


def test_opencodes_file_connects_all_its_providers(vault):
    text = json.dumps(
        {
            "opencode": {"type": "api", "key": vault.secret("zen-")},
            "openrouter": {"type": "api", "key": vault.secret("sk-or-")},
            "somebody-else": {"type": "api", "key": vault.secret("x-")},
        }
    )
    answer = vault.api.post("/v1/agents/opencode/import", {"credentials": text})
    assert answer.status_code == 200, answer.text
    assert provider(vault, "zen")["method"] == provider(vault, "openrouter")["method"] == "api_key"
    for name in ("zen", "openrouter"):
        vault.api.post(f"/v1/providers/{name}/disconnect")


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"claudeAiOauth":{}}', '{"claudeAiOauth":{"accessToken":"a b"}}', '{"opencode":{"type":"api","key":5}}'],
)
def test_a_malformed_bundle_changes_nothing(vault, text):
    answer = vault.api.post(f"{CLAUDE}/import", {"credentials": text})
    assert 400 <= answer.status_code < 500, answer.text
    assert provider(vault, "anthropic")["status"] == "not_connected"


def test_a_bundle_that_cannot_be_used_in_one_part_is_not_used_at_all(vault):
    text = json.dumps({"opencode": {"type": "api", "key": vault.secret("zen-")}, "openrouter": {"type": "api", "key": "with a blank"}})
    error = assert_error(vault.api.post("/v1/agents/opencode/import", {"credentials": text}), 400, "invalid_request")
    assert "openrouter" in error["message"] and "without blanks" in error["message"], error
    assert provider(vault, "zen")["status"] != "connected"


# --- keys and own providers -----------------------------------------------------------------------


def test_a_key_is_checked_when_asked_and_refused_in_the_providers_words(vault, login):
    good, bad = vault.secret("good-"), vault.secret("bad-")
    login.good_keys = {good}
    own = {"kind": "anthropic-compatible", "base_url": login.base_url, "label": "Stub"}
    assert vault.api.call("PUT", "/v1/providers/stub", own).status_code == 200
    # The path of a check is below /v1 for that kind; the stub judges any path.
    login.refusal = "this key was revoked"
    error = assert_error(vault.api.post("/v1/providers/stub/api-key", {"api_key": bad, "check": True}), 422, "key_refused")
    assert "this key was revoked" in error["message"], error
    assert provider(vault, "stub")["status"] == "not_connected", "a refused key is not stored"
    login.refusal = "no such key: KEY"
    answer = vault.api.post("/v1/providers/stub/api-key", {"api_key": bad, "check": True})
    assert bad not in answer.text, "words that quote the key are left out"
    assert vault.api.post("/v1/providers/stub/api-key", {"api_key": good, "check": True}).status_code == 200
    login.list_bytes = 4 << 20
    assert vault.api.post("/v1/providers/stub/check").status_code == 200, "a long list of models is no fault"
    login.list_bytes = 0
    login.good_keys = set()
    assert_error(vault.api.post("/v1/providers/stub/check"), 422, "key_refused")
    first = provider(vault, "stub")["key_id"]
    assert vault.api.post("/v1/providers/stub/api-key", {"api_key": good}).json()["key_id"] != first
    assert vault.api.delete("/v1/providers/stub").status_code == 204
    assert not (vault.data / "agent-auth" / "stub.box").exists()


def test_a_server_without_keys_is_checked_without_one(vault, login):
    own = {"kind": "openai-compatible", "base_url": login.base_url, "label": "Stub", "keyless": True}
    assert vault.api.call("PUT", "/v1/providers/stub", own).status_code == 200
    login.good_keys = {""}
    login.checked.clear()
    assert vault.api.post("/v1/providers/stub/check").status_code == 200
    assert not {"authorization", "x-api-key"} & {name.lower() for name in login.checked[0]}
    login.good_keys, login.refusal = set(), "this server wants a key"
    error = assert_error(vault.api.post("/v1/providers/stub/check"), 422, "key_refused")
    assert "this server wants a key" in error["message"], error
    own["base_url"] = "http://127.0.0.1:1"
    assert vault.api.call("PUT", "/v1/providers/stub", own).status_code == 200
    assert vault.api.post("/v1/providers/stub/check").status_code in (503, 504)
    assert vault.api.delete("/v1/providers/stub").status_code == 204


def test_a_provider_that_cannot_prove_its_name_gets_no_key(vault, tmp_path):
    with contextlib.closing(Provider()) as impostor:
        serve_tls(impostor, make_certificate(tmp_path))
        own = {"kind": "openai-compatible", "base_url": f"https://127.0.0.1:{impostor.port}", "label": "Stub"}
        assert vault.api.call("PUT", "/v1/providers/stub", own).status_code == 200
        answer = vault.api.post("/v1/providers/stub/api-key", {"api_key": vault.secret("own-"), "check": True})
        assert answer.status_code >= 500 and "certificate" in answer.json()["error"]["message"], answer.text
        assert impostor.requests == []
    assert provider(vault, "stub")["status"] == "not_connected"
    assert vault.api.delete("/v1/providers/stub").status_code == 204


def test_a_provider_of_ones_own_serves_a_task_and_survives_a_restart(vault, box, model):
    key = vault.secret("own-")
    own = {"kind": "openai-compatible", "base_url": f"{model.base_url}/own/v1", "default_model": "home-1", "label": "At home"}
    assert vault.api.call("PUT", "/v1/providers/at-home", own).status_code == 200
    vault.kill9_and_start("control")
    assert vault.api.post("/v1/providers/at-home/api-key", {"api_key": key}).status_code == 200
    task = vault.api.make_task(box["id"], directive("say", "hello"), "opencode", model="at-home/home-1")
    done = vault.api.wait_task(box["id"], task["id"])
    assert done["status"] == "succeeded", done
    sent = model.posts()[0]
    assert sent.path == "/own/v1/chat/completions" and sent.model == "home-1"
    assert sent.keys == {"authorization": f"Bearer {key}"}
    assert vault.api.delete("/v1/providers/at-home").status_code == 204
    assert "at-home" not in {p["id"] for p in vault.api.get("/v1/providers").json()["providers"]}
    assert not (vault.data / "agent-auth" / "at-home.box").exists()


@pytest.mark.parametrize(
    "name,own",
    [
        ("anthropic", {"kind": "openai-compatible", "base_url": "http://127.0.0.1:1"}),
        ("x" * 33, {"kind": "openai-compatible", "base_url": "http://127.0.0.1:1"}),
        ("own", {"kind": "anthropic", "base_url": "http://127.0.0.1:1"}),
        ("own", {"kind": "openai-compatible", "base_url": "file:///etc/passwd"}),
        ("own", {"kind": "openai-compatible", "base_url": "http://user:pass@127.0.0.1"}),
        ("own", {"kind": "openai-compatible"}),
        ("own", {"kind": "openai-compatible", "base_url": "http://127.0.0.1:1", "keyless": "yes"}),
        ("openai-compatible", {"kind": "openai-compatible", "base_url": "http://127.0.0.1:1"}),
    ],
)
def test_a_malformed_provider_is_refused(vault, name, own):
    answer = vault.api.call("PUT", f"/v1/providers/{name}", own)
    assert 400 <= answer.status_code < 500, answer.text


def test_nothing_secret_stands_in_any_answer_event_or_file(vault, login):
    connect(vault, login)
    said = json.dumps(vault.events()) + vault.api.get("/v1/providers").text + vault.api.get("/v1/agents").text
    said += vault.api.get("/metrics").text + vault.api.get("/v1/usage?group=key_id").text
    secrets = [s for s in vault.secrets if s != vault.token]
    assert len(secrets) > 10
    for secret in secrets:
        assert secret not in said
    for path in vault.data.rglob("*"):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            assert not [s for s in secrets if s.encode() in data], path
