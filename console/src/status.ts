/* The state of the machine in four short lines, asked every ten seconds. */
import { api_get, problem_of } from "./api.ts";
import { fill, h, set_attribute, set_text, show } from "./dom.ts";
import { format_bytes, format_count, type Tone } from "./format.ts";
import { type Poller, poll_while_visible } from "./poll.ts";
import type { Status } from "./types.ts";
import { badge, problem_box } from "./ui.ts";

const STATUS_INTERVAL_MS = 10_000;

interface Line {
    element: HTMLElement;
    set(word: string, tone: Tone, message: string): void;
}

function line(label: string): Line {
    const state = badge();
    const message = h("dd", { class: "hint status-message" });
    message.hidden = true;
    return {
        element: h(
            "div",
            { class: "status-line" },
            h("dt", null, label),
            h("dd", null, state.element),
            message,
        ),
        set(word, tone, text) {
            state.set(word, tone);
            set_text(message, text);
            show(message, text !== "");
        },
    };
}

function engine_word(status: Status): [string, Tone] {
    const up = status.engine?.status === "up" || status.engine?.status === "ok";
    return up
        ? ["Up", "good"]
        : [status.engine?.status === "down" ? "Down" : (status.engine?.status ?? "unknown"), "bad"];
}

function walls_word(status: Status): [string, Tone] {
    switch (status.walls?.status) {
        case "up":
        case "ok":
            return ["Up", "good"];
        case "off":
            return ["Off", "bad"];
        default:
            return [
                status.walls?.status === "failed" ? "Failed" : (status.walls?.status ?? "unknown"),
                "bad",
            ];
    }
}

export function status_panel(): { element: HTMLElement; stop(): void } {
    const engine = line("Docker engine");
    const walls = line("Firewall walls");
    const memory_text = h("p", { class: "hint" }, "…");
    const meter = h("progress", { max: 1, value: 0, "aria-label": "Memory in use" });
    const running = h("dd", null, "…");
    const version = h("p", { class: "hint version" });
    const problem = problem_box();
    const list = h(
        "dl",
        { class: "status-list" },
        engine.element,
        walls.element,
        h("div", { class: "status-line" }, h("dt", null, "Sandboxes"), running),
        h(
            "div",
            { class: "status-line" },
            h("dt", null, "Memory"),
            h("dd", null, meter, memory_text),
        ),
    );
    list.hidden = true;
    const element = h(
        "section",
        { class: "card", "aria-labelledby": "status-title" },
        h("h2", { id: "status-title" }, "Status"),
        problem.element,
        list,
        version,
    );

    function update(status: Status): void {
        engine.set(...engine_word(status), status.engine?.message ?? "");
        walls.set(...walls_word(status), status.walls?.message ?? "");
        set_text(
            running,
            `${format_count(status.sandboxes?.running)} of ${format_count(status.sandboxes?.total)} running`,
        );
        const { available_bytes, total_bytes } = status.memory ?? {};
        const known =
            typeof available_bytes === "number" &&
            typeof total_bytes === "number" &&
            total_bytes > 0;
        show(meter, known);
        if (known) {
            set_attribute(
                meter,
                "value",
                ((total_bytes - available_bytes) / total_bytes).toFixed(3),
            );
        }
        set_text(
            memory_text,
            known
                ? `${format_bytes(available_bytes)} of ${format_bytes(total_bytes)} free`
                : "unknown",
        );
        set_text(version, status.version ? `sandboxd ${status.version}` : "");
        show(list, true);
    }
    const poller: Poller = poll_while_visible(STATUS_INTERVAL_MS, async () => {
        try {
            update(await api_get<Status>("/v1/status"));
            problem.clear();
        } catch (error) {
            problem.show(problem_of("read the status", error));
            show(list, false);
            fill(version);
        }
    });
    return { element, stop: poller.stop };
}
