/* The card of an app's page that says what the app has cost so far, and what it may cost. */
import { api_get, problem_of } from "./api.ts";
import { app_budget_place, budget_view } from "./budgets.ts";
import { fill, h, set_text, show } from "./dom.ts";
import { format_count } from "./format.ts";
import { cached_tokens, cost_text, short_count, unpriced_text } from "./money.ts";
import { poll_while_visible } from "./poll.ts";
import type { Budget, UsageList } from "./types.ts";
import { problem_box } from "./ui.ts";

const SPEND_INTERVAL_MS = 10_000;

export interface SpendCard {
    element: HTMLElement;
    refresh(): void;
    stop(): void;
}

/* `told` gets all budgets whenever they were asked for. */
export function app_spend_card(app_id: string, told: (budgets: Budget[]) => void): SpendCard {
    const problem = problem_box();
    const facts = h("dl", { class: "facts" });
    const unpriced = h("p", { class: "hint" });
    const budget = budget_view(app_budget_place(app_id, "Budget of this app", false), "div", () => poller.now());
    const body = h("div", { class: "stack" }, facts, unpriced, budget.element);
    body.hidden = true;
    const element = h(
        "section",
        { class: "card app-spend", "aria-labelledby": "app-spend-title" },
        h("h2", { id: "app-spend-title" }, "Usage"),
        problem.element,
        body,
        h("p", { class: "hint" }, h("a", { href: "#/usage" }, "Usage of everything")),
    );
    let shown = "";
    const poller = poll_while_visible(SPEND_INTERVAL_MS, async () => {
        try {
            const [{ total }, { budgets }] = await Promise.all([
                api_get<UsageList>(`/v1/usage?app_id=${app_id}`),
                api_get<{ budgets?: Budget[] }>("/v1/budgets"),
            ]);
            const rows: [string, string][] = [
                ["Cost", total.requests === 0 ? "nothing yet" : cost_text(total)],
                ["Tokens in", short_count(total.tokens.input)],
                ["Tokens out", short_count(total.tokens.output)],
                ["Tokens cached", short_count(cached_tokens(total))],
                ["Requests", format_count(total.requests)],
            ];
            if (JSON.stringify(rows) !== shown) {
                shown = JSON.stringify(rows);
                fill(facts, ...rows.flatMap(([name, value]) => [h("dt", null, name), h("dd", null, value)]));
            }
            set_text(unpriced, unpriced_text(total));
            show(unpriced, total.unpriced_requests > 0);
            told(budgets ?? []);
            budget.update(budgets?.find((one) => one.app_id === app_id) ?? null);
            show(body, true);
            problem.clear();
        } catch (error) {
            problem.show(problem_of("load the usage", error));
        }
    });
    return { element, refresh: () => poller.now(), stop: poller.stop };
}
