/*
 * The box that a prompt is typed into. On the home page it makes an app of it; on an app's page it
 * continues. A draft survives a reload and an expired session.
 */
import { agent_is_ready, agent_wants_model } from "./agents.ts";
import { api_get, api_post, problem_of } from "./api.ts";
import { fill, h, set_text, show } from "./dom.ts";
import { app_name_of_prompt } from "./format.ts";
import { start_launch } from "./launch.ts";
import { recall, remember } from "./memory.ts";
import { standing_in_the_way } from "./money.ts";
import { model_choice, type ModelChoice } from "./models.ts";
import { hash_of_app } from "./routes.ts";
import type { Agent, App, Budget, Preset, Provider } from "./types.ts";
import { field, type ProblemBox, problem_box, run_busy } from "./ui.ts";

const PROMPT_MAX_CHARS = 100_000;

export interface Composer {
    element: HTMLElement;
    set_text(text: string): void;
    budgets(list: Budget[]): void; /* one that stands in the way is said */
}

function prompt_area(label: string, placeholder: string, draft: string): HTMLTextAreaElement {
    const area = h("textarea", {
        "aria-label": label,
        placeholder,
        rows: 3,
        maxlength: PROMPT_MAX_CHARS,
    });
    area.value = recall("tab", draft) ?? "";
    area.addEventListener("input", () => {
        remember("tab", draft, area.value);
        fit(area);
    });
    area.addEventListener("keydown", (event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
            event.preventDefault();
            area.form?.requestSubmit();
        }
    });
    requestAnimationFrame(() => fit(area));
    return area;
}

/* As tall as its text, within reason. */
function fit(area: HTMLTextAreaElement): void {
    area.style.height = "auto";
    area.style.height = `${Math.min(area.scrollHeight + 2, 360)}px`;
}

function agent_text(agent: Agent): string {
    if (!agent_is_ready(agent) && !agent_wants_model(agent)) {
        return `${agent.label} (${agent.status === "reconnect" ? "reconnect" : "no provider yet"})`;
    }
    return agent.status === "keyless" ? `${agent.label} (free)` : agent.label;
}

function preset_text(preset: Preset): string {
    const { status, percent } = preset.image ?? {};
    if (status === "building") {
        return `${preset.label} (being built${typeof percent === "number" ? `, ${percent} %` : ""})`;
    }
    return status === "failed" ? `${preset.label} (image failed)` : preset.label;
}

interface Choice<T> {
    select: HTMLSelectElement;
    chosen(): T | undefined;
    set(items: T[]): void;
}

/*
 * A select that remembers what was chosen last; a new list keeps the choice, and the first one of the
 * highest rank is it where nothing was chosen.
 */
function choice<T extends { id: string }>(
    remembered: string,
    text: (item: T) => string,
    rank: (item: T) => number,
): Choice<T> {
    const select = h("select", null);
    let items: T[] = [];
    select.addEventListener("change", () => remember("browser", remembered, select.value));
    return {
        select,
        chosen: () => items.find((item) => item.id === select.value),
        set(latest) {
            const wanted = select.value || recall("browser", remembered) || "";
            items = latest;
            fill(select, ...items.map((item) => h("option", { value: item.id }, text(item))));
            const [first] = [...items].sort((a, b) => rank(b) - rank(a));
            select.value = (items.find((item) => item.id === wanted) ?? first)?.id ?? "";
        },
    };
}

function agent_choice(): Choice<Agent> {
    const rank = (agent: Agent): number =>
        (agent_is_ready(agent) ? 2 : 0) + (agent.is_default ? 1 : 0);
    return choice<Agent>("agent", agent_text, rank);
}

/*
 * The agent and the model of a prompt. `ready` says whether a task would be taken at all: null, with
 * the reason and the way out shown, where it would be refused.
 */
interface AgentChoice {
    elements: HTMLElement[];
    notice: HTMLElement;
    ready(problem: ProblemBox): { agent: string; model: string } | null;
    load(problem: ProblemBox): Promise<void>;
    budgets(list: Budget[]): void;
}

function agent_and_model(app_id: string): AgentChoice {
    const agents = agent_choice();
    const models = model_choice();
    let providers: Provider[] = [];
    const steps = first_steps();
    const budget_words = h("span", null);
    const budget_notice = h(
        "p",
        { class: "line line-warn first-steps" },
        budget_words,
        " ",
        h("a", { href: "#/usage/budgets" }, "Usage → Budgets"),
    );
    budget_notice.hidden = true;
    const changed = (): void => models.set(agents.chosen(), providers);
    agents.select.addEventListener("change", changed);
    return {
        elements: [field("Agent", agents.select), ...models.elements],
        notice: h("div", { role: "status" }, steps, budget_notice),
        ready(problem) {
            const agent = agents.chosen();
            const model = chosen_model(models, problem);
            if (model === null || !agent_is_usable(agent, model, problem)) {
                return null;
            }
            return { agent: agent?.id ?? "", model };
        },
        async load(problem) {
            try {
                const [list, known] = await Promise.all([
                    api_get<{ agents?: Agent[] }>("/v1/agents"),
                    api_get<{ providers?: Provider[] }>("/v1/providers"),
                ]);
                providers = known.providers ?? [];
                agents.set(list.agents ?? []);
                changed();
                const nobody = !list.agents?.some(
                    (agent) => agent_is_ready(agent) || agent_wants_model(agent),
                );
                show(steps, nobody);
            } catch (error) {
                problem.show(problem_of("load the agents", error));
            }
        },
        budgets(list) {
            const said = standing_in_the_way(list, app_id);
            if (budget_words.textContent !== said) {
                set_text(budget_words, said);
                show(budget_notice, said !== "");
            }
        },
    };
}

