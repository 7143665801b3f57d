/*
 * Connecting a provider: with a key, a login, the file of a CLI, a base URL of one's own. What is
 * secret goes in and is nowhere afterwards; what a provider says is shown in its words.
 */
import { randomBytes } from "node:crypto";
import { type BrowserContext, expect, type Locator, type Page, test } from "@playwright/test";
import { environment } from "./environment.ts";
import { api, call, watch_faults, watch_network } from "./steps.ts";

const { good_key, login_url, model_url } = environment();

test.describe.configure({ mode: "serial" });

let page: Page;
let context: BrowserContext;
const secrets: string[] = [];
const seen: string[] = []; /* every address asked and every answer */

/* Something that must never be found again. */
function secret(prefix: string): string {
    const value = `${prefix}${randomBytes(12).toString("hex")}`;
    secrets.push(value);
    return value;
}

test.beforeAll(async ({ browser }) => {
    context = await browser.newContext();
    page = await context.newPage();
    secrets.push(good_key);
    page.on("response", async (response) => {
        if (response.url().includes("/v1/")) {
            seen.push(response.url(), await response.text().catch(() => ""));
        }
    });
});

test.afterAll(async () => {
    await context.close();
    for (const provider of ["openrouter", "anthropic", "zen"]) {
        await api("POST", `/v1/providers/${provider}/disconnect`);
    }
});

function card(provider: string): Locator {
    return page.locator(`[data-provider="${provider}"]`);
}

async function nothing_secret_is_left(): Promise<void> {
    const kept = await page.evaluate(() =>
        [
            location.href,
            document.documentElement.outerHTML,
            JSON.stringify({ ...localStorage, ...sessionStorage }),
            ...[...document.querySelectorAll("input, textarea")].map(
                (field) => (field as HTMLInputElement).value,
            ),
            ...performance.getEntriesByType("resource").map((entry) => entry.name),
        ].join("\n"),
    );
    const { providers } = await api<{ providers: unknown[] }>("GET", "/v1/providers");
    for (const value of secrets) {
        expect(kept.includes(value), "the page, its storage, its address").toBe(false);
        expect(seen.join("\n").includes(value), "an address or an answer").toBe(false);
        expect(JSON.stringify(providers).includes(value), "GET /v1/providers").toBe(false);
    }
}

