import assert from "node:assert/strict";
import { test } from "node:test";
import { apply_event, new_log, parse_event, tool_state } from "../src/events.ts";

test("an event that was seen before changes nothing: a stream opened anew starts at 1", () => {
    const log = new_log();
    const event = { seq: 1, type: "message", role: "assistant", text: "hello" };
    assert.equal(apply_event(log, event), true);
    assert.equal(apply_event(log, event), false);
    assert.equal(
        apply_event(log, { seq: 2, type: "message", role: "assistant", text: "again" }),
        true,
    );
    assert.deepEqual(
        log.items.map(({ item }) => item.kind === "message" && item.text),
        ["hello", "again"],
    );
});

test("a tool call that starts and ends is one line", () => {
    const log = new_log();
    apply_event(log, {
        seq: 1,
        type: "tool",
        name: "read",
        title: "a.ts",
        status: "running",
        path: "a.ts",
    });
    apply_event(log, {
        seq: 2,
        type: "tool",
        name: "read",
        title: "b.ts",
        status: "running",
        path: "b.ts",
    });
    apply_event(log, {
        seq: 3,
        type: "tool",
        name: "read",
        title: "a.ts",
        status: "completed",
        path: "a.ts",
        output: "text",
    });
    assert.equal(log.items.length, 2);
    assert.deepEqual(log.items[0]?.item, {
        kind: "tool",
        name: "read",
        title: "a.ts",
        state: "done",
        path: "a.ts",
        output: "text",
    });
    apply_event(log, {
        seq: 4,
        type: "tool",
        name: "read",
        title: "a.ts",
        status: "completed",
        path: "a.ts",
    });
    assert.equal(log.items.length, 3, "a second call of the same kind is a second line");
});

test("the end of a task ends the calls whose end was never told", () => {
    const log = new_log();
    apply_event(log, { seq: 1, type: "tool", name: "bash", title: "sleep", status: "running" });
    apply_event(log, { seq: 2, type: "done", status: "cancelled", failure_reason: null });
    assert.equal(log.done?.status, "cancelled");
    const item = log.items[0]?.item;
    assert.equal(item?.kind === "tool" && item.state, "failed");
});

test("the list is bounded, and says what it left out", () => {
    const log = new_log();
    for (let seq = 1; seq <= 1_500; seq += 1) {
        apply_event(log, { seq, type: "notice", text: `line ${seq}` });
    }
    assert.equal(log.items.length, 1_000);
    assert.equal(log.dropped, 500);
});

test("long text is cut, odd values become text, empty messages nothing", () => {
    const log = new_log();
    apply_event(log, { seq: 1, type: "message", role: "assistant", text: "x".repeat(200_000) });
    const item = log.items[0]?.item;
    assert.ok(
        item?.kind === "message" &&
            item.text.length < 61_000 &&
            item.text.endsWith("more characters)"),
    );
    apply_event(log, { seq: 2, type: "error", message: { a: 1 } });
    assert.deepEqual(log.items[1]?.item, { kind: "line", tone: "error", text: '{"a":1}' });
    apply_event(log, { seq: 3, type: "message", role: "assistant", text: "  " });
    assert.equal(log.items.length, 2);
});

test("what is no event is refused", () => {
    for (const bad of [
        "",
        "null",
        "[]",
        "{}",
        '{"type":"x"}',
        '{"seq":"1","type":"x"}',
        '{"seq":1.5,"type":"x"}',
        "{",
    ]) {
        assert.equal(parse_event(bad), null, bad);
    }
    assert.deepEqual(parse_event('{"seq":1,"type":"x"}'), { seq: 1, type: "x" });
    assert.equal(apply_event(new_log(), { seq: 1, type: "from_the_future" }), false);
});

test("words of agents for the state of a call", () => {
    assert.deepEqual(["running", "pending", "in_progress"].map(tool_state), [
        "running",
        "running",
        "running",
    ]);
    assert.deepEqual(["completed", "ok", ""].map(tool_state), ["done", "done", "done"]);
    assert.deepEqual(["error", "failed", "denied", "cancelled"].map(tool_state), [
        "failed",
        "failed",
        "failed",
        "failed",
    ]);
});

test("a refusal is said in its own words, without the agent's wrapping", () => {
    const log = new_log();
    const words = "the budget of this app (1 token) is reached";
    apply_event(log, { seq: 1, type: "error", message: `API Error: 403 ${words}` });
    apply_event(log, { seq: 2, type: "error", message: "something else" });
    apply_event(log, { seq: 3, type: "done", status: "budget_reached", error_message: words });
    assert.deepEqual(
        log.items.map(({ item }) => item.kind === "line" && item.text),
        [words, "something else"],
    );
    const silent = new_log();
    apply_event(silent, { seq: 1, type: "error", message: "as it came" });
    apply_event(silent, { seq: 2, type: "done", status: "failed", error_message: "" });
    assert.deepEqual(silent.items.map(({ item }) => item.kind === "line" && item.text), ["as it came"]);
});
