/* Ten wrong tries cost a minute each. Last of all: nobody gets in from this machine afterwards. */
import { expect, test } from "@playwright/test";
import { PASSWORD } from "./environment.ts";
import { call, origin, sign_in } from "./steps.ts";

const TRIES_MAX = 12;

function try_password(password: string): ReturnType<typeof call> {
    return call(origin(), "/v1/session", {
        method: "POST",
        headers: { origin: origin(), "content-type": "application/json" },
        body: JSON.stringify({ password }),
    });
}

test("whoever guesses waits, and is told for how long", async ({ page }) => {
    let tries = 0;
    let answer = await try_password("guess");
    while (answer.status !== 429 && tries < TRIES_MAX) {
        expect(answer.status, answer.text).toBe(401);
        tries += 1;
        answer = await try_password(`guess ${tries}`);
    }
    expect(answer.status, `after ${tries} wrong tries: ${answer.text}`).toBe(429);
    expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
    expect(
        (await try_password(PASSWORD)).status,
        "the right password does not shorten the wait",
    ).toBe(429);

    await page.goto("/");
    await sign_in(page, PASSWORD);
    await expect(page.getByRole("alert")).toContainText(/Try again in \d+ s\./);
});
