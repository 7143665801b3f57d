/*
 * Pure functions from values of the API to words for people. No DOM: node's test runner runs this
 * file.
 */

import type { Idle } from "./types.ts";

const APP_NAME_WORDS = 5;
const APP_NAME_CHARS = 40;
export const PASSWORD_MIN_CHARS = 10;

/*
 * "Add a todo list with …" is the app "Todo list": what leads up to the thing and what follows is
 * no name.
 */
const EMPTY_WORDS = new Set(
    "a an the please can could you i we me us my our want need would like to build make create add write develop design".split(
        " ",
    ),
);

const LINKING_WORDS = new Set(
    "with and or for in on that which where who when using from to by so but plus".split(" "),
);

export function app_name_of_prompt(prompt: string): string {
    const sentence = prompt.trim().split(/[\n.!?:;]/, 1)[0] ?? "";
    const words = sentence.split(/[^\p{L}\p{N}'’+#-]+/u).filter((word) => word !== "");
    const start = words.findIndex((word) => !EMPTY_WORDS.has(word.toLowerCase()));
    let name = "";
    for (const word of words.slice(Math.max(start, 0)).slice(0, APP_NAME_WORDS)) {
        if (name !== "" && LINKING_WORDS.has(word.toLowerCase())) {
            break;
        }
        const longer = name === "" ? word : `${name} ${word}`;
        if ([...longer].length > APP_NAME_CHARS) {
            break;
        }
        name = longer;
    }
    name = name || [...(words[0] ?? "")].slice(0, APP_NAME_CHARS).join("") || "New app";
    return name.charAt(0).toUpperCase() + name.slice(1);
}

/* What is wrong with a new password, or null. Characters are counted as people count them. */
export function password_problem(password: string, again: string): string | null {
    const chars = [...password].length;
    if (chars < PASSWORD_MIN_CHARS) {
        return `The password has ${chars} of at least ${PASSWORD_MIN_CHARS} characters. A sentence is easy to keep in mind.`;
    }
    return password === again ? null : "The two passwords differ. Type the same one twice.";
}

export function format_bytes(bytes: number | null | undefined): string {
    if (bytes === null || bytes === undefined || !Number.isFinite(bytes)) {
        return "unknown";
    }
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let value = bytes;
    let unit = 0;
    while (value >= 1024 && unit < units.length - 1) {
        value /= 1024;
        unit += 1;
    }
    return `${value >= 100 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

export function format_duration(ms: number): string {
    const seconds = Math.max(0, Math.round(ms / 1000));
    if (seconds < 60) {
        return `${seconds} s`;
    }
    const minutes = Math.floor(seconds / 60);
    return minutes < 60
        ? `${minutes} min ${seconds % 60} s`
        : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export type Tone = "good" | "busy" | "idle" | "bad";

const SANDBOX_WORDS: Record<string, [string, Tone]> = {
    none: ["No sandbox", "idle"],
    creating: ["Creating", "busy"],
    starting: ["Starting", "busy"],
    running: ["Running", "good"],
    frozen: ["Frozen", "idle"],
    stopping: ["Stopping", "busy"],
    stopped: ["Asleep", "idle"],
    error: ["Error", "bad"],
    deleting: ["Deleting", "busy"],
};

const TASK_WORDS: Record<string, [string, Tone]> = {
    queued: ["Queued", "busy"],
    running: ["Running", "busy"],
    succeeded: ["Done", "good"],
    failed: ["Failed", "bad"],
    cancelled: ["Stopped", "idle"],
    timed_out: ["Timed out", "bad"],
    budget_reached: ["Budget reached", "bad"],
    interrupted: ["Interrupted", "bad"],
};

/* A word that a newer server may send is shown as it is. */
export function sandbox_word(status: string): [string, Tone] {
    return SANDBOX_WORDS[status] ?? [status, "idle"];
}

export function task_word(status: string): [string, Tone] {
    return TASK_WORDS[status] ?? [status, "idle"];
}

export function task_is_over(status: string): boolean {
    return status !== "queued" && status !== "running";
}

/* Until when something is so; a person needs minutes, and seconds only near the end. */
function time_left(at: string, now_ms: number): string {
    const left_ms = Date.parse(at) - now_ms;
    if (!(left_ms > 0)) {
        return "a moment";
    }
    return left_ms < 90_000
        ? format_duration(left_ms)
        : left_ms < 3_600_000
          ? `${Math.round(left_ms / 60_000)} min`
          : format_duration(left_ms);
}

/* What the server said about sleep, in one sentence; "" when there is nothing to say. */
export function sleep_text(status: string, idle: Idle, now_ms: number): string {
    if (status === "stopped" || status === "error") {
        if (idle.stays_stopped && idle.policy === "always_on") {
            return "Stopped by hand: it stays stopped until somebody starts it.";
        }
        return idle.starts_at ? `Starts again in ${time_left(idle.starts_at, now_ms)}.` : "";
    }
    if (status !== "running") {
        return "";
    }
    if (idle.policy === "always_on") {
        return "Always on: it does not sleep.";
    }
    if (idle.threshold_s === null) {
        return "It does not sleep: the idle stop of this installation is off.";
    }
    if (idle.in_use) {
        return "In use: it does not sleep now.";
    }
    if (idle.sleeps_at === null) {
        return "";
    }
    const kept = idle.keep_alive_until !== null && idle.keep_alive_until >= idle.sleeps_at;
    return kept
        ? `Kept awake for ${time_left(idle.sleeps_at, now_ms)}.`
        : `Sleeps in ${time_left(idle.sleeps_at, now_ms)} unless somebody uses it.`;
}

/* A threshold as minutes to type; empty is the installation's. */
export function sleep_minutes(threshold_s: number | null | undefined): string {
    return typeof threshold_s === "number" ? String(Math.round((threshold_s / 60) * 100) / 100) : "";
}

/* Null is the installation's; undefined is no number of minutes. */
export function threshold_of_minutes(text: string): number | null | undefined {
    const plain = text.trim().replace(",", ".");
    if (plain === "") {
        return null;
    }
    const seconds = Math.round(Number(plain) * 60);
    return /^\d{0,7}(\.\d{0,2})?$/.test(plain) && seconds > 0 ? seconds : undefined;
}

/* Only an address a browser may open without running anything in this page. */
export function safe_link(url: string | null | undefined): string | null {
    if (!url) {
        return null;
    }
    try {
        const parsed = new URL(url);
        return parsed.protocol === "http:" || parsed.protocol === "https:" ? url : null;
    } catch {
        return null;
    }
}

/* Whether that is where a ticket into this sandbox's preview is exchanged. */
export function is_ticket_url(url: string, sandbox_id: string): boolean {
    if (safe_link(url) === null) {
        return false;
    }
    const { hostname, pathname, username } = new URL(url);
    return (
        username === "" &&
        pathname === "/.sandboxd/enter" &&
        new RegExp(`^s-${sandbox_id}-[1-9][0-9]{0,4}\\.preview\\.`).test(hostname)
    );
}

/* `Retry-After`: seconds or a date. Never less than 1 s, never more than 5 min. */
export function retry_after_seconds(
    header: string | null,
    fallback: number,
    now_ms: number,
): number {
    let seconds = fallback;
    if (header !== null && /^\d{1,9}$/.test(header.trim())) {
        seconds = Number(header.trim());
    } else if (header !== null && !Number.isNaN(Date.parse(header))) {
        seconds = Math.ceil((Date.parse(header) - now_ms) / 1000);
    }
    return Math.min(300, Math.max(1, seconds));
}

export function format_count(value: number | null | undefined): string {
    return value === null || value === undefined ? "unknown" : value.toLocaleString("en-US");
}

/* "3 Nov 2026" of a day or a time of the API, as the owner's clock has it; days stay what they are. */
export function format_day(text: string | null | undefined): string {
    const time = new Date(text ?? "");
    if (Number.isNaN(time.getTime())) {
        return "unknown";
    }
    const zone = /^\d{4}-\d{2}-\d{2}$/.test(text ?? "") ? { timeZone: "UTC" } : {};
    return time.toLocaleDateString("en-GB", {
        day: "numeric",
        month: "short",
        year: "numeric",
        ...zone,
    });
}

/* When something was made, of its id: the first ten characters of a ULID are milliseconds. */
export function time_of_id(id: string): string {
    let ms = 0;
    for (const digit of id.slice(0, 10)) {
        ms = ms * 32 + "0123456789abcdefghjkmnpqrstvwxyz".indexOf(digit);
    }
    return new Date(ms).toISOString();
}

export function format_time(text: string | null | undefined): string {
    const time = new Date(text ?? "");
    return Number.isNaN(time.getTime())
        ? "unknown"
        : `${format_day(text)}, ${time.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })}`;
}
