/*
 * Which model a prompt goes to: the agent's default, that of another connected provider, or any by
 * name. What was chosen last is remembered for each agent.
 */
import { agent_is_ready, agent_wants_model, default_provider } from "./agents.ts";
import { api_get } from "./api.ts";
import { fill, h, show, unique_id } from "./dom.ts";
import { recall, remember } from "./memory.ts";
import type { Agent, Price, Provider } from "./types.ts";
import { field } from "./ui.ts";

const MODEL_CHARS_MAX = 200;
const OTHER = "other…"; /* no model has such a name */

export interface ModelChoice {
    elements: HTMLElement[];
    /* The model to name with the task, "" for the default; null: one is wanted and none was typed. */
    chosen(): string | null;
    set(agent: Agent | undefined, providers: Provider[]): void;
    focus(): void;
}

/* [value, text] of what can be chosen without typing. */
export function model_options(
    agent: Agent | undefined,
    label_of: (provider: string) => string,
): [string, string][] {
    if (agent && agent_wants_model(agent)) {
        return [
            ["", "None chosen"],
            [OTHER, "Another …"],
        ];
    }
    if (!agent || !agent_is_ready(agent)) {
        return [["", "Default"]];
    }
    const list = agent.providers ?? [];
    const first = default_provider(agent);
    const free = agent.status === "keyless" && first === agent.provider;
    const default_model = list.find((one) => one.provider === first)?.default_model;
    const default_text = free ? "Default (free)" : default_model ? `Default (${default_model})` : "Default";
    const rest = list
        .filter((one) => one.usable && one.default_model && one.provider !== first)
        .map((one): [string, string] => [
            `${one.provider}/${one.default_model}`,
            `${one.default_model} · ${label_of(one.provider)}`,
        ]);
    return [["", default_text], ...rest, [OTHER, "Another …"]];
}

/* Names with a known price, for whoever types one: asked for once, when somebody does. */
function suggestions(list: HTMLDataListElement, usable: () => string[]): () => void {
    let asked = false;
    return () => {
        if (asked) {
            return;
        }
        asked = true;
        void api_get<{ prices?: Price[] }>("/v1/prices")
            .then(({ prices }) => {
                const wanted = usable();
                const names = (prices ?? [])
                    .filter((price) => wanted.includes(price.provider) && price.model !== "*")
                    .map((price) => `${price.provider}/${price.model}`);
                fill(list, ...names.map((value) => h("option", { value })));
            })
            .catch(() => {
                asked = false; /* a list of suggestions: without it one types */
            });
    };
}

export function model_choice(): ModelChoice {
    const select = h("select", null);
    const list = h("datalist", { id: unique_id("models") });
    const name = h("input", {
        type: "text",
        maxlength: MODEL_CHARS_MAX,
        spellcheck: "false",
        autocomplete: "off",
        list: list.id,
        placeholder: "provider/model",
    });
    const name_field = field("Name of the model", name);
    name_field.append(list);
    let agent: Agent | undefined;
    const stored = (): string => `model.${agent?.id ?? ""}`;
    const usable = (): string[] =>
        (agent?.providers ?? []).filter((one) => one.usable).map((one) => one.provider);
    const chosen = (): string | null => {
        const value = select.value === OTHER ? name.value.trim() : select.value;
        return select.value === OTHER && value === "" ? null : value;
    };
    const changed = (): void => {
        show(name_field, select.value === OTHER);
        remember("browser", stored(), chosen());
    };
    select.addEventListener("change", () => {
        changed();
        if (select.value === OTHER) {
            name.focus();
        }
    });
    name.addEventListener("change", changed);
    name.addEventListener("focus", suggestions(list, usable));
    show(name_field, false);
    return {
        elements: [field("Model", select), name_field],
        chosen,
        set(latest, providers) {
            agent = latest;
            const label_of = (id: string): string =>
                providers.find((provider) => provider.id === id)?.label ?? id;
            const options = model_options(agent, label_of);
            const wanted = recall("browser", stored()) ?? "";
            fill(select, ...options.map(([value, text]) => h("option", { value }, text)));
            if (options.some(([value]) => value === wanted)) {
                select.value = wanted;
            } else if (agent && options.some(([value]) => value === OTHER)) {
                select.value = OTHER;
                name.value = wanted;
            }
            show(name_field, select.value === OTHER);
        },
        focus: () => name.focus(),
    };
}
