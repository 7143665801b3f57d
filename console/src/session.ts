/*
 * Who is there: the state of the session, sign-in by password, and setting the password with a
 * one-time code. A code or password lives in the form and in one request, nowhere else.
 */
import { ApiError, api_delete, api_get, api_post, problem_of } from "./api.ts";
import { type Child, fill, h } from "./dom.ts";
import { PASSWORD_MIN_CHARS, password_problem } from "./format.ts";
import { setup_code_of_hash } from "./routes.ts";
import type { SessionState } from "./types.ts";
import { field, problem_box, run_busy } from "./ui.ts";

const PASSWORD_MAX_CHARS = 256;
const CODE_FIELD_MAX_CHARS = 300; /* the whole address may be pasted */

export function load_session(): Promise<SessionState> {
    return api_get<SessionState>("/v1/session");
}

export function sign_out(): Promise<void> {
    return api_delete("/v1/session");
}

/*
 * Takes a one-time code out of the address bar before anything else happens: it must not stay in
 * the history, in a bookmark or on a screen that is shared.
 */
export function take_setup_code(): string | null {
    const code = setup_code_of_hash(location.hash);
    if (location.hash.startsWith("#setup")) {
        history.replaceState(null, "", location.pathname);
    }
    return code;
}

const NEW_CODE_COMMAND = "docker compose exec sandboxd sandboxd console-code";

export interface SessionView {
    notice?: string | undefined;
    setup_code?: string | null;
    password_set: boolean;
    done: () => void;
}

/* The page for somebody without a session; it changes between its two forms by itself. */
export function session_page(view: SessionView): HTMLElement {
    const main = h("main", { class: "door", id: "main", tabindex: "-1" });
    const show_sign_in = (): void =>
        fill(
            main,
            sign_in_form(view, () => show_setup(null)),
        );
    const show_setup = (code: string | null): void =>
        fill(main, setup_form(view, code, view.password_set ? show_sign_in : null));
    if (view.setup_code || !view.password_set) {
        show_setup(view.setup_code ?? null);
    } else {
        show_sign_in();
    }
    return main;
}

function card(title: string, view: SessionView, ...children: Child[]): HTMLElement {
    return h(
        "div",
        { class: "card door-card" },
        h(
            "p",
            { class: "brand" },
            h("img", { src: "/favicon.svg", alt: "", width: 28, height: 28 }),
            "sandboxd",
        ),
        h("h1", null, title),
        view.notice ? h("p", { class: "notice", role: "status" }, view.notice) : null,
        ...children,
    );
}

function password_input(autocomplete: string): HTMLInputElement {
    return h("input", { type: "password", autocomplete, required: true, maxlength: PASSWORD_MAX_CHARS });
}

/* Password managers file a password under a user name; there is one owner. */
function user_name(): HTMLElement {
    return h("input", {
        type: "text",
        name: "username",
        autocomplete: "username",
        value: "owner",
        hidden: true,
        readonly: true,
    });
}

function sign_in_form(view: SessionView, use_code: () => void): HTMLElement {
    const problem = problem_box();
    const password = password_input("current-password");
    password.autofocus = true;
    const submit = h("button", { type: "submit", class: "primary wide" }, "Sign in");
    const form = h(
        "form",
        { class: "stack" },
        user_name(),
        field("Password", password),
        problem.element,
        submit,
    );
    on_submit(form, submit, "Signing in …", async () => {
        problem.clear();
        try {
            await api_post("/v1/session", { password: password.value });
            view.done();
        } catch (error) {
            problem.show(sign_in_problem(error));
            password.select();
        }
    });
    return card("Sign in", view, form, new_code_help("Forgot the password?", use_code));
}

function sign_in_problem(error: unknown): ReturnType<typeof problem_of> {
    const problem = problem_of("sign in", error);
    if (
        error instanceof ApiError &&
        (error.status === 401 || error.status === 403) &&
        error.code === "unauthorized"
    ) {
        problem.next = "Try again, or get a one-time code as described below.";
    }
    return problem;
}

function new_code_help(summary: string, use_code: (() => void) | null): HTMLElement {
    return h(
        "details",
        { class: "help" },
        h("summary", null, summary),
        h(
            "p",
            null,
            "On the server, in ",
            h("code", null, "~/.sandboxd/src"),
            ", this prints a new sign-in address. It ends all sessions.",
        ),
        h("pre", { tabindex: "0" }, NEW_CODE_COMMAND),
        use_code
            ? h(
                  "button",
                  { type: "button", class: "plain", onclick: use_code },
                  "Enter a one-time code",
              )
            : null,
    );
}

function setup_form(
    view: SessionView,
    known_code: string | null,
    back: (() => void) | null,
): HTMLElement {
    const problem = problem_box();
    const code = h("input", {
        type: "text",
        autocomplete: "one-time-code",
        required: true,
        maxlength: CODE_FIELD_MAX_CHARS,
        spellcheck: "false",
    });
    const password = password_input("new-password");
    const again = password_input("new-password");
    const submit = h("button", { type: "submit", class: "primary wide" }, "Set password");
    if (known_code) {
        password.autofocus = true;
    } else {
        code.autofocus = true;
    }
    const form = h(
        "form",
        { class: "stack", novalidate: true },
        user_name(),
        known_code
            ? null
            : field(
                  "One-time code",
                  code,
                  "The part after #setup= of the address that the installer printed.",
              ),
        field("New password", password, `At least ${PASSWORD_MIN_CHARS} characters.`),
        field("The same again", again),
        problem.element,
        submit,
    );
    on_submit(form, submit, "Setting the password …", async () => {
        if (!known_code && code.value.trim() === "") {
            problem.show({
                what: "The password was not set.",
                why: "The one-time code is missing.",
                next: "",
            });
            code.focus();
            return;
        }
        const wrong = password_problem(password.value, again.value);
        if (wrong) {
            problem.show({ what: "The password was not set.", why: wrong, next: "" });
            password.focus();
            return;
        }
        problem.clear();
        try {
            const entered = code.value.trim();
            await api_post("/v1/session/setup", {
                code:
                    known_code ??
                    setup_code_of_hash(entered.slice(Math.max(entered.indexOf("#"), 0))) ??
                    entered,
                password: password.value,
            });
            view.done();
        } catch (error) {
            problem.show(setup_problem(error));
        }
    });
    return card(
        view.password_set ? "Choose a new password" : "Choose a password",
        view,
        h(
            "p",
            { class: "hint" },
            "It opens this console from now on. The code that brought you here works once.",
        ),
        form,
        new_code_help("The code does not work?", null),
        back
            ? h("button", { type: "button", class: "plain", onclick: back }, "Back to sign-in")
            : null,
    );
}

function setup_problem(error: unknown): ReturnType<typeof problem_of> {
    const problem = problem_of("set the password", error);
    if (error instanceof ApiError && error.code === "unauthorized") {
        problem.next = "Get a new code as described below.";
    }
    return problem;
}

function on_submit(
    form: HTMLFormElement,
    submit: HTMLButtonElement,
    busy_label: string,
    work: () => Promise<void>,
): void {
    form.addEventListener("submit", (event) => {
        event.preventDefault();
        void run_busy(submit, busy_label, work);
    });
}
