"""Admission and spend at sandboxd-credentials-proxy: nothing goes upstream unasked, every request is told once."""

import json
import threading
import time

import pytest

from tests.integration.credentials_fakes import KEY, TOKEN, World, error_of, event
from tests.integration.proxy_fakes import encode, wait_for

MESSAGES, CHAT, RESPONSES = "/stub/v1/messages", "/stub/chat/completions", "/stub/responses"
GEMINI = "/stub/models/gemini:streamGenerateContent?alt=sse"
BODY = json.dumps({"model": "m-1", "max_tokens": 100, "stream": True})


@pytest.fixture(scope="session", autouse=True)
def leftovers():
    """Nothing of Docker is used here."""


@pytest.fixture
def world(tmp_path):
    w = World(tmp_path).start()
    yield w
    w.checked_stop()


def usages(world, count=1):
    wait_for(lambda: world.broker.count("usage") >= count, what="a usage record")
    return world.broker.of("usage")


STREAMS = {
    "messages": (MESSAGES, [event({"type": "message_start", "message": {"usage": {
        "input_tokens": 25, "cache_creation_input_tokens": 7, "cache_read_input_tokens": 1000, "output_tokens": 1}}}),
        event({"type": "message_delta", "usage": {"output_tokens": 310}}), event({"type": "message_stop"})],
        {"input": "25", "output": "310", "cached_read": "1000", "cached_write": "7"}),
    "chat": (CHAT, [event({"choices": [{"delta": {"content": "x"}, "finish_reason": None}]}),
                    event({"choices": [{"delta": {}, "finish_reason": "stop"}]}),
                    event({"choices": [], "usage": {"prompt_tokens": 1500, "completion_tokens": 35, "cost": 0.00215,
                                                    "prompt_tokens_details": {"cached_tokens": 1000}}}), event(b"[DONE]")],
             {"input": "500", "output": "35", "cached_read": "1000", "cost_microusd": "2150"}),
    "responses": (RESPONSES, [event({"type": "response.completed", "response": {"usage": {
        "input_tokens": 1500, "input_tokens_details": {"cached_tokens": 1000}, "output_tokens": 42, "cost": 7}}})],
        {"input": "500", "output": "42", "cached_read": "1000", "cost_microusd": None}),
    "gemini": (GEMINI, [event({"candidates": [{"finishReason": "STOP"}], "usageMetadata": {
        "promptTokenCount": 50, "cachedContentTokenCount": 20, "candidatesTokenCount": 8, "thoughtsTokenCount": 30}})],
        {"input": "30", "output": "38", "cached_read": "20"}),
}


@pytest.mark.parametrize("name", STREAMS)
def test_spend_is_read_from_streams(world, name):
    path, world.app.events, expected = STREAMS[name]
    body = "{}" if name == "gemini" else BODY
    got = world.ask(path, body=body)
    assert got.status == 200 and got.whole and got.body == b"".join(world.app.events)
    admit, usage = world.broker.of("admit")[0], usages(world)[0]
    model = "gemini" if name == "gemini" else "m-1"
    assert (admit["task_id"], admit["provider"], admit["model"], admit["running"]) == ("task1", "stub", model, "no")
    assert admit["input_bytes"] == str(len(body)) and admit["max_tokens"] == ("0" if name == "gemini" else "100")
    assert (usage["n"], usage["task_id"], usage["model"], usage["status"]) == (admit["n"], "task1", model, "200")
    assert {k: usage.get(k) for k in expected} == expected and usage["estimated"] == "no"
    assert len(usages(world)) == 1


def test_spend_is_read_from_whole_answers(world):
    world.app.answer = lambda sock, request: answer_json(sock, {"usage": {"prompt_tokens": 9, "completion_tokens": 4}})
    assert world.ask(CHAT, body=BODY).status == 200
    usage = usages(world)[0]
    assert (usage["input"], usage["output"], usage["estimated"]) == ("9", "4", "no")


