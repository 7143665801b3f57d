/*
 * Settings → Model providers: what is connected, how, and everything one can do about it. Whatever
 * a provider says about a key is shown in its own words.
 */
import { api_delete, api_post, problem_of } from "./api.ts";
import { key_form, login_form } from "./connect.ts";
import { fill, h, keep_list, set_attribute, set_text, show } from "./dom.ts";
import { format_day, format_time, type Tone } from "./format.ts";
import { own_form } from "./own_provider.ts";
import type { Agent, Provider, ProviderKind } from "./types.ts";
import { action_button, ask, badge, notice, problem_box, toggle } from "./ui.ts";

const STATUS_WORDS: Record<string, [string, Tone]> = {
    connected: ["Connected", "good"],
    keyless: ["No key needed", "good"],
    reconnect: ["Reconnect", "bad"],
    not_connected: ["Not connected", "idle"],
};

export function connection_word(status: string): [string, Tone] {
    return STATUS_WORDS[status] ?? [status, "idle"];
}

function is_login(provider: Provider): boolean {
    return provider.method === "login" || provider.method === "imported_login";
}

/* How it is connected, in one line. */
function method_text(provider: Provider): string {
    const since = provider.connected_at ? ` since ${format_day(provider.connected_at)}` : "";
    if (provider.method === "api_key") {
        return `API key set${since}`;
    }
    if (is_login(provider)) {
        const until = provider.expires_at && provider.status === "connected"
            ? `, its token is good until ${format_time(provider.expires_at)} and renewed before`
            : "";
        const how = provider.method === "login" ? "Login" : "Login of a CLI, imported";
        return `${how}${since}${until}`;
    }
    return "";
}

interface Row {
    element: HTMLElement;
    update(provider: Provider): void;
    open(): void;
}

export interface ProviderContext {
    changed(): void;
    /* The agent whose own provider that is; logins are begun for it. */
    agent_of(provider: string): Agent | undefined;
    kinds(): ProviderKind[];
}

function provider_row(first: Provider, context: ProviderContext): Row {
    let provider = first;
    const name = h("h3", { tabindex: "-1" });
    const state = badge();
    const facts = h("p", { class: "hint" });
    const address = h("p", { class: "hint address" });
    const said = h("p", { class: "line line-error" });
    const problem = problem_box();
    const done_notice = notice();
    const panel = h("div", { class: "ways" });
    const key = key_form(() => provider, done);
    const connect = toggle("Connect", "plain small", panel, () => key.focus());
    panel.append(key.element);

    function done(text: string): void {
        problem.clear();
        connect.set(false);
        done_notice.say(text, ...draft_link());
        connect.button.focus();
        context.changed();
    }
    const check = action_button("Check", "Asking …", "plain small", async () => {
        problem.clear();
        done_notice.clear();
        try {
            await api_post(`/v1/providers/${provider.id}/check`);
            done_notice.say(
                provider.method === null
                    ? `${provider.label} answers.`
                    : `${provider.label} takes the ${is_login(provider) ? "login" : "key"}.`,
            );
        } catch (error) {
            problem.show(check_problem(provider, error));
        }
    });
    const disconnect = h(
        "button",
        { type: "button", class: "plain small warn", onclick: () => ask_disconnect() },
        "Disconnect",
    );
    function ask_disconnect(): void {
        ask({
            title: `Disconnect ${provider.label}?`,
            text: `Its ${is_login(provider) ? "login" : "key"} is wiped from the server. Tasks that run lose it at once.`,
            confirm: "Disconnect",
            busy: "Disconnecting …",
            action: "disconnect the provider",
            work: async () => {
                await api_post(`/v1/providers/${provider.id}/disconnect`);
                done_notice.clear();
                problem.clear();
                context.changed();
            },
        });
    }
    const own = own_parts(
        () => provider,
        context,
        (text) => done_notice.say(text),
    );
    let login_for = "";
    return {
        element: h(
            "li",
            { class: "card provider", "data-provider": first.id },
            h("div", { class: "app-head" }, name, state.element),
            facts,
            address,
            said,
            done_notice.element,
            problem.element,
            h(
                "div",
                { class: "actions" },
                connect.button,
                check,
                own.edit,
                disconnect,
                own.remove,
            ),
            panel,
            own.panel,
        ),
        update(latest) {
            provider = latest;
            const connected = latest.method !== null;
            set_text(name, latest.label);
            state.set(...connection_word(latest.status));
            set_text(facts, method_text(latest));
            show(facts, connected);
            const model = latest.default_model ? ` · default model ${latest.default_model}` : "";
            set_text(address, `${latest.base_url}${model}`);
            set_text(said, latest.message ?? "");
            show(said, (latest.message ?? "") !== "");
            set_text(connect.button, connect_label(latest));
            set_attribute(
                connect.button,
                "class",
                latest.status === "reconnect" ? "primary small" : "plain small",
            );
            label_button(connect.button, connect_label(latest), latest);
            label_button(check, "Check", latest);
            label_button(disconnect, "Disconnect", latest);
            const usable = latest.status === "connected" || latest.status === "keyless";
            show(check, latest.can_check && usable);
            show(disconnect, connected);
            own.update(latest);
            const agent = latest.can_login ? context.agent_of(latest.id) : undefined;
            if (agent && login_for !== agent.id) {
                login_for = agent.id;
                fill(panel, key.element, login_form(agent, done).element);
            }
        },
        open() {
            this.element.scrollIntoView({ block: "center" });
            if (provider.status === "connected") {
                name.focus({ preventScroll: true });
            } else {
                connect.set(true);
            }
        },
    };
}

