/*
 * The page of usage: what was spent, by day, app, task and key; the budgets; the prices. What is
 * not known is said to be unknown.
 */
import { api_get, problem_of } from "./api.ts";
import type { Page } from "./app.ts";
import { load_apps } from "./apps.ts";
import { app_budget_place, BUDGET_PLACES, type BudgetPlace, type BudgetView, budget_view } from "./budgets.ts";
import { fill, h, keep_list, set_text, show } from "./dom.ts";
import { format_count, format_day, format_time, time_of_id } from "./format.ts";
import { recall, remember } from "./memory.ts";
import { cached_tokens, cost_text, short_count, unpriced_text } from "./money.ts";
import { poll_while_visible } from "./poll.ts";
import { price_panel, type PricePanel } from "./prices.ts";
import { hash_of_app, hash_of_provider } from "./routes.ts";
import type { App, Budget, Provider, Usage, UsageList } from "./types.ts";
import { field, problem_box } from "./ui.ts";

const USAGE_INTERVAL_MS = 10_000;
const PAGES_MAX = 10;
const PAGE_SIZE = 200;
const ROWS_MAX = 100;
const DAY_MS = 86_400_000;

const RANGES: [string, string, number | null][] = [
    ["1", "Today", 1],
    ["7", "7 days", 7],
    ["30", "30 days", 30],
    ["all", "Everything", null],
];
const GROUPS: [string, string][] = [
    ["day", "Day"],
    ["app_id", "App"],
    ["task_id", "Task"],
    ["key_id", "Key"],
    ["provider", "Provider"],
    ["model", "Model"],
    ["agent", "Agent"],
];

/* The first day of the last `days` days, UTC as the server counts them. */
export function first_day(days: number, now_ms: number): string {
    return new Date(now_ms - (days - 1) * DAY_MS).toISOString().slice(0, 10);
}

