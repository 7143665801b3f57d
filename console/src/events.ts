/*
 * The events of a task as a list of things to show. Pure: an event in, the changed list out;
 * events that were seen before (a stream opened anew starts at 1) change nothing. Everything in
 * here is what an agent printed: text, of any length, never markup.
 */
import type { TaskEvent } from "./types.ts";

const ITEMS_MAX = 1_000;
const TEXT_MAX_CHARS = 60_000;

export type Item =
    | { kind: "message"; role: string; text: string }
    | {
          kind: "tool";
          name: string;
          title: string;
          state: "running" | "done" | "failed";
          path: string;
          output: string;
      }
    | { kind: "line"; tone: "notice" | "error" | "status"; text: string };

export interface TaskLog {
    last_seq: number;
    items: { key: number; item: Item }[];
    dropped: number;
    status: string | null;
    status_detail: string;
    done: { status: string; failure_reason: string; error_message: string } | null;
}

export function new_log(): TaskLog {
    return { last_seq: 0, items: [], dropped: 0, status: null, status_detail: "", done: null };
}

export const EVENT_TYPES = [
    "status",
    "message",
    "tool",
    "notice",
    "error",
    "done",
    "truncated",
] as const;

export function parse_event(data: string): TaskEvent | null {
    try {
        const event = JSON.parse(data) as TaskEvent | null;
        const valid =
            typeof event === "object" &&
            event !== null &&
            typeof event.type === "string" &&
            Number.isSafeInteger(event.seq);
        return valid ? event : null;
    } catch {
        return null;
    }
}

function text_of(value: unknown): string {
    if (typeof value !== "string") {
        return value === null || value === undefined ? "" : JSON.stringify(value);
    }
    return value.length <= TEXT_MAX_CHARS
        ? value
        : `${value.slice(0, TEXT_MAX_CHARS)}\n… (${value.length - TEXT_MAX_CHARS} more characters)`;
}

/* True when something changed. */
export function apply_event(log: TaskLog, event: TaskEvent): boolean {
    if (event.seq <= log.last_seq) {
        return false;
    }
    log.last_seq = event.seq;
    switch (event.type) {
        case "status":
            log.status = text_of(event["status"]);
            log.status_detail = text_of(event["detail"]);
            break;
        case "message":
            add(log, event.seq, {
                kind: "message",
                role: text_of(event["role"]),
                text: text_of(event["text"]),
            });
            break;
        case "tool":
            apply_tool(log, event);
            break;
        case "notice":
            add(log, event.seq, { kind: "line", tone: "notice", text: text_of(event["text"]) });
            break;
        case "error":
            add(log, event.seq, { kind: "line", tone: "error", text: text_of(event["message"]) });
            break;
        case "truncated":
            add(log, event.seq, {
                kind: "line",
                tone: "status",
                text: "Earlier events are no longer kept.",
            });
            break;
        case "done":
            apply_done(log, event);
            break;
        default:
            return false; /* a newer server may know more */
    }
    return true;
}

function add(log: TaskLog, key: number, item: Item): void {
    if ("text" in item && item.text.trim() === "") {
        return;
    }
    log.items.push({ key, item });
    if (log.items.length > ITEMS_MAX) {
        log.items.shift();
        log.dropped += 1;
    }
}

export function tool_state(status: string): "running" | "done" | "failed" {
    if (/fail|error|denied|cancel/i.test(status)) {
        return "failed";
    }
    return /run|start|pend|progress/i.test(status) ? "running" : "done";
}

/* A call is told of when it starts and again when it ends: one line on the page. */
function apply_tool(log: TaskLog, event: TaskEvent): void {
    const item: Item = {
        kind: "tool",
        name: text_of(event["name"]),
        title: text_of(event["title"]),
        state: tool_state(text_of(event["status"])),
        path: text_of(event["path"]),
        output: text_of(event["output"]),
    };
    for (let i = log.items.length - 1; i >= 0; i -= 1) {
        const entry = log.items[i];
        const earlier = entry?.item;
        if (
            entry &&
            earlier?.kind === "tool" &&
            earlier.state === "running" &&
            earlier.name === item.name &&
            (earlier.path === item.path || earlier.path === "" || item.path === "") &&
            (earlier.title === item.title || earlier.title === "" || item.title === "")
        ) {
            entry.item = {
                ...item,
                title: item.title || earlier.title,
                path: item.path || earlier.path,
                output: item.output || earlier.output,
            };
            return;
        }
    }
    add(log, event.seq, item);
}

/*
 * A refusal comes back in the agent's wrapping ("Failed to authenticate. API Error: 403 …"): its own
 * words, once they are known, say it without.
 */
function quote_only(log: TaskLog, words: string): void {
    for (const entry of log.items) {
        const { item } = entry;
        if (words !== "" && item.kind === "line" && item.tone === "error" && item.text.includes(words)) {
            entry.item = { ...item, text: words };
        }
    }
}

function apply_done(log: TaskLog, event: TaskEvent): void {
    const status = text_of(event["status"]);
    log.status = status;
    log.status_detail = "";
    for (const entry of log.items) {
        if (entry.item.kind === "tool" && entry.item.state === "running") {
            /* Its end was never told. */
            entry.item = { ...entry.item, state: status === "succeeded" ? "done" : "failed" };
        }
    }
    quote_only(log, text_of(event["error_message"]));
    log.done = {
        status,
        failure_reason: text_of(event["failure_reason"]),
        error_message: text_of(event["error_message"]),
    };
}
