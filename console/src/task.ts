/*
 * One task on the page: the prompt, what the agent does while it does it, how it ended, and
 * "Stop".
 */
import { api_get, api_post, problem_of } from "./api.ts";
import { fill, h, keep_list, set_text, show } from "./dom.ts";
import { apply_event, type Item, new_log, type TaskLog } from "./events.ts";
import { format_count, format_duration, task_is_over, task_word } from "./format.ts";
import { cost_text, limit_text, unpriced_text } from "./money.ts";
import { blocks_of, type Span } from "./prose.ts";
import { open_stream, type TaskStream } from "./stream.ts";
import type { Task } from "./types.ts";
import { action_button, badge, type ProblemBox, problem_box } from "./ui.ts";

const FRAME_MS = 16;

function prose(text: string): HTMLElement {
    const inline = (spans: Span[]): Node[] =>
        spans.map((span) =>
            span.look === "text"
                ? document.createTextNode(span.text)
                : h(span.look === "code" ? "code" : "strong", null, span.text),
        );
    const box = h("div", { class: "prose" });
    for (const block of blocks_of(text)) {
        switch (block.kind) {
            case "code":
                box.append(h("pre", { tabindex: "0" }, block.text));
                break;
            case "list":
                box.append(
                    h(
                        block.ordered ? "ol" : "ul",
                        null,
                        ...block.items.map((item) => h("li", null, ...inline(item))),
                    ),
                );
                break;
            default:
                box.append(
                    h(
                        "p",
                        { class: block.kind === "heading" ? "heading" : null },
                        ...inline(block.spans),
                    ),
                );
        }
    }
    return box;
}

const TOOL_SIGNS = { running: "…", done: "✓", failed: "✕" };
const TOOL_WORDS = { running: "running", done: "done", failed: "failed" };

function tool_view(item: Extract<Item, { kind: "tool" }>): HTMLElement {
    const head = [
        h(
            "span",
            { class: "tool-sign", "data-state": item.state, "aria-hidden": "true" },
            TOOL_SIGNS[item.state],
        ),
        h("span", { class: "sr" }, `${TOOL_WORDS[item.state]}: `),
        h("span", { class: "tool-name" }, item.name || "tool"),
        h("span", { class: "tool-target" }, item.path || item.title),
    ];
    if (item.output.trim() === "") {
        return h("div", { class: "tool" }, h("div", { class: "tool-head" }, ...head));
    }
    return h(
        "details",
        { class: "tool", open: item.state === "failed" },
        h("summary", { class: "tool-head" }, ...head),
        h("pre", { tabindex: "0" }, item.output),
    );
}

function item_view(item: Item): HTMLElement {
    switch (item.kind) {
        case "tool":
            return tool_view(item);
        case "line":
            return h("p", { class: `line line-${item.tone}` }, item.text);
        case "message":
            return h(
                "div",
                { class: `message message-${item.role === "user" ? "user" : "agent"}` },
                prose(item.text),
            );
    }
}

interface ItemView {
    element: HTMLElement;
    item: Item;
}

/* A details element that somebody opened stays open when its line changes. */
function update_item(view: ItemView, item: Item): void {
    if (view.item === item) {
        return;
    }
    const opened = view.element instanceof HTMLDetailsElement && view.element.open;
    const element = item_view(item);
    if (opened && element instanceof HTMLDetailsElement) {
        element.open = true;
    }
    view.element.replaceWith(element);
    view.element = element;
    view.item = item;
}

const REASON_WORDS: Record<string, string> = {
    no_result: "The agent ended without saying that it was done.",
    memory: "Stopped for memory.",
    out_of_memory: "The app needs a higher memory limit.",
    host_out_of_memory: "The machine needs more memory, or fewer apps at once.",
    node_heap_limit: "Node needs a larger heap.",
    budget_reached: "What the agent changed so far is kept.",
    price_unknown: "What the agent changed so far is kept.",
    agent_not_connected: "The agent has no provider. Connect one in Settings.",
};

