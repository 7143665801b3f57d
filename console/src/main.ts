/*
 * The start of the console: who is there, which page, and what to do when this program itself
 * fails.
 */
import { ApiError, listen_signed_out, problem_of } from "./api.ts";
import { app_page, type Page } from "./app.ts";
import { apps_panel } from "./apps.ts";
import { fill, h, set_attribute, show } from "./dom.ts";
import { enter_page } from "./enter.ts";
import { resume_launches } from "./launch.ts";
import { home_composer } from "./prompt.ts";
import { ENTER_PATH, place_of_search, type Route, route_of_hash } from "./routes.ts";
import { load_session, session_page, sign_out, take_setup_code } from "./session.ts";
import { settings_page } from "./settings.ts";
import { status_panel } from "./status.ts";
import { action_button, problem_box } from "./ui.ts";
import { usage_page } from "./usage.ts";

const RETRY_MS = 3_000;

/* On the way into a preview the fragment is the app's, never a code or a place of ours. */
const entering = location.pathname === ENTER_PATH;
/* Before anything else can fail or be seen. */
let setup_code = entering ? null : take_setup_code();

const root = document.getElementById("root") ?? document.body.appendChild(h("div", { id: "root" }));
const view = h("div", { class: "view" });
const fault = fault_bar();
let page: Page | null = null;
let signed_in = false;
let has_password = true;
let retry_timer: ReturnType<typeof setTimeout> | undefined;

/*
 * An exception that nobody expected is shown, not swallowed: a page that stopped working looks
 * alive.
 */
function fault_bar(): { element: HTMLElement; report(reason: unknown): void } {
    const text = h("span", null);
    const element = h(
        "div",
        { class: "fault", role: "alert" },
        h("strong", null, "Something in the console broke. "),
        text,
        h(
            "button",
            { type: "button", class: "plain small", onclick: () => location.reload() },
            "Reload",
        ),
    );
    element.hidden = true;
    return {
        element,
        report(reason) {
            text.textContent =
                reason instanceof Error ? `${reason.name}: ${reason.message}` : String(reason);
            show(element, true);
        },
    };
}

window.addEventListener("error", (event) => fault.report(event.error ?? event.message));
window.addEventListener("unhandledrejection", (event) => {
    /* The sign-in page is there already; what was under way when the session ended is no news. */
    if (!(event.reason instanceof ApiError && event.reason.status === 401)) {
        fault.report(event.reason);
    }
});

function leave_page(): void {
    clearTimeout(retry_timer);
    page?.stop();
    page = null;
    for (const dialog of document.querySelectorAll("dialog")) {
        dialog.close();
    }
}

function home_page(): Page {
    const composer = home_composer();
    const apps = apps_panel();
    const status = status_panel();
    return {
        element: h(
            "div",
            null,
            h(
                "section",
                { class: "hero" },
                h("h1", { tabindex: "-1" }, "What do you want to build?"),
                composer.element,
            ),
            h("div", { class: "columns" }, apps.element, status.element),
        ),
        title: "Apps",
        stop() {
            apps.stop();
            status.stop();
        },
    };
}

function set_title(title: string): void {
    document.title = title === "" ? "sandboxd" : `${title} · sandboxd`;
}

function make_page(route: Route): Page {
    switch (route.page) {
        case "home":
            return home_page();
        case "app":
            return app_page(route.app_id, set_title);
        case "settings":
            return settings_page(route.provider);
        case "usage":
            return usage_page(route.part);
    }
}

function nav_link(href: string, label: string, current: boolean): HTMLElement {
    return h("a", { href, "aria-current": current ? "page" : null }, label);
}

function header(route: Route): HTMLElement {
    const problem = problem_box();
    const leave = action_button("Sign out", "Signing out …", "plain small", async () => {
        try {
            await sign_out();
            show_door();
        } catch (error) {
            problem.show(problem_of("sign out", error));
        }
    });
    return h(
        "header",
        { class: "top" },
        h("a", { class: "skip", href: "#main", onclick: skip_to_main }, "Skip to content"),
        h(
            "a",
            { class: "brand", href: "#/" },
            h("img", { src: "/favicon.svg", alt: "", width: 24, height: 24 }),
            h("span", null, "sandboxd"),
        ),
        h(
            "nav",
            { "aria-label": "Main" },
            nav_link("#/", "Apps", route.page === "home" || route.page === "app"),
            nav_link("#/usage", "Usage", route.page === "usage"),
            nav_link("#/settings", "Settings", route.page === "settings"),
        ),
        leave,
        problem.element,
    );
}

/* The fragment is the route, so the ordinary jump would leave the page. */
function skip_to_main(event: Event): void {
    event.preventDefault();
    document.getElementById("main")?.focus();
}

/* `moved`: the person went there, so focus and scroll go to its top; a reload leaves both alone. */
function show_route(moved: boolean): void {
    if (entering) {
        leave_page();
        page = enter_page(place_of_search(location.search));
        set_title(page.title);
        fill(view, h("main", { id: "main", tabindex: "-1" }, page.element));
        return;
    }
    const route = route_of_hash(location.hash);
    if (!route) {
        history.replaceState(null, "", "#/");
        show_route(moved);
        return;
    }
    leave_page();
    page = make_page(route);
    set_title(page.title);
    fill(
        view,
        header(route),
        h("main", { id: "main", class: "page", tabindex: "-1" }, page.element),
    );
    if (moved) {
        window.scrollTo(0, 0);
        view.querySelector<HTMLElement>("h1")?.focus({ preventScroll: true });
    }
}

function show_door(notice?: string): void {
    leave_page();
    signed_in = false;
    set_title("Sign in");
    const code = setup_code;
    setup_code = null;
    fill(view, session_page({ notice, setup_code: code, password_set: has_password, done: enter }));
    view.querySelector<HTMLElement>("[autofocus]")?.focus();
}

function enter(): void {
    signed_in = true;
    has_password = true;
    resume_launches();
    show_route(true);
}

/* The server is away: say so, and go on by itself when it is back. Never the first-run screen. */
function show_unreachable(error: unknown): void {
    const problem = problem_box();
    const shown = problem_of("reach sandboxd", error);
    problem.show({ ...shown, next: `${shown.next} The console keeps trying.` });
    fill(
        view,
        h(
            "main",
            { class: "door", id: "main" },
            h(
                "div",
                { class: "card door-card" },
                h(
                    "p",
                    { class: "brand" },
                    h("img", { src: "/favicon.svg", alt: "", width: 28, height: 28 }),
                    "sandboxd",
                ),
                problem.element,
            ),
        ),
    );
    retry_timer = setTimeout(() => void boot(), RETRY_MS);
}

async function boot(): Promise<void> {
    try {
        const session = await load_session();
        has_password = session.password_set;
        if (session.authenticated) {
            signed_in = true;
            setup_code =
                null; /* a code made after this session would have ended it: this one is old */
            resume_launches();
            show_route(false);
        } else {
            show_door();
        }
    } catch (error) {
        show_unreachable(error);
    }
}

/*
 * Somebody opens the installer's address in a tab that shows the console already: only the
 * fragment changes.
 */
function on_hash_change(): void {
    if (entering) {
        return;
    }
    const code = take_setup_code();
    if (code !== null) {
        setup_code = code;
        void boot();
    } else if (signed_in) {
        show_route(true);
    }
}

listen_signed_out(() => {
    if (signed_in) {
        show_door("Your session has ended. Sign in to go on; nothing you typed is lost.");
    }
});
window.addEventListener("hashchange", on_hash_change);
fill(root, fault.element, view);
set_attribute(root, "data-ready", "yes");
void boot();
