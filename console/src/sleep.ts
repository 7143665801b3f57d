/*
 * When an app sleeps, in words, and the form that changes it: idle policy and threshold of an app.
 */
import { api_patch, problem_of } from "./api.ts";
import { h, set_text, show } from "./dom.ts";
import { sleep_minutes, sleep_text, threshold_of_minutes } from "./format.ts";
import type { App, Sandbox } from "./types.ts";
import { action_button, field, problem_box } from "./ui.ts";

/*
 * The form shows what the server says until somebody changes it; from then on a refresh of the page
 * leaves it alone until it is saved.
 */
export function sleep_panel(changed: () => void): {
    element: HTMLElement;
    update(app: App, sandbox: Sandbox | null): void;
} {
    let app: App | null = null;
    let touched = false;
    const now = h("p", { class: "hint" });
    const always = h("input", { type: "checkbox", onchange: () => edited() });
    const minutes = h("input", {
        type: "text",
        inputmode: "decimal",
        autocomplete: "off",
        oninput: () => edited(),
    });
    const problem = problem_box();
    const minutes_field = field(
        "Sleeps after minutes without use",
        minutes,
        "Empty: as long as for all apps. Its next visitor wakes it.",
    );
    const save = action_button("Save", "Saving …", "plain small", async () => {
        problem.clear();
        const threshold = threshold_of_minutes(minutes.value);
        if (threshold === undefined) {
            problem.show({
                what: "Could not save.",
                why: `“${minutes.value}” is no number of minutes above 0.`,
                next: "Give a number like 35 or 0.5, or nothing.",
            });
            return;
        }
        try {
            app = await api_patch<App>(`/v1/apps/${app?.id}`, {
                idle_policy: always.checked ? "always_on" : "sleep",
                idle_threshold_s: threshold,
            });
            touched = false;
            render(app);
            changed();
        } catch (error) {
            problem.show(problem_of("save when the app sleeps", error));
        }
    });
    function edited(): void {
        touched = true;
        show(minutes_field, !always.checked);
        show(save, true);
    }
    function render(latest: App): void {
        always.checked = latest.idle_policy === "always_on";
        minutes.value = sleep_minutes(latest.idle_threshold_s);
        show(minutes_field, !always.checked);
        show(save, false);
    }
    show(save, false);
    return {
        element: h(
            "section",
            { class: "sleep", "aria-label": "Sleep" },
            h("h3", null, "Sleep"),
            now,
            h("label", { class: "check" }, always, " Always on"),
            minutes_field,
            problem.element,
            save,
        ),
        update(latest, sandbox) {
            app = latest;
            const text = sandbox?.idle
                ? sleep_text(sandbox.status, sandbox.idle, Date.now())
                : "";
            set_text(now, text);
            show(now, text !== "");
            if (!touched) {
                render(latest);
            }
        },
    };
}