/* Why it did not succeed, as far as the lines above do not say it already. */
function outcome_text(task: Task, log: TaskLog): string {
    const status = log.done?.status ?? task.status;
    if (status === "succeeded") {
        return "";
    }
    const said = log.items
        .map(({ item }) => (item.kind === "line" && item.tone === "error" ? item.text : ""))
        .join("\n");
    const reason = log.done?.failure_reason || task.failure_reason || "";
    let message = log.done?.error_message || task.error_message || "";
    if (message !== "" && said.includes(message)) {
        message = "";
    } else if (message === "" && said !== "" && !(reason in REASON_WORDS)) {
        return "";
    }
    return [message, REASON_WORDS[reason] ?? (message ? "" : reason)]
        .filter((text) => text !== "")
        .join(" ");
}

function facts_text(task: Task): string {
    const facts = [task.agent, task.model ?? ""];
    if (typeof task.duration_ms === "number") {
        facts.push(format_duration(task.duration_ms));
    }
    return [...facts, ...spend_facts(task)].filter((fact) => fact !== "").join(" · ");
}

/* What it took. The proxy's count where there is one; the agent's own word is called that. */
function spend_facts(task: Task): string[] {
    const { tokens, metered, budget } = task;
    const facts = [];
    const nothing = metered?.requests === 0 && !tokens?.input && !tokens?.output;
    if (tokens && !nothing && (tokens.input !== null || tokens.output !== null)) {
        const cached = tokens.cached ? `, ${format_count(tokens.cached)} cached` : "";
        const whose = metered?.requests === 0 ? " (as the agent counts)" : "";
        facts.push(
            `${format_count(tokens.input)} tokens in, ${format_count(tokens.output)} out${cached}${whose}`,
        );
        const spend = { requests: 0, unpriced_requests: 0, ...metered, cost_microusd: task.cost_microusd ?? null };
        facts.push(`cost ${cost_text(spend)}`);
        if (task.cost_microusd !== null) {
            facts.push(unpriced_text(spend));
        }
    }
    if (budget && (budget.limit_microusd !== null || budget.limit_tokens !== null)) {
        facts.push(`budget ${limit_text(budget)}`);
    }
    return facts;
}

/* Where the thing is that stands in the way; nothing for reasons that no page can mend. */
const WAYS_OUT: Record<string, [string, string]> = {
    budget_reached: ["#/usage/budgets", "Usage → Budgets"],
    price_unknown: ["#/usage/prices", "Usage → Prices"],
    agent_not_connected: ["#/settings", "Settings → AI Agents"],
    reconnect: ["#/settings", "Settings → Model providers"],
};

function render_way_out(place: HTMLElement, task: Task, log: TaskLog): void {
    const reason = log.done?.failure_reason || task.failure_reason || "";
    const way = task_is_over(log.done?.status ?? task.status) ? WAYS_OUT[reason] : undefined;
    show(place, way !== undefined);
    if (way && place.dataset["reason"] !== reason) {
        place.dataset["reason"] = reason;
        fill(place, h("a", { href: way[0] }, way[1]));
    }
}

/* The places on the page; what stands in them is decided by render_task alone. */
function task_parts(task: Task) {
    const state = badge();
    const parts = {
        state,
        detail: h("span", { class: "task-detail" }),
        items: h("div", { class: "items" }),
        dropped: h("p", { class: "line line-status" }),
        outcome: h("p", { class: "line line-error" }),
        way_out: h("p", { class: "line" }),
        summary: h("div", { class: "summary" }),
        facts: h("p", { class: "hint" }),
        problem: problem_box(),
        stop_place: h("div", null),
        replay: h("button", { type: "button", class: "plain small" }, "Show what the agent did"),
        views: new Map<string, ItemView>(),
        element: h("article", { class: "task", "data-task": task.id, "aria-label": "Task" }),
    };
    parts.element.append(
        h("div", { class: "message message-user" }, h("p", null, task.prompt)),
        h(
            "div",
            { class: "task-state" },
            h("div", { class: "task-word", role: "status" }, state.element, parts.detail),
            parts.stop_place,
        ),
        parts.dropped,
        parts.items,
        parts.summary,
        parts.outcome,
        parts.way_out,
        parts.problem.element,
        parts.replay,
        parts.facts,
    );
    return parts;
}

