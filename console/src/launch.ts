/*
 * From a prompt to a task: makes sure that the app has a sandbox, waits for its image where that
 * is still being built, then hands the prompt over. It belongs to the app, not to a page: it goes
 * on when another page is opened and, because what is left to do is kept in the tab's storage,
 * after a reload.
 */
import { ApiError, api_get, api_post, type Problem, problem_of } from "./api.ts";
import { recall, remember } from "./memory.ts";
import type { App, Preset, Sandbox, Task } from "./types.ts";

const POLL_MS = 1_000;
const PENDING_LIST = "pending";

export interface Pending {
    prompt: string;
    agent: string;
    model?: string; /* "" and nothing: the agent's default */
    ports: number[];
    after_task_id: string; /* the newest task before this prompt, "" for none */
}

export interface Launch {
    app_id: string;
    pending: Pending;
    step: "sandbox" | "task" | "done";
    detail: string;
    percent: number | null;
    problem: Problem | null;
    task: Task | null;
}

const launches = new Map<string, Launch>();
const running = new Set<string>();
const listeners = new Set<(launch: Launch) => void>();

export function launch_of(app_id: string): Launch | undefined {
    return launches.get(app_id);
}

export function listen_launches(listener: (launch: Launch) => void): () => void {
    listeners.add(listener);
    return () => listeners.delete(listener);
}

export function start_launch(app_id: string, pending: Pending): void {
    launches.set(app_id, {
        app_id,
        pending,
        step: "sandbox",
        detail: "",
        percent: null,
        problem: null,
        task: null,
    });
    save();
    void run(app_id);
}

export function retry_launch(app_id: string): void {
    void run(app_id);
}

/* Gives the prompt back, for the composer. */
export function give_up_launch(app_id: string): string {
    const prompt = launches.get(app_id)?.pending.prompt ?? "";
    launches.delete(app_id);
    save();
    return prompt;
}

/* After a reload or a new sign-in: goes on with what was not finished. */
export function resume_launches(): void {
    try {
        const stored = JSON.parse(recall("tab", PENDING_LIST) ?? "[]") as [string, Pending][];
        for (const [app_id, pending] of stored) {
            if (!launches.has(app_id)) {
                launches.set(app_id, {
                    app_id,
                    pending,
                    step: "sandbox",
                    detail: "",
                    percent: null,
                    problem: null,
                    task: null,
                });
            }
        }
    } catch {
        remember("tab", PENDING_LIST, null);
    }
    for (const app_id of launches.keys()) {
        void run(app_id);
    }
}

function save(): void {
    const open = [...launches.values()].filter((launch) => launch.step !== "done");
    remember(
        "tab",
        PENDING_LIST,
        open.length === 0
            ? null
            : JSON.stringify(open.map((launch) => [launch.app_id, launch.pending])),
    );
}

function tell(launch: Launch, change: Partial<Launch>): void {
    Object.assign(launch, change);
    for (const listener of listeners) {
        listener(launch);
    }
}

async function run(app_id: string): Promise<void> {
    const launch = launches.get(app_id);
    if (!launch || launch.step === "done" || running.has(app_id)) {
        return;
    }
    running.add(app_id);
    try {
        tell(launch, {
            step: "sandbox",
            detail: "Preparing the sandbox",
            percent: null,
            problem: null,
        });
        const sandbox_id = await ensure_sandbox(launch);
        if (launches.get(app_id) !== launch) {
            return;
        }
        tell(launch, { step: "task", detail: "Handing the prompt to the agent", percent: null });
        const task = (await find_posted(launch)) ?? (await post_task(sandbox_id, launch.pending));
        tell(launch, { step: "done", detail: "", task });
        launches.delete(app_id);
        save();
    } catch (error) {
        const action =
            launch.step === "task" ? "hand the prompt to the agent" : "start the sandbox";
        tell(launch, { problem: problem_of(action, error), percent: null });
    } finally {
        running.delete(app_id);
    }
}

function post_task(sandbox_id: string, pending: Pending): Promise<Task> {
    const body: Record<string, unknown> = { prompt: pending.prompt };
    if (pending.agent !== "") {
        body["agent"] = pending.agent;
    }
    if (pending.model) {
        body["model"] = pending.model;
    }
    return api_post<Task>(`/v1/sandboxes/${sandbox_id}/tasks`, body);
}

/* A reload between the call and its answer must not send the prompt twice. */
async function find_posted(launch: Launch): Promise<Task | undefined> {
    const { tasks } = await api_get<{ tasks?: Task[] }>(`/v1/apps/${launch.app_id}/tasks?limit=20`);
    const { prompt, after_task_id } = launch.pending;
    return tasks?.find(
        (task) => task.prompt === prompt && task.id > after_task_id,
    ); /* ids sort by time */
}

async function ensure_sandbox(launch: Launch): Promise<string> {
    const app = await api_get<App>(`/v1/apps/${launch.app_id}`);
    const sandbox_id = app.sandbox?.sandbox_id ?? (await create_sandbox(launch));
    await wait_until_made(launch, sandbox_id);
    return sandbox_id;
}

/* Asks until the image is there; any other refusal is the caller's. */
async function create_sandbox(launch: Launch): Promise<string> {
    const { app_id, pending } = launch;
    while (launches.get(app_id) === launch) {
        try {
            const sandbox = await api_post<Sandbox>(
                `/v1/apps/${app_id}/sandbox`,
                pending.ports.length > 0 ? { ports: pending.ports } : {},
            );
            return sandbox.id;
        } catch (error) {
            if (!(error instanceof ApiError)) {
                throw error;
            }
            const existing =
                error.code === "sandbox_exists"
                    ? (await api_get<App>(`/v1/apps/${app_id}`)).sandbox
                    : null;
            if (existing) {
                return existing.sandbox_id;
            }
            if (error.code !== "image_building") {
                throw error;
            }
            await show_image_building(launch, error);
        }
    }
    throw new Error("given up");
}

/* Waits as long as the server said, telling the percent every second meanwhile. */
async function show_image_building(launch: Launch, error: ApiError): Promise<void> {
    const percent = error.details["percent"];
    tell(launch, { detail: error.message, percent: typeof percent === "number" ? percent : null });
    const until_ms = Date.now() + error.retry_after_s * 1000;
    const app = await api_get<App>(`/v1/apps/${launch.app_id}`);
    while (Date.now() < until_ms && launches.get(launch.app_id) === launch) {
        const { presets } = await api_get<{ presets?: Preset[] }>("/v1/presets");
        const image = presets?.find((preset) => preset.id === app.runtime_preset)?.image;
        if (image?.status === "present") {
            return;
        }
        if (image && typeof image.percent === "number") {
            const step = image.step ? `: ${image.step}` : "";
            tell(launch, {
                detail: `Building the image, once per installation${step}`,
                percent: image.percent,
            });
        }
        await pause(POLL_MS);
    }
}

async function wait_until_made(launch: Launch, sandbox_id: string): Promise<void> {
    while (launches.get(launch.app_id) === launch) {
        const sandbox = await api_get<Sandbox>(`/v1/sandboxes/${sandbox_id}`);
        if (sandbox.status !== "creating" && sandbox.status !== "starting") {
            return; /* stopped or in error too: a task starts a sandbox by itself and says why it cannot */
        }
        tell(launch, { detail: "Starting the sandbox", percent: null });
        await pause(POLL_MS);
    }
}

function pause(ms: number): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, ms));
}
