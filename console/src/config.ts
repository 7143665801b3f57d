/*
 * The card of an app's page for what the app is given: secrets and settings as environment variables.
 * A secret is typed here and never comes back; what is typed is gone once it is saved.
 */
import { api_delete, api_get, api_post, api_put, problem_of } from "./api.ts";
import { fill, h, keep_list, set_attribute, set_text, show } from "./dom.ts";
import { poll_while_visible } from "./poll.ts";
import type { ConfigItem, ConfigList, Sandbox } from "./types.ts";
import {
    action_button,
    ask,
    check_box,
    field,
    notice,
    problem_box,
    run_busy,
    type Toggle,
    toggle,
} from "./ui.ts";

const CONFIG_INTERVAL_MS = 5_000;
const SCOPES: [string, string, string][] = [
    ["runtime", "The app", "for the app"],
    ["agent", "Its agents", "for agents"],
    ["both", "The app and its agents", "for the app and agents"],
];

export interface ConfigCard {
    element: HTMLElement;
    update(sandbox_id: string | null): void;
    stop(): void;
}

function facts_of(item: ConfigItem): string {
    const whose = SCOPES.find(([scope]) => scope === item.scope)?.[2] ?? item.scope;
    const secret = item.sensitive ? "secret" : "";
    const bare = item.sensitive && !item.masked ? "too short to be masked in logs" : "";
    const changed = item.changed_since_start ? "changed since start" : "";
    return [whose, secret, bare, changed].filter((text) => text !== "").join(" · ");
}

/* A new key, or one that is there: then its name is fixed, and a secret's value stays unless another
   is typed. */
function config_form(
    app_id: string,
    item: ConfigItem | null,
    done: () => void,
): { element: HTMLElement; focus(): void } {
    const problem = problem_box();
    const key = h("input", { type: "text", autocomplete: "off", spellcheck: "false", maxlength: 128 });
    const value = h("textarea", { rows: 2, autocomplete: "off", spellcheck: "false" });
    const scope = h("select", null, ...SCOPES.map(([id, label]) => h("option", { value: id }, label)));
    const secret = check_box("Secret: never shown again, masked in logs", item?.sensitive ?? true);
    const submit = h("button", { type: "submit", class: "primary small" }, item ? "Save" : "Add");
    let typed = false;
    const hide = (): void => set_attribute(value, "class", secret.input.checked ? "masked" : null);

    key.value = item?.key ?? "";
    scope.value = item?.scope ?? "runtime";
    value.value = item?.value ?? "";
    value.placeholder = item?.sensitive ? "Leave empty to keep the one that is stored" : "";
    value.addEventListener("input", () => (typed = true));
    secret.input.addEventListener("change", hide);
    hide();
    const form = h(
        "form",
        { class: "key-form", autocomplete: "off" },
        item ? null : field("Name", key, "Letters, digits and _, like DATABASE_URL."),
        field("Value", value),
        field("Who gets it", scope),
        secret.element,
        problem.element,
        submit,
    );
    form.addEventListener("submit", (event) => {
        event.preventDefault();
        void run_busy(submit, "Saving …", async () => {
            problem.clear();
            const name = key.value.trim();
            const body: Record<string, unknown> = {
                scope: scope.value,
                sensitive: secret.input.checked,
            };
            if (!item?.sensitive || (typed && value.value !== "")) {
                body["value"] = value.value;
            }
            if (name === "") {
                problem.show({ what: "Nothing was added.", why: "A name is wanted.", next: "Type one." });
                key.focus();
                return;
            }
            try {
                await api_put(`/v1/apps/${app_id}/config/${encodeURIComponent(name)}`, body);
                value.value = "";
                done();
            } catch (error) {
                problem.show(problem_of(`save ${name}`, error));
            }
        });
    });
    return { element: form, focus: () => (item ? value : key).focus() };
}

/* What was typed and not saved is not kept behind a closed form. */
function forget_when_closed(opener: Toggle, panel: HTMLElement): void {
    opener.button.addEventListener("click", () => {
        if (!opener.is_open()) {
            fill(panel);
        }
    });
}

interface ItemView {
    element: HTMLElement;
    update(item: ConfigItem): void;
}

