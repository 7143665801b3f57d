/*
 * Who may load an app's preview: the switch, and the way in to a private one. The API gives a ticket;
 * its address sets a cookie for that preview and goes on to the app.
 */
import { api_patch, api_post, problem_of } from "./api.ts";
import { h, set_text } from "./dom.ts";
import { is_ticket_url } from "./format.ts";
import type { Place } from "./routes.ts";
import type { App } from "./types.ts";
import { labelled_switch, type ProblemBox } from "./ui.ts";

/* The address to open, good once and for 30 s. */
export async function ticket_url(place: Place): Promise<string> {
    const body: Record<string, unknown> = { path: place.path };
    if (place.port !== null) {
        body["port"] = place.port;
    }
    const { url } = await api_post<{ url: string }>(
        `/v1/sandboxes/${place.sandbox_id}/preview-ticket`,
        body,
    );
    if (!is_ticket_url(url, place.sandbox_id)) {
        throw new Error("The server named an address that is no preview.");
    }
    return url;
}

export function is_private(app: App): boolean {
    return app.preview_access === "private";
}

/* What the owner must know wherever the address stands. */
export function access_sentence(app: App): string {
    return is_private(app)
        ? "Only you, signed in to this console, can load the app. The first visit wakes it when it is asleep."
        : "Whoever has this address can load the app. The first visit wakes it when it is asleep.";
}

export interface AccessSwitch {
    element: HTMLElement;
    update(app: App): void;
}

/* On is private. It shows what the server says, also after a change that failed. */
export function access_switch(problem: ProblemBox, changed: (app: App) => void): AccessSwitch {
    let app: App | null = null;
    const control = labelled_switch("Private preview", () => void change());
    const note = h("p", { class: "hint" });
    const element = h("div", { class: "access" }, control.element, note);

    function update(latest: App): void {
        app = latest;
        if (!control.busy()) {
            control.set(is_private(latest));
        }
        set_text(note, access_sentence(latest));
    }
    async function change(): Promise<void> {
        if (!app) {
            return;
        }
        const wanted = is_private(app) ? "public" : "private";
        problem.clear();
        await control.run(async () => {
            try {
                app = await api_patch<App>(`/v1/apps/${app?.id}`, { preview_access: wanted });
                changed(app);
            } catch (error) {
                problem.show(problem_of(`make the preview ${wanted}`, error));
            }
        });
        if (app) {
            update(app);
        }
    }
    return { element, update };
}
