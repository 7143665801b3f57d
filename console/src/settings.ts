/* Settings → AI Agents: which agents there are, and their keys, which go one way only. */
import { api_get, api_post, problem_of } from "./api.ts";
import { h, keep_list, set_attribute, set_text, show } from "./dom.ts";
import type { Tone } from "./format.ts";
import { poll_while_visible } from "./poll.ts";
import type { Page } from "./app.ts";
import type { Agent } from "./types.ts";
import { ask, badge, field, problem_box, run_busy } from "./ui.ts";

const AGENTS_INTERVAL_MS = 10_000;

const AGENT_WORDS: Record<string, [string, Tone]> = {
    connected: ["Connected", "good"],
    keyless: ["Free model, no key", "good"],
    not_connected: ["No key", "idle"],
};

interface Row {
    element: HTMLElement;
    update(agent: Agent): void;
}

function agent_row(first: Agent, changed: () => void): Row {
    let agent = first;
    const name = h("h3", null);
    const state = badge();
    const facts = h("p", { class: "hint" });
    const problem = problem_box();
    const stored = h("p", { class: "notice", role: "status" });
    stored.hidden = true;
    const key = h("input", {
        type: "password",
        autocomplete: "off",
        required: true,
        maxlength: 4096,
        spellcheck: "false",
    });
    const submit = h("button", { type: "submit", class: "primary small" }, "Store key");
    const form = h(
        "form",
        { class: "key-form" },
        field(
            "API key",
            key,
            "Stored sealed on the server. It is never shown again and never enters a sandbox.",
        ),
        submit,
    );
    form.addEventListener("submit", (event) => {
        event.preventDefault();
        void run_busy(submit, "Storing …", async () => {
            problem.clear();
            show(stored, false);
            try {
                await api_post(`/v1/agents/${agent.id}/api-key`, { api_key: key.value.trim() });
                key.value = "";
                set_text(stored, "The key is stored.");
                show(stored, true);
                changed();
            } catch (error) {
                problem.show(problem_of("store the key", error));
            }
        });
    });
    const disconnect = h(
        "button",
        {
            type: "button",
            class: "plain small warn",
            onclick: () =>
                ask({
                    title: `Disconnect ${agent.label}?`,
                    text: "Its key is deleted from the server. Tasks that run lose it at once.",
                    confirm: "Disconnect",
                    busy: "Disconnecting …",
                    action: "disconnect the agent",
                    work: async () => {
                        await api_post(`/v1/agents/${agent.id}/disconnect`);
                        show(stored, false);
                        changed();
                    },
                }),
        },
        "Disconnect",
    );
    return {
        element: h(
            "li",
            { class: "card agent", "data-agent": first.id },
            h("div", { class: "app-head" }, name, state.element),
            facts,
            form,
            stored,
            problem.element,
            disconnect,
        ),
        update(latest) {
            agent = latest;
            set_text(name, agent.label);
            state.set(...(AGENT_WORDS[agent.status] ?? [agent.status, "idle"]));
            const model = agent.default_model ? `default model ${agent.default_model}` : "";
            const provider = agent.provider ? `provider ${agent.provider}` : "";
            set_text(facts, [provider, model].filter((fact) => fact !== "").join(" · "));
            set_text(submit, agent.status === "connected" ? "Replace key" : "Store key");
            show(disconnect, agent.status === "connected");
            set_attribute(disconnect, "aria-label", `Disconnect ${agent.label}`);
        },
    };
}

export function settings_page(): Page {
    const problem = problem_box();
    const list = h("ul", { class: "agent-list" });
    const note = h("p", { class: "hint" }, "Loading …");
    const rows = new Map<string, Row>();
    const poller = poll_while_visible(AGENTS_INTERVAL_MS, async () => {
        try {
            const agents = (await api_get<{ agents?: Agent[] }>("/v1/agents")).agents ?? [];
            keep_list(
                list,
                rows,
                agents.map((agent) => ({ key: agent.id, item: agent })),
                (agent) => agent_row(agent, () => poller.now()),
                (row, agent) => row.update(agent),
            );
            set_text(
                note,
                "Agents reach their model through sandboxd: a key stays on the server, a sandbox only gets a token that ends with its task.",
            );
            problem.clear();
        } catch (error) {
            problem.show(problem_of("load the agents", error));
        }
    });
    return {
        element: h(
            "div",
            null,
            h("div", { class: "page-head" }, h("h1", { tabindex: "-1" }, "Settings")),
            h(
                "section",
                { "aria-labelledby": "agents-title" },
                h("h2", { id: "agents-title", class: "section-title" }, "AI Agents"),
                note,
                problem.element,
                list,
            ),
        ),
        title: "Settings",
        stop: poller.stop,
    };
}