/* Every line of an answer that comes in pages; `more` when even ten did not hold all. */
async function load_usage(query: string): Promise<{ list: UsageList; more: boolean }> {
    let cursor = "";
    const usage: Usage[] = [];
    for (let page = 1; ; page += 1) {
        const after = cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`;
        const list = await api_get<UsageList>(`/v1/usage?limit=${PAGE_SIZE}${query}${after}`);
        usage.push(...list.usage);
        if (!list.next_cursor || page === PAGES_MAX) {
            return { list: { ...list, usage }, more: list.next_cursor !== null };
        }
        cursor = list.next_cursor;
    }
}

/* Whose model it is that was asked without a known price; undefined when that cannot be told. */
async function provider_of_model(model: string): Promise<string | undefined> {
    const { list } = await load_usage("&group=provider");
    for (const { provider, unpriced_requests } of list.usage) {
        if (provider && unpriced_requests > 0) {
            const asked = await load_usage(`&group=model&provider=${encodeURIComponent(provider)}`);
            if (asked.list.usage.some((line) => line.model === model && line.unpriced_requests > 0)) {
                return provider;
            }
        }
    }
    return undefined;
}

/* What the lines are called: names of apps and providers, as far as they are still there. */
interface Names {
    apps: App[];
    providers: Provider[];
}

function line_name(group: string, line: Usage, names: Names): Node | string {
    const value = line[group as keyof Usage] as string | null | undefined;
    if (group === "day") {
        return format_day(line.day);
    }
    if (!value) {
        return group === "key_id" ? "Without a key" : "unknown";
    }
    switch (group) {
        case "app_id": {
            const app = names.apps.find((one) => one.id === value);
            return app
                ? h("a", { class: "app-name", href: hash_of_app(app.id) }, app.name)
                : `A deleted app (…${value.slice(-6)})`;
        }
        case "task_id": {
            const app = names.apps.find((one) => one.id === line.app_id);
            return h(
                "span",
                { title: value },
                app ? h("a", { class: "app-name", href: hash_of_app(app.id) }, app.name) : "A deleted app",
                h("span", { class: "hint" }, ` ${format_time(time_of_id(value))}`),
            );
        }
        case "key_id": {
            const owner = names.providers.find((one) => one.key_id === value);
            return owner
                ? h("a", { class: "app-name", href: hash_of_provider(owner.id) }, `${owner.label}, present key`)
                : `A former key (…${value.slice(-6)})`;
        }
        case "provider":
            return names.providers.find((one) => one.id === value)?.label ?? value;
        default:
            return value;
    }
}

function by_cost(a: Usage, b: Usage): number {
    const tokens = (line: Usage): number =>
        line.tokens.input + line.tokens.output + cached_tokens(line);
    return (b.cost_microusd ?? 0) - (a.cost_microusd ?? 0) || tokens(b) - tokens(a);
}

/* Days and tasks: the newest first, and ids sort by time. The rest: what costs most. */
export function in_order(group: string, lines: Usage[]): Usage[] {
    return group === "day" || group === "task_id" ? [...lines].reverse() : [...lines].sort(by_cost);
}

function usage_row(group: string, line: Usage, names: Names, prices: PricePanel): HTMLElement {
    const cell = (label: string, value: string): HTMLElement =>
        h("td", { role: "cell", "data-label": label }, value);
    const model = line.model;
    const set_price =
        group === "model" && line.unpriced_requests > 0 && model
            ? h(
                  "button",
                  {
                      type: "button",
                      class: "plain small",
                      "aria-label": `Set a price for ${model}`,
                      onclick: () =>
                          void provider_of_model(model)
                              .catch(() => undefined) /* then the person chooses it */
                              .then((provider) => prices.set_price(model, provider)),
                  },
                  "Set a price",
              )
            : null;
    return h(
        "tr",
        { role: "row" },
        h("th", { scope: "row", role: "rowheader" }, line_name(group, line, names)),
        h(
            "td",
            { role: "cell", class: "cost", title: unpriced_text(line) || null },
            cost_text(line),
            set_price,
        ),
        cell("in", short_count(line.tokens.input)),
        cell("out", short_count(line.tokens.output)),
        cell("cached", short_count(cached_tokens(line))),
        cell("requests", format_count(line.requests)),
    );
}

const COLUMNS = ["Cost", "Tokens in", "Out", "Cached", "Requests"];

function spend_panel(names: () => Promise<Names>, prices: PricePanel): {
    element: HTMLElement;
    load(): Promise<void>;
    listen(changed: () => void): void;
} {
    const range = h("select", null);
    fill(range, ...RANGES.map(([value, text]) => h("option", { value }, text)));
    range.value = recall("browser", "usage.range") ?? "30";
    const group = h("select", null);
    fill(group, ...GROUPS.map(([value, text]) => h("option", { value }, text)));
    group.value = recall("browser", "usage.group") ?? "day";
    for (const [select, fallback] of [[range, "30"], [group, "day"]] as const) {
        select.value ||= fallback;
    }
    const totals = h("dl", { class: "totals" });
    const unpriced = h("p", { class: "line line-warn" });
    const empty = h("p", { class: "empty" }, "Nothing was spent in this time.");
    const rows = h("tbody", { role: "rowgroup" });
    const first = h("th", { scope: "col", role: "columnheader" });
    const head = (text: string): HTMLElement => h("th", { scope: "col", role: "columnheader" }, text);
    const table = h(
        "table",
        { class: "figures", role: "table", "aria-label": "Usage" },
        h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, first, ...COLUMNS.map(head))),
        rows,
    );
    const more = h("p", { class: "hint" });
    let shown = "";
    let latest = 0;

    function render(list: UsageList, known: Names, more_pages: boolean): void {
        const wanted = JSON.stringify([list, group.value, known.apps.length, known.providers]);
        if (wanted === shown) {
            return;
        }
        shown = wanted;
        const { total } = list;
        const fact = (name: string, value: string): HTMLElement =>
            h("div", null, h("dt", null, name), h("dd", null, value));
        fill(
            totals,
            fact("Cost", total.requests === 0 ? "$0.00" : cost_text(total)),
            fact("Tokens in", short_count(total.tokens.input)),
            fact("Tokens out", short_count(total.tokens.output)),
            fact("Tokens cached", short_count(cached_tokens(total))),
            fact("Requests", format_count(total.requests)),
        );
        set_text(unpriced, unpriced_text(total));
        show(unpriced, total.unpriced_requests > 0);
        const lines = in_order(group.value, list.usage);
        set_text(first, GROUPS.find(([value]) => value === group.value)?.[1] ?? "");
        fill(
            rows,
            ...lines.slice(0, ROWS_MAX).map((line) => usage_row(group.value, line, known, prices)),
        );
        show(table, lines.length > 0);
        show(empty, lines.length === 0);
        const rest = lines.length - ROWS_MAX;
        set_text(
            more,
            rest > 0 || more_pages
                ? "There are more lines than are shown. A shorter time shows the rest; the sums above have all of it."
                : "",
        );
    }
    return {
        element: h(
            "section",
            { "aria-labelledby": "spend-title", class: "spend" },
            h("h2", { id: "spend-title", class: "section-title" }, "What was spent"),
            h("div", { class: "filters" }, field("Time", range), field("By", group)),
            totals,
            unpriced,
            empty,
            table,
            more,
        ),
        async load() {
            const mine = (latest += 1);
            const days = RANGES.find(([value]) => value === range.value)?.[2] ?? null;
            const from = days === null ? "" : `&from=${first_day(days, Date.now())}`;
            const [known, { list, more: more_pages }] = await Promise.all([
                names(),
                load_usage(`&group=${group.value}${from}`),
            ]);
            if (mine === latest) {
                render(list, known, more_pages);
            }
        },
        listen(changed) {
            for (const [select, name] of [[range, "usage.range"], [group, "usage.group"]] as const) {
                select.addEventListener("change", () => {
                    remember("browser", name, select.value);
                    changed();
                });
            }
        },
    };
}

function budget_panel(changed: () => void): {
    element: HTMLElement;
    title: HTMLElement;
    update(budgets: Budget[], apps: App[]): void;
} {
    const list = h("ul", { class: "card-list wide-list" });
    const views = new Map<string, BudgetView>();
    const title = h("h2", { id: "budgets-title", class: "section-title", tabindex: "-1" }, "Budgets");
    return {
        title,
        element: h(
            "section",
            { "aria-labelledby": "budgets-title" },
            title,
            h(
                "p",
                { class: "hint" },
                "A task stops before the request that could go over a budget, and its work is kept. The budget of an app is set on its page.",
            ),
            list,
        ),
        update(budgets, apps) {
            const of_apps = budgets
                .filter((budget) => budget.scope === "app" && budget.app_id)
                .map((budget) => {
                    const app = apps.find((one) => one.id === budget.app_id);
                    return app_budget_place(budget.app_id ?? "", app?.name ?? "An app", true);
                });
            const places: BudgetPlace[] = [...BUDGET_PLACES, ...of_apps];
            keep_list(
                list,
                views,
                places.map((place) => ({ key: place.path + place.title, item: place })),
                (place) => budget_view(place, "li", changed),
                (view, place) =>
                    view.update(
                        budgets.find(
                            (budget) =>
                                budget.scope === place.scope &&
                                (place.scope !== "app" || place.path.includes(budget.app_id ?? " ")),
                        ) ?? null,
                    ),
            );
        },
    };
}

/* `part`: where to begin, "budgets" or "prices". */
export function usage_page(part: string): Page {
    const problem = problem_box();
    let to_show = part;
    let names: Names = { apps: [], providers: [] };
    const load_providers = async (): Promise<Provider[]> =>
        (await api_get<{ providers?: Provider[] }>("/v1/providers")).providers ?? [];
    const prices = price_panel(load_providers);
    const spend = spend_panel(async () => {
        const [{ apps }, providers] = await Promise.all([load_apps(), load_providers()]);
        names = { apps, providers };
        return names;
    }, prices);
    const changed = (): void => poller.now();
    const budgets = budget_panel(changed);
    const body = h("div", { class: "settings" }, spend.element, budgets.element, prices.element);
    body.hidden = true;
    const poller = poll_while_visible(USAGE_INTERVAL_MS, async () => {
        try {
            const [answer] = await Promise.all([
                api_get<{ budgets?: Budget[] }>("/v1/budgets"),
                spend.load(),
            ]);
            budgets.update(answer.budgets ?? [], names.apps);
            show(body, true);
            problem.clear();
            if (to_show === "budgets") {
                budgets.title.scrollIntoView({ block: "start" });
                budgets.title.focus({ preventScroll: true });
            } else if (to_show === "prices") {
                prices.open();
            }
            to_show = "";
        } catch (error) {
            problem.show(problem_of("load the usage", error));
        }
    });
    spend.listen(changed);
    return {
        element: h(
            "div",
            null,
            h("div", { class: "page-head" }, h("h1", { tabindex: "-1" }, "Usage")),
            problem.element,
            body,
        ),
        title: "Usage",
        stop: poller.stop,
    };
}
