/* What an app is given: added, changed, applied and deleted by a person; a secret is nowhere afterwards. */
import { expect, type Locator, type Page, test } from "@playwright/test";
import { mkdirSync } from "node:fs";
import { api, delete_app, watch_faults } from "./steps.ts";

test.describe.configure({ mode: "serial" });

const SECRET = "console-secret-4711";
const OTHER = "console-secret-0815";
const SHOTS = process.env["CONSOLE_SHOTS"] ?? "";

let page: Page;
let app_id = "";
let sandbox_id = "";

test.beforeAll(async ({ browser }) => {
    const app = await api<{ id: string }>("POST", "/v1/apps", {
        name: "Keeper",
        runtime_preset: "node-http",
    });
    app_id = app.id;
    const sandbox = await api<{ id: string }>("POST", `/v1/apps/${app_id}/sandbox`, { ports: [3000] });
    sandbox_id = sandbox.id;
    page = await browser.newPage();
});

test.afterAll(async () => {
    await page.close();
    await delete_app(app_id);
});

function card(): Locator {
    return page.getByRole("region", { name: "Config" });
}

function item(key: string): Locator {
    return card().locator(`[data-key="${key}"]`);
}

async function shot(name: string): Promise<void> {
    if (SHOTS === "") {
        return;
    }
    mkdirSync(SHOTS, { recursive: true });
    for (const width of [1280, 390]) {
        for (const scheme of ["light", "dark"] as const) {
            await page.setViewportSize({ width, height: 900 });
            await page.emulateMedia({ colorScheme: scheme });
            await card().scrollIntoViewIfNeeded();
            await page.screenshot({ path: `${SHOTS}/${name}-${width}-${scheme}.png`, fullPage: true });
        }
    }
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.emulateMedia({ colorScheme: null });
}

/* Nothing of the page, its address or what the browser keeps holds it. */
async function expect_nowhere(secret: string): Promise<void> {
    const kept = await page.evaluate(() =>
        JSON.stringify([
            document.documentElement.outerHTML,
            location.href,
            { ...localStorage },
            { ...sessionStorage },
            [...document.querySelectorAll("input, textarea")].map((e) => (e as HTMLInputElement).value),
        ]),
    );
    expect(kept).not.toContain(secret);
}

test("a secret and a setting are added", async () => {
    const faults = watch_faults(page);
    await page.goto(`/#/apps/${app_id}`);
    await expect(card()).toContainText("Nothing yet");
    await expect(card().getByRole("button", { name: "Apply" })).toBeHidden();
    await shot("empty");
    await card().getByRole("button", { name: "Add a key" }).click();
    await expect(card().getByLabel("Name")).toBeFocused();
    await card().getByLabel("Name").fill("API_KEY");
    await card().getByLabel("Value").fill(SECRET);
    await expect(card().getByLabel("Value")).toHaveClass("masked");
    await shot("form");
    await card().getByRole("button", { name: "Add", exact: true }).click();
    await expect(item("API_KEY")).toContainText("for the app · secret · changed since start");
    await expect_nowhere(SECRET);
    await card().getByRole("button", { name: "Add a key" }).click();
    await card().getByLabel("Name").fill("COLOUR");
    await card().getByLabel("Value").fill("green");
    await card().getByLabel(/^Secret/).uncheck();
    await card().getByLabel("Who gets it").selectOption({ label: "The app and its agents" });
    await card().getByRole("button", { name: "Add", exact: true }).click();
    await expect(item("COLOUR")).toContainText("green");
    await expect(item("COLOUR")).toContainText("for the app and agents");
    await expect(card()).toContainText("Changed since the app's processes started");
    await shot("changed");
    expect(faults()).toEqual([]);
});

test("what cannot be is said in the server's words", async () => {
    await card().getByRole("button", { name: "Add a key" }).click();
    await card().getByLabel("Name").fill("PATH");
    await card().getByLabel("Value").fill("/bin:typed-and-left");
    await card().getByRole("button", { name: "Add", exact: true }).click();
    await expect(card().getByRole("alert")).toContainText("programs would not be found any more");
    await shot("refused");
    await card().getByRole("button", { name: "Add a key" }).click();
    await expect(card().getByLabel("Name")).toBeHidden();
    await expect_nowhere("typed-and-left");
});

test("an apply that is refused says so until the next try", async () => {
    await page.route("**/apply-config", (route) =>
        route.fulfill({ status: 409, json: { error: { code: "conflict", message: "stop and start it" } } }),
    );
    await card().getByRole("button", { name: "Apply" }).click();
    await expect(card().getByRole("alert")).toContainText("stop and start it");
    await page.waitForResponse(/\/config$/);
    await page.waitForResponse(/\/config$/);
    await expect(card().getByRole("alert")).toContainText("stop and start it");
    await page.unroute("**/apply-config");
});

test("one press applies it, and the app has it", async () => {
    await card().getByRole("button", { name: "Apply" }).click();
    await expect(card()).toContainText("run with it now", { timeout: 60_000 });
    await expect(card().getByRole("button", { name: "Apply" })).toBeHidden();
    await expect(item("API_KEY")).not.toContainText("changed since start");
    const list = await api<{ changed_since_start: boolean }>("GET", `/v1/apps/${app_id}/config`);
    expect(list.changed_since_start).toBe(false);
    await shot("applied");
});

test("a secret is edited without being shown, by keyboard alone", async () => {
    await item("API_KEY").getByRole("button", { name: "Edit" }).focus();
    await page.keyboard.press("Enter");
    await expect(card().getByLabel("Value")).toBeFocused();
    await expect(card().getByLabel("Value")).toHaveValue("");
    await page.keyboard.press("Tab");
    await page.keyboard.press("ArrowDown"); /* to the agents */
    await item("API_KEY").getByRole("button", { name: "Save" }).focus();
    await page.keyboard.press("Enter");
    await expect(item("API_KEY")).toContainText("for agents · secret");
    await expect(item("API_KEY").getByRole("button", { name: "Edit" })).toBeFocused();
    await item("API_KEY").getByRole("button", { name: "Edit" }).click();
    await card().getByLabel("Value").fill(OTHER);
    await card().getByLabel("Who gets it").selectOption({ label: "The app" });
    await item("API_KEY").getByRole("button", { name: "Save" }).click();
    await expect(item("API_KEY")).toContainText("changed since start");
    await expect_nowhere(OTHER);
    await page.reload();
    await expect(item("API_KEY")).toBeVisible();
    await expect_nowhere(OTHER);
});

test("opening a secret needs its value", async () => {
    await item("API_KEY").getByRole("button", { name: "Edit" }).click();
    await item("API_KEY").getByLabel(/^Secret/).uncheck();
    await item("API_KEY").getByRole("button", { name: "Save" }).click();
    await expect(item("API_KEY").getByRole("alert")).toContainText("a sensitive value is never shown");
});

test("a key is deleted", async () => {
    await page.reload();
    await item("COLOUR").getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await expect(item("COLOUR")).toHaveCount(0);
    await card().getByRole("button", { name: "Apply" }).click();
    await expect(card()).toContainText("run with it now", { timeout: 60_000 });
    const sandbox = await api<{ config_changed_since_start: boolean }>("GET", `/v1/sandboxes/${sandbox_id}`);
    expect(sandbox.config_changed_since_start).toBe(false);
});
