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
    cost_microusd?: number | null;
    metered?: { requests: number; unpriced_requests: number };
    budget?: { limit_microusd: number | null; limit_tokens: number | null };
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

export interface AgentProvider {
    provider: string;
    usable: boolean;
    default_model: string | null;
}

export interface Agent {
    id: string;
    label: string;
    version?: string | null;
    status: string;
    method?: string | null;
    message?: string | null;
    default_model?: string | null;
    provider?: string | null;
    providers?: AgentProvider[];
    ready?: boolean;
    can_login?: boolean;
    is_default?: boolean;
}

export interface Provider {
    id: string;
    label: string;
    status: string;
    method: string | null;
    key_id: string | null;
    message: string | null;
    connected_at: string | null;
    expires_at: string | null;
    base_url: string;
    dialects: string[];
    kind: string | null;
    default_model: string | null;
    keyless: boolean;
    can_check: boolean;
    can_login: boolean;
}

export interface ProviderKind {
    id: string;
    label: string;
}

export interface Usage {
    day?: string;
    app_id?: string | null;
    task_id?: string | null;
    agent?: string | null;
    provider?: string | null;
    model?: string | null;
    key_id?: string | null;
    requests: number;
    failed_requests: number;
    tokens: { input: number; output: number; cached_read: number; cached_write: number };
    cost_microusd: number | null;
    unpriced_requests: number;
}

export interface UsageList {
    from: string;
    to: string;
    usage: Usage[];
    total: Usage;
    next_cursor: string | null;
}

export interface Budget {
    scope: string;
    app_id: string | null;
    limit_microusd: number | null;
    limit_tokens: number | null;
    allow_unknown_price: boolean;
    used_microusd: number | null;
    used_tokens: number | null;
    held_microusd: number | null;
    held_tokens: number | null;
    status: string;
    since: string | null;
}

export interface ConfigItem {
    key: string;
    value: string | null; /* null: it is a secret */
    scope: string;
    sensitive: boolean;
    masked: boolean;
    changed_since_start: boolean;
}

export interface ConfigList {
    changed_since_start: boolean;
    note: string;
    config?: ConfigItem[];
}

export interface Price {
    provider: string;
    model: string;
    input: number;
    output: number;
    cached_read: number;
    cached_write: number;
    is_own: boolean;
}

export interface Status {
    version: string;
    engine: { status: string; message?: string | null };
    walls: { status: string; message?: string | null };
    memory: { available_bytes: number | null; total_bytes: number | null };
    sandboxes: { running: number; total: number };
}
