/* What was spent, what may be spent, and which budget stands in the way: with a real agent. */
import { expect, type Locator, type Page, test } from "@playwright/test";
import { api, delete_app, watch_faults } from "./steps.ts";

test.describe.configure({ mode: "serial" });

let page: Page;
let app_id = "";

test.beforeAll(async ({ browser }) => {
    await api("POST", "/v1/agents/claude-code/api-key", { api_key: "sk-ant-console-spend" });
    const app = await api<{ id: string }>("POST", "/v1/apps", {
        name: "Spender",
        runtime_preset: "node-http",
    });
    app_id = app.id;
    await api("POST", `/v1/apps/${app_id}/sandbox`, { ports: [3000] });
    page = await browser.newPage();
});

test.afterAll(async () => {
    await page.close();
    for (const scope of ["task", "day", "installation"]) {
        await api("DELETE", `/v1/budgets/${scope}`).catch(() => null);
    }
    await api("POST", "/v1/agents/claude-code/disconnect");
    await delete_app(app_id);
});

function budget(scope: string): Locator {
    return page.locator(`[data-budget="${scope}"]`);
}

async function send(prompt: string, model = ""): Promise<Locator> {
    await page.goto(`/#/apps/${app_id}`);
    await expect(page.getByLabel("Agent")).toContainText("Claude Code");
    await page.getByLabel("Agent").selectOption({ label: "Claude Code" });
    if (model !== "") {
        await page.getByLabel("Model", { exact: true }).selectOption({ label: "Another …" });
        await page.getByLabel("Name of the model").fill(model);
    } else {
        await page.getByLabel("Model", { exact: true }).selectOption({ index: 0 });
    }
    await page.getByLabel("What should change?").fill(`${prompt} [[scenario:say It is done.]]`);
    await page.getByRole("button", { name: "Send" }).click();
    return page.getByRole("article", { name: "Task" }).filter({ hasText: prompt });
}

async function ends(task: Locator, word: string): Promise<void> {
    await expect(task.getByRole("status")).toContainText(word, { timeout: 90_000 });
}

test("nothing spent is nothing, and nothing limits it", async () => {
    await page.goto(`/#/apps/${app_id}`);
    const card = page.getByRole("region", { name: "Usage" });
    await expect(card).toContainText("nothing yet");
    await expect(card).toContainText("No limit");
    await page.goto("/#/usage");
    for (const scope of ["installation", "day", "task"]) {
        await expect(budget(scope)).toContainText("No limit");
    }
});

test("a task says what it took, and so do its app and the page of usage", async () => {
    const task = await send("The first one");
    await ends(task, "Done");
    await expect(task).toContainText("500 tokens in, 35 out, 1,000 cached · cost $0.00155");
    await expect(page.getByRole("region", { name: "Usage" })).toContainText(/Cost\s*\$0\.00155/, {
        timeout: 15_000,
    });
    await page.getByRole("link", { name: "Usage of everything" }).click();
    await page.getByLabel("By", { exact: true }).selectOption("app_id");
    const table = page.getByRole("table", { name: "Usage" });
    await expect(table.getByRole("row").filter({ hasText: "Spender" })).toContainText("$0.00155");
    await page.getByLabel("By", { exact: true }).selectOption("key_id");
    await expect(table).toContainText("Anthropic, present key");
    await page.getByLabel("By", { exact: true }).selectOption("task_id");
    await expect(table.getByRole("row").nth(1)).toContainText("Spender");
    await expect(table.getByRole("row").nth(1).locator("[title]").first()).toHaveAttribute("title", /^01[0-9a-z]{24}$/);
    await page.getByLabel("By", { exact: true }).selectOption("day");
    await expect(table.getByRole("row").nth(1)).toContainText(String(new Date().getUTCFullYear()));
});