function item_view(app_id: string, first: ConfigItem, changed: () => void): ItemView {
    let item = first;
    const value = h("p", { class: "address config-value" });
    const facts = h("p", { class: "hint" });
    const panel = h("div", { class: "ways" });
    const edit = toggle("Edit", "plain small", panel, () => {
        const form = config_form(app_id, item, () => {
            edit.set(false);
            fill(panel);
            edit.button.focus();
            changed();
        });
        fill(panel, form.element);
        form.focus();
    });
    forget_when_closed(edit, panel);
    const remove = h(
        "button",
        {
            type: "button",
            class: "plain small warn",
            onclick: () =>
                ask({
                    title: `Delete ${item.key}?`,
                    text: "The app keeps it until its processes start anew.",
                    confirm: "Delete",
                    busy: "Deleting …",
                    action: `delete ${item.key}`,
                    work: async () => {
                        await api_delete(`/v1/apps/${app_id}/config/${encodeURIComponent(item.key)}`);
                        changed();
                    },
                }),
        },
        "Delete",
    );
    set_attribute(edit.button, "aria-label", `Edit: ${first.key}`);
    set_attribute(remove, "aria-label", `Delete: ${first.key}`);
    return {
        element: h(
            "li",
            { class: "config-item", "data-key": first.key },
            h("h3", { class: "config-key" }, first.key),
            value,
            facts,
            h("div", { class: "actions" }, edit.button, remove),
            panel,
        ),
        update(latest) {
            item = latest;
            set_text(value, latest.value ?? "");
            show(value, latest.value !== null && latest.value !== "");
            set_text(facts, facts_of(latest));
        },
    };
}

export function app_config_card(app_id: string): ConfigCard {
    let sandbox_id: string | null = null;
    const problem = problem_box();
    const apply_problem = problem_box(); /* its own: a poll that works clears the other */
    const said = notice();
    const views = new Map<string, ItemView>();
    const list = h("ul", { class: "config-list" });
    const empty = h("p", { class: "hint" }, "Nothing yet. What you add is an environment variable of the app.");
    const changed_line = h(
        "p",
        { class: "line line-warn" },
        "Changed since the app's processes started: they run with what was there before.",
    );
    const apply = action_button("Apply: restart the processes", "Restarting …", "primary small", async () => {
        apply_problem.clear();
        said.clear();
        try {
            const after = await api_post<Sandbox>(`/v1/sandboxes/${sandbox_id}/apply-config`);
            said.say(
                after.preview?.phase === "failed"
                    ? "The processes have it now, and the app failed; Sandbox says why."
                    : "The app's processes run with it now.",
            );
        } catch (error) {
            apply_problem.show(problem_of("apply the config", error));
        }
        poller.now();
    });
    const changed = h("div", { class: "stack" }, changed_line, h("div", { class: "actions" }, apply));
    const panel = h("div", { class: "ways" });
    const add = toggle("Add a key", "plain small", panel, () => {
        said.clear();
        const form = config_form(app_id, null, () => {
            add.set(false);
            fill(panel);
            add.button.focus();
            poller.now();
        });
        fill(panel, form.element);
        form.focus();
    });
    forget_when_closed(add, panel);
    const note = h("p", { class: "hint" });
    const worth = h(
        "details",
        { class: "config-note" },
        h("summary", null, "What this keeps from whom"),
        note,
    );
    const body = h("div", { class: "stack" }, changed, empty, list);
    body.hidden = true;
    const poller = poll_while_visible(CONFIG_INTERVAL_MS, async () => {
        try {
            const config = await api_get<ConfigList>(`/v1/apps/${app_id}/config`);
            const items = config.config ?? [];
            keep_list(
                list,
                views,
                items.map((item) => ({ key: item.key, item })),
                (item) => item_view(app_id, item, () => poller.now()),
                (view, item) => view.update(item),
            );
            set_text(note, sentence_of(config.note));
            show(empty, items.length === 0);
            show(list, items.length > 0);
            show(changed, config.changed_since_start && sandbox_id !== null);
            show(body, true);
            problem.clear();
        } catch (error) {
            problem.show(problem_of("load the config", error));
        }
    });
    return {
        element: h(
            "section",
            { class: "card app-config", "aria-labelledby": "app-config-title" },
            h("h2", { id: "app-config-title" }, "Config"),
            problem.element,
            apply_problem.element,
            said.element,
            body,
            h("div", { class: "actions" }, add.button),
            panel,
            worth,
        ),
        update(latest) {
            sandbox_id = latest;
        },
        stop: poller.stop,
    };
}

function sentence_of(note: string): string {
    return note === "" ? "" : `${note.charAt(0).toUpperCase()}${note.slice(1)}.`;
}