async function disconnect(provider: string): Promise<void> {
    await card(provider).getByRole("button", { name: /^Disconnect/ }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Disconnect" }).click();
    await expect(card(provider)).toContainText("Not connected");
}

test("a refused key is told in the provider's words and is not stored", async () => {
    await page.goto("/#/settings");
    const openrouter = card("openrouter");
    await expect(openrouter).toContainText("Not connected");
    await openrouter.getByRole("button", { name: "Connect: OpenRouter" }).click();
    const key = openrouter.getByLabel("API key");
    await expect(key).toBeFocused();
    await expect(key).toHaveAttribute("type", "password");
    await key.fill(secret("sk-or-bad-"));
    await openrouter.getByRole("button", { name: "Store key" }).click();
    await expect(openrouter.getByRole("alert")).toContainText("this key was revoked last week");
    await expect(openrouter.getByRole("alert")).toContainText("Nothing was stored");
    await expect(openrouter).toContainText("Not connected");
    await key.fill("");
    await nothing_secret_is_left();
});

test("a key goes in by keyboard alone, works, and never comes back", async () => {
    await page.goto("/#/usage");
    await page.goto("/#/settings");
    const openrouter = card("openrouter");
    await openrouter.getByRole("button", { name: "Connect: OpenRouter" }).focus();
    await page.keyboard.press("Enter");
    await page.keyboard.type(good_key);
    await page.keyboard.press("Enter");
    await expect(openrouter.getByRole("status")).toContainText("OpenRouter takes the key.");
    await expect(openrouter.getByRole("button", { name: "Replace key: OpenRouter" })).toBeFocused();
    await expect(openrouter).toContainText("Connected");
    await expect(openrouter).toContainText("API key set since");
    await nothing_secret_is_left();
    await page.reload();
    await expect(openrouter).toContainText("Connected");
    await openrouter.getByRole("button", { name: "Check: OpenRouter" }).click();
    await expect(openrouter.getByRole("status")).toContainText("OpenRouter takes the key.");
    await openrouter.getByRole("button", { name: "Replace key: OpenRouter" }).click();
    await expect(openrouter.getByLabel("API key")).toHaveValue("");
    await nothing_secret_is_left();
});

test("the agent uses what is connected, and says so where a prompt is typed", async () => {
    const opencode = page.locator('[data-agent="opencode"]');
    await expect(opencode.getByRole("link", { name: /OpenRouter/ })).toContainText("connected");
    await page.goto("/#/");
    await page.getByLabel("Agent").selectOption("opencode");
    await expect(page.getByLabel("Model", { exact: true })).toContainText("anthropic/claude-sonnet-5 · OpenRouter");
    await page.getByLabel("Model", { exact: true }).selectOption({ label: "Another …" });
    const name = page.getByLabel("Name of the model");
    await expect(name).toBeFocused();
    await expect(page.locator(`#${await name.getAttribute("list")} option`).first()).toHaveAttribute("value", /^(openrouter|zen)\//);
    await page.getByLabel("What do you want to build?").fill("Anything");
    await page.getByRole("button", { name: "Build it" }).click();
    await expect(page.getByRole("alert")).toContainText("No model is named.");
    await page.getByLabel("What do you want to build?").fill("");
    await page.getByLabel("Model", { exact: true }).selectOption({ index: 0 });
    await expect(name).toBeHidden();
});

test("disconnecting asks first and wipes", async () => {
    await page.goto("/#/settings/openrouter");
    const button = card("openrouter").getByRole("button", { name: "Disconnect: OpenRouter" });
    await button.click();
    await page.keyboard.press("Escape");
    await expect(page.getByRole("dialog")).toHaveCount(0);
    await expect(card("openrouter")).toContainText("Connected");
    await disconnect("openrouter");
});

test("a login opens the provider's page and takes its code once", async () => {
    const foreign = watch_network(context);
    await page.goto("/#/settings/anthropic");
    const anthropic = card("anthropic");
    await expect(anthropic.getByLabel("API key"), "the card of that address is open").toBeFocused();
    await expect(anthropic).toContainText("was not tried by us");
    await anthropic.getByRole("button", { name: "Sign in with Claude" }).click();
    const link = anthropic.getByRole("link", { name: "Open the sign-in page" });
    await expect(link).toHaveAttribute("rel", /noopener/);
    const opened = context.waitForEvent("page");
    await link.click();
    const provider_page = await opened;
    expect(provider_page.url()).toContain("code_challenge_method=S256");
    const code = (await provider_page.locator("code").innerText()).trim();
    await provider_page.close();
    expect(code).toMatch(/^code-[0-9a-f]+#.{20,}$/);
    secrets.push(code, code.split("#")[0] ?? "");
    await anthropic.getByLabel(/The code that the page shows/).fill(code);
    await anthropic.getByRole("button", { name: "Finish signing in" }).click();
    await expect(anthropic.getByRole("status")).toContainText("You are signed in.");
    await expect(anthropic).toContainText("Login since");
    await expect(page.locator('[data-agent="claude-code"]')).toContainText("Ready");
    await nothing_secret_is_left();
    expect(foreign()).toEqual([new URL(login_url).origin]);
});

test("a code that is refused says why and begins anew", async () => {
    const anthropic = card("anthropic");
    await anthropic.getByRole("button", { name: "Replace login: Anthropic" }).click();
    await anthropic.getByRole("button", { name: "Sign in with Claude" }).click();
    await anthropic.getByLabel(/The code that the page shows/).fill(secret("code-") + "#nonsense");
    await anthropic.getByRole("button", { name: "Finish signing in" }).click();
    await expect(anthropic.getByRole("alert")).toContainText("Could not sign in.");
    await expect(anthropic.getByRole("button", { name: "Finish signing in" })).toBeHidden();
    await expect(anthropic, "the login from before stays").toContainText("Login since");
    await nothing_secret_is_left();
});

test("a login that its provider ended is one clear state, with the way out", async () => {
    const told = await call(login_url, "/_stub", {
        method: "POST",
        body: JSON.stringify({ renew_mode: "refuse", expires_in: 3600 }),
    });
    expect(told.status).toBe(200);
    /* A login whose token is over asks for a new one at once. */
    await api("POST", "/v1/agents/claude-code/import", {
        credentials: JSON.stringify({
            claudeAiOauth: {
                accessToken: secret("oat-"),
                refreshToken: secret("ort-"),
                expiresAt: Date.now() - 1000,
            },
        }),
    });
    const anthropic = card("anthropic");
    await expect(anthropic).toContainText("that grant is not known here", { timeout: 40_000 });
    await expect(anthropic.locator(".badge")).toHaveText("Reconnect");
    await expect(anthropic).toContainText("Login of a CLI, imported since");
    await expect(anthropic.getByRole("button", { name: "Connect again: Anthropic" })).toBeVisible();
    await expect(page.locator('[data-agent="claude-code"]')).toContainText("Reconnect");
    await page.goto("/#/");
    await page.getByLabel("Agent").selectOption({ label: "Claude Code (reconnect)" });
    await page.getByLabel("What do you want to build?").fill("Anything");
    await page.getByRole("button", { name: "Build it" }).click();
    await expect(page.getByRole("alert")).toContainText("Claude Code lost its login.");
    await page.getByLabel("What do you want to build?").fill("");
    await page.getByRole("link", { name: "Settings → AI Agents" }).click();
    await nothing_secret_is_left();
    await disconnect("anthropic");
});

test("the file of a CLI is imported, and a wrong one says what is wanted", async () => {
    await page.goto("/#/settings");
    const opencode = page.locator('[data-agent="opencode"]');
    await opencode.getByRole("button", { name: "Import the login of its CLI: OpenCode" }).click();
    await opencode.getByLabel("Or its text").fill("{}");
    await opencode.getByRole("button", { name: "Import", exact: true }).click();
    await expect(opencode.getByRole("alert")).toContainText("no login that OpenCode could use");
    const text = JSON.stringify({ opencode: { type: "api", key: secret("zen-") } });
    await opencode
        .getByLabel("The file")
        .setInputFiles({ name: "auth.json", mimeType: "application/json", buffer: Buffer.from(text) });
    await expect(opencode.getByLabel("Or its text")).toHaveValue(text);
    await opencode.getByRole("button", { name: "Import", exact: true }).click();
    await expect(opencode.getByRole("status")).toContainText("Imported");
    await expect(card("zen")).toContainText("API key set since");
    await nothing_secret_is_left();
    await card("zen").getByRole("button", { name: /^Disconnect/ }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Disconnect" }).click();
    await expect(card("zen")).toContainText("Not connected");
});

test("a server of one's own: what to type is filled in, and it can be changed and removed", async () => {
    await page.getByRole("button", { name: "Add a provider of your own" }).click();
    await expect(page.getByLabel("What is it?")).toBeFocused();
    await page.getByLabel("What is it?").selectOption("Ollama");
    await expect(page.getByLabel("Base URL")).toHaveValue("http://127.0.0.1:11434/v1");
    await expect(page.getByLabel("It needs no key")).toBeChecked();
    await page.getByLabel("What is it?").selectOption({ label: "Another OpenAI-compatible server" });
    await page.getByLabel("Name", { exact: true }).fill("At home");
    await page.getByLabel("Base URL").fill("file:///etc/passwd");
    await page.getByLabel("Default model").fill("home-1");
    await expect(page.getByText("at-home/home-1")).toBeVisible();
    await page.locator("form").filter({ has: page.getByLabel("Base URL") }).getByLabel("API key").fill(secret("own-"));
    await page.getByRole("button", { name: "Add provider" }).click();
    await expect(page.getByRole("alert").filter({ hasText: "Could not store the provider." })).toBeVisible();
    await page.getByLabel("Base URL").fill(`${model_url}/own/v1`);
    await page.getByRole("button", { name: "Add provider" }).click();
    const own = card("at-home");
    await expect(own).toContainText("Connected");
    await expect(own).toContainText(`${model_url}/own/v1 · default model home-1`);
    await nothing_secret_is_left();
    /* A second one of that name would take the first one's place, and its key. */
    await page.getByRole("button", { name: "Add a provider of your own" }).click();
    await page.getByLabel("What is it?").selectOption({ label: "Another OpenAI-compatible server" });
    await page.getByLabel("Name", { exact: true }).fill("At home");
    await page.getByLabel("Base URL").fill(`${model_url}/elsewhere/v1`);
    await page.getByRole("button", { name: "Add provider" }).click();
    await expect(page.getByRole("alert").filter({ hasText: "The name at-home is taken" })).toBeVisible();
    await page.getByRole("button", { name: "Add a provider of your own" }).click();
    await page.reload();
    await expect(own).toContainText(`${model_url}/own/v1 · default model home-1`);
    await own.getByRole("button", { name: "Edit: At home" }).click();
    await own.getByLabel("Default model").fill("home-2");
    await own.getByRole("button", { name: "Save" }).click();
    await expect(own).toContainText("default model home-2");
    await expect(own, "its key stays").toContainText("API key set since");
    await page.goto("/#/");
    await page.getByLabel("Agent").selectOption("opencode");
    await expect(page.getByLabel("Model", { exact: true })).toContainText("home-2 · At home");
    await page.goto("/#/settings");
    await own.getByRole("button", { name: "Remove: At home" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
    await expect(own).toHaveCount(0);
});

test("a provider without a default model: the task names one", async () => {
    await api("PUT", "/v1/providers/cellar", {
        kind: "anthropic-compatible",
        base_url: `${model_url}/cellar`,
        keyless: true,
    });
    await page.reload();
    await expect(page.locator('[data-agent="claude-code"]')).toContainText("No default model");
    await page.goto("/#/");
    await page.getByLabel("Agent").selectOption({ label: "Claude Code" });
    await page.getByLabel("What do you want to build?").fill("Anything");
    await page.getByRole("button", { name: "Build it" }).click();
    await expect(page.getByRole("alert")).toContainText("has no default model");
    await page.getByLabel("Model", { exact: true }).selectOption({ label: "Another …" });
    await expect(page.getByLabel("Name of the model")).toBeFocused();
    await page.getByLabel("What do you want to build?").fill("");
    await api("DELETE", "/v1/providers/cellar");
});

test("a newcomer whose agents have no provider is told before anything is typed", async () => {
    const faults = watch_faults(page);
    /* OpenCode's free model makes every installation ready: here it is taken away. */
    const { agents } = await api<{ agents: { providers: object[] }[] }>("GET", "/v1/agents");
    const none = agents.map((agent) => ({
        ...agent,
        ready: false,
        status: "not_connected",
        providers: agent.providers.map((one) => ({ ...one, usable: false })),
    }));
    await page.route("**/v1/agents", (route) => route.fulfill({ json: { agents: none } }));
    await page.goto("/#/settings");
    await page.goto("/#/");
    await page.getByLabel("What do you want to build?").fill("A first thing");
    await page.getByRole("button", { name: "Build it" }).click();
    await expect(page.getByRole("alert")).toContainText("has no provider yet");
    await page.getByRole("link", { name: "Connect a provider" }).click();
    await expect(page.getByRole("heading", { level: 1, name: "Settings" })).toBeVisible();
    await expect(page.locator('[data-agent="opencode"]')).toContainText("Connect one of these providers");
    await page.unroute("**/v1/agents");
    await page.goto("/#/");
    await expect(page.getByLabel("What do you want to build?")).toHaveValue("A first thing");
    await expect(page.getByText("One step first")).toBeHidden();
    await page.getByLabel("What do you want to build?").fill("");
    expect(faults()).toEqual([]);
});
