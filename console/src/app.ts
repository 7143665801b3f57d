/*
 * The page of one app: its conversation with the agent on one side, its preview and sandbox on the
 * other. A reload, another tab and another machine show the same: everything is read from the
 * server.
 */
import { ApiError, api_get, api_post, problem_of } from "./api.ts";
import { app_actions } from "./apps.ts";
import { app_config_card } from "./config.ts";
import { fill, h, keep_list, set_attribute, set_text, show } from "./dom.ts";
import { sandbox_word, task_is_over } from "./format.ts";
import { type Launch, give_up_launch, launch_of, listen_launches, retry_launch } from "./launch.ts";
import { poll_while_visible } from "./poll.ts";
import { app_composer, type Composer } from "./prompt.ts";
import { sandbox_panel } from "./sandbox.ts";
import { app_spend_card } from "./spend_app.ts";
import { type TaskView, task_view } from "./task.ts";
import type { App, Sandbox, Task } from "./types.ts";
import { badge, problem_box } from "./ui.ts";

const APP_INTERVAL_MS = 3_000;
const WATCHING_INTERVAL_MS = 20_000;
const TASKS_MAX = 50;
const BOTTOM_SLACK_PX = 80;

/* Says now and then that somebody looks at the app: when the machine runs out of memory, apps that
   nobody looks at are stopped first. Called while the page is visible, and only then. */
function watcher(): { say(app: App): void } {
    let said_ms = 0;
    return {
        say(app) {
            const id = app.sandbox?.status === "running" ? app.sandbox.sandbox_id : "";
            if (id === "" || Date.now() - said_ms < WATCHING_INTERVAL_MS) {
                return;
            }
            said_ms = Date.now();
            /* A hint and no more: what matters of a failure is seen in the next poll. */
            api_post(`/v1/sandboxes/${id}/watching`).catch(() => undefined);
        },
    };
}

export interface Page {
    element: HTMLElement;
    title: string;
    stop(): void;
}

export function app_page(app_id: string, set_title: (title: string) => void): Page {
    const title = h("h1", { tabindex: "-1" }, "…");
    const state = badge();
    const problem = problem_box();
    const action_problem = problem_box(); /* its own: a poll that works clears the other */
    const side = sandbox_panel(() => poller.now());
    const spend = app_spend_card(app_id, (budgets) => composer.budgets(budgets));
    const config = app_config_card(app_id);
    const conversation = task_list(app_id, () => {
        poller.now();
        spend.refresh();
    });
    const composer = app_composer(app_id, conversation.newest_id);
    const launch = launch_panel(app_id, composer, conversation);
    const body = h(
        "div",
        { class: "columns" },
        h(
            "section",
            { class: "conversation", "aria-label": "Conversation" },
            conversation.element,
            launch.element,
            composer.element,
        ),
        h("div", { class: "side-column" }, side.element, config.element, spend.element),
    );
    body.hidden = true;
    const actions = h("div", null);
    let known_actions: ReturnType<typeof app_actions> | null = null;
    const head = h(
        "div",
        { class: "page-head" },
        h("div", { class: "page-title" }, title, state.element),
        actions,
    );

    function render(app: App): void {
        set_text(title, app.name);
        set_title(app.name);
        state.set(...sandbox_word(app.sandbox?.status ?? "none"));
        known_actions ??= app_actions(
            app,
            action_problem,
            () => poller.now(),
            () => (location.hash = "#/"),
        );
        known_actions.update(app);
        if (!actions.firstChild) {
            actions.append(known_actions.element);
        }
        show(body, true);
    }
    const watching = watcher();
    const poller = poll_while_visible(APP_INTERVAL_MS, async () => {
        try {
            const app = await api_get<App>(`/v1/apps/${app_id}`);
            render(app);
            watching.say(app);
            config.update(app.sandbox?.sandbox_id ?? null);
            side.update(app, app.sandbox ? await load_sandbox(app.sandbox.sandbox_id) : null);
            await conversation.refresh();
            problem.clear();
        } catch (error) {
            const gone = error instanceof ApiError && error.status === 404;
            const way_out = gone ? [h("a", { href: "#/" }, "All apps")] : [];
            problem.show(problem_of("load the app", error), ...way_out);
            if (gone) {
                set_text(title, "No such app");
                show(body, false);
                show(state.element, false);
                fill(actions);
                poller.stop();
                spend.stop();
                config.stop();
            }
        }
    });
    return {
        element: h(
            "div",
            null,
            h("p", { class: "crumb" }, h("a", { href: "#/" }, "All apps")),
            head,
            problem.element,
            action_problem.element,
            body,
        ),
        title: "App",
        stop() {
            poller.stop();
            conversation.stop();
            spend.stop();
            config.stop();
            launch.stop();
        },
    };
}

/* Null when it was deleted between the two questions. */
async function load_sandbox(sandbox_id: string): Promise<Sandbox | null> {
    try {
        return await api_get<Sandbox>(`/v1/sandboxes/${sandbox_id}`);
    } catch (error) {
        if (error instanceof ApiError && error.status === 404) {
            return null;
        }
        throw error;
    }
}

