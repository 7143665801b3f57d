/*
 * Budgets: what is set, how much of it is used up, and the form that sets one. The same view stands
 * on the page of usage and on that of an app.
 */
import { api_delete, api_put, problem_of } from "./api.ts";
import { fill, h, set_attribute, set_text, show } from "./dom.ts";
import { format_time, type Tone } from "./format.ts";
import {
    budget_share,
    budget_used_text,
    LIMIT_MAX,
    limit_text,
    microusd_of_text,
    tokens_of_text,
    usd_field,
} from "./money.ts";
import type { Budget } from "./types.ts";
import { ask, badge, check_box, field, type ProblemBox, problem_box, run_busy, toggle } from "./ui.ts";

export interface BudgetPlace {
    scope: string;
    title: string;
    note: string; /* what it counts, and what a limit does */
    path: string; /* of the API */
    link?: string; /* of the page that it belongs to */
}

export const BUDGET_PLACES: BudgetPlace[] = [
    {
        scope: "installation",
        title: "This installation",
        note: "Everything since it was set.",
        path: "/v1/budgets/installation",
    },
    {
        scope: "day",
        title: "Each day",
        note: "Everything since midnight UTC.",
        path: "/v1/budgets/day",
    },
    {
        scope: "task",
        title: "Each task",
        note: "What one task may use up that is given no budget of its own.",
        path: "/v1/budgets/task",
    },
];

/* `linked`: its title leads to the page of the app. */
export function app_budget_place(app_id: string, title: string, linked: boolean): BudgetPlace {
    return {
        scope: "app",
        title,
        note: "Everything of this app since it was set.",
        path: `/v1/apps/${app_id}/budget`,
        ...(linked ? { link: `#/apps/${app_id}` } : {}),
    };
}

export function budget_word(budget: Budget | null): [string, Tone] {
    if (!budget) {
        return ["No limit", "idle"];
    }
    switch (budget.status) {
        case "reached":
            return ["Reached", "bad"];
        case "warning":
            return ["Nearly used up", "busy"];
        default:
            return budget_share(budget) === null ? ["Set", "good"] : ["Within budget", "good"];
    }
}

/* What stands in the way, and what takes it out of the way. */
function standing_text(budget: Budget): string {
    if (budget.status === "reached") {
        const wait = budget.scope === "day" ? ", or wait for midnight UTC" : "";
        return `Too little is left for the next request: tasks are refused. Raise it, or count anew${wait}.`;
    }
    if (budget.status === "warning") {
        return "More than 80 % is used up. At 100 % tasks stop, with their work kept.";
    }
    return "";
}

interface Limits {
    limit_microusd: number | null;
    limit_tokens: number | null;
}

/* Both fields; null with the problem shown. */
function read_limits(
    money: HTMLInputElement,
    tokens: HTMLInputElement,
    problem: ProblemBox,
): Limits | null {
    const limit_microusd = microusd_of_text(money.value, LIMIT_MAX);
    const limit_tokens = tokens_of_text(tokens.value);
    const wrong =
        typeof limit_microusd === "string"
            ? limit_microusd
            : typeof limit_tokens === "string"
              ? limit_tokens
              : limit_microusd === null && limit_tokens === null
                ? "Neither field has a limit in it."
                : "";
    if (wrong !== "" || typeof limit_microusd === "string" || typeof limit_tokens === "string") {
        problem.show({
            what: "The budget was not set.",
            why: wrong,
            next: "“Remove” takes a budget away.",
        });
        (typeof limit_tokens === "string" ? tokens : money).focus();
        return null;
    }
    return { limit_microusd, limit_tokens };
}

function budget_form(
    place: BudgetPlace,
    budget: Budget | null,
    done: () => void,
): { element: HTMLElement; focus(): void } {
    const problem = problem_box();
    const money = h("input", { type: "text", inputmode: "decimal", autocomplete: "off", maxlength: 32 });
    money.value = usd_field(budget?.limit_microusd);
    const tokens = h("input", { type: "text", autocomplete: "off", maxlength: 32 });
    tokens.value = budget?.limit_tokens?.toLocaleString("en-US") ?? "";
    const unknown = check_box(
        "Let models pass whose price is not known",
        budget?.allow_unknown_price ?? false,
    );
    const submit = h("button", { type: "submit", class: "primary small" }, "Save budget");
    const form = h(
        "form",
        { class: "key-form" },
        h(
            "div",
            { class: "pair" },
            field("US dollars", money, "Empty: no limit in money."),
            field("Tokens", tokens, "Of every kind together. Empty: no limit."),
        ),
        unknown.element,
        h(
            "p",
            { class: "hint" },
            "Without that, a limit in money refuses such models: nobody could say what they use up.",
        ),
        problem.element,
        submit,
    );
    form.addEventListener("submit", (event) => {
        event.preventDefault();
        void run_busy(submit, "Saving …", async () => {
            problem.clear();
            const limits = read_limits(money, tokens, problem);
            if (!limits) {
                return;
            }
            try {
                await api_put(place.path, {
                    ...limits,
                    allow_unknown_price: unknown.input.checked,
                });
                done();
            } catch (error) {
                problem.show(problem_of("set the budget", error));
            }
        });
    });
    return { element: form, focus: () => money.focus() };
}

