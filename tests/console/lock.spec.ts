/* Ten wrong tries cost a minute each. Last of all: nobody gets in from this machine afterwards. */
import { type Page, expect, test } from "@playwright/test";
import { PASSWORD } from "./environment.ts";
import { sign_in } from "./steps.ts";

const TRIES_MAX = 12;

interface Answer {
    status: number;
    text: string;
    retry_after: number;
}

/* From the page itself: the wait is the client's, and a browser may come by another address than we do. */
async function try_password(page: Page, password: string): Promise<Answer> {
    return page.evaluate(async (word) => {
        const answer = await fetch("/v1/session", {
            method: "POST",
            headers: { "content-type": "application/json" },
            body: JSON.stringify({ password: word }),
        });
        return {
            status: answer.status,
            text: await answer.text(),
            retry_after: Number(answer.headers.get("retry-after")),
        };
    }, password);
}

test("whoever guesses waits, and is told for how long", async ({ page }) => {
    await page.goto("/");
    let tries = 0;
    let answer = await try_password(page, "guess");
    while (answer.status !== 429 && tries < TRIES_MAX) {
        expect(answer.status, answer.text).toBe(401);
        tries += 1;
        answer = await try_password(page, `guess ${tries}`);
    }
    expect(answer.status, `after ${tries} wrong tries: ${answer.text}`).toBe(429);
    expect(answer.retry_after).toBeGreaterThan(0);
    expect(
        (await try_password(page, PASSWORD)).status,
        "the right password does not shorten the wait",
    ).toBe(429);

    await page.reload();
    await sign_in(page, PASSWORD);
    await expect(page.getByRole("alert")).toContainText(/Try again in \d+ s\./);
});