def answer_json(sock, value, status=200, more=""):
    body = json.dumps(value).encode() if not isinstance(value, bytes) else value
    sock.sendall(f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return True


def test_an_answer_without_figures_is_estimated(world):
    world.app.events = [event({"choices": [{"delta": {"content": "y" * 300}, "finish_reason": "stop"}]}), event(b"[DONE]")]
    assert world.ask(CHAT, body=BODY).whole
    usage = usages(world)[0]
    assert usage["estimated"] == "yes" and usage["output"] == "100" and usage["input"] == str(len(BODY) // 3 + 1)


def test_a_request_that_is_cut_is_told_once_with_what_came(world):
    world.app.events = [STREAMS["messages"][1][0], event({"type": "content_block_delta", "delta": {"text": "z" * 600}}), 5.0]
    c = world.client().send(world.text("POST", MESSAGES, body=BODY))
    while b"zzz" not in c.buffer:
        assert c.fill()
    c.close()
    usage = usages(world)[0]
    assert (usage["status"], usage["input"], usage["output"], usage["estimated"]) == ("200", "25", "200", "yes")


def test_free_paths_are_neither_admitted_nor_told(world):
    assert world.ask("/stub/models", "GET").status == 200
    assert world.ask("/stub/echo", body=BODY).status == 200
    assert world.broker.count("admit") == world.broker.count("usage") == 0


# ---- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code,path,status,kind", [
    ("budget_reached", MESSAGES, 403, "budget_reached"), ("budget_reached", CHAT, 403, "budget_reached"),
    ("budget_reached", RESPONSES, 400, "budget_reached"), ("price_unknown", CHAT, 403, "price_unknown"),
    ("unknown_task", MESSAGES, 401, "unknown_token"), ("unknown_task", RESPONSES, 400, "unknown_token"),
    ("something_new", CHAT, 403, "not_admitted")])
def test_a_refusal_is_the_last_word(world, code, path, status, kind):
    world.refusals = [(code, "the budget of this task is used up")]
    got = world.ask(path, body=BODY)
    assert error_of(got) == (status, kind) and got.header("x-should-retry") == "false"
    assert json.loads(got.body)["error"]["message"] == "the budget of this task is used up"
    assert world.app.requests == []
    time.sleep(0.2)
    assert world.broker.count("usage") == 0


def test_rate_limits_of_sandboxd_say_when(world):
    world.refusals = [("rate_limited", "too many")]
    got = world.ask(CHAT, body=BODY)
    assert error_of(got) == (429, "rate_limited") and got.header("retry-after") == "3" and got.header("x-should-retry") is None
    assert world.app.requests == []


def test_requests_per_minute_are_counted_here_too(world):
    world.requests_per_minute = 5
    answers = [world.ask("/stub/echo", body="{}") for _ in range(7)]
    assert [a.status for a in answers] == [200] * 5 + [429] * 2
    assert 1 <= int(answers[-1].header("retry-after")) <= 12 and len(world.app.requests) == 5


def test_nothing_goes_upstream_before_the_answer(world):
    world.silent = False
    world.broker.handlers["admit"] = lambda r: None
    c = world.client().send(world.text("POST", CHAT, body=BODY))
    wait_for(lambda: world.broker.count("admit"))
    time.sleep(0.3)
    assert world.app.connections == 0
    c.close()
    usage = usages(world)[0]
    assert (usage["n"], usage["status"]) == (world.broker.of("admit")[0]["n"], "0")


# ---- bodies that say late, or twice, what they ask for -------------------------------------------------------------


@pytest.mark.parametrize("body", [
    '{"model":"cheap","model":"dear"}', '{"model":"cheap","mod\\u0065l":"dear"}', '{"model":"d\\u0065ar"}',
    '{"model":"m","max_tokens":1e9}', '{"model":["m"]}', '{"model":"cheap"}{"model":"dear"}'])
def test_a_body_that_can_be_read_in_two_ways_is_refused(world, body):
    assert error_of(world.ask(CHAT, body=body)) == (400, "ambiguous_request")
    assert world.app.requests == [] and world.broker.count("admit") == 0


def test_an_encoded_body_is_refused(world):
    got = world.ask(CHAT, headers=f"X-Api-Key: {TOKEN}\r\nContent-Encoding: gzip\r\n", body="xxxx")
    assert error_of(got) == (415, "encoded_request") and world.app.requests == []


def late(filler, **members):
    return json.dumps({"model": "m-late", "messages": "f" * filler, **members})