test("a model without a price has an unknown cost until one is set", async () => {
    const task = await send("With a home-made model", "home-made-1");
    await ends(task, "Done");
    await expect(task).toContainText("claude-code · home-made-1");
    await expect(task).toContainText("cost unknown");
    await page.goto("/#/usage");
    await expect(page.getByText(/requests? have no known price and are in no cost/).or(page.getByText(/has a known price/))).toBeVisible();
    await page.getByLabel("By", { exact: true }).selectOption("model");
    await page.getByRole("button", { name: "Set a price for home-made-1" }).click();
    const form = page.locator("form").filter({ has: page.getByRole("button", { name: "Save price" }) });
    await expect(form.getByLabel("Model")).toHaveValue("home-made-1");
    await expect(form.getByLabel("Provider")).toHaveValue("anthropic");
    await form.getByLabel("Input").fill("two");
    await form.getByLabel("Output").fill("10");
    await form.getByRole("button", { name: "Save price" }).click();
    await expect(form.getByRole("alert")).toContainText("“two” is no amount");
    await form.getByLabel("Input").fill("2");
    await form.getByRole("button", { name: "Save price" }).click();
    await page.getByLabel("Search").fill("home-made");
    const row = page.getByRole("table", { name: "Prices" }).getByRole("row").filter({ hasText: "home-made-1" });
    await expect(row).toContainText("your own");
    await expect(row).toContainText("$10.00");
    const again = await send("Now it has a price", "home-made-1");
    await ends(again, "Done");
    await expect(again).toContainText(/cost \$0\.00\d+/);
    await page.goto("/#/usage/prices");
    await page.getByLabel("Search").fill("home-made");
    await row.getByRole("button", { name: /^Take back/ }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Take back" }).click();
    await expect(page.getByText("No price fits.")).toBeVisible();
});

test("the budget of an app is set on its page, warns, and stands in the way of the next task by name", async () => {
    await page.goto(`/#/apps/${app_id}`);
    await page.getByRole("button", { name: "Set a budget: Budget of this app" }).click();
    const dollars = budget("app").getByLabel("US dollars");
    await expect(dollars).toBeFocused();
    await budget("app").getByRole("button", { name: "Save budget" }).click();
    await expect(budget("app").getByRole("alert")).toContainText("Neither field has a limit");
    await dollars.fill("0.0000001");
    await budget("app").getByRole("button", { name: "Save budget" }).click();
    await expect(budget("app").getByRole("alert")).toContainText("is no amount");
    await dollars.fill("");
    await budget("app").getByLabel("Tokens").fill("100k");
    await page.keyboard.press("Enter");
    await expect(budget("app")).toContainText("0 of 100,000 tokens used");
    await expect(budget("app")).toContainText("Within budget");

    const task = await send("One too many");
    await ends(task, "Budget reached");
    await expect(task).toContainText("the budget of this app (100000 tokens) is reached");
    await expect(task, "no wrapping of the agent's").not.toContainText("Failed to authenticate");
    await expect(task).toContainText("What the agent changed so far is kept.");
    await task.getByRole("link", { name: "Usage → Budgets" }).click();
    await expect(page.getByRole("heading", { name: "Budgets" })).toBeFocused();
    await expect(budget("app").getByRole("link", { name: "Spender" })).toBeVisible();
    await expect(budget("app")).toContainText("Reached");
    await expect(budget("app")).toContainText("Too little is left for the next request");
    await budget("app").getByRole("button", { name: "Edit: Spender" }).click();
    await expect(budget("app").getByLabel("Tokens")).toHaveValue("100,000");
    await budget("app").getByLabel("Tokens").fill("200,000");
    await page.keyboard.press("Enter");
    await expect(budget("app")).toContainText("of 200,000 tokens used");

    const passes = await send("It goes on");
    await ends(passes, "Done");
    /* 1,535 of it are used: enough for a smaller one to be nearly, then wholly, used up. */
    for (const [limit, word] of [
        [1_900, "Nearly used up"],
        [1_500, "Reached"],
    ] as const) {
        await api("PUT", `/v1/apps/${app_id}/budget`, { limit_tokens: limit });
        await page.reload();
        await expect(budget("app")).toContainText(word);
    }
    await expect(budget("app")).toContainText("tasks are refused");
    await expect(page.getByText("The budget of this app is used up")).toBeVisible();
    await budget("app").getByRole("button", { name: /^Count anew/ }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Count anew" }).click();
    await expect(budget("app")).toContainText("0 of 1,500 tokens used");
    await expect(page.getByText("The budget of this app is used up")).toBeHidden();
    await budget("app").getByRole("button", { name: /^Remove/ }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
    await expect(budget("app")).toContainText("No limit");
});

test("budgets of the day, each task and the installation are set on the page of usage", async () => {
    const faults = watch_faults(page);
    await page.goto("/#/usage/budgets");
    for (const [scope, dollars, tokens, shown] of [
        ["day", "5", "", "$5.00"],
        ["task", "0.25", "1.5M", "$0.25 or 1,500,000 tokens"],
        ["installation", "100", "", "$100.00"],
    ] as const) {
        await budget(scope).getByRole("button", { name: /^Set a budget/ }).click();
        await budget(scope).getByLabel("US dollars").fill(dollars);
        await budget(scope).getByLabel("Tokens").fill(tokens);
        if (scope === "day") {
            await budget(scope).getByLabel("Let models pass whose price is not known").check();
        }
        await budget(scope).getByRole("button", { name: "Save budget" }).click();
        await expect(budget(scope)).toContainText(shown);
    }
    await expect(budget("day")).toContainText("models without a known price pass");
    const task = await send("Dear and unknown", "home-made-2");
    await ends(task, "Failed");
    await expect(task).toContainText("home-made-2");
    await expect(task.getByRole("link", { name: "Usage → Prices" })).toBeVisible();
    const cheap = await send("With a limit of its own");
    await ends(cheap, "Budget reached");
    await expect(cheap).toContainText("the budget of this task");
    await expect(cheap).toContainText("budget $0.25 or 1,500,000 tokens");
    await page.goto("/#/usage");
    for (const scope of ["day", "task", "installation"]) {
        await budget(scope).getByRole("button", { name: /^Remove/ }).click();
        await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
        await expect(budget(scope)).toContainText("No limit");
    }
    expect(faults()).toEqual([]);
});

test("a server that is away says so on both pages, and what is known stays", async () => {
    await page.goto("/#/usage");
    await expect(budget("day")).toBeVisible();
    await page.route("**/v1/budgets", (route) => route.abort());
    await page.getByLabel("By", { exact: true }).selectOption("provider");
    await expect(page.getByRole("alert")).toContainText("Could not load the usage.");
    await expect(budget("day")).toBeVisible();
    await page.unroute("**/v1/budgets");
    await expect(page.getByRole("alert")).toBeHidden({ timeout: 20_000 });
    await page.route("**/v1/providers", (route) => route.abort());
    await page.goto("/#/settings");
    await expect(page.getByRole("alert")).toContainText("Could not load the settings.");
    await expect(page.getByText("Not connected")).toHaveCount(0);
    await page.unroute("**/v1/providers");
    await expect(page.getByText("Not connected").first()).toBeVisible({ timeout: 20_000 });
});
