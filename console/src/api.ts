/*
 * The one way to the server. Every mutation carries a JSON content type (the server takes a
 * session's mutation no other way); the session itself is a cookie that this program cannot read.
 */
import { retry_after_seconds } from "./format.ts";

const REQUEST_TIMEOUT_MS = 90_000; /* the server answers 202 after 60 s at the latest */
const RETRY_AFTER_DEFAULT_S = 5;

export class ApiError extends Error {
    readonly status: number;
    readonly code: string;
    readonly retryable: boolean;
    readonly retry_after_s: number;
    /* Further keys of the error object, such as the percent of an image build. */
    readonly details: Record<string, unknown>;

    constructor(
        status: number,
        code: string,
        message: string,
        retryable: boolean,
        retry_after_s: number,
        details: Record<string, unknown> = {},
    ) {
        super(message);
        this.name = "ApiError";
        this.status = status;
        this.code = code;
        this.retryable = retryable;
        this.retry_after_s = retry_after_s;
        this.details = details;
    }
}

type Listener = () => void;
let on_signed_out: Listener = () => {};

/* Called whenever an answer says that there is no session (any more). */
export function listen_signed_out(listener: Listener): void {
    on_signed_out = listener;
}

export function api_get<T>(path: string, signal?: AbortSignal): Promise<T> {
    return request<T>("GET", path, undefined, signal);
}

export function api_post<T>(path: string, body: Record<string, unknown> = {}): Promise<T> {
    return request<T>("POST", path, body);
}

export function api_patch<T>(path: string, body: Record<string, unknown>): Promise<T> {
    return request<T>("PATCH", path, body);
}

export function api_put<T>(path: string, body: Record<string, unknown>): Promise<T> {
    return request<T>("PUT", path, body);
}

export function api_delete(path: string): Promise<void> {
    return request<void>("DELETE", path, {});
}

async function request<T>(
    method: string,
    path: string,
    body?: Record<string, unknown>,
    signal?: AbortSignal,
): Promise<T> {
    const timeout = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
    const init: RequestInit = {
        method,
        credentials: "same-origin",
        cache: "no-store",
        redirect: "error",
        signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    };
    if (body !== undefined) {
        init.headers = { "content-type": "application/json" };
        init.body = JSON.stringify(body);
    }
    let response: Response;
    let text: string;
    try {
        response = await fetch(path, init);
        text = await response.text();
    } catch (cause) {
        if (signal?.aborted) {
            throw cause;
        }
        throw new ApiError(0, "network", "The server did not answer.", true, RETRY_AFTER_DEFAULT_S);
    }
    if (!response.ok) {
        throw error_of_answer(response, text, path);
    }
    return parse_json(text, response.status) as T;
}

function parse_json(text: string, status: number): unknown {
    if (text === "") {
        return undefined;
    }
    try {
        return JSON.parse(text);
    } catch {
        throw new ApiError(
            status,
            "bad_answer",
            "The answer is not JSON: something between this page and sandboxd replaced it.",
            true,
            RETRY_AFTER_DEFAULT_S,
        );
    }
}

function error_of_answer(response: Response, text: string, path: string): ApiError {
    const wait_s = retry_after_seconds(
        response.headers.get("retry-after"),
        RETRY_AFTER_DEFAULT_S,
        Date.now(),
    );
    const error = error_of_body(response.status, text, wait_s);
    if (error.status === 401 && !path.startsWith("/v1/session")) {
        on_signed_out();
    }
    return error;
}

function error_of_body(status: number, text: string, wait_s: number): ApiError {
    let body: unknown = null;
    try {
        body = (JSON.parse(text) as { error?: unknown } | null)?.error;
    } catch {
        /* Not ours: an edge or a proxy answered. Its page is of no use to anybody. */
    }
    if (typeof body !== "object" || body === null) {
        const gone = status === 502 || status === 503 || status === 504;
        const message = gone
            ? "sandboxd is not running, or just restarting."
            : `The server answered ${status} without saying why.`;
        return new ApiError(status, gone ? "network" : "bad_answer", message, gone, wait_s);
    }
    const { code, message, retryable, ...details } = body as Record<string, unknown>;
    return new ApiError(
        status,
        typeof code === "string" ? code : "unknown",
        typeof message === "string" ? message : `Status ${status}.`,
        retryable === true,
        wait_s,
        details,
    );
}

export interface Problem {
    what: string;
    why: string;
    next: string;
}

/* What failed, why, and what to do next: `action` completes the sentence "Could not …". */
export function problem_of(action: string, error: unknown): Problem {
    const what = `Could not ${action}.`;
    if (!(error instanceof ApiError)) {
        const why = error instanceof Error ? error.message : String(error);
        return {
            what,
            why,
            next: "Reload the page. If it happens again, this is a mistake in the console worth reporting.",
        };
    }
    return { what, why: sentence(error.message), next: next_step(error) };
}

/* Something follows: without a full stop two sentences would run into each other. */
function sentence(text: string): string {
    return /[\p{L}\p{N})”"]$/u.test(text) ? `${text}.` : text;
}

const NEXT_STEPS: Record<string, string> = {
    network:
        "Check on the server: in ~/.sandboxd/src run “docker compose ps” and “docker compose logs sandboxd”.",
    unauthorized: "Sign in again.",
    forbidden:
        "Open the console at the address the installer printed; no other address may change anything.",
    not_found: "It was deleted in the meantime. Go back to the list of apps.",
    task_in_progress: "Wait for the task to finish or stop it first.",
    sandbox_exists: "Reload the page; the app has its sandbox already.",
    agent_not_connected: "Connect a provider in Settings, or choose another agent.",
    key_refused: "Nothing was stored or changed.",
    engine_unavailable: "Check the Docker engine on the server, then try again.",
    image_building: "The image is built once; this works as soon as it is ready.",
    no_memory: "Stop an app that is not needed, then try again.",
    disk_full: "Delete files of the app on the server or give the disk more room, then try again.",
    workspace_missing: "Mount the disk with the data directory on the server, then try again.",
    walls_down:
        "On the server, “docker compose logs sandboxd-engine” says what keeps the firewall rules from loading.",
    start_failed: "Ask the agent to fix what the reason names, or try again.",
    too_large: "Make it shorter.",
};

function next_step(error: ApiError): string {
    if (error.code === "too_many_requests") {
        return `Try again in ${error.retry_after_s} s.`;
    }
    return (
        NEXT_STEPS[error.code] ??
        (error.retryable
            ? "Try again in a moment."
            : "Change what the reason names, then try again.")
    );
}
