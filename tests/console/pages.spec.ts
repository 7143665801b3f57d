/* What holds on every page: places, small screens, keyboard, failure that looks like failure. */
import { expect, type Page, test } from "@playwright/test";
import axe from "axe-core";
import { api, delete_app, expect_home, watch_faults, watch_network } from "./steps.ts";

let app_id = "";

test.beforeAll(async () => {
    app_id = (
        await api<{ id: string }>("POST", "/v1/apps", {
            name: "A name that is quite long for a phone, all in all",
            runtime_preset: "node-http",
        })
    ).id;
});

test.afterAll(() => delete_app(app_id));

const PLACES = (): [string, string | RegExp][] => [
    ["/#/", "What do you want to build?"],
    [`/#/apps/${app_id}`, /A name that is quite long/],
    ["/#/settings", "Settings"],
    ["/#/settings/anthropic", "Settings"],
    ["/#/usage", "Usage"],
    ["/#/usage/prices", "Usage"],
];

async function overflow(page: Page): Promise<number> {
    return page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
}

for (const scheme of ["light", "dark"] as const) {
    test(`every page fits 360 px in ${scheme}, is accessible, and asks nobody else`, async ({ browser }) => {
        const context = await browser.newContext({
            viewport: { width: 360, height: 740 },
            colorScheme: scheme,
        });
        const foreign = watch_network(context);
        const page = await context.newPage();
        const faults = watch_faults(page);
        for (const [place, title] of PLACES()) {
            await page.goto(place);
            await expect(page.getByRole("heading", { level: 1, name: title })).toBeVisible();
            await page.waitForLoadState("networkidle").catch(() => null);
            expect(await overflow(page), place).toBeLessThanOrEqual(0);
            expect(await accessibility_faults(page), place).toEqual([]);
        }
        const ground = await page.evaluate(
            () => getComputedStyle(document.documentElement).backgroundColor,
        );
        expect(ground).toBe(scheme === "light" ? "rgb(246, 246, 243)" : "rgb(18, 19, 22)");
        expect(foreign()).toEqual([]);
        expect(faults()).toEqual([]);
        await context.close();
    });
}

/* A page that was opened in the browser may be asked from outside; its policy forbids only its own. */
async function accessibility_faults(page: Page): Promise<string[]> {
    await page.evaluate(axe.source);
    const { violations } = await page.evaluate(() => window.axe.run());
    return violations
        .filter((found) => found.impact === "serious" || found.impact === "critical")
        .map((found) => `${found.id}: ${found.nodes.map((node) => node.html).join(" ")}`);
}

declare global {
    interface Window {
        axe: typeof axe;
    }
}

test("Back, forward and reload keep the place", async ({ page }) => {
    await page.goto("/#/");
    await expect_home(page);
    await page.getByRole("link", { name: "A name that is quite long for a phone, all in all", exact: true }).click();
    await expect(page.getByRole("heading", { level: 1, name: /quite long/ })).toBeFocused();
    await page.getByRole("link", { name: "Settings" }).click();
    await expect(page.getByRole("heading", { level: 1, name: "Settings" })).toBeVisible();
    await page.goBack();
    await expect(page.getByRole("heading", { level: 1, name: /quite long/ })).toBeVisible();
    await page.reload();
    await expect(page.getByRole("heading", { level: 1, name: /quite long/ })).toBeVisible();
    await page.goForward();
    await expect(page.getByRole("heading", { level: 1, name: "Settings" })).toBeVisible();
    await page.goto("/#/apps/01kzv3h8m4c9t0q2w5x7y8z9ab");
    await expect(page.getByRole("heading", { level: 1, name: "No such app" })).toBeVisible();
});

test("the state of the machine is shown", async ({ page }) => {
    await page.goto("/#/");
    const status = page.getByRole("region", { name: "Status" });
    await expect(status).toContainText(/Docker engine\s*Up/);
    await expect(status).toContainText(/\d+ of \d+ running/);
    await expect(status).toContainText(/iB of [\d.]+ GiB free/);
});

