/*
 * A provider of the owner's own: any server that speaks like OpenAI or Anthropic, on this machine
 * or elsewhere. What to type for the usual ones is filled in and can be changed.
 */
import { api_post, api_put, problem_of } from "./api.ts";
import { type ConnectForm, secret_input } from "./connect.ts";
import { fill, h, set_text, show } from "./dom.ts";
import type { Provider, ProviderKind } from "./types.ts";
import { check_box, field, problem_box, run_busy } from "./ui.ts";

const TEXT_CHARS_MAX = 200;
const URL_CHARS_MAX = 512;
const KEY_CHARS_MAX = 8_192;

interface Known {
    label: string;
    kind: string;
    base_url: string;
    keyless: boolean;
    hint: string;
}

const HERE = "127.0.0.1 is the server that sandboxd runs on";
const KNOWN: Known[] = [
    {
        label: "Ollama",
        kind: "openai-compatible",
        base_url: "http://127.0.0.1:11434/v1",
        keyless: true,
        hint: `${HERE}. “ollama list” there names the models.`,
    },
    {
        label: "LM Studio",
        kind: "openai-compatible",
        base_url: "http://127.0.0.1:1234/v1",
        keyless: true,
        hint: `${HERE}. Start its local server; its model list shows the names.`,
    },
    {
        label: "vLLM",
        kind: "openai-compatible",
        base_url: "http://127.0.0.1:8000/v1",
        keyless: true,
        hint: `${HERE}. The model’s name is what “vllm serve” was given.`,
    },
    {
        label: "DeepSeek",
        kind: "openai-compatible",
        base_url: "https://api.deepseek.com/v1",
        keyless: false,
        hint: "The name of the model is in the provider’s documentation.",
    },
    {
        label: "Mistral",
        kind: "openai-compatible",
        base_url: "https://api.mistral.ai/v1",
        keyless: false,
        hint: "The name of the model is in the provider’s documentation.",
    },
];

/* "At home (GPU)" is the id "at-home-gpu"; a task names its models with it: at-home-gpu/model. */
export function provider_id_of_label(label: string): string {
    return label
        .toLowerCase()
        .replace(/[^a-z0-9]+/g, "-")
        .replace(/^-+|-+$/g, "")
        .slice(0, 32)
        .replace(/-+$/, "");
}

function text_input(value: string, max: number, extra: Record<string, string> = {}): HTMLInputElement {
    const input = h("input", {
        type: "text",
        maxlength: max,
        spellcheck: "false",
        autocomplete: "off",
        ...extra,
    });
    input.value = value;
    return input;
}

/*
 * `before`: the one that is changed, null for a new one. `taken`: is there one of that id? A new
 * one would take its place, and get its key. `done` gets the label.
 */
export function own_form(
    kinds: ProviderKind[],
    before: Provider | null,
    taken: (id: string) => boolean,
    done: (label: string) => void,
): ConnectForm {
    const problem = problem_box();
    const what = h("select", null);
    const others = kinds.map((kind) => ({ id: kind.id, text: `Another ${kind.label} server` }));
    fill(
        what,
        ...KNOWN.map((known) => h("option", { value: known.label }, known.label)),
        ...others.map(({ id, text }) => h("option", { value: id }, text)),
    );
    const label = text_input(before?.label ?? "", TEXT_CHARS_MAX, { required: "" });
    const url = text_input(before?.base_url ?? "", URL_CHARS_MAX, {
        required: "",
        inputmode: "url",
        placeholder: "https://models.example.com/v1",
    });
    const model = text_input(before?.default_model ?? "", TEXT_CHARS_MAX);
    const keyless = check_box("It needs no key", before?.keyless ?? false);
    const key = secret_input(KEY_CHARS_MAX);
    key.required = false;
    const key_field = field("API key", key, "Stored sealed; never shown again.");
    const url_hint = h("p", { class: "hint" });
    const model_hint = h("p", { class: "hint" });
    const submit = h(
        "button",
        { type: "submit", class: "primary small" },
        before ? "Save" : "Add provider",
    );

    const known = (): Known | undefined => KNOWN.find((one) => one.label === what.value);
    const kind = (): string => before?.kind ?? known()?.kind ?? what.value;
    const id = (): string => before?.id ?? provider_id_of_label(label.value);
    let stored = before?.id ?? ""; /* this form's own: its key may be refused, and typed again */
    function tell(): void {
        set_text(
            url_hint,
            before
                ? ""
                : (known()?.hint ??
                      (kind() === "anthropic-compatible"
                          ? "Without the /v1 that Anthropic’s paths begin with."
                          : "With the /v1 that its paths begin with.")),
        );
        set_text(
            model_hint,
            id() === ""
                ? ""
                : `What a task gets that names no model. A task may name any: ${id()}/${model.value.trim() || "model"}.`,
        );
        show(key_field, !before && !keyless.input.checked);
    }
    function choose(): void {
        const one = known();
        label.value = one?.label ?? "";
        url.value = one?.base_url ?? "";
        keyless.input.checked = one?.keyless ?? false;
        tell();
    }
    async function save(): Promise<void> {
        problem.clear();
        const new_id = id();
        if (new_id === "") {
            problem.show({
                what: "The provider was not stored.",
                why: "Its name has no letter or digit.",
                next: "Give it another one.",
            });
            label.focus();
            return;
        }
        if (new_id !== stored && taken(new_id)) {
            problem.show({
                what: "The provider was not stored.",
                why: `The name ${new_id} is taken.`,
                next: "Give it another one, or edit the provider that has it.",
            });
            label.focus();
            return;
        }
        try {
            await api_put(`/v1/providers/${new_id}`, {
                kind: kind(),
                label: label.value.trim(),
                base_url: url.value.trim(),
                keyless: keyless.input.checked,
                ...(model.value.trim() === "" ? {} : { default_model: model.value.trim() }),
            });
            stored = new_id;
            if (!before && !keyless.input.checked && key.value.trim() !== "") {
                await api_post(`/v1/providers/${new_id}/api-key`, { api_key: key.value.trim() });
            }
            key.value = "";
            done(label.value.trim());
        } catch (error) {
            problem.show(problem_of("store the provider", error));
        }
    }
    const form = h(
        "form",
        { class: "key-form" },
        before ? null : field("What is it?", what),
        field("Name", label),
        field("Base URL", url),
        url_hint,
        field("Default model", model),
        model_hint,
        keyless.element,
        key_field,
        problem.element,
        submit,
    );
    what.addEventListener("change", choose);
    form.addEventListener("input", tell);
    form.addEventListener("submit", (event) => {
        event.preventDefault();
        void run_busy(submit, "Storing …", save);
    });
    if (before) {
        tell();
    } else {
        choose();
    }
    return { element: form, focus: () => (before ? label : what).focus() };
}