interface TaskList {
    element: HTMLElement;
    refresh(): Promise<void>;
    add(task: Task): void;
    newest_id(): string;
    stop(): void;
}

function at_bottom(): boolean {
    const page = document.documentElement;
    return window.innerHeight + window.scrollY >= page.scrollHeight - BOTTOM_SLACK_PX;
}

function task_list(app_id: string, ended: () => void): TaskList {
    const list = h("div", { class: "tasks" });
    const empty = h("p", { class: "hint" }, "Nothing was asked of an agent here yet.");
    const jump = h(
        "button",
        { type: "button", class: "plain small jump", onclick: () => scroll_down() },
        "Jump to latest",
    );
    const views = new Map<string, TaskView>();
    let known: Task[] = [];
    let follow = true;
    const on_scroll = (): void => {
        follow = at_bottom();
        show(jump, !follow && known.some((task) => !task_is_over(task.status)));
    };
    window.addEventListener("scroll", on_scroll, { passive: true });
    show(jump, false);
    show(empty, false);

    function scroll_down(): void {
        follow = true;
        window.scrollTo({ top: document.documentElement.scrollHeight });
    }
    function grown(): void {
        if (follow) {
            scroll_down();
        } else {
            show(jump, true);
        }
    }
    function render(tasks: Task[]): void {
        const first_time = known.length === 0;
        known = tasks;
        keep_list(
            list,
            views,
            tasks.map((task) => ({ key: task.id, item: task })),
            (task) => task_view(task, { grown, ended }),
            (view, task) => {
                if (view.task() !== task) {
                    view.update(task);
                }
            },
        );
        attach_live(tasks);
        show(empty, tasks.length === 0 && !launch_of(app_id));
        show(element, tasks.length > 0 || !empty.hidden);
        if (first_time && tasks.length > 0 && tasks.some((task) => !task_is_over(task.status))) {
            scroll_down();
        }
    }
    /*
     * Live: the one that runs (one at a time does). Told in full: the newest. The rest on demand.
     */
    function attach_live(tasks: Task[]): void {
        const live = tasks.find((task) => !task_is_over(task.status));
        const newest = tasks[tasks.length - 1];
        for (const task of new Set([live, newest])) {
            if (task) {
                views.get(task.id)?.attach();
            }
        }
    }
    const element = h("div", null, empty, list, jump);
    return {
        element,
        async refresh() {
            const { tasks } = await api_get<{ tasks?: Task[] }>(
                `/v1/apps/${app_id}/tasks?limit=${TASKS_MAX}`,
            );
            render([...(tasks ?? [])].sort((a, b) => (a.id < b.id ? -1 : 1)));
        },
        add(task) {
            if (!known.some((other) => other.id === task.id)) {
                render([...known, task]);
                scroll_down();
            }
        },
        newest_id: () => known[known.length - 1]?.id ?? "",
        stop() {
            window.removeEventListener("scroll", on_scroll);
            for (const view of views.values()) {
                view.close();
            }
        },
    };
}

/*
 * What still happens before the agent has the prompt. Until it has, there is no room for another
 * one.
 */
function launch_panel(
    app_id: string,
    composer: Composer,
    conversation: TaskList,
): { element: HTMLElement; stop(): void } {
    const prompt = h("p", null);
    const detail = h("span", { class: "task-detail" });
    const state = badge();
    const bar = h("progress", { max: 100, "aria-label": "Image build" });
    const problem = problem_box();
    const element = h(
        "article",
        { class: "task launch", "aria-label": "Preparing" },
        h("div", { class: "message message-user" }, prompt),
        h("div", { class: "task-state", role: "status" }, state.element, detail),
        bar,
        problem.element,
    );
    const retry = h(
        "button",
        { type: "button", class: "plain small", onclick: () => retry_launch(app_id) },
        "Try again",
    );
    const give_up = h(
        "button",
        {
            type: "button",
            class: "plain small",
            onclick: () => {
                composer.set_text(give_up_launch(app_id));
                render(undefined);
            },
        },
        "Take the prompt back",
    );

    function render(launch: Launch | undefined): void {
        const under_way = launch !== undefined && launch.step !== "done";
        show(element, under_way);
        show(composer.element, !under_way);
        if (!launch) {
            return;
        }
        if (launch.task) {
            conversation.add(launch.task);
        }
        set_text(prompt, launch.pending.prompt);
        state.set(
            launch.problem ? "Waiting for you" : "Preparing",
            launch.problem ? "bad" : "busy",
        );
        set_text(
            detail,
            launch.problem
                ? ""
                : `${launch.detail}${launch.percent === null ? " …" : `, ${launch.percent} %`}`,
        );
        show(bar, launch.percent !== null && !launch.problem);
        set_attribute(bar, "value", launch.percent === null ? null : String(launch.percent));
        if (launch.problem) {
            problem.show(launch.problem, retry, give_up);
        } else {
            problem.clear();
        }
    }
    const stop = listen_launches((launch) => {
        if (launch.app_id === app_id) {
            render(launch);
        }
    });
    render(launch_of(app_id));
    return { element, stop };
}