function connect_label(provider: Provider): string {
    if (provider.status === "reconnect") {
        return "Connect again";
    }
    if (provider.method !== null) {
        return is_login(provider) ? "Replace login" : "Replace key";
    }
    return provider.keyless ? "Add a key" : "Connect";
}

/* Seen by everybody, "Check"; heard by some, "Check Anthropic". */
function label_button(button: HTMLElement, label: string, provider: Provider): void {
    set_attribute(button, "aria-label", `${label}: ${provider.label}`);
}

function check_problem(provider: Provider, error: unknown): ReturnType<typeof problem_of> {
    const shown = problem_of(`check ${provider.label}`, error);
    return { ...shown, next: "Nothing was changed." };
}

/* Whoever came here with half a prompt goes back to it. */
function draft_link(): (Node | string)[] {
    return [" ", h("a", { href: "#/" }, "Build something")];
}

/* What only a provider of the owner's own has: its address can be changed, and it can go. */
function own_parts(
    provider: () => Provider,
    context: ProviderContext,
    say: (text: string) => void,
): {
    edit: HTMLElement;
    remove: HTMLElement;
    panel: HTMLElement;
    update(provider: Provider): void;
} {
    const panel = h("div", { class: "ways" });
    const edit = toggle("Edit", "plain small", panel, () => {
        const form = own_form(context.kinds(), provider(), () => false, () => {
            edit.set(false);
            say("Changed.");
            context.changed();
        });
        fill(panel, form.element);
        form.focus();
    });
    const remove = h(
        "button",
        {
            type: "button",
            class: "plain small warn",
            onclick: () =>
                ask({
                    title: `Remove ${provider().label}?`,
                    text: "Its address and its key are deleted from the server.",
                    confirm: "Remove",
                    busy: "Removing …",
                    action: "remove the provider",
                    work: async () => {
                        await api_delete(`/v1/providers/${provider().id}`);
                        context.changed();
                    },
                }),
        },
        "Remove",
    );
    return {
        edit: edit.button,
        remove,
        panel,
        update(latest) {
            show(edit.button, latest.kind !== null);
            show(remove, latest.kind !== null);
            label_button(edit.button, "Edit", latest);
            label_button(remove, "Remove", latest);
        },
    };
}

export interface ProviderPanel {
    element: HTMLElement;
    update(providers: Provider[]): void;
    open(provider: string): void;
}

export function provider_panel(context: ProviderContext): ProviderPanel {
    const list = h("ul", { class: "card-list" });
    const rows = new Map<string, Row>();
    const added = notice();
    const place = h("div", { class: "card ways" });
    const add = toggle("Add a provider of your own", "plain", place, () => {
        const form = own_form(context.kinds(), null, (id) => rows.has(id), (label) => {
            add.set(false);
            added.say(`${label} is there. A task may use its models now.`);
            context.changed();
        });
        added.clear();
        fill(place, form.element);
        form.focus();
    });
    return {
        element: h(
            "section",
            { "aria-labelledby": "providers-title" },
            h("h2", { id: "providers-title", class: "section-title" }, "Model providers"),
            h(
                "p",
                { class: "hint" },
                "Keys stay sealed on the server. A sandbox only gets a token that ends with its task and works nowhere else.",
            ),
            list,
            h("div", { class: "after-list" }, added.element, add.button, place),
        ),
        update(providers) {
            keep_list(
                list,
                rows,
                providers.map((provider) => ({ key: provider.id, item: provider })),
                (provider) => provider_row(provider, context),
                (row, provider) => row.update(provider),
            );
        },
        open: (provider) => rows.get(provider)?.open(),
    };
}
