/*
 * The prices that costs are computed with: those that come with sandboxd, and the owner's own,
 * which win. Asked for only when somebody looks.
 */
import { api_delete, api_get, api_put, problem_of } from "./api.ts";
import { fill, h, set_text, show } from "./dom.ts";
import { format_count } from "./format.ts";
import { format_usd, microusd_of_text, RATE_MAX, usd_field } from "./money.ts";
import type { Price, Provider } from "./types.ts";
import { ask, field, problem_box, run_busy, toggle } from "./ui.ts";

const ROWS_MAX = 60;
const MODEL_CHARS_MAX = 200;
const RATES = ["input", "output", "cached_read", "cached_write"] as const;
type Rate = (typeof RATES)[number];
const RATE_WORDS: Record<Rate, string> = {
    input: "Input",
    output: "Output",
    cached_read: "Cached, read",
    cached_write: "Cached, written",
};

export function matching_prices(prices: Price[], provider: string, words: string): Price[] {
    const wanted = words.toLowerCase().split(/\s+/).filter((word) => word !== "");
    return prices.filter(
        (price) =>
            (provider === "" || price.provider === provider) &&
            wanted.every((word) => `${price.provider}/${price.model}`.toLowerCase().includes(word)),
    );
}

function rate_input(value: number | undefined): HTMLInputElement {
    const input = h("input", { type: "text", inputmode: "decimal", autocomplete: "off", maxlength: 20 });
    input.value = usd_field(value);
    return input;
}

export interface PricePanel {
    element: HTMLElement;
    open(): void;
    /* Opens the form for a model that has no price yet. */
    set_price(model: string, provider?: string): void;
}

interface Form {
    element: HTMLElement;
    focus(): void;
}

function price_form(price: Partial<Price>, providers: Provider[], done: () => void): Form {
    const problem = problem_box();
    const provider = h("select", null);
    fill(provider, ...providers.map(({ id, label }) => h("option", { value: id }, label)));
    provider.value = price.provider ?? providers[0]?.id ?? "";
    const model = h("input", {
        type: "text",
        required: true,
        maxlength: MODEL_CHARS_MAX,
        spellcheck: "false",
        autocomplete: "off",
    });
    model.value = price.model ?? "";
    const inputs: Record<Rate, HTMLInputElement> = {
        input: rate_input(price.input),
        output: rate_input(price.output),
        cached_read: rate_input(price.cached_read),
        cached_write: rate_input(price.cached_write),
    };
    inputs.input.required = true;
    inputs.output.required = true;
    const submit = h("button", { type: "submit", class: "primary small" }, "Save price");
    const form = h(
        "form",
        { class: "key-form" },
        h(
            "div",
            { class: "pair" },
            field("Provider", provider),
            field("Model", model, "As the provider names it; * is every model without a price."),
        ),
        h("p", { class: "hint" }, "US dollars for a million tokens. Cached ones cost what input costs where nothing is typed."),
        h("div", { class: "pair four" }, ...RATES.map((rate) => field(RATE_WORDS[rate], inputs[rate]))),
        problem.element,
        submit,
    );
    form.addEventListener("submit", (event) => {
        event.preventDefault();
        void run_busy(submit, "Saving …", async () => {
            problem.clear();
            const body: Record<string, unknown> = {
                provider: provider.value,
                model: model.value.trim(),
            };
            for (const rate of RATES) {
                const value = microusd_of_text(inputs[rate].value, RATE_MAX);
                if (typeof value === "string") {
                    problem.show({ what: "The price was not set.", why: value, next: "" });
                    inputs[rate].focus();
                    return;
                }
                if (value !== null) {
                    body[rate] = value;
                }
            }
            try {
                await api_put("/v1/prices", body);
                done();
            } catch (error) {
                problem.show(problem_of("set the price", error));
            }
        });
    });
    const first = (): HTMLElement =>
        model.value === "" ? model : price.provider === undefined ? provider : inputs.input;
    return { element: form, focus: () => first().focus() };
}

function price_row(
    price: Price,
    label: string,
    edit: (price: Price) => void,
    changed: () => void,
): HTMLElement {
    const name = `${price.model} of ${label}`;
    const change = h(
        "button",
        {
            type: "button",
            class: "plain small",
            "aria-label": `Change the price of ${name}`,
            onclick: () => edit(price),
        },
        "Change",
    );
    const take_back = h(
        "button",
        {
            type: "button",
            class: "plain small warn",
            "aria-label": `Take back the price of ${name}`,
            onclick: () =>
                ask({
                    title: "Take your own price back?",
                    text: `${name} costs what sandboxd knows of it again, or nobody knows what.`,
                    confirm: "Take back",
                    busy: "Taking it back …",
                    action: "take the price back",
                    work: async () => {
                        await api_delete(
                            `/v1/prices?provider=${encodeURIComponent(price.provider)}&model=${encodeURIComponent(price.model)}`,
                        );
                        changed();
                    },
                }),
        },
        "Take back",
    );
    const cell = (name: string, text: string): HTMLElement =>
        h("td", { role: "cell", "data-label": name }, text);
    return h(
        "tr",
        { role: "row" },
        h(
            "th",
            { scope: "row", role: "rowheader" },
            h("span", { class: "model" }, price.model === "*" ? "every other model" : price.model),
            h("span", { class: "hint" }, label, price.is_own ? h("strong", null, " · your own") : null),
        ),
        ...RATES.map((rate) => cell(RATE_WORDS[rate], format_usd(price[rate]))),
        h(
            "td",
            { role: "cell", class: "do" },
            h("div", { class: "actions" }, change, price.is_own ? take_back : null),
        ),
    );
}

