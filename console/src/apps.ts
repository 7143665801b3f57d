/* What one can do with an app, and the list of all of them. */
import { ApiError, api_delete, api_get, api_post, problem_of } from "./api.ts";
import { h, keep_list, set_attribute, set_text, show } from "./dom.ts";
import { format_bytes, safe_link, sandbox_word } from "./format.ts";
import { poll_while_visible } from "./poll.ts";
import { hash_of_app } from "./routes.ts";
import type { App } from "./types.ts";
import { action_button, ask, badge, type ProblemBox, problem_box } from "./ui.ts";

const APPS_INTERVAL_MS = 3_000;
const PAGES_MAX = 10;

/* All apps, in pages of 200; `more` when even ten of them did not hold all. */
export async function load_apps(): Promise<{ apps: App[]; more: boolean }> {
    const apps: App[] = [];
    let cursor = "";
    for (let page = 0; page < PAGES_MAX; page += 1) {
        const query = cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`;
        const answer = await api_get<{ apps?: App[]; next_cursor?: string | null }>(
            `/v1/apps?limit=200${query}`,
        );
        apps.push(...(answer.apps ?? []));
        if (!answer.next_cursor) {
            return { apps, more: false };
        }
        cursor = answer.next_cursor;
    }
    return { apps, more: true };
}

export async function stop_app(app: App, after: () => void): Promise<void> {
    const path = `/v1/sandboxes/${app.sandbox?.sandbox_id}/stop`;
    try {
        await api_post(path);
        after();
    } catch (error) {
        if (!(error instanceof ApiError) || error.code !== "task_in_progress") {
            throw error;
        }
        ask({
            title: "A task is running",
            text: `Stopping “${app.name}” now ends the task. What the agent changed so far stays.`,
            confirm: "Stop anyway",
            busy: "Stopping …",
            action: "stop the app",
            work: async () => {
                await api_post(`${path}?force=true`);
                after();
            },
        });
    }
}

export async function start_app(app: App): Promise<void> {
    await api_post(
        app.sandbox
            ? `/v1/sandboxes/${app.sandbox.sandbox_id}/start`
            : `/v1/apps/${app.id}/sandbox`,
    );
}

export function ask_delete(app: App, after: () => void): void {
    ask({
        title: `Delete “${app.name}”?`,
        text: "Its sandbox, all its files and the record of its tasks go with it. This cannot be undone.",
        confirm: "Delete app",
        busy: "Deleting …",
        action: "delete the app",
        work: async () => {
            await api_delete(`/v1/apps/${app.id}`);
            after();
        },
    });
}

export interface AppActions {
    element: HTMLElement;
    update(app: App): void;
}

/* Start or stop, whichever fits, and delete. */
export function app_actions(
    first: App,
    problem: ProblemBox,
    changed: () => void,
    deleted: () => void,
): AppActions {
    let app = first;
    const guarded = (action: string, work: () => Promise<void>) => async (): Promise<void> => {
        problem.clear();
        try {
            await work();
            changed();
        } catch (error) {
            problem.show(problem_of(action, error));
        }
    };
    const start = action_button(
        "Start",
        "Starting …",
        "plain small",
        guarded("start the app", () => start_app(app)),
    );
    const stop = action_button(
        "Stop",
        "Stopping …",
        "plain small",
        guarded("stop the app", () => stop_app(app, changed)),
    );
    const remove = h(
        "button",
        { type: "button", class: "plain small warn", onclick: () => ask_delete(app, deleted) },
        "Delete",
    );
    return {
        element: h("div", { class: "actions" }, start, stop, remove),
        update(latest) {
            app = latest;
            const status = app.sandbox?.status ?? "none";
            show(start, ["none", "stopped", "error", "frozen"].includes(status));
            show(stop, ["running", "starting", "frozen"].includes(status));
            for (const [button, verb] of [
                [start, "Start"],
                [stop, "Stop"],
                [remove, "Delete"],
            ] as const) {
                set_attribute(button, "aria-label", `${verb} ${app.name}`);
            }
        },
    };
}

export interface PreviewLink {
    element: HTMLElement;
    update(url: string | null | undefined): void;
}

/* The address as the server gives it; the text is without the scheme, to fit a phone. */
export function preview_link(): PreviewLink {
    const link = h("a", { class: "preview-link", target: "_blank", rel: "noopener noreferrer" });
    const none = h("span", { class: "hint" });
    return {
        element: h("span", { class: "preview" }, link, none),
        update(url) {
            const safe = safe_link(url);
            set_attribute(link, "href", safe);
            set_text(link, safe ? safe.replace(/^https?:\/\//, "").replace(/\/$/, "") : "");
            show(link, safe !== null);
            set_text(none, safe ? "" : "No preview yet");
            show(none, safe === null);
        },
    };
}

interface Row {
    element: HTMLElement;
    update(app: App): void;
}

function app_row(first: App, changed: () => void): Row {
    const problem = problem_box();
    const name = h("a", { class: "app-name" });
    const state = badge();
    const facts = h("span", { class: "hint" });
    const preview = preview_link();
    const actions = app_actions(first, problem, changed, changed);
    const go_on = h("a", { class: "button plain small" }, "Continue");
    actions.element.prepend(go_on);
    return {
        element: h(
            "li",
            { class: "app-row", "data-app": first.id },
            h("div", { class: "app-head" }, h("h3", null, name), state.element),
            h("div", { class: "app-body" }, preview.element, facts),
            actions.element,
            problem.element,
        ),
        update(app) {
            set_text(name, app.name);
            set_attribute(name, "href", hash_of_app(app.id));
            set_attribute(go_on, "href", hash_of_app(app.id));
            set_attribute(go_on, "aria-label", `Continue ${app.name}`);
            state.set(...sandbox_word(app.sandbox?.status ?? "none"));
            const disk =
                typeof app.sandbox?.disk_bytes === "number"
                    ? `${format_bytes(app.sandbox.disk_bytes)} on disk`
                    : "";
            const access = app.preview_access === "private" ? "private preview" : "";
            set_text(
                facts,
                [app.runtime_preset ?? "", access, disk].filter((fact) => fact !== "").join(" · "),
            );
            preview.update(app.sandbox?.preview_url);
            actions.update(app);
        },
    };
}

const NO_APPS =
    "No apps yet. Describe one above; it gets its own address while it is being built.";
const ABOUT_PREVIEWS =
    "A preview address is no secret: whoever has it can load the app, unless its preview is private. " +
    "An app that is asleep wakes with the first visit.";

/* Three different things that an empty place could mean: loading, failed, and no apps. */
export function apps_panel(): { element: HTMLElement; stop(): void } {
    const problem = problem_box();
    const note = h("p", { class: "hint" });
    const list = h("ul", { class: "app-list" });
    const rows = new Map<string, Row>();
    let loaded = false;
    const count = h("span", { class: "count" });
    const poller = poll_while_visible(APPS_INTERVAL_MS, async () => {
        try {
            render(await load_apps());
            problem.clear();
        } catch (error) {
            const shown = problem_of(loaded ? "refresh the list" : "load the apps", error);
            problem.show({ ...shown, next: `${shown.next} The console keeps trying.` });
            if (!loaded) {
                set_text(note, "");
            }
        }
    });
    function render({ apps, more }: { apps: App[]; more: boolean }): void {
        loaded = true;
        keep_list(
            list,
            rows,
            apps.map((app) => ({ key: app.id, item: app })),
            (app) => app_row(app, () => poller.now()),
            (row, app) => row.update(app),
        );
        set_text(count, apps.length === 0 ? "" : `${apps.length}${more ? ", the newest" : ""}`);
        set_attribute(note, "class", apps.length === 0 ? "empty" : "hint");
        set_text(note, apps.length === 0 ? NO_APPS : ABOUT_PREVIEWS);
    }
    set_text(note, "Loading …");
    const element = h(
        "section",
        { "aria-labelledby": "apps-title" },
        h("h2", { id: "apps-title", class: "section-title" }, "Apps ", count),
        note,
        problem.element,
        list,
    );
    return { element, stop: poller.stop };
}