@pytest.mark.parametrize("chunked", [False, True])
def test_what_a_long_body_says_late_is_admitted_before_its_end(world, chunked):
    world.app.events = STREAMS["chat"][1]
    body = late(5000000, max_tokens=777)
    headers = f"X-Api-Key: {TOKEN}\r\n" + ("Transfer-Encoding: chunked\r\n" if chunked else "")
    if chunked:
        c = world.client().send(world.text("POST", CHAT, headers))
        for at in range(0, len(body), 1000000):
            part = body[at:at + 1000000]
            c.send(f"{len(part):x}\r\n{part}\r\n")
        got = c.send("0\r\n\r\n").answer()
    else:
        got = world.ask(CHAT, headers=headers, body=body)
    assert got.status == 200 and got.whole and world.app.last("/chat/completions")["body"] == body.encode()
    first, last = world.broker.of("admit")[0], world.broker.of("admit")[-1]
    assert first["n"] == last["n"] and first["max_tokens"] == "0" and len(world.broker.of("admit")) <= 4
    assert (last["model"], last["max_tokens"], last["input_bytes"]) == ("m-late", "777", str(len(body)))
    assert [u["n"] for u in usages(world)] == [first["n"]] and usages(world)[0]["model"] == "m-late"


def test_a_late_refusal_stops_the_body(world):
    world.broker.handlers["admit"] = lambda r: world.broker.send(
        *(("refused", {"n": r["n"], "code": "budget_reached", "message": "no"}) if r["max_tokens"] != "0" else ("admitted", {"n": r["n"]})))
    got = world.ask(CHAT, body=late(5000000, max_tokens=9))
    assert error_of(got) == (403, "budget_reached")
    assert all("whole" not in r for r in world.app.requests)
    assert [u["status"] for u in usages(world)] == ["0"]


def test_a_model_that_is_named_too_late_is_not_waited_for(world):
    """Nobody could say what it costs; sandboxd is not asked about nothing."""
    got = world.ask(CHAT, body='{"x":"' + "f" * 5000000 + '","model":"m"}')
    assert error_of(got) == (400, "ambiguous_request") and world.app.requests == [] and world.broker.count("admit") == 0


def test_a_second_model_late_in_the_body_stops_it(world):
    got = world.ask(CHAT, body='{"model":"cheap","max_tokens":5,"x":"' + "f" * 5000000 + '","model":"dear"}')
    assert error_of(got) == (400, "ambiguous_request")
    assert all("whole" not in r for r in world.app.requests)


def test_agents_put_their_limit_behind_their_messages(world):
    """As Claude Code does: still one question, because the body fits into what is read ahead."""
    world.app.events = STREAMS["messages"][1]
    assert world.ask(MESSAGES, body=late(110000, max_tokens=32000)).status == 200
    assert [a["max_tokens"] for a in world.broker.of("admit")] == ["32000"]


# ---- sandboxd comes and goes -----------------------------------------------------------------------------------------


def away(world):
    world.broker.stop()
    wait_for(lambda: "connection to sandboxd lost" in world.proxy.log(), what="the loss of sandboxd")


def test_without_sandboxd_its_last_words_count(world):
    world.app.events = STREAMS["chat"][1]
    world.left = {"left_microusd": 4000, "input_price": 3000000, "output_price": 15000000}
    assert world.ask(CHAT, body=BODY).status == 200
    usages(world)
    away(world)
    # About 17 tokens in and 100 out: 1,551 micro-USD. Two of them fit into 4,000.
    assert [world.ask(CHAT, body=BODY).status for _ in range(2)] == [200, 200]
    third = world.client().send(world.text("POST", CHAT, body=BODY))
    other = world.client().send(world.text("POST", CHAT, body=BODY.replace("m-1", "m-unpriced")))
    time.sleep(0.5)
    assert world.app.count("/chat/completions") == 3
    world.broker.start()
    assert third.answer().status == 200 and other.answer().status == 200
    told = [u["n"] for u in usages(world, 5)]
    assert sorted(set(told), key=int) == ["1", "2", "3", "4", "5"]


def test_without_any_word_nothing_is_let_through(world):
    assert world.ask("/stub/models", "GET").status == 200
    away(world)
    c = world.client().send(world.text("POST", CHAT, body=BODY))
    time.sleep(0.5)
    assert world.app.count("/chat/completions") == 0
    c.close()


def test_usage_is_told_again_until_it_is_noted(world):
    world.app.events = STREAMS["chat"][1]
    world.broker.handlers["usage"] = lambda r: None
    assert world.ask(CHAT, body=BODY).status == 200
    first = usages(world)[0]
    away(world)
    world.broker.handlers["usage"] = lambda r: world.broker.send("noted", {"n": r["n"]})
    world.broker.start()
    assert usages(world, 2)[1] == first
    away_again = world.broker.count("usage")
    world.broker.stop()
    time.sleep(0.1)
    world.broker.start()
    wait_for(lambda: world.broker.count("grant") >= 3)
    time.sleep(0.2)
    assert world.broker.count("usage") == away_again


