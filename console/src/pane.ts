/*
 * The preview inside the console. The app is a stranger's page: it runs in a frame that may not lead
 * the console away, and a private one gets in by a ticket.
 */
import { is_private, ticket_url } from "./access.ts";
import { problem_of } from "./api.ts";
import { fill, h, show } from "./dom.ts";
import { safe_link } from "./format.ts";
import type { App, Sandbox } from "./types.ts";
import { action_button, problem_box } from "./ui.ts";

/* Everything an app needs, but for leading the page around it somewhere else. */
const FRAME_MAY =
    "allow-scripts allow-same-origin allow-forms allow-modals allow-popups allow-popups-to-escape-sandbox allow-downloads";

export interface Pane {
    element: HTMLElement;
    update(app: App, sandbox: Sandbox | null, ready: boolean): void;
}

async function address_of(app: App, sandbox: Sandbox): Promise<string | null> {
    return is_private(app)
        ? ticket_url({ sandbox_id: sandbox.id, port: null, path: "/" })
        : safe_link(sandbox.preview_url);
}

export function preview_pane(): Pane {
    const place = h("div", { class: "pane" });
    const problem = problem_box();
    let app: App | null = null;
    let sandbox: Sandbox | null = null;
    let shown = ""; /* what the frame was opened for */
    const open = action_button("Show here", "Opening …", "plain small", load);
    const close = h("button", { type: "button", class: "plain small", onclick: hide }, "Hide");
    const element = h(
        "div",
        { class: "preview-pane" },
        h("div", { class: "actions" }, open, close),
        problem.element,
        place,
    );

    function buttons(): void {
        show(close, shown !== "");
        open.textContent = shown === "" ? "Show here" : "Reload";
    }
    function hide(): void {
        shown = "";
        fill(place);
        buttons();
    }
    async function load(): Promise<void> {
        if (!app || !sandbox) {
            return;
        }
        problem.clear();
        try {
            const src = await address_of(app, sandbox);
            if (src) {
                shown = `${sandbox.id} ${app.preview_access ?? ""}`;
                show(close, true);
                fill(place, h("iframe", { src, title: `Preview of ${app.name}`, sandbox: FRAME_MAY }));
            }
        } catch (error) {
            problem.show(problem_of("open the preview", error));
        }
    }
    buttons();
    return {
        element,
        update(latest, latest_sandbox, ready) {
            app = latest;
            sandbox = latest_sandbox;
            show(element, ready && sandbox !== null);
            /* Access changed, or another sandbox: what the frame holds has ended. */
            if (shown !== "" && shown !== `${sandbox?.id} ${app.preview_access ?? ""}`) {
                hide();
            }
            if (open.getAttribute("aria-disabled") !== "true") {
                buttons();
            }
        },
    };
}
