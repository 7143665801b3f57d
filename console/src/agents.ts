/* Settings → AI Agents: which agents there are, and through which provider each reaches a model. */
import { import_form } from "./connect.ts";
import { fill, h, keep_list, set_text, show } from "./dom.ts";
import type { Tone } from "./format.ts";
import { hash_of_provider } from "./routes.ts";
import type { Agent, Provider } from "./types.ts";
import { badge, notice, toggle } from "./ui.ts";

/* Can a task be given to it? A server that does not say is believed by its status. */
export function agent_is_ready(agent: Agent): boolean {
    return agent.ready ?? (agent.status !== "not_connected" && agent.status !== "reconnect");
}

/* A provider is connected that has no model of its own accord: a task must name one. */
export function agent_wants_model(agent: Agent): boolean {
    return !agent_is_ready(agent) && (agent.providers ?? []).some((one) => one.usable);
}

/* The provider that a task goes to which names no model; undefined while none is connected. */
export function default_provider(agent: Agent): string | undefined {
    const list = agent.providers ?? [];
    const native = list.find((one) => one.provider === agent.provider);
    if (native?.usable) {
        return native.provider;
    }
    return list.find((one) => one.usable && one.default_model)?.provider;
}

function agent_word(agent: Agent): [string, Tone] {
    if (agent.status === "reconnect") {
        return ["Reconnect", "bad"];
    }
    if (agent_wants_model(agent)) {
        return ["No default model", "idle"];
    }
    if (!agent_is_ready(agent)) {
        return ["No provider yet", "idle"];
    }
    return agent.status === "keyless" && default_provider(agent) === agent.provider
        ? ["Free model, no key", "good"]
        : ["Ready", "good"];
}

function model_text(agent: Agent, label_of: (provider: string) => string): string {
    if (agent_wants_model(agent)) {
        return "Its provider has no default model: set one there, or name a model with each task. It can use:";
    }
    if (!agent_is_ready(agent)) {
        return agent.status === "reconnect"
            ? "It cannot reach a model until one of these providers is connected again:"
            : "It cannot reach a model yet. Connect one of these providers:";
    }
    const provider = default_provider(agent) ?? agent.provider ?? "";
    const model = (agent.providers ?? []).find((one) => one.provider === provider)?.default_model;
    if (agent.status === "keyless" && provider === agent.provider) {
        return `Uses a free model of ${label_of(provider)}. With one of these providers it gets a better one:`;
    }
    const what = model ? `${model} of ${label_of(provider)}` : label_of(provider);
    return `Uses ${what} unless a task names another model. It can use:`;
}

interface Row {
    element: HTMLElement;
    update(agent: Agent, providers: Provider[]): void;
}

function agent_row(first: Agent, changed: () => void): Row {
    const name = h("h3", null);
    const state = badge();
    const facts = h("p", { class: "hint" });
    const said = h("p", { class: "line line-error" });
    const chips = h("ul", { class: "chips" });
    const done_notice = notice();
    const panel = h("div", { class: "ways" });
    const form = import_form(first, (text) => {
        open.set(false);
        done_notice.say(text);
        open.button.focus();
        changed();
    });
    const open = toggle("Import the login of its CLI", "plain small", panel, () => {
        done_notice.clear();
        form.focus();
    });
    panel.append(form.element);
    open.button.setAttribute("aria-label", `Import the login of its CLI: ${first.label}`);
    let shown = "";
    return {
        element: h(
            "li",
            { class: "card agent", "data-agent": first.id },
            h("div", { class: "app-head" }, name, state.element),
            said,
            facts,
            chips,
            done_notice.element,
            h("div", { class: "actions" }, open.button),
            panel,
        ),
        update(agent, providers) {
            const label_of = (id: string): string =>
                providers.find((provider) => provider.id === id)?.label ?? id;
            set_text(name, agent.label);
            state.set(...agent_word(agent));
            set_text(facts, model_text(agent, label_of));
            set_text(said, agent.message ?? "");
            show(said, (agent.message ?? "") !== "");
            const links = (agent.providers ?? []).map((one): [string, string, boolean] => [
                one.provider,
                label_of(one.provider),
                one.usable,
            ]);
            if (JSON.stringify(links) !== shown) {
                shown = JSON.stringify(links);
                fill(chips, ...links.map((link) => chip(...link)));
            }
        },
    };
}

function chip(id: string, label: string, usable: boolean): HTMLElement {
    return h(
        "li",
        null,
        h(
            "a",
            { class: "chip", href: hash_of_provider(id), "data-usable": usable ? "yes" : null },
            usable ? h("span", { "aria-hidden": "true" }, "✓") : null,
            label,
            usable ? h("span", { class: "sr" }, " (connected)") : null,
        ),
    );
}

export interface AgentPanel {
    element: HTMLElement;
    update(agents: Agent[], providers: Provider[]): void;
}

export function agent_panel(changed: () => void): AgentPanel {
    const list = h("ul", { class: "card-list" });
    const rows = new Map<string, Row>();
    return {
        element: h(
            "section",
            { "aria-labelledby": "agents-title" },
            h("h2", { id: "agents-title", class: "section-title" }, "AI Agents"),
            h(
                "p",
                { class: "hint" },
                "Agents write the code. Each reaches its model through a provider that you connect once, for all apps.",
            ),
            list,
        ),
        update(agents, providers) {
            keep_list(
                list,
                rows,
                agents.map((agent) => ({ key: agent.id, item: agent })),
                (agent) => agent_row(agent, changed),
                (row, agent) => row.update(agent, providers),
            );
        },
    };
}