def test_what_runs_is_told_first_after_a_reconnect(world):
    world.app.events = [STREAMS["messages"][1][0], 1.5, *STREAMS["messages"][1][1:]]
    c = world.client().send(world.text("POST", MESSAGES, body=BODY))
    assert c.head()[0] == 200
    away(world)
    before = len(world.broker.received)
    world.broker.start()
    wait_for(lambda: len(world.broker.received) > before)
    first = world.broker.received[before]
    assert (first["kind"], first["running"], first["n"], first["model"]) == ("admit", "yes", "1", "m-1")
    assert [u["n"] for u in usages(world)] == ["1"]


def test_each_start_has_its_own_boot_id(world):
    hellos = []
    read = world.broker._serve

    def serve(sock):
        import struct
        data = sock.recv(4096, 2)
        hellos.append(data[4:4 + struct.unpack(">I", data[:4])[0]])
        read(sock)

    world.broker.stop()
    world.broker._serve = serve
    world.broker.start()
    wait_for(lambda: hellos)
    assert b"boot_id" in hellos[0]


def test_a_changed_key_counts_from_the_next_request_on(world):
    world.app.events = [STREAMS["messages"][1][0], 0.6, *STREAMS["messages"][1][1:]]
    running = world.client().send(world.text("POST", MESSAGES, body=BODY))
    assert running.head()[0] == 200
    world.key = "sk-the-renewed-key"
    world.broker.send("changed")
    wait_for(lambda: world.ask("/stub/echo", body="{}").status == 200 and world.broker.count("grant") == 2)
    assert dict(world.app.last("/echo")["headers"])["x-api-key"] == "sk-the-renewed-key"
    text = b""
    while b"message_stop" not in text:
        assert running.fill()
        text = running.buffer


def test_extra_headers_and_a_login_that_was_refused(world):
    world.header, world.prefix, world.extras = "authorization", "Bearer ", ["anthropic-beta: oauth-1"]
    world.ask("/stub/echo", headers=f"X-Api-Key: {TOKEN}\r\nAnthropic-Beta: a, b\r\n", body="{}")
    fields = world.app.last("/echo")["headers"]
    assert [v for k, v in fields if k == "anthropic-beta"] == ["a,b,oauth-1"]
    assert [v for k, v in fields if k == "authorization"] == [f"Bearer {KEY}"]
    world.state, world.state_message = "reconnect", "the login has to be renewed in the console"
    world.broker.send("changed")
    wait_for(lambda: world.ask("/stub/echo", body="{}").status == 403)
    got = world.ask("/stub/echo", body="{}")
    assert error_of(got) == (403, "reconnect") and b"renewed in the console" in got.body


# ---- errors of providers ---------------------------------------------------------------------------------------------

QUOTA = {"error": {"message": "You exceeded your current quota.", "type": "insufficient_quota", "code": "insufficient_quota"}}
RATE = {"error": {"message": "Rate limit reached; add a payment method at /billing", "type": "tokens", "code": "rate_limit_exceeded"}}
BAD_KEY = {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}
NO_MODEL = {"error": {"message": "The model `m-1` does not exist", "code": "model_not_found"}}
CREDIT = {"type": "error", "error": {"type": "invalid_request_error", "message": "Your credit balance is too low"}}


@pytest.mark.parametrize("path,sent,body,status,permanent", [
    (MESSAGES, 401, BAD_KEY, 401, True), (CHAT, 401, BAD_KEY, 401, True), (RESPONSES, 401, BAD_KEY, 400, True),
    (MESSAGES, 400, CREDIT, 400, True), (CHAT, 402, QUOTA, 402, True), (RESPONSES, 404, NO_MODEL, 400, True), (CHAT, 404, NO_MODEL, 404, True),
    (CHAT, 429, QUOTA, 402, True), (RESPONSES, 429, QUOTA, 400, True), (CHAT, 429, RATE, 429, False), (RESPONSES, 429, RATE, 429, False),
    (MESSAGES, 529, {"error": {"message": "Overloaded"}}, 529, False), (CHAT, 503, {"error": "busy"}, 503, False),
    (CHAT, 500, b"<html>oops</html>", 500, False)])
