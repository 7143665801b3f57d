/*
 * The ways to connect a provider: a key, a login with a subscription, the login that a CLI stored.
 * Secrets go one way: out of a field, into one request. A field is emptied as soon as the server
 * has what was in it; nothing of it is kept, shown again or remembered.
 */
import { api_post, problem_of } from "./api.ts";
import { h, set_attribute, show } from "./dom.ts";
import { safe_link } from "./format.ts";
import type { Agent, Provider } from "./types.ts";
import { check_box, field, problem_box, run_busy } from "./ui.ts";

const KEY_CHARS_MAX = 8_192;
const CODE_CHARS_MAX = 4_096;
const FILE_BYTES_MAX = 49_152;

export interface ConnectForm {
    element: HTMLElement;
    focus(): void;
}

export function secret_input(max: number): HTMLInputElement {
    return h("input", {
        type: "password",
        autocomplete: "off",
        required: true,
        maxlength: max,
        spellcheck: "false",
        "data-1p-ignore": true,
    });
}

/* `done` is told what to say about it. */
export function key_form(provider: () => Provider, done: (said: string) => void): ConnectForm {
    const problem = problem_box();
    const key = secret_input(KEY_CHARS_MAX);
    const check = check_box("Ask the provider first whether it takes the key", true);
    const submit = h("button", { type: "submit", class: "primary small" }, "Store key");
    show(check.element, provider().can_check);
    const form = h(
        "form",
        { class: "key-form" },
        field(
            "API key",
            key,
            "Stored sealed on the server. It is never shown again and never enters a sandbox.",
        ),
        check.element,
        problem.element,
        submit,
    );
    form.addEventListener("submit", (event) => {
        event.preventDefault();
        void run_busy(submit, "Storing …", async () => {
            problem.clear();
            const { id, can_check, label } = provider();
            const asked = can_check && check.input.checked;
            try {
                await api_post(`/v1/providers/${id}/api-key`, {
                    api_key: key.value.trim(),
                    ...(asked ? { check: true } : {}),
                });
                key.value = "";
                done(asked ? `${label} takes the key. It is stored.` : "The key is stored.");
            } catch (error) {
                problem.show(problem_of("store the key", error));
                key.select();
            }
        });
    });
    return { element: form, focus: () => key.focus() };
}

/* A link that opens the provider's page, then the code that this page shows. */
export function login_form(agent: Agent, done: (said: string) => void): ConnectForm {
    const problem = problem_box();
    const start = h("button", { type: "button", class: "plain small" }, "Sign in with Claude");
    const link = h(
        "a",
        { class: "button plain small", target: "_blank", rel: "noopener noreferrer" },
        "Open the sign-in page",
    );
    const code = secret_input(CODE_CHARS_MAX);
    const submit = h("button", { type: "submit", class: "primary small" }, "Finish signing in");
    const form = h(
        "form",
        { class: "key-form" },
        h("p", null, "1. ", link),
        field(
            "2. The code that the page shows at the end",
            code,
            "It works once and within 15 minutes. Paste all of it, the part after # too.",
        ),
        submit,
    );
    form.hidden = true;
    const begin = async (): Promise<void> => {
        problem.clear();
        try {
            const answer = await api_post<{ authorize_url: string }>(
                `/v1/agents/${agent.id}/oauth/start`,
            );
            set_attribute(link, "href", safe_link(answer.authorize_url));
            code.value = "";
            show(form, true);
            link.focus();
        } catch (error) {
            problem.show(problem_of("begin the login", error));
        }
    };
    start.addEventListener("click", () => void run_busy(start, "Preparing …", begin));
    form.addEventListener("submit", (event) => {
        event.preventDefault();
        void run_busy(submit, "Signing in …", async () => {
            problem.clear();
            try {
                await api_post(`/v1/agents/${agent.id}/oauth/finish`, { code: code.value.trim() });
                done("You are signed in.");
            } catch (error) {
                const shown = problem_of("sign in", error);
                problem.show({ ...shown, next: "“Sign in with Claude” begins anew." });
            } finally {
                code.value = "";
                link.removeAttribute("href");
                show(form, false);
            }
        });
    });
    return {
        element: h(
            "div",
            { class: "way" },
            h("h4", null, "Or with a Claude subscription"),
            h(
                "p",
                { class: "hint" },
                "A login with the real provider was not tried by us: a scripted server stood in for it.",
            ),
            start,
            problem.element,
            form,
        ),
        focus: () => start.focus(),
    };
}

const CLI_FILES: Record<string, string> = {
    "claude-code": "~/.claude/.credentials.json",
    opencode: "~/.local/share/opencode/auth.json",
};

/* The file in which a CLI keeps its own login or keys: chosen, or pasted. */
export function import_form(agent: Agent, done: (said: string) => void): ConnectForm {
    const problem = problem_box();
    const file = h("input", { type: "file", accept: ".json,application/json" });
    const text = h("textarea", {
        rows: 3,
        class: "masked",
        spellcheck: "false",
        autocomplete: "off",
        maxlength: FILE_BYTES_MAX,
    });
    const submit = h("button", { type: "submit", class: "primary small" }, "Import");
    const path = CLI_FILES[agent.id] ?? "the file of its credentials";
    const form = h(
        "form",
        { class: "key-form" },
        h(
            "p",
            { class: "hint" },
            `Where ${agent.label} is signed in already, ${path} holds its login or keys. From then on it and sandboxd share the login: whoever renews it first signs the other out.`,
        ),
        field("The file", file),
        field("Or its text", text),
        problem.element,
        submit,
    );
    file.addEventListener("change", () => void read_file());
    async function read_file(): Promise<void> {
        problem.clear();
        const chosen = file.files?.[0];
        if (!chosen) {
            return;
        }
        if (chosen.size > FILE_BYTES_MAX) {
            problem.show({
                what: "Could not read the file.",
                why: `It is larger than ${FILE_BYTES_MAX / 1024} KiB.`,
                next: `Choose ${path}.`,
            });
            return;
        }
        text.value = await chosen.text();
    }
    form.addEventListener("submit", (event) => {
        event.preventDefault();
        if (text.value.trim() === "") {
            text.focus();
            return;
        }
        void run_busy(submit, "Importing …", async () => {
            problem.clear();
            try {
                await api_post(`/v1/agents/${agent.id}/import`, { credentials: text.value });
                form.reset();
                done("Imported: see what is connected below.");
            } catch (error) {
                problem.show(problem_of("import the login", error));
            }
        });
    });
    return { element: form, focus: () => file.focus() };
}
