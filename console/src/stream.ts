/*
 * The live events of one task. EventSource resumes after a broken connection by itself, with
 * Last-Event-ID; when the server refused it for good, this opens a new one behind the last event
 * seen. A tab that is hidden for long gives its connection back: browsers allow six per server.
 */
import { api_get } from "./api.ts";
import { EVENT_TYPES, parse_event } from "./events.ts";
import type { Task, TaskEvent } from "./types.ts";

const RETRY_FIRST_MS = 1_000;
const RETRY_MAX_MS = 15_000;
const HIDDEN_GRACE_MS = 30_000;

export interface TaskStream {
    close(): void;
}

export interface StreamEvents {
    event(event: TaskEvent): void;
    connected(connected: boolean): void;
}

export function open_stream(
    task: Pick<Task, "id" | "sandbox_id">,
    listener: StreamEvents,
): TaskStream {
    const path = `/v1/sandboxes/${task.sandbox_id}/tasks/${task.id}`;
    let source: EventSource | null = null;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let retry_ms = RETRY_FIRST_MS;
    let ended = false;
    let last_seq = 0;

    function open(): void {
        source = new EventSource(last_seq === 0 ? `${path}/events` : `${path}/events?since=${last_seq}`);
        source.addEventListener("open", () => {
            retry_ms = RETRY_FIRST_MS;
            listener.connected(true);
        });
        for (const type of EVENT_TYPES) {
            source.addEventListener(type, on_message);
        }
        source.addEventListener("error", on_error);
    }
    /*
     * "error" names both an event of the task and a broken connection; only the first carries
     * data.
     */
    function on_message(message: Event): void {
        const event = message instanceof MessageEvent ? parse_event(String(message.data)) : null;
        if (!event || ended) {
            return;
        }
        last_seq = Math.max(last_seq, event.seq);
        if (event.type === "done") {
            close();
        }
        listener.event(event);
    }
    function on_error(error: Event): void {
        if (error instanceof MessageEvent || ended) {
            return;
        }
        listener.connected(false);
        if (source?.readyState === EventSource.CLOSED) {
            source.close();
            timer = setTimeout(() => void reopen(), retry_ms);
            retry_ms = Math.min(retry_ms * 2, RETRY_MAX_MS);
        }
    }
    /* Asking for the task first finds out why: a 401 leads to the sign-in page, a 404 ends it. */
    async function reopen(): Promise<void> {
        try {
            await api_get<Task>(path);
        } catch (error) {
            if ((error as { status?: number }).status === 404) {
                close();
                return;
            }
        }
        if (!ended && !document.hidden) {
            open();
        }
    }
    function on_visibility(): void {
        clearTimeout(timer);
        if (document.hidden) {
            timer = setTimeout(pause, HIDDEN_GRACE_MS);
        } else if (!source || source.readyState === EventSource.CLOSED) {
            open();
        }
    }
    function pause(): void {
        source?.close();
        source = null;
    }
    function close(): void {
        ended = true;
        clearTimeout(timer);
        document.removeEventListener("visibilitychange", on_visibility);
        pause();
    }
    document.addEventListener("visibilitychange", on_visibility);
    open();
    return { close };
}
