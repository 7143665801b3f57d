import assert from "node:assert/strict";
import { test } from "node:test";
import {
    app_name_of_prompt,
    format_bytes,
    format_duration,
    password_problem,
    retry_after_seconds,
    safe_link,
    sandbox_word,
    sleep_minutes,
    sleep_text,
    task_is_over,
    is_ticket_url,
    threshold_of_minutes,
    time_of_id,
} from "../src/format.ts";

test("an app is named after the thing, not after the request", () => {
    assert.equal(
        app_name_of_prompt("Add a todo list with a text input, an add button, and a delete button"),
        "Todo list",
    );
    assert.equal(app_name_of_prompt("please build me a recipe box"), "Recipe box");
    assert.equal(app_name_of_prompt("Kanban board. With colours."), "Kanban board");
    assert.equal(app_name_of_prompt("a weather page for Berlin"), "Weather page");
    assert.equal(app_name_of_prompt("  \n"), "New app");
    assert.equal(app_name_of_prompt("make"), "Make");
    assert.equal(app_name_of_prompt("!!!"), "New app");
    assert.equal(app_name_of_prompt("Übersicht aller Rechnungen"), "Übersicht aller Rechnungen");
});

test("a name is never longer than 40 characters", () => {
    assert.equal([...app_name_of_prompt("x".repeat(500))].length, 40);
    assert.ok([...app_name_of_prompt("extraordinarily ".repeat(20))].length <= 40);
    assert.ok([...app_name_of_prompt("😀".repeat(300))].length <= 40);
});

test("a password has ten characters, counted as people count, and is typed twice", () => {
    assert.match(password_problem("short", "short") ?? "", /5 of at least 10/);
    assert.match(password_problem("ääääääääää", "ääääääääää ") ?? "", /differ/);
    assert.equal(password_problem("ääääääääää", "ääääääääää"), null);
    assert.match(password_problem("😀😀😀😀😀", "😀😀😀😀😀") ?? "", /5 of/);
});

test("only web addresses become links", () => {
    assert.equal(
        safe_link("http://s-1-3000.preview.localhost:8080"),
        "http://s-1-3000.preview.localhost:8080",
    );
    assert.equal(safe_link("https://a.example/"), "https://a.example/");
    for (const bad of [
        "javascript:alert(1)",
        " JaVaScRiPt:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "//x",
        "x",
        "",
        null,
        undefined,
    ]) {
        assert.equal(safe_link(bad), null, String(bad));
    }
});

test("Retry-After is a number or a date, within bounds", () => {
    const now_ms = Date.parse("2026-01-01T00:00:00Z");
    assert.equal(retry_after_seconds("7", 5, now_ms), 7);
    assert.equal(retry_after_seconds(null, 5, now_ms), 5);
    assert.equal(retry_after_seconds("0", 5, now_ms), 1);
    assert.equal(retry_after_seconds("999999", 5, now_ms), 300);
    assert.equal(retry_after_seconds("soon", 5, now_ms), 5);
    assert.equal(retry_after_seconds("Thu, 01 Jan 2026 00:00:20 GMT", 5, now_ms), 20);
});

test("figures for people", () => {
    assert.equal(format_bytes(0), "0 B");
    assert.equal(format_bytes(1536), "1.5 KiB");
    assert.equal(format_bytes(2 ** 31), "2.0 GiB");
    assert.equal(format_bytes(null), "unknown");
    assert.equal(format_duration(900), "1 s");
    assert.equal(format_duration(125_000), "2 min 5 s");
    assert.equal(format_duration(3_720_000), "1 h 2 min");
});

test("an unknown word of a newer server is shown as it is", () => {
    assert.deepEqual(sandbox_word("stopped"), ["Asleep", "idle"]);
    assert.deepEqual(sandbox_word("dreaming"), ["dreaming", "idle"]);
    assert.equal(task_is_over("queued") || task_is_over("running"), false);
    assert.equal(task_is_over("budget_reached"), true);
});

test("a ticket is brought to a preview of its sandbox and nowhere else", () => {
    const id = "01kzv3h8m4c9t0q2w5x7y8z9ab";
    const rest = "/.sandboxd/enter?ticket=t&to=/";
    assert.ok(is_ticket_url(`http://s-${id}-3000.preview.localhost:8080${rest}`, id));
    assert.ok(is_ticket_url(`https://s-${id}-3000.preview.example.com${rest}`, id));
    for (const bad of [
        `javascript://s-${id}-3000.preview.localhost${rest}`,
        `http://evil.com/s-${id}-3000.preview.localhost${rest}`,
        `http://s-${id}-3000.preview.localhost@evil.com${rest}`,
        `http://x@s-${id}-3000.preview.localhost${rest}`,
        `http://s-${id.replace("a", "c")}-3000.preview.localhost${rest}`,
        `http://x.s-${id}-3000.preview.localhost${rest}`,
        `http://s-${id}-3000.preview.localhost/`,
        rest,
    ]) {
        assert.ok(!is_ticket_url(bad, id), bad);
    }
});

test("when an app sleeps is said in one sentence, and nothing is claimed that is not known", () => {
    const now = Date.parse("2026-01-02T03:00:00.000Z");
    const idle = {
        policy: "sleep",
        threshold_s: 2100,
        in_use: false,
        sleeps_at: "2026-01-02T03:30:00.000Z",
        keep_alive_until: null,
        stays_stopped: false,
        starts_at: null,
    };
    assert.equal(sleep_text("running", idle, now), "Sleeps in 30 min unless somebody uses it.");
    assert.match(sleep_text("running", { ...idle, sleeps_at: "2026-01-02T03:00:45.000Z" }, now), /in 45 s/);
    assert.match(sleep_text("running", { ...idle, sleeps_at: "2026-01-02T02:00:00.000Z" }, now), /a moment/);
    const kept = { ...idle, keep_alive_until: idle.sleeps_at };
    assert.equal(sleep_text("running", kept, now), "Kept awake for 30 min.");
    const short = { ...idle, keep_alive_until: "2026-01-02T03:10:00.000Z" };
    assert.match(sleep_text("running", short, now), /^Sleeps in 30 min/);
    assert.match(sleep_text("running", { ...idle, in_use: true, sleeps_at: null }, now), /^In use/);
    assert.match(sleep_text("running", { ...idle, threshold_s: null, sleeps_at: null }, now), /is off/);
    const always = { ...idle, policy: "always_on", threshold_s: null, sleeps_at: null };
    assert.match(sleep_text("running", always, now), /^Always on/);
    assert.match(sleep_text("stopped", { ...always, stays_stopped: true }, now), /by hand/);
    const again = { ...always, starts_at: "2026-01-02T03:00:08.000Z" };
    assert.equal(sleep_text("stopped", again, now), "Starts again in 8 s.");
    assert.equal(sleep_text("stopped", idle, now), "");
    assert.equal(sleep_text("starting", idle, now), "");
});

test("a threshold is typed in minutes", () => {
    assert.equal(sleep_minutes(null), "");
    assert.equal(sleep_minutes(2100), "35");
    assert.equal(sleep_minutes(90), "1.5");
    assert.equal(threshold_of_minutes(" "), null);
    assert.equal(threshold_of_minutes("35"), 2100);
    assert.equal(threshold_of_minutes("1,5"), 90);
    for (const bad of ["0", "-1", "soon", "1e3", ".", "99999999"]) {
        assert.equal(threshold_of_minutes(bad), undefined, bad);
    }
});

test("an id says when it was made", () => {
    assert.equal(time_of_id("01arz3ndektsv4rrffq69g5fav"), "2016-07-30T23:54:10.259Z");
});
