/*
 * The page between a private preview and its owner: asks for a ticket and goes on to the preview.
 * Whoever sent the browser here chose sandbox, port and path; all three are read strictly, and only a
 * preview of this installation is ever opened.
 */
import { ticket_url } from "./access.ts";
import { problem_of } from "./api.ts";
import type { Page } from "./app.ts";
import { h, show } from "./dom.ts";
import { recall, remember } from "./memory.ts";
import type { Place } from "./routes.ts";
import { action_button, problem_box } from "./ui.ts";

/* A browser that does not keep the preview's cookie is sent back here at once, for ever. */
const RETURNS_MAX = 3;
const RETURNS_WINDOW_MS = 20_000;

function is_turning_round(place: Place): boolean {
    const name = `entered.${place.sandbox_id}-${place.port ?? ""}`;
    const now_ms = Date.now();
    const times = (recall("tab", name) ?? "")
        .split(",")
        .map(Number)
        .filter((at_ms) => at_ms > now_ms - RETURNS_WINDOW_MS);
    remember("tab", name, [...times, now_ms].join(","));
    return times.length >= RETURNS_MAX;
}

export function enter_page(place: Place | null): Page {
    const title = h("h1", { tabindex: "-1" }, "Opening the preview …");
    const problem = problem_box();
    const again = action_button("Try again", "Opening …", "primary", go);
    show(again, false);
    let stopped = false;

    async function go(): Promise<void> {
        if (!place) {
            return;
        }
        problem.clear();
        try {
            const url = await ticket_url(place);
            if (!stopped) {
                /* The app's own fragment came along; the preview's answer keeps it. */
                location.replace(url + location.hash);
            }
        } catch (error) {
            show(again, true);
            problem.show(problem_of("open the preview", error));
        }
    }
    if (!place) {
        title.textContent = "No such preview";
        problem.show({
            what: "This address names no preview.",
            why: "A part of it is missing or wrong.",
            next: "Open the app from the list.",
        });
    } else if (is_turning_round(place)) {
        title.textContent = "The preview does not open";
        show(again, true);
        problem.show({
            what: "The preview sent you back several times.",
            why: "The browser does not keep its cookie.",
            next: "Allow cookies for the preview's address, then try again.",
        });
    } else {
        void go();
    }
    return {
        element: h(
            "div",
            { class: "door" },
            h(
                "div",
                { class: "card door-card" },
                title,
                problem.element,
                h(
                    "div",
                    { class: "actions" },
                    again,
                    h("a", { class: "button plain", href: "/#/" }, "All apps"),
                ),
            ),
        ),
        title: "Preview",
        stop() {
            stopped = true;
        },
    };
}