export function price_panel(load_providers: () => Promise<Provider[]>): PricePanel {
    const problem = problem_box();
    const summary = h("p", { class: "hint" }, "Loading …");
    const words = h("input", { type: "search", placeholder: "sonnet", autocomplete: "off", spellcheck: "false" });
    const provider = h("select", null);
    const rows = h("tbody", { role: "rowgroup" });
    const table = h(
        "table",
        { class: "figures prices", role: "table", "aria-label": "Prices" },
        h(
            "thead",
            { role: "rowgroup" },
            h(
                "tr",
                { role: "row" },
                h("th", { scope: "col", role: "columnheader" }, "Model"),
                ...RATES.map((rate) => h("th", { scope: "col", role: "columnheader" }, RATE_WORDS[rate])),
                h("th", { scope: "col", role: "columnheader" }, h("span", { class: "sr" }, "Actions")),
            ),
        ),
        rows,
    );
    const more = h("p", { class: "hint", role: "status" });
    const form_place = h("div", { class: "card ways" });
    let prices: Price[] = [];
    let providers: Provider[] = [];
    let wanted: Partial<Price> = {};
    const add = toggle("Set a price of your own", "plain small", form_place, () => {
        const form = price_form(wanted, providers, () => {
            add.set(false);
            add.button.focus();
            void load();
        });
        fill(form_place, form.element);
        form.focus();
        wanted = {};
    });
    const body = h(
        "div",
        { class: "spend price-list" },
        summary,
        problem.element,
        h("div", { class: "filters" }, field("Provider", provider), field("Search", words)),
        h("div", { class: "actions" }, add.button),
        form_place,
        table,
        more,
    );
    function edit(price: Partial<Price>): void {
        wanted = price;
        add.set(true);
        form_place.scrollIntoView({ block: "nearest" });
    }
    function render(): void {
        const label_of = (id: string): string =>
            providers.find((one) => one.id === id)?.label ?? id;
        const found = matching_prices(prices, provider.value, words.value);
        const shown = found.slice(0, ROWS_MAX);
        fill(rows, ...shown.map((price) => price_row(price, label_of(price.provider), edit, () => void load())));
        show(table, shown.length > 0);
        set_text(
            more,
            found.length === 0
                ? "No price fits. A model without one has an unknown cost."
                : found.length > shown.length
                  ? `${format_count(found.length - shown.length)} more; search to see them.`
                  : "",
        );
    }
    async function load(): Promise<void> {
        try {
            const [list, answer] = await Promise.all([
                load_providers(),
                api_get<{ prices?: Price[] }>("/v1/prices"),
            ]);
            providers = list;
            prices = (answer.prices ?? []).sort(
                (a, b) => Number(b.is_own) - Number(a.is_own),
            );
            const chosen = provider.value;
            fill(
                provider,
                h("option", { value: "" }, "All"),
                ...providers.map(({ id, label }) => h("option", { value: id }, label)),
            );
            provider.value = chosen;
            const own = prices.filter((price) => price.is_own).length;
            set_text(
                summary,
                `US dollars for a million tokens; ${format_count(prices.length)} models, ${own === 0 ? "none" : format_count(own)} of them set by you. What the provider bills is what counts.`,
            );
            problem.clear();
            render();
        } catch (error) {
            problem.show(problem_of("load the prices", error));
        }
    }
    words.addEventListener("input", render);
    provider.addEventListener("change", render);
    let loaded = Promise.resolve();
    const see = toggle("Show the prices", "plain small", body, () => {
        set_text(see.button, "Hide the prices");
        loaded = load();
    });
    see.button.addEventListener("click", () =>
        set_text(see.button, see.is_open() ? "Hide the prices" : "Show the prices"),
    );
    const title = h("h2", { id: "prices-title", class: "section-title", tabindex: "-1" }, "Prices");
    return {
        element: h(
            "section",
            { "aria-labelledby": "prices-title" },
            title,
            h(
                "p",
                { class: "hint" },
                "Costs are computed with these, or told by the provider where it does. A model without a price has an unknown cost.",
            ),
            h("div", { class: "actions" }, see.button),
            body,
        ),
        open() {
            see.set(true);
            title.scrollIntoView({ block: "start" });
        },
        set_price(model, of) {
            see.set(true);
            void loaded.then(() => {
                edit(of === undefined ? { model } : { model, provider: of });
            });
        },
    };
}