/* Said before anything is typed in vain: no agent can reach a model yet. */
function first_steps(): HTMLElement {
    const element = h(
        "p",
        { class: "notice first-steps" },
        "One step first: no agent can reach a model yet. ",
        h("a", { href: "#/settings" }, "Connect a provider"),
        ", with a key or a subscription. What you type here is kept meanwhile.",
    );
    element.hidden = true;
    return element;
}

function chosen_model(models: ModelChoice, problem: ProblemBox): string | null {
    const model = models.chosen();
    if (model === null) {
        problem.show({
            what: "No model is named.",
            why: "“Another …” wants its name, such as openrouter/z-ai/glm-5.",
            next: "Type it, or choose a model of the list.",
        });
        models.focus();
    }
    return model;
}

/* False, with the reason shown, for an agent that would be refused anyway. */
function agent_is_usable(
    agent: Agent | undefined,
    model: string,
    problem: ProblemBox,
): boolean {
    if (!agent || agent_is_ready(agent) || model !== "") {
        return true;
    }
    if (agent_wants_model(agent)) {
        problem.show({
            what: "No model is chosen.",
            why: `The provider of ${agent.label} has no default model.`,
            next: "Choose “Another …” and name one, or give the provider a default model in Settings.",
        });
        return false;
    }
    const lost = agent.status === "reconnect";
    problem.show(
        {
            what: lost ? `${agent.label} lost its login.` : `${agent.label} has no provider yet.`,
            why: lost ? (agent.message ?? "The provider refused it.") : "It cannot reach a model without one.",
            next: lost ? "Connect it again, or choose another agent." : "Connect one, or choose another agent. What you typed is kept.",
        },
        h("a", { href: "#/settings" }, "Settings → AI Agents"),
    );
    return false;
}

async function load_budgets(choices: AgentChoice, problem: ProblemBox): Promise<void> {
    try {
        choices.budgets((await api_get<{ budgets?: Budget[] }>("/v1/budgets")).budgets ?? []);
    } catch (error) {
        problem.show(problem_of("load the budgets", error));
    }
}

async function load_presets(presets: Choice<Preset>, problem: ProblemBox): Promise<void> {
    try {
        presets.set((await api_get<{ presets?: Preset[] }>("/v1/presets")).presets ?? []);
    } catch (error) {
        problem.show(problem_of("load the presets", error));
    }
}

function composer_form(
    area: HTMLTextAreaElement,
    controls: HTMLElement[],
    submit: HTMLButtonElement,
    problem: ProblemBox,
    work: () => Promise<void>,
): HTMLFormElement {
    const form = h(
        "form",
        { class: "composer" },
        area,
        h(
            "div",
            { class: "composer-bar" },
            ...controls,
            h("div", { class: "send" }, h("span", { class: "hint keys" }, "Ctrl + Enter"), submit),
        ),
        problem.element,
    );
    form.addEventListener("submit", (event) => {
        event.preventDefault();
        if (area.value.trim() === "") {
            area.focus();
            return;
        }
        void run_busy(submit, submit.dataset["busy"] ?? "…", work);
    });
    return form;
}

/* The box of the home page. */
export function home_composer(): Composer {
    const draft = "draft.home";
    const problem = problem_box();
    const area = prompt_area(
        "What do you want to build?",
        "A todo list with a delete button on each row …",
        draft,
    );
    const presets = choice<Preset>(
        "preset",
        preset_text,
        (preset) => (preset.image?.status === "failed" ? 0 : 1),
    );
    const choices = agent_and_model("");
    const submit = h(
        "button",
        { type: "submit", class: "primary", "data-busy": "Creating the app …" },
        "Build it",
    );
    const form = composer_form(
        area,
        [field("Preset", presets.select), ...choices.elements],
        submit,
        problem,
        async () => {
            problem.clear();
            const prompt = area.value.trim();
            const preset = presets.chosen();
            const chosen = choices.ready(problem);
            if (!chosen) {
                return;
            }
            try {
                const app = await api_post<App>("/v1/apps", {
                    name: app_name_of_prompt(prompt),
                    ...(preset ? { runtime_preset: preset.id } : {}),
                });
                remember("tab", draft, null);
                area.value = "";
                const ports = preset?.port ? [preset.port] : [];
                start_launch(app.id, { prompt, ...chosen, ports, after_task_id: "" });
                location.hash = hash_of_app(app.id);
            } catch (error) {
                problem.show(problem_of("create the app", error));
            }
        },
    );
    void load_presets(presets, problem);
    void load_budgets(choices, problem);
    void choices.load(problem);
    return {
        element: h("div", null, choices.notice, form),
        set_text: (text) => set_area(area, draft, text),
        budgets: choices.budgets,
    };
}

/* The box of an app's page. */
export function app_composer(app_id: string, newest_task_id: () => string): Composer {
    const draft = `draft.${app_id}`;
    const problem = problem_box();
    const area = prompt_area("What should change?", "What should change?", draft);
    const choices = agent_and_model(app_id);
    const submit = h(
        "button",
        { type: "submit", class: "primary", "data-busy": "Sending …" },
        "Send",
    );
    const form = composer_form(area, choices.elements, submit, problem, async () => {
        problem.clear();
        const chosen = choices.ready(problem);
        if (!chosen) {
            return;
        }
        const prompt = area.value.trim();
        start_launch(app_id, { prompt, ...chosen, ports: [], after_task_id: newest_task_id() });
        set_area(area, draft, "");
    });
    void choices.load(problem);
    return {
        element: h("div", null, choices.notice, form),
        set_text: (text) => set_area(area, draft, text),
        budgets: choices.budgets,
    };
}

function set_area(area: HTMLTextAreaElement, draft: string, text: string): void {
    area.value = text;
    remember("tab", draft, text);
    fit(area);
}
