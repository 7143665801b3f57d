import assert from "node:assert/strict";
import { test } from "node:test";
import { blocks_of, spans_of } from "../src/prose.ts";

test("code and bold within a line; the rest stays as it is", () => {
    assert.deepEqual(spans_of("a `b` **c** *d*"), [
        { look: "text", text: "a " },
        { look: "code", text: "b" },
        { look: "text", text: " " },
        { look: "bold", text: "c" },
        { look: "text", text: " *d*" },
    ]);
    assert.deepEqual(spans_of("a ` b **"), [{ look: "text", text: "a ` b **" }]);
});

test("paragraphs, headings, lists and fenced code", () => {
    assert.deepEqual(
        blocks_of("# Done\nfirst\nline\n\n- one\n- two\n1. three\n```ts\nlet a\n\n- b\n```"),
        [
            { kind: "heading", spans: [{ look: "text", text: "Done" }] },
            { kind: "paragraph", spans: [{ look: "text", text: "first\nline" }] },
            {
                kind: "list",
                ordered: false,
                items: [[{ look: "text", text: "one" }], [{ look: "text", text: "two" }]],
            },
            { kind: "list", ordered: true, items: [[{ look: "text", text: "three" }]] },
            { kind: "code", text: "let a\n\n- b" },
        ],
    );
});

test("markup of any kind stays text", () => {
    assert.deepEqual(blocks_of("<img src=x onerror=alert(1)> [a](javascript:alert(1))"), [
        {
            kind: "paragraph",
            spans: [
                { look: "text", text: "<img src=x onerror=alert(1)> [a](javascript:alert(1))" },
            ],
        },
    ]);
});

test("hostile text takes time in proportion to its length", () => {
    const start = Date.now();
    for (const text of [
        "`".repeat(60_000),
        "**".repeat(30_000),
        "**a".repeat(20_000),
        "`a\n".repeat(20_000),
        "- ".repeat(30_000),
    ]) {
        blocks_of(text);
    }
    assert.ok(Date.now() - start < 1_000, `${Date.now() - start} ms`);
});

test("a fence that never closes still shows its code", () => {
    assert.deepEqual(blocks_of("```\nhalf"), [{ kind: "code", text: "half" }]);
});
