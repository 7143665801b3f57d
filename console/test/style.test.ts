/* Contrast of every pair of text and ground that the style sheet uses, in both colour schemes. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const CSS = ["style", "pages", "settings"]
    .map((name) => readFileSync(`src/${name}.css`, "utf8"))
    .join("");
const TEXT_RATIO_MIN = 4.5;
const EDGE_RATIO_MIN = 3;

function tokens(css: string): Map<string, string> {
    return new Map(
        [...css.matchAll(/--([a-z-]+):\s*(#[0-9a-f]{6});/g)].map((found) => [
            found[1] ?? "",
            found[2] ?? "",
        ]),
    );
}

const [light_block, dark_block] = [...CSS.matchAll(/:root \{([^}]*)\}/g)].map(
    (found) => found[1] ?? "",
);
const light = tokens(light_block ?? "");
const dark = new Map([...light, ...tokens(dark_block ?? "")]);

function luminance(colour: string): number {
    const channels = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255);
    const [r, g, b] = channels.map((c) =>
        c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4,
    );
    return 0.2126 * (r ?? 0) + 0.7152 * (g ?? 0) + 0.0722 * (b ?? 0);
}

function ratio(a: string, b: string): number {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return ((high ?? 0) + 0.05) / ((low ?? 0) + 0.05);
}

const TEXT_PAIRS = [
    ...["text", "muted", "accent", "accent-hover", "good", "bad"].flatMap((text) =>
        ["ground", "surface"].map((ground) => [text, ground]),
    ),
    ["text", "sunken"],
    ["muted", "sunken"],
    ["text", "accent-soft"],
    ["text", "idle-soft"],
    ["on-accent", "accent"],
    ["on-accent", "accent-hover"],
    ["good", "good-soft"],
    ["busy", "busy-soft"],
    ["bad", "bad-soft"],
    ["idle", "idle-soft"],
];

for (const [name, scheme] of [
    ["light", light],
    ["dark", dark],
] as const) {
    test(`text of the ${name} scheme is readable`, () => {
        for (const [text, ground] of TEXT_PAIRS) {
            const found = ratio(scheme.get(text ?? "") ?? "", scheme.get(ground ?? "") ?? "");
            assert.ok(found >= TEXT_RATIO_MIN, `${text} on ${ground}: ${found.toFixed(2)}`);
        }
    });
    test(`edges of fields in the ${name} scheme are visible`, () => {
        for (const ground of ["ground", "surface"]) {
            const found = ratio(scheme.get("line-strong") ?? "", scheme.get(ground) ?? "");
            assert.ok(found >= EDGE_RATIO_MIN, `line-strong on ${ground}: ${found.toFixed(2)}`);
        }
    });
}

test("nothing is fetched by the style sheet and no colour stands outside the two blocks", () => {
    assert.doesNotMatch(CSS, /url\(|@import|https?:/);
    const rest = CSS.replace(/:root \{[^}]*\}/g, "");
    assert.doesNotMatch(rest, /#[0-9a-f]{3,8}\b/i);
});