type TaskParts = ReturnType<typeof task_parts>;

interface TaskState {
    task: Task;
    log: TaskLog;
    connected: boolean;
    attached: boolean;
}

function render_task(parts: TaskParts, { task, log, connected, attached }: TaskState): void {
    const known = task_is_over(task.status) ? task.status : (log.status ?? task.status);
    const status = log.done?.status ?? known;
    const over = task_is_over(status);
    parts.state.set(...task_word(status));
    set_text(
        parts.detail,
        over ? "" : connected ? log.status_detail : "Connection lost, trying again …",
    );
    show(parts.stop_place, !over);
    show(parts.dropped, log.dropped > 0);
    set_text(parts.dropped, `${log.dropped} earlier lines are left out here.`);
    keep_list(
        parts.items,
        parts.views,
        log.items.map((entry) => ({ key: String(entry.key), item: entry.item })),
        (item) => ({ element: item_view(item), item }),
        update_item,
    );
    render_summary(parts.summary, over && log.last_seq === 0 ? (task.agent_message ?? "") : "");
    const outcome = over ? outcome_text(task, log) : "";
    set_text(parts.outcome, outcome);
    show(parts.outcome, outcome !== "");
    render_way_out(parts.way_out, task, log);
    show(parts.replay, over && !attached && log.last_seq === 0);
    set_text(parts.facts, facts_text(task));
}

/* The agent's last words, where the events that end with them were not asked for. */
function render_summary(place: HTMLElement, text: string): void {
    if (place.dataset["text"] !== text) {
        place.dataset["text"] = text;
        fill(place, text !== "" && h("div", { class: "message message-agent" }, prose(text)));
    }
}

function stop_button(task: Task, problem: ProblemBox): HTMLElement {
    return action_button("Stop", "Stopping …", "plain small", async () => {
        problem.clear();
        try {
            await api_post(`/v1/sandboxes/${task.sandbox_id}/tasks/${task.id}/cancel`);
        } catch (error) {
            problem.show(problem_of("stop the task", error));
        }
    });
}

/* Many events may come at once: one layout for all that came within a frame's time. */
function batched(work: () => void): () => void {
    let scheduled = false;
    return () => {
        if (!scheduled) {
            scheduled = true;
            setTimeout(() => {
                scheduled = false;
                work();
            }, FRAME_MS);
        }
    };
}

export interface TaskView {
    element: HTMLElement;
    task(): Task;
    update(task: Task): void;
    attach(): void; /* opens the stream; idempotent */
    close(): void;
}

/* `grown` is called after lines were added, `ended` once when a task that ran here is over. */
export function task_view(first: Task, listener: { grown(): void; ended(): void }): TaskView {
    const parts = task_parts(first);
    const state: TaskState = { task: first, log: new_log(), connected: true, attached: false };
    let stream: TaskStream | null = null;
    const render = (): void => render_task(parts, state);
    const render_soon = batched(() => {
        render();
        listener.grown();
    });
    async function finish(was_over: boolean): Promise<void> {
        const { task, log } = state;
        try {
            state.task = await api_get<Task>(`/v1/sandboxes/${task.sandbox_id}/tasks/${task.id}`);
        } catch {
            state.task = { ...task, status: log.done?.status ?? task.status };
        }
        render();
        if (!was_over) {
            listener.ended();
        }
    }
    function attach(): void {
        if (stream) {
            return;
        }
        stream = open_stream(state.task, {
            event(event) {
                const was_over = task_is_over(state.task.status);
                if (apply_event(state.log, event)) {
                    render_soon();
                }
                if (event.type === "done") {
                    void finish(was_over);
                }
            },
            connected(now) {
                state.connected = now;
                render_soon();
            },
        });
        state.attached = true;
        render();
    }
    parts.stop_place.append(stop_button(first, parts.problem));
    parts.replay.addEventListener("click", attach);
    render();
    return {
        element: parts.element,
        task: () => state.task,
        update(latest) {
            state.task = latest;
            render();
        },
        attach,
        close: () => stream?.close(),
    };
}
