/*
 * Preview and sandbox of an app: the address and whether it can be opened, why it cannot, and the
 * figures of the container.
 */
import { access_switch, is_private } from "./access.ts";
import { preview_link } from "./apps.ts";
import { fill, h, set_attribute, set_text, show } from "./dom.ts";
import { format_bytes, safe_link } from "./format.ts";
import { launch_of } from "./launch.ts";
import { preview_pane } from "./pane.ts";
import { enter_address } from "./routes.ts";
import { sleep_panel } from "./sleep.ts";
import type { App, PreviewState, Sandbox } from "./types.ts";
import { type ProblemBox, problem_box } from "./ui.ts";

const BROKEN_STATES = new Set(["failed", "backoff"]);
const LINES_SHOWN_MAX = 6;
const ERROR_WORDS: Record<string, string> = {
    memory: "Stopped for memory.",
    out_of_memory: "A process was killed: the app's memory limit.",
    host_out_of_memory: "A process was killed: the machine had no memory left.",
    node_heap_limit: "A process ended: Node's heap was full.",
    no_memory: "There was no memory for it.",
};

export function sandbox_panel(changed: () => void): {
    element: HTMLElement;
    update(app: App, sandbox: Sandbox | null): void;
} {
    const open = h(
        "a",
        { class: "button primary wide", target: "_blank", rel: "noopener noreferrer" },
        "Open preview",
    );
    const link = preview_link();
    const waiting = h("p", { class: "hint" });
    const access_problem = problem_box();
    const access = access_switch(access_problem, changed);
    const pane = preview_pane();
    const failure = problem_box();
    const facts = h("dl", { class: "facts" });
    const sleep = sleep_panel(changed);
    const element = h(
        "aside",
        { class: "card side", "aria-label": "Preview and sandbox" },
        h("h2", null, "Preview"),
        open,
        waiting,
        link.element,
        pane.element,
        access.element,
        access_problem.element,
        failure.element,
        facts,
        sleep.element,
    );
    let shown = "";
    return {
        element,
        update(app, sandbox) {
            const status = sandbox?.status ?? app.sandbox?.status ?? "none";
            const url = safe_link(sandbox?.preview_url ?? app.sandbox?.preview_url);
            const ready =
                url !== null && ["running", "stopped", "frozen", "stopping"].includes(status);
            set_attribute(open, "href", ready ? way_in(app, sandbox, url) : null);
            set_text(
                open,
                status === "running" || !ready ? "Open preview" : "Wake and open preview",
            );
            set_attribute(open, "aria-disabled", ready ? null : "true");
            const why = ready
                ? not_answering(status, sandbox?.preview)
                : waiting_text(status, launch_of(app.id) !== undefined);
            set_text(waiting, why);
            show(waiting, why !== "");
            link.update(url);
            show(link.element, url !== null);
            access.update(app);
            pane.update(app, sandbox, ready);
            show_failure(failure, sandbox);
            sleep.update(app, sandbox);
            const rows = fact_rows(app, sandbox);
            if (JSON.stringify(rows) !== shown) {
                shown = JSON.stringify(rows);
                fill(
                    facts,
                    ...rows.flatMap(([name, value]) => [h("dt", null, name), h("dd", null, value)]),
                );
            }
        },
    };
}

/* A private preview is opened by the page that fetches a ticket. */
function way_in(app: App, sandbox: Sandbox | null, url: string): string {
    const port = sandbox?.preview?.port;
    return is_private(app) && sandbox && port
        ? enter_address({ sandbox_id: sandbox.id, port, path: "/" })
        : url;
}

function waiting_text(status: string, launching: boolean): string {
    switch (status) {
        case "none":
            return launching
                ? "Opens as soon as the sandbox runs."
                : "The app has no sandbox. A prompt or “Start” makes one.";
        case "creating":
        case "starting":
            return "Opens as soon as the sandbox runs.";
        case "error":
            return "The sandbox did not start; the reason is below.";
        default:
            return "This sandbox has no port to look at.";
    }
}

/* A sandbox that runs is not an app that answers: say what it is at. */
function not_answering(status: string, preview: PreviewState | null | undefined): string {
    if (status !== "running" || preview?.status !== "waiting") {
        return "";
    }
    const at = preview.detail || preview.phase || "";
    return `The app does not answer on port ${preview.port ?? "?"} yet${at === "" ? "." : `: ${at}`}`;
}

function show_failure(box: ProblemBox, sandbox: Sandbox | null): void {
    const broken = sandbox?.processes?.find((process) => BROKEN_STATES.has(process.state));
    if (sandbox?.error) {
        box.show({
            what: ERROR_WORDS[sandbox.error.code] ?? "The sandbox has a problem.",
            why: sandbox.error.message,
            next: sandbox.status === "running" ? "" : "“Start” and the preview wake it again.",
        });
    } else if (broken) {
        const lines = (broken.lines ?? "").trim().split("\n").slice(-LINES_SHOWN_MAX).join("\n");
        box.show({
            what: `The process “${broken.name}” ended with ${broken.exit_code ?? "an error"}.`,
            why: lines === "" ? "It said nothing." : lines,
            next: "Ask the agent to fix it.",
        });
    } else {
        box.clear();
    }
}

function fact_rows(app: App, sandbox: Sandbox | null): [string, string][] {
    const rows: [string, string][] = [["Preset", app.runtime_preset ?? "none"]];
    if (!sandbox) {
        return rows;
    }
    rows.push(["Ports", sandbox.ports?.join(", ") || "none"]);
    for (const process of sandbox.processes ?? []) {
        const restarts = process.restarts ? `, restarted ${process.restarts} times` : "";
        rows.push([process.name, `${process.state}${restarts}`]);
    }
    if (typeof sandbox.memory_limit_bytes === "number" && sandbox.memory_limit_bytes > 0) {
        rows.push(["Memory limit", format_bytes(sandbox.memory_limit_bytes)]);
    }
    rows.push(["On disk", format_bytes(sandbox.disk_bytes)]);
    return rows;
}
