/* The main job, as a person does it: a prompt, the agent at work, the app in a browser. */
import { type BrowserContext, expect, type Page, test } from "@playwright/test";
import { api, build, delete_app, watch_faults, watch_network } from "./steps.ts";

const IMAGE_MINUTES_MAX = 40;

interface TaskRow {
    id: string;
    prompt: string;
    status: string;
}

/* The preview in a tab of its own, opened by its link as soon as that works. */
async function open_preview(page: Page, context: BrowserContext): Promise<Page> {
    const link = page.getByRole("link", { name: "Open preview" });
    await expect(link).toHaveAttribute("href", /^https?:\/\/s-[0-9a-z]{26}-\d+\.preview\./);
    const opened = context.waitForEvent("page");
    await link.click();
    return opened;
}

async function send(page: Page, prompt: string): Promise<void> {
    await page.getByLabel("What should change?").fill(prompt);
    await page.getByRole("button", { name: "Send" }).click();
    /* The panel that prepares it may stand beside the task for a moment. */
    await expect(page.getByText(prompt, { exact: true }).first()).toBeVisible();
}

test.describe.configure({ mode: "serial" });

let app_id = "";
let page: Page;
let context: BrowserContext;

test.beforeAll(async ({ browser }) => {
    context = await browser.newContext();
    page = await context.newPage();
});

test.afterAll(async () => {
    await context.close();
    if (app_id !== "") {
        await delete_app(app_id);
    }
});

test("a first prompt makes an app that runs", async () => {
    test.setTimeout(IMAGE_MINUTES_MAX * 60_000);
    app_id = await build(page, "Build a notes page. [[scenario:say It is a start.]]");
    await expect(page.getByRole("heading", { level: 1, name: "Notes page" })).toBeVisible();
    const task = page.getByRole("article", { name: "Task" });
    await expect(task).toBeVisible({ timeout: IMAGE_MINUTES_MAX * 60_000 });
    await expect(task.getByRole("status")).toContainText("Done", { timeout: 90_000 });
    await expect(task).toContainText("It is a start.");
});

test("prompt to changed file to the open preview, without a reload", async () => {
    const preview = await open_preview(page, context);
    await expect(preview.getByRole("heading", { level: 1 })).toBeVisible({ timeout: 60_000 });
    await expect(preview.getByRole("heading", { name: "Todo list" })).toHaveCount(0);
    await preview.evaluate(() => Object.assign(window, { same_document: true }));

    await send(
        page,
        "Add a todo list with a text input, an add button, and a delete button on each row.",
    );
    const task = page.getByRole("article", { name: "Task" }).last();
    await expect(task.getByText("I will look at the page first")).toBeVisible({ timeout: 60_000 });
    await expect(task.locator(".tool-head").first()).toContainText("App.tsx");

    await expect(preview.getByRole("heading", { name: "Todo list" })).toBeVisible({
        timeout: 60_000,
    });
    expect(await preview.evaluate(() => "same_document" in window)).toBe(true);
    await preview.getByLabel("New todo").fill("water the plants");
    await preview.getByRole("button", { name: "Add" }).click();
    await expect(preview.getByText("water the plants")).toBeVisible();
    await preview.getByRole("button", { name: "Delete" }).click();
    await expect(preview.getByText("water the plants")).toHaveCount(0);

    await expect(task.getByRole("status")).toContainText("Done", { timeout: 60_000 });
    await expect(task).toContainText("The todo list is in place");
    await preview.close();
});

test("a task goes on over a reload and a lost network, and looks the same in a second tab", async () => {
    const foreign = watch_network(context);
    const faults = watch_faults(page);
    await send(page, "Talk for a while [[scenario:slow 10]]");
    const task = page.getByRole("article", { name: "Task" }).last();
    await expect(task.getByRole("status")).toContainText("Running", { timeout: 60_000 });
    await page.reload();
    await expect(task.getByRole("status")).toContainText("Running");
    await context.setOffline(true);
    await page.waitForTimeout(2_000);
    await context.setOffline(false);
    const other = await context.newPage();
    await other.goto(`/#/apps/${app_id}`);
    const mirror = other.getByRole("article", { name: "Task" }).last();
    await expect(task.getByRole("status")).toContainText("Done", { timeout: 90_000 });
    await expect(mirror.getByRole("status")).toContainText("Done");
    expect(await mirror.locator(".items").innerText()).toBe(
        await task.locator(".items").innerText(),
    );
    await other.close();

    const { tasks } = await api<{ tasks: TaskRow[] }>("GET", `/v1/apps/${app_id}/tasks`);
    expect(tasks.filter((row) => row.prompt.startsWith("Talk for a while"))).toHaveLength(1);
    expect(foreign()).toEqual([]);
    expect(faults()).toEqual([]);
});