test("a server that is away is not an empty list, and comes back by itself", async ({
    page,
    context,
}) => {
    await page.goto("/#/");
    const row = page.getByRole("listitem").filter({ hasText: "quite long" });
    await expect(row).toBeVisible();
    await context.setOffline(true);
    await expect(page.getByText("Could not refresh the list.")).toBeVisible();
    await expect(row, "what is known stays").toBeVisible();
    await context.setOffline(false);
    await expect(page.getByText("Could not refresh the list.")).toBeHidden();

    await page.route("**/v1/apps?*", (route) => route.abort());
    await page.reload();
    await expect(page.getByText("Could not load the apps.")).toBeVisible();
    await expect(page.getByText("No apps yet")).toHaveCount(0);
    await page.unroute("**/v1/apps?*");
    await expect(row).toBeVisible();
});

test("a session that ends elsewhere leads to the form and back to what was typed", async ({
    page,
    context,
}) => {
    await page.goto("/#/");
    await page.getByLabel("What do you want to build?").fill("half a thought");
    const cookies = await context.cookies();
    await context.clearCookies();
    await expect(page.getByRole("heading", { name: "Sign in" })).toBeVisible();
    await expect(page.getByText("Your session has ended.")).toBeVisible();
    await context.addCookies(cookies);
    await page.reload();
    await expect(page.getByLabel("What do you want to build?")).toHaveValue("half a thought");
});

test("a mistake of the console itself is said, with a way on", async ({ page }) => {
    await page.goto("/#/");
    await expect_home(page);
    await page.evaluate(() =>
        setTimeout(() => {
            throw new Error("planted");
        }),
    );
    await expect(
        page.getByRole("alert").filter({ hasText: "Something in the console broke." }),
    ).toContainText("planted");
    await page.getByRole("button", { name: "Reload" }).click();
    await expect_home(page);
    await expect(page.getByText("Something in the console broke.")).toBeHidden();
});

test("keys work: skip link, navigation, fields", async ({ page }) => {
    await page.goto("/#/");
    await expect_home(page);
    await page.keyboard.press("Tab");
    await expect(page.getByRole("link", { name: "Skip to content" })).toBeFocused();
    await page.keyboard.press("Enter");
    await page.keyboard.press("Tab");
    await expect(page.getByLabel("What do you want to build?")).toBeFocused();
    await page.keyboard.press("Tab");
    await expect(page.getByLabel("Preset")).toBeFocused();
    await page.keyboard.press("Tab");
    await expect(page.getByLabel("Agent")).toBeFocused();
    await page.keyboard.press("Tab");
    await expect(page.getByLabel("Model", { exact: true })).toBeFocused();
    await page.keyboard.press("Tab");
    await expect(page.getByRole("button", { name: "Build it" })).toBeFocused();
});

test("when an app sleeps is changed on its page, in the words of the API", async ({ page }) => {
    const app = () =>
        api<{ idle_policy: string; idle_threshold_s: number | null }>("GET", `/v1/apps/${app_id}`);
    await page.goto(`/#/apps/${app_id}`);
    const sleep = page.getByRole("region", { name: "Sleep" });
    const minutes = sleep.getByLabel("Sleeps after minutes without use");
    // "Saving …" is not yet saved.
    const save = sleep.getByRole("button", { name: /^Sav/ });
    await expect(minutes).toHaveValue("");
    await expect(save).toBeHidden();
    await minutes.fill("soon");
    await save.click();
    await expect(sleep.getByRole("alert")).toContainText("no number of minutes");
    await minutes.fill("0.1");
    await save.click();
    await expect(sleep.getByRole("alert")).toContainText("idle_threshold_s");
    await minutes.fill("1.5");
    await save.click();
    await expect(save).toBeHidden();
    expect(await app()).toMatchObject({ idle_policy: "sleep", idle_threshold_s: 90 });
    await sleep.getByLabel("Always on").check();
    await expect(minutes).toBeHidden();
    await save.click();
    await expect(save).toBeHidden();
    expect(await app()).toMatchObject({ idle_policy: "always_on", idle_threshold_s: 90 });
    await page.reload();
    await expect(sleep.getByLabel("Always on")).toBeChecked();
    await sleep.getByLabel("Always on").uncheck();
    await minutes.fill("");
    await save.click();
    await expect(save).toBeHidden();
    expect(await app()).toMatchObject({ idle_policy: "sleep", idle_threshold_s: null });
});
