/*
 * Money, tokens and budgets in words for people, and back. Money is whole millionths of a US dollar
 * everywhere; a cost that nobody knows is said to be unknown and never shown as nothing. No DOM:
 * node's test runner runs this file.
 */
import { format_count } from "./format.ts";
import type { Budget, Usage } from "./types.ts";

const MICRO = 1_000_000;
export const LIMIT_MAX = 1_000_000_000_000; /* of a budget, in either unit */
export const RATE_MAX = 1_000_000_000; /* of a price */

/* Cents where cents say it; finer where a request costs a fraction of one. */
export function format_usd(microusd: number): string {
    if (microusd === 0) {
        return "$0.00";
    }
    const usd = Math.abs(microusd) / MICRO;
    const text =
        usd >= 1
            ? usd.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })
            : usd >= 0.01
              ? usd.toFixed(usd < 0.1 ? 3 : 2)
              : usd.toFixed(6).replace(/0+$/, "");
    return `${microusd < 0 ? "−" : ""}$${text}`;
}

/* What a field holds: every digit, so that saving it unchanged changes nothing. */
export function usd_field(microusd: number | null | undefined): string {
    if (microusd === null || microusd === undefined) {
        return "";
    }
    const fraction = String(microusd % MICRO).padStart(6, "0").replace(/0+$/, "").padEnd(2, "0");
    return `${Math.floor(microusd / MICRO)}.${fraction}`;
}

/* "12.50" or "$12.50" in millionths; null for nothing typed, a sentence for what is no amount. */
export function microusd_of_text(text: string, max: number): number | null | string {
    const typed = text.trim().replace(/^\$\s*/, "");
    if (typed === "") {
        return null;
    }
    const parts = /^(\d{1,9})(?:\.(\d{1,6}))?$/.exec(typed);
    if (!parts) {
        return `“${text.trim()}” is no amount. Write dollars like 5 or 0.25.`;
    }
    const value = Number(parts[1]) * MICRO + Number((parts[2] ?? "").padEnd(6, "0"));
    return value <= max ? value : `At most ${format_usd(max)} can be set.`;
}

/* "200000", "200 000", "200,000", "200k" or "1.5M"; the same three answers. */
export function tokens_of_text(text: string): number | null | string {
    const typed = text.trim().replace(/[\s,_]/g, "");
    if (typed === "") {
        return null;
    }
    const parts = /^(\d{1,13}(?:\.\d{1,6})?)([kKmM]?)$/.exec(typed);
    const unit = { "": 1, k: 1_000, m: MICRO }[(parts?.[2] ?? "").toLowerCase()] ?? 1;
    const value = Number(parts?.[1]) * unit;
    if (!parts || !Number.isInteger(value)) {
        return `“${text.trim()}” is no number of tokens. Write 200000, 200k or 1.5M.`;
    }
    return value <= LIMIT_MAX ? value : `At most ${format_count(LIMIT_MAX)} tokens can be set.`;
}

/* "$1.20", "unknown", or what is known and how much of it is not. */
export function cost_text(spend: {
    cost_microusd: number | null;
    requests: number;
    unpriced_requests: number;
}): string {
    if (spend.cost_microusd === null) {
        return "unknown";
    }
    const known = format_usd(spend.cost_microusd);
    return spend.unpriced_requests > 0 ? `at least ${known}` : known;
}

/* A note to a sum that some requests are not in; "" when all of them are. */
export function unpriced_text(spend: { requests: number; unpriced_requests: number }): string {
    const { requests, unpriced_requests } = spend;
    if (unpriced_requests === 0) {
        return "";
    }
    return unpriced_requests === requests
        ? `No request (of ${format_count(requests)}) has a known price.`
        : `${format_count(unpriced_requests)} of ${format_count(requests)} requests have no known price and are in no cost.`;
}

export function cached_tokens(usage: Usage): number {
    return usage.tokens.cached_read + usage.tokens.cached_write;
}

/* 12,345 in a table; 1.2M where there is no room for it. */
export function short_count(value: number): string {
    if (value < 100_000) {
        return format_count(value);
    }
    return value < 10 * MICRO
        ? `${(value / 1_000).toLocaleString("en-US", { maximumFractionDigits: 0 })}k`
        : `${(value / MICRO).toLocaleString("en-US", { maximumFractionDigits: 1 })}M`;
}

export function tokens_text(count: number): string {
    return `${format_count(count)} ${count === 1 ? "token" : "tokens"}`;
}

/* "$5.00", "200,000 tokens", or both: whichever is reached first. */
export function limit_text(limits: {
    limit_microusd: number | null;
    limit_tokens: number | null;
}): string {
    const parts = [];
    if (limits.limit_microusd !== null) {
        parts.push(format_usd(limits.limit_microusd));
    }
    if (limits.limit_tokens !== null) {
        parts.push(tokens_text(limits.limit_tokens));
    }
    return parts.join(" or ");
}

/* How much of a budget is used up, 0 to 1, by the limit that is nearer; null where nothing counts. */
export function budget_share(budget: Budget): number | null {
    const share = (used: number | null, limit: number | null): number =>
        used === null || limit === null ? 0 : limit === 0 ? 1 : Math.min(1, used / limit);
    if (budget.used_microusd === null && budget.used_tokens === null) {
        return null;
    }
    return Math.max(
        share(budget.used_microusd, budget.limit_microusd),
        share(budget.used_tokens, budget.limit_tokens),
    );
}

const SCOPE_WORDS: Record<string, string> = {
    app: "this app",
    day: "this day (UTC)",
    installation: "this installation",
};

/*
 * The budget that stands in the way of the next task, or soon will: the first that has nothing, or
 * too little, left, else the first that nearly is used up. app_id "" is none. "" for nothing to say.
 */
export function standing_in_the_way(budgets: Budget[], app_id: string): string {
    const counting = budgets.filter(
        (budget) =>
            budget.scope in SCOPE_WORDS && (budget.scope !== "app" || budget.app_id === app_id),
    );
    const found =
        counting.find((budget) => budget.status === "reached") ??
        counting.find((budget) => budget.status === "warning");
    if (!found) {
        return "";
    }
    const what = `The budget of ${SCOPE_WORDS[found.scope]}`;
    const used = budget_used_text(found);
    if (found.status !== "reached") {
        return `${what} is nearly used up (${used}).`;
    }
    const left = budget_share(found) === 1 ? "is used up" : "has too little left for a request";
    return `${what} ${left} (${used}): a task would be stopped at once.`;
}

/* "$1.20 of $5.00 · 12,000 of 200,000 tokens", as far as there are limits. */
export function budget_used_text(budget: Budget): string {
    const parts = [];
    if (budget.limit_microusd !== null && budget.used_microusd !== null) {
        parts.push(`${format_usd(budget.used_microusd)} of ${format_usd(budget.limit_microusd)}`);
    }
    if (budget.limit_tokens !== null && budget.used_tokens !== null) {
        parts.push(
            `${format_count(budget.used_tokens)} of ${tokens_text(budget.limit_tokens)}`,
        );
    }
    return parts.length === 0 ? "" : `${parts.join(" · ")} used`;
}