test("Stop stops", async () => {
    await send(page, "Talk for long [[scenario:slow 120]]");
    const task = page.getByRole("article", { name: "Task" }).last();
    await expect(task.getByRole("status")).toContainText("Running", { timeout: 60_000 });
    await task.getByRole("button", { name: "Stop" }).click();
    await expect(task.getByRole("status")).toContainText("Stopped", { timeout: 30_000 });
});

test("a refusal of the provider reaches the page in its own words", async () => {
    await send(page, "Spend money [[scenario:fail402]]");
    const task = page.getByRole("article", { name: "Task" }).last();
    await expect(task.getByRole("status")).toContainText("Failed", { timeout: 90_000 });
    await expect(task.locator(".line-error").first()).toContainText("no credit is left");
});

test("what an agent says is text, whatever it says", async () => {
    await send(
        page,
        'Say something bad [[scenario:say <img src=x onerror="window.broken=1"><script>window.broken=1</script>]]',
    );
    const task = page.getByRole("article", { name: "Task" }).last();
    await expect(task.getByRole("status")).toContainText("Done", { timeout: 90_000 });
    await expect(task.locator(".items")).toContainText("<img src=x");
    expect(await page.evaluate(() => "broken" in window)).toBe(false);
    expect(await task.locator(".items img, .items script").count()).toBe(0);
});

test("an agent without a provider is refused before anything is made", async () => {
    await page.goto("/#/");
    await expect(page.getByLabel("Agent")).toContainText("Claude Code (no provider yet)");
    await page.getByLabel("Agent").selectOption({ label: "Claude Code (no provider yet)" });
    await page.getByLabel("What do you want to build?").fill("Anything");
    await page.getByRole("button", { name: "Build it" }).click();
    await expect(page.getByRole("alert")).toContainText("Claude Code has no provider yet.");
    await page.getByRole("link", { name: "Settings → AI Agents" }).click();
    await expect(page.getByRole("heading", { name: "AI Agents" })).toBeVisible();
    await page.goto("/#/");
    await expect(page.getByLabel("What do you want to build?"), "the draft is kept").toHaveValue(
        "Anything",
    );
    await page.getByLabel("What do you want to build?").fill("");
    await expect(page.getByLabel("Agent")).toContainText("OpenCode");
    await page.getByLabel("Agent").selectOption({ index: 0 });
});

test("stop, start and delete from the list", async () => {
    await page.goto("/#/");
    const row = page.getByRole("listitem").filter({ hasText: "Notes page" });
    await row.getByRole("button", { name: "Stop Notes page" }).click();
    await expect(row).toContainText("Asleep", { timeout: 60_000 });
    await row.getByRole("button", { name: "Start Notes page" }).click();
    await expect(row).toContainText("Running", { timeout: 60_000 });
    await expect(row.getByRole("link", { name: /\.preview\./ })).toBeVisible();

    const remove = row.getByRole("button", { name: "Delete Notes page" });
    await remove.click();
    await expect(page.getByRole("dialog", { name: /Delete “Notes page”/ })).toBeVisible();
    await page.keyboard.press("Escape");
    await expect(page.getByRole("dialog")).toHaveCount(0);
    await expect(remove).toBeFocused();
    await remove.press("Enter");
    await page.getByRole("dialog").getByRole("button", { name: "Delete app" }).click();
    await expect(row).toHaveCount(0, { timeout: 60_000 });
    expect(
        (await api<{ apps: { id: string }[] }>("GET", "/v1/apps")).apps.filter(
            (app) => app.id === app_id,
        ),
    ).toEqual([]);
    app_id = "";
});
