/* What can be chosen where: models of an agent, prices of a search, ids of own providers, order of usage. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { agent_is_ready, default_provider } from "../src/agents.ts";
import { model_options } from "../src/models.ts";
import { provider_id_of_label } from "../src/own_provider.ts";
import { matching_prices } from "../src/prices.ts";
import type { Agent, Price, Usage } from "../src/types.ts";
import { first_day, in_order } from "../src/usage.ts";

const agent = (some: Partial<Agent>): Agent => ({
    id: "opencode",
    label: "OpenCode",
    status: "not_connected",
    provider: "zen",
    ready: true,
    providers: [
        { provider: "zen", usable: false, default_model: "claude-sonnet-5" },
        { provider: "openai", usable: true, default_model: "gpt-5.5" },
        { provider: "ollama", usable: true, default_model: null },
        { provider: "openrouter", usable: true, default_model: "z-ai/glm-5" },
    ],
    ...some,
});

const values = (of: Agent | undefined): string[] =>
    model_options(of, (id) => id).map(([value]) => value);

test("the default is the agent's own provider, else the first with a model", () => {
    assert.equal(default_provider(agent({})), "openai");
    assert.equal(default_provider(agent({ providers: [] })), undefined);
    const own = { provider: "zen", usable: true, default_model: "claude-sonnet-5" };
    assert.equal(default_provider(agent({ providers: [...(agent({}).providers ?? []), own] })), "openai");
    assert.equal(default_provider(agent({ providers: [own] })), "zen");
});

test("models of connected providers can be chosen, any by name, none without a provider", () => {
    assert.deepEqual(values(agent({})), ["", "openrouter/z-ai/glm-5", "other…"]);
    assert.equal(model_options(agent({}), (id) => id)[0]?.[1], "Default (gpt-5.5)");
    assert.deepEqual(values(agent({ ready: false, providers: [] })), [""]);
    assert.deepEqual(values(agent({ ready: false })), ["", "other…"], "connected, without a default");
    assert.deepEqual(values(undefined), [""]);
});

test("a server that does not say whether an agent is ready is believed by its status", () => {
    const { ready: _, ...silent } = agent({});
    assert.equal(agent_is_ready({ ...silent, status: "connected" }), true);
    assert.equal(agent_is_ready({ ...silent, status: "keyless" }), true);
    assert.equal(agent_is_ready({ ...silent, status: "reconnect" }), false);
    assert.equal(agent_is_ready({ ...silent, status: "not_connected" }), false);
});

test("a name becomes an id that the server takes", () => {
    assert.equal(provider_id_of_label("Ollama"), "ollama");
    assert.equal(provider_id_of_label(" At home (GPU) "), "at-home-gpu");
    assert.equal(provider_id_of_label("日本"), "");
    assert.match(provider_id_of_label("x".repeat(31) + " y"), /^[a-z0-9-]{1,32}$/);
    assert.doesNotMatch(provider_id_of_label("x".repeat(31) + " y"), /-$/);
});

test("prices are found by every word, in any order", () => {
    const price = (provider: string, model: string): Price => ({
        provider,
        model,
        input: 1,
        output: 1,
        cached_read: 1,
        cached_write: 1,
        is_own: false,
    });
    const all = [price("anthropic", "claude-sonnet-5"), price("openrouter", "anthropic/claude-sonnet-5")];
    assert.equal(matching_prices(all, "", "SONNET claude").length, 2);
    assert.equal(matching_prices(all, "openrouter", "sonnet").length, 1);
    assert.equal(matching_prices(all, "", "opus").length, 0);
});

test("days begin with the newest, the rest with what costs most", () => {
    const line = (name: string, cost_microusd: number | null, input: number): Usage => ({
        model: name,
        requests: 1,
        failed_requests: 0,
        tokens: { input, output: 0, cached_read: 0, cached_write: 0 },
        cost_microusd,
        unpriced_requests: cost_microusd === null ? 1 : 0,
    });
    const lines = [line("a", null, 5), line("b", 10, 1), line("c", null, 9)];
    assert.deepEqual(in_order("model", lines).map((one) => one.model), ["b", "c", "a"]);
    assert.deepEqual(in_order("day", lines).map((one) => one.model), ["c", "b", "a"]);
});

test("a week begins six days ago, by UTC", () => {
    assert.equal(first_day(1, Date.parse("2026-03-01T23:59:00Z")), "2026-03-01");
    assert.equal(first_day(7, Date.parse("2026-03-01T00:01:00Z")), "2026-02-23");
});
