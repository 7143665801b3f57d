/*
 * Small parts that every page uses: badges, problem boxes, buttons that know they are busy,
 * dialogs.
 */
import { type Problem, problem_of } from "./api.ts";
import { type Child, fill, h, set_attribute, set_text, unique_id } from "./dom.ts";
import type { Tone } from "./format.ts";

export function badge(): { element: HTMLElement; set(word: string, tone: Tone): void } {
    const text = h("span", null);
    const element = h(
        "span",
        { class: "badge" },
        h("span", { class: "dot", "aria-hidden": "true" }),
        text,
    );
    return {
        element,
        set(word, tone) {
            set_text(text, word);
            set_attribute(element, "data-tone", tone);
        },
    };
}

/* A place for one problem: empty until there is one, read out when it appears. */
export interface ProblemBox {
    element: HTMLElement;
    show(problem: Problem, ...actions: Child[]): void;
    clear(): void;
}

export function problem_box(): ProblemBox {
    const element = h("div", { class: "problem", role: "alert" });
    element.hidden = true;
    let shown = "";
    return {
        element,
        show(problem, ...actions) {
            const text = JSON.stringify(problem);
            if (text === shown && actions.length === 0) {
                return;
            }
            shown = text;
            fill(
                element,
                h("strong", null, problem.what),
                h("span", null, ` ${problem.why} `),
                h("span", { class: "next" }, problem.next),
                actions.length > 0 && h("div", { class: "actions" }, ...actions),
            );
            element.hidden = false;
        },
        clear() {
            if (shown !== "") {
                shown = "";
                element.hidden = true;
                fill(element);
            }
        },
    };
}

/*
 * Runs the work once at a time: the button says what it does meanwhile and cannot be pressed
 * twice.
 */
export function action_button(
    label: string,
    busy_label: string,
    look: string,
    work: () => Promise<void>,
    extra: Record<string, string> = {},
): HTMLButtonElement {
    const button = h("button", { type: "button", class: look, ...extra }, label);
    button.addEventListener("click", () => void run_busy(button, busy_label, work));
    return button;
}

/* Keeps the focus where it was: a disabled button loses it, aria-disabled does not. */
export async function run_busy(
    button: HTMLButtonElement,
    busy_label: string,
    work: () => Promise<void>,
): Promise<void> {
    if (button.getAttribute("aria-disabled") === "true") {
        return;
    }
    const label = button.textContent ?? "";
    button.setAttribute("aria-disabled", "true");
    button.textContent = busy_label;
    try {
        await work();
    } finally {
        button.textContent = label;
        button.removeAttribute("aria-disabled");
    }
}

export function field(label: string, control: HTMLElement, hint?: string): HTMLElement {
    const id = control.id || unique_id("field");
    control.id = id;
    const hint_element = hint ? h("p", { class: "hint", id: `${id}-hint` }, hint) : null;
    if (hint_element) {
        control.setAttribute("aria-describedby", hint_element.id);
    }
    return h("div", { class: "field" }, h("label", { for: id }, label), control, hint_element);
}

export interface Question {
    title: string;
    text: string;
    confirm: string;
    busy: string;
    action: string; /* completes "Could not …" */
    work: () => Promise<void>;
}

/*
 * Asks before something that cannot be undone. The dialog stays open while the work runs and shows
 * its failure; Escape and "Cancel" leave everything as it is. The browser gives the focus back.
 */
export function ask(question: Question): void {
    const problem = problem_box();
    const title_id = unique_id("dialog");
    const dialog = h("dialog", { "aria-labelledby": title_id });
    const cancel = h(
        "button",
        { type: "button", class: "plain", onclick: () => dialog.close() },
        "Cancel",
    );
    const confirm = action_button(question.confirm, question.busy, "danger", async () => {
        problem.clear();
        try {
            await question.work();
            dialog.close();
        } catch (error) {
            problem.show(problem_of(question.action, error));
        }
    });
    dialog.append(
        h("h2", { id: title_id }, question.title),
        h("p", null, question.text),
        problem.element,
        h("div", { class: "actions" }, cancel, confirm),
    );
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
    cancel.focus();
}

export interface Switch {
    element: HTMLElement;
    set(on: boolean): void;
    busy(): boolean;
    run(work: () => Promise<void>): Promise<void>;
}

/* On or off, at once. It cannot be turned again while the work runs. */
export function labelled_switch(label: string, turned: () => void): Switch {
    const control = h("input", { type: "checkbox", role: "switch", onchange: turned });
    return {
        element: h("label", { class: "switch" }, control, h("span", null, label)),
        set(on) {
            control.checked = on;
        },
        busy: () => control.disabled,
        async run(work) {
            control.disabled = true;
            try {
                await work();
            } finally {
                control.disabled = false;
                control.focus();
            }
        },
    };
}

/*
 * A button that opens and closes what belongs to it. `opened` is called with the panel visible:
 * for the focus, and for what is asked of the server only then.
 */
export interface Toggle {
    button: HTMLButtonElement;
    set(open: boolean): void;
    is_open(): boolean;
}

export function toggle(
    label: string,
    look: string,
    panel: HTMLElement,
    opened: () => void,
): Toggle {
    panel.id ||= unique_id("panel");
    panel.hidden = true;
    const button = h(
        "button",
        { type: "button", class: look, "aria-expanded": "false", "aria-controls": panel.id },
        label,
    );
    const set = (open: boolean): void => {
        panel.hidden = !open;
        set_attribute(button, "aria-expanded", String(open));
        if (open) {
            opened();
        }
    };
    button.addEventListener("click", () => set(panel.hidden !== false));
    return { button, set, is_open: () => panel.hidden === false };
}

/* A word after something was done: read out, and gone when the next thing begins. */
export interface Notice {
    element: HTMLElement;
    say(text: string, ...more: Child[]): void;
    clear(): void;
}

export function notice(): Notice {
    const element = h("p", { class: "notice", role: "status" });
    element.hidden = true;
    return {
        element,
        say(text, ...more) {
            fill(element, text, ...more);
            element.hidden = false;
        },
        clear() {
            element.hidden = true;
            fill(element);
        },
    };
}

export function check_box(label: string, checked: boolean): { element: HTMLElement; input: HTMLInputElement } {
    const input = h("input", { type: "checkbox", id: unique_id("check") });
    input.checked = checked;
    return { element: h("div", { class: "check" }, input, h("label", { for: input.id }, label)), input };
}
