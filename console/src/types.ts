/*
 * What the API answers, as far as the console reads it. Nothing here is trusted to be complete: the
 * code that uses these shapes treats an absent list as empty and an unknown word as text.
 */

export interface SessionState {
    authenticated: boolean;
    password_set: boolean;
}

export interface AppSandbox {
    sandbox_id: string;
    status: string;
    preview_url: string | null;
    image?: string | null;
    disk_bytes?: number | null;
    ports?: number[];
}

export interface App {
    id: string;
    name: string;
    description?: string | null;
    runtime_preset?: string | null;
    preview_access?: string;
    idle_policy?: string;
    idle_threshold_s?: number | null;
    sandbox: AppSandbox | null;
    created_at?: string;
    updated_at?: string;
}

export interface SandboxProcess {
    name: string;
    type: string;
    state: string;
    restarts?: number;
    exit_code?: number | null;
    lines?: string | null;
}

export interface PreviewState {
    status: string;
    port?: number | null;
    phase?: string | null;
    detail?: string | null;
}

export interface Idle {
    policy: string;
    threshold_s: number | null;
    in_use: boolean;
    sleeps_at: string | null;
    keep_alive_until: string | null;
    stays_stopped: boolean;
    starts_at: string | null;
}

export interface Sandbox {
    id: string;
    app_id: string;
    status: string;
    ports?: number[];
    preview_url: string | null;
    preview?: PreviewState | null;
    idle?: Idle | null;
    image?: string | null;
    memory_limit_bytes?: number | null;
    disk_bytes?: number | null;
    processes?: SandboxProcess[];
    error: { code: string; message: string } | null;
    started_at?: string | null;
}

export interface Task {
    id: string;
    sandbox_id: string;
    app_id: string;
    agent: string;
    model?: string | null;
    prompt: string;
    status: string;
    failure_reason?: string | null;
    error_message?: string | null;
    agent_message?: string | null;
    tokens?: { input: number | null; output: number | null; cached: number | null } | null;
    duration_ms?: number | null;
    events_url?: string;
    created_at: string;
    finished_at?: string | null;
}

export interface TaskEvent {
    seq: number;
    at?: string;
    type: string;
    [field: string]: unknown;
}

export interface PresetImage {
    status: string;
    percent?: number | null;
    step?: string | null;
}

export interface Preset {
    id: string;
    label: string;
    description?: string | null;
    port?: number | null;
    image?: PresetImage | null;
}

export interface Agent {
    id: string;
    label: string;
    status: string;
    method?: string | null;
    default_model?: string | null;
    provider?: string | null;
    is_default?: boolean;
}

export interface Status {
    version: string;
    engine: { status: string; message?: string | null };
    walls: { status: string; message?: string | null };
    memory: { available_bytes: number | null; total_bytes: number | null };
    sandboxes: { running: number; total: number };
}