def test_errors_of_providers_reach_agent_and_person(world, path, sent, body, status, permanent):
    world.app.answer = lambda sock, _request: answer_json(sock, body, sent, "Retry-After: 4000\r\n")
    got = world.ask(path, body=BODY)
    assert got.status == status and got.header("retry-after") == "60"
    assert got.body == (body if isinstance(body, bytes) else json.dumps(body).encode())
    assert got.header("x-should-retry") == ("false" if permanent else None)
    usage = usages(world)[0]
    assert usage["status"] == str(sent) and "input" not in usage
    words = "" if isinstance(body, bytes) else body["error"] if isinstance(body["error"], str) else body["error"]["message"]
    assert usage.get("message", "") == words


def test_a_provider_that_repeats_the_key_does_not_tell_the_agent(world):
    world.app.answer = lambda sock, request: answer_json(
        sock, {"error": {"message": f"bad key {KEY} given"}}, 401, f"X-Echo: {KEY}\r\n")
    got = world.ask(CHAT, body=BODY)
    assert got.status == 401 and KEY.encode() not in got.body and got.header("x-echo") is None
    assert KEY not in usages(world)[0]["message"] and "bad key ***" in usages(world)[0]["message"]


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("before", [0, 16384 - 10])
def test_a_key_anywhere_in_a_body_is_covered(world, status, before):
    """Also behind what of an error is looked at, and across its end."""
    text = json.dumps({"echo": "x" * before + f"<{KEY}>", "more": "y" * 20000 + KEY + KEY[:-1]}).encode()
    world.app.answer = lambda sock, _request: answer_json(sock, text, status)
    got = world.ask(CHAT, body=BODY)
    assert got.status == status and got.body == text.replace(KEY.encode(), b"*" * len(KEY))


@pytest.mark.parametrize("cut", [1, 7, len(KEY) - 1])
def test_a_key_in_a_stream_is_covered_however_it_is_cut(world, cut):
    begin, *rest = STREAMS["messages"][1]
    world.app.events = [begin, b": " + KEY[:cut].encode(), 0.1, KEY[cut:].encode() + b"\n\n", *rest, b": " + KEY[:cut].encode()]
    got = world.ask(MESSAGES, body=BODY)
    whole = b"".join(part for part in world.app.events if not isinstance(part, float))
    assert got.body == whole.replace(KEY.encode(), b"*" * len(KEY)) and KEY.encode() not in got.body


def test_what_might_begin_a_key_waits_for_nothing_else(world):
    """An event that came is passed on before the next one comes."""
    begin, *rest = STREAMS["messages"][1]
    world.app.events = [begin, b": " + KEY[:5].encode(), 1.0, b" is none\n\n", *rest]
    running = world.client().send(world.text("POST", MESSAGES, body=BODY))
    started = time.monotonic()
    while begin not in running.buffer:
        assert running.fill()
    assert time.monotonic() - started < 0.8
    running.close()


def test_a_huge_error_passes_on(world):
    text = json.dumps({"error": {"message": "x" * 100000}}).encode()
    world.app.answer = lambda sock, _request: answer_json(sock, text, 500)
    got = world.ask(CHAT, body=BODY)
    assert got.status == 500 and got.body == text


def test_an_error_that_is_cut_is_no_answer(world):
    def cut(sock, _request):
        sock.sendall(b"HTTP/1.1 401 X\r\nContent-Length: 100\r\n\r\n{\"error\"")
        return False

    world.app.answer = cut
    assert error_of(world.ask(CHAT, body=BODY)) == (502, "upstream_error")


def test_two_hundred_requests_side_by_side_are_each_told_once(world):
    world.app.events = STREAMS["chat"][1]
    threads = [threading.Thread(target=lambda: world.ask(CHAT, body=BODY)) for _ in range(200)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    wait_for(lambda: world.broker.count("usage") >= 200)
    told = world.broker.of("usage")
    assert sorted(int(u["n"]) for u in told) == list(range(1, 201))
    # Never above what may still be told, and soon close to it.
    for at, usage in enumerate(told):
        assert int(usage["settled_below"]) <= min(int(later["n"]) for later in told[at:])
    world.ask(CHAT, body=BODY)
    wait_for(lambda: world.broker.count("usage") == 201)
    assert int(world.broker.of("usage")[-1]["settled_below"]) > 190


def test_a_record_of_rubbish_from_the_broker_changes_nothing(world):
    for record in (encode("admitted", {"n": "x"}), encode("admitted", {"n": 99}), encode("refused", {}), encode("noted", {"n": 5})):
        world.broker.sock.sendall(record)
    assert world.ask("/stub/echo", body="{}").status == 200
