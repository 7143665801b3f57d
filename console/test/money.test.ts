/* Money and tokens in words and back; what is unknown is never shown as nothing. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
    budget_share,
    budget_used_text,
    cost_text,
    format_usd,
    LIMIT_MAX,
    limit_text,
    microusd_of_text,
    short_count,
    standing_in_the_way,
    tokens_of_text,
    unpriced_text,
    usd_field,
} from "../src/money.ts";
import type { Budget } from "../src/types.ts";

const spend = (cost_microusd: number | null, requests: number, unpriced_requests: number) => ({
    cost_microusd,
    requests,
    unpriced_requests,
});

const budget = (some: Partial<Budget>): Budget => ({
    scope: "day",
    app_id: null,
    limit_microusd: null,
    limit_tokens: null,
    allow_unknown_price: false,
    used_microusd: 0,
    used_tokens: 0,
    held_microusd: 0,
    held_tokens: 0,
    status: "ok",
    since: null,
    ...some,
});

test("money is written as finely as it needs", () => {
    const cases: [number, string][] = [
        [0, "$0.00"],
        [1, "$0.000001"],
        [1_550, "$0.00155"],
        [12_345, "$0.012"],
        [250_000, "$0.25"],
        [5_000_000, "$5.00"],
        [1_234_567_890, "$1,234.57"],
    ];
    for (const [microusd, text] of cases) {
        assert.equal(format_usd(microusd), text);
    }
});

test("a field gives back exactly what it was filled with", () => {
    for (const value of [0, 1, 100, 999_999, 1_000_000, 5_250_000, 123_456_789, LIMIT_MAX]) {
        assert.equal(microusd_of_text(usd_field(value), LIMIT_MAX), value, usd_field(value));
    }
    assert.equal(usd_field(null), "");
    assert.equal(microusd_of_text("  ", LIMIT_MAX), null);
    assert.equal(microusd_of_text("$ 5", LIMIT_MAX), 5_000_000);
});

test("what is no amount is refused, not guessed at", () => {
    for (const text of ["five", "-1", "1,5", "1e3", "0.0000001", "1.2.3", "1000001", "∞"]) {
        assert.equal(typeof microusd_of_text(text, LIMIT_MAX), "string", text);
    }
    for (const text of ["many", "-1", "1.5", "1.5x", "2m5", "9999999999999"]) {
        assert.equal(typeof tokens_of_text(text), "string", text);
    }
});

test("tokens may be written as people write them", () => {
    for (const [text, count] of [
        ["200000", 200_000],
        ["200,000", 200_000],
        ["200 000", 200_000],
        ["200k", 200_000],
        ["1.5M", 1_500_000],
        ["0", 0],
    ] as const) {
        assert.equal(tokens_of_text(text), count, text);
    }
    assert.equal(tokens_of_text(""), null);
});

test("an unknown cost is unknown, and a part of one is no whole", () => {
    assert.equal(cost_text(spend(null, 3, 3)), "unknown");
    assert.equal(cost_text(spend(250_000, 3, 1)), "at least $0.25");
    assert.equal(cost_text(spend(250_000, 3, 0)), "$0.25");
    assert.equal(cost_text(spend(0, 3, 0)), "$0.00");
    assert.equal(unpriced_text(spend(null, 3, 3)), "No request (of 3) has a known price.");
    assert.match(unpriced_text(spend(1, 3, 1)), /^1 of 3 requests/);
    assert.equal(unpriced_text(spend(1, 3, 0)), "");
});

test("a budget is as full as its fuller limit", () => {
    assert.equal(budget_share(budget({ limit_microusd: 100, used_microusd: 25 })), 0.25);
    assert.equal(
        budget_share(budget({ limit_microusd: 100, used_microusd: 25, limit_tokens: 10, used_tokens: 9 })),
        0.9,
    );
    assert.equal(budget_share(budget({ limit_tokens: 10, used_tokens: 25 })), 1);
    assert.equal(budget_share(budget({ limit_tokens: 0 })), 1);
    assert.equal(
        budget_share(budget({ limit_tokens: 10, used_tokens: null, used_microusd: null })),
        null,
        "each task counts its own",
    );
    assert.equal(limit_text(budget({ limit_microusd: 5_000_000, limit_tokens: 1 })), "$5.00 or 1 token");
    assert.equal(
        budget_used_text(budget({ limit_tokens: 200_000, used_tokens: 12_000 })),
        "12,000 of 200,000 tokens used",
    );
});

test("what is used up is said first, and only what counts here", () => {
    const day = budget({ limit_tokens: 100, used_tokens: 90, status: "warning" });
    const app = budget({ scope: "app", app_id: "a", limit_tokens: 10, used_tokens: 12, status: "reached" });
    assert.equal(standing_in_the_way([], "a"), "");
    assert.equal(standing_in_the_way([budget({ status: "ok" })], "a"), "");
    assert.match(standing_in_the_way([day, app], "a"), /^The budget of this app is used up \(12 of 10 tokens used\)/);
    assert.match(standing_in_the_way([day, app], "b"), /^The budget of this day \(UTC\) is nearly used up/);
    assert.equal(standing_in_the_way([app], ""), "");
});

test("large figures are short", () => {
    assert.equal(short_count(99_999), "99,999");
    assert.equal(short_count(1_234_567), "1,235k");
    assert.equal(short_count(123_456_789), "123.5M");
});