export interface BudgetView {
    element: HTMLElement;
    update(budget: Budget | null): void;
}

export function budget_view(place: BudgetPlace, tag: "li" | "div", changed: () => void): BudgetView {
    let budget: Budget | null = null;
    const title = place.link
        ? h("a", { class: "app-name", href: place.link }, place.title)
        : place.title;
    const state = badge();
    const limit = h("p", { class: "budget-limit" });
    const used = h("p", { class: "hint" });
    const bar = h("progress", { max: 1, "aria-label": `${place.title}: used up` });
    const standing = h("p", { class: "line" });
    const panel = h("div", { class: "ways" });
    const edit = toggle("Set a budget", "plain small", panel, () => {
        const form = budget_form(place, budget, () => {
            edit.set(false);
            edit.button.focus();
            changed();
        });
        fill(panel, form.element);
        form.focus();
    });
    const reset = h("button", { type: "button", class: "plain small" }, "Count anew");
    const remove = h("button", { type: "button", class: "plain small warn" }, "Remove");
    reset.addEventListener("click", () => ask_reset(place, budget, changed));
    remove.addEventListener("click", () => ask_remove(place, changed));
    for (const [button, word] of [[reset, "Count anew"], [remove, "Remove"]] as const) {
        set_attribute(button, "aria-label", `${word}: ${place.title}`);
    }
    return {
        element: h(
            tag,
            { class: tag === "li" ? "card budget" : "budget", "data-budget": place.scope },
            h("div", { class: "app-head" }, h("h3", null, title), state.element),
            limit,
            bar,
            used,
            standing,
            h("div", { class: "actions" }, edit.button, reset, remove),
            panel,
        ),
        update(latest) {
            budget = latest;
            const share = latest ? budget_share(latest) : null;
            state.set(...budget_word(latest));
            set_text(limit, latest ? limit_text(latest) : place.note);
            set_attribute(limit, "class", latest ? "budget-limit" : "hint");
            show(bar, share !== null);
            set_attribute(bar, "value", (share ?? 0).toFixed(3));
            set_attribute(bar, "data-tone", budget_word(latest)[1]);
            set_text(used, latest ? used_text(latest, place) : "");
            show(used, latest !== null);
            set_text(standing, latest ? standing_text(latest) : "");
            show(standing, standing.textContent !== "");
            set_attribute(standing, "class", latest?.status === "reached" ? "line line-error" : "line line-warn");
            set_text(edit.button, latest ? "Edit" : "Set a budget");
            set_attribute(
                edit.button,
                "aria-label",
                `${latest ? "Edit" : "Set a budget"}: ${place.title}`,
            );
            show(reset, share !== null);
            show(remove, latest !== null);
        },
    };
}

function used_text(budget: Budget, place: BudgetPlace): string {
    const counted = budget_used_text(budget);
    const since =
        budget.since && budget.scope !== "task" ? `since ${format_time(budget.since)}` : "";
    const passes = budget.allow_unknown_price ? "models without a known price pass" : "";
    const facts = [counted === "" ? place.note : counted, since, passes];
    return facts.filter((text) => text !== "").join(" · ");
}

function ask_reset(place: BudgetPlace, budget: Budget | null, changed: () => void): void {
    ask({
        title: `Count “${place.title}” anew?`,
        text: "What is used up so far counts no longer in this budget. The record of usage stays.",
        confirm: "Count anew",
        busy: "Saving …",
        action: "count the budget anew",
        work: async () => {
            await api_put(place.path, {
                limit_microusd: budget?.limit_microusd ?? null,
                limit_tokens: budget?.limit_tokens ?? null,
                allow_unknown_price: budget?.allow_unknown_price ?? false,
                reset: true,
            });
            changed();
        },
    });
}

function ask_remove(place: BudgetPlace, changed: () => void): void {
    ask({
        title: `Remove the budget “${place.title}”?`,
        text: "Nothing limits spend there any more.",
        confirm: "Remove",
        busy: "Removing …",
        action: "remove the budget",
        work: async () => {
            await api_delete(place.path);
            changed();
        },
    });
}
