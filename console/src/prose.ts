/*
 * The little Markdown that agents write, as blocks: headings, lists, fenced code, and inside a
 * line `code` and **bold**. What it does not know stays text, links and raw HTML above all. Pure,
 * linear in its input.
 */

export interface Span {
    look: "text" | "code" | "bold";
    text: string;
}

export type Block =
    | { kind: "paragraph" | "heading"; spans: Span[] }
    | { kind: "list"; ordered: boolean; items: Span[][] }
    | { kind: "code"; text: string };

export function spans_of(text: string): Span[] {
    const spans: Span[] = [];
    for (const part of text.split(/(`[^`\n]{1,400}`|\*\*[^*\n]{1,400}\*\*)/)) {
        if (part === "") {
            continue;
        }
        if (part.length > 2 && part.startsWith("`") && part.endsWith("`")) {
            spans.push({ look: "code", text: part.slice(1, -1) });
        } else if (part.length > 4 && part.startsWith("**") && part.endsWith("**")) {
            spans.push({ look: "bold", text: part.slice(2, -2) });
        } else {
            spans.push({ look: "text", text: part });
        }
    }
    return spans;
}

export function blocks_of(text: string): Block[] {
    const blocks: Block[] = [];
    let paragraph: string[] = [];
    let code: string[] | null = null;
    const end_paragraph = (): void => {
        if (paragraph.length > 0) {
            blocks.push({ kind: "paragraph", spans: spans_of(paragraph.join("\n")) });
            paragraph = [];
        }
    };
    for (const line of text.split("\n")) {
        if (/^\s{0,3}```/.test(line)) {
            end_paragraph();
            if (code) {
                blocks.push({ kind: "code", text: code.join("\n") });
            }
            code = code ? null : [];
        } else if (code) {
            code.push(line);
        } else if (line.trim() === "") {
            end_paragraph();
        } else if (!add_marked_line(blocks, line, end_paragraph, paragraph.length > 0)) {
            paragraph.push(line);
        }
    }
    end_paragraph();
    if (code) {
        blocks.push({ kind: "code", text: code.join("\n") });
    }
    return blocks;
}

/* Headings and list items; false for an ordinary line. */
function add_marked_line(
    blocks: Block[],
    line: string,
    end_paragraph: () => void,
    in_paragraph: boolean,
): boolean {
    const heading = /^#{1,6} (.+)$/.exec(line);
    if (heading?.[1]) {
        end_paragraph();
        blocks.push({ kind: "heading", spans: spans_of(heading[1]) });
        return true;
    }
    const bullet = /^\s{0,8}[-*•] (.+)$/.exec(line);
    const numbered = /^\s{0,8}\d{1,3}[.)] (.+)$/.exec(line);
    const item = bullet?.[1] ?? numbered?.[1];
    if (item === undefined) {
        return false;
    }
    const continues = !in_paragraph;
    end_paragraph();
    const last = blocks[blocks.length - 1];
    const ordered = numbered !== null;
    if (continues && last?.kind === "list" && last.ordered === ordered) {
        last.items.push(spans_of(item));
    } else {
        blocks.push({ kind: "list", ordered, items: [spans_of(item)] });
    }
    return true;
}
