/* The page of settings: the agents, and the providers whose models they use. */
import { api_get, problem_of } from "./api.ts";
import { agent_panel } from "./agents.ts";
import type { Page } from "./app.ts";
import { h, show } from "./dom.ts";
import { poll_while_visible } from "./poll.ts";
import { provider_panel } from "./providers.ts";
import type { Agent, Provider, ProviderKind } from "./types.ts";
import { problem_box } from "./ui.ts";

const SETTINGS_INTERVAL_MS = 10_000;

/* By name; the owner's own at the end, where they are added. */
function by_label(a: Provider, b: Provider): number {
    return Number(a.kind !== null) - Number(b.kind !== null) || a.label.localeCompare(b.label, "en");
}

/* `provider`: the one to open at once, "" for none. */
export function settings_page(provider: string): Page {
    const problem = problem_box();
    const loading = h("p", { class: "hint" }, "Loading …");
    let agents: Agent[] = [];
    let kinds: ProviderKind[] = [];
    let to_open = provider;
    const changed = (): void => poller.now();
    const agents_part = agent_panel(changed);
    const providers_part = provider_panel({
        changed,
        agent_of: (id) => agents.find((agent) => agent.provider === id && agent.can_login === true),
        kinds: () => kinds,
    });
    const body = h("div", { class: "settings" }, agents_part.element, providers_part.element);
    body.hidden = true;
    const poller = poll_while_visible(SETTINGS_INTERVAL_MS, async () => {
        try {
            const [one, other] = await Promise.all([
                api_get<{ agents?: Agent[] }>("/v1/agents"),
                api_get<{ providers?: Provider[]; kinds?: ProviderKind[] }>("/v1/providers"),
            ]);
            agents = one.agents ?? [];
            kinds = other.kinds ?? [];
            agents_part.update(agents, other.providers ?? []);
            providers_part.update((other.providers ?? []).sort(by_label));
            show(body, true);
            show(loading, false);
            problem.clear();
            if (to_open !== "") {
                providers_part.open(to_open);
                to_open = "";
            }
        } catch (error) {
            show(loading, false);
            problem.show(problem_of("load the settings", error));
        }
    });
    return {
        element: h(
            "div",
            null,
            h("div", { class: "page-head" }, h("h1", { tabindex: "-1" }, "Settings")),
            problem.element,
            loading,
            body,
        ),
        title: "Settings",
        stop: poller.stop,
    };
}
