/*
 * Private previews in a real browser: the way in, the frame in the console, the end of access, and
 * what the page of another preview cannot do.
 */
import { type BrowserContext, expect, type Frame, type Page, test } from "@playwright/test";
import { PASSWORD, environment } from "./environment.ts";
import { api, call, origin, sign_in, watch_faults } from "./steps.ts";

const ATTACKER_URL = process.env["CONSOLE_PREVIEW_URL"] ?? "";
const PRIVATE_URL = process.env["CONSOLE_PRIVATE_URL"] ?? "";
const SANDBOX_ID = /s-([0-9a-z]{26})-/.exec(PRIVATE_URL)?.[1] ?? "";
const secure = origin().startsWith("https:");

const NOBODY = { storageState: { cookies: [], origins: [] } };

let app_id = "";

async function set_access(access: "public" | "private"): Promise<void> {
    await api("PATCH", `/v1/apps/${app_id}`, { preview_access: access });
}

/* A pass of before is worth nothing in the next test. */
test.beforeEach(async () => {
    app_id = (await api<{ app_id: string }>("GET", `/v1/sandboxes/${SANDBOX_ID}`)).app_id;
    await set_access("public");
    await set_access("private");
});

/* What the app was sent so far, asked as a stranger while it is public for a moment. */
async function posts(): Promise<string[]> {
    await set_access("public");
    const answer = await call(PRIVATE_URL, "/posts");
    await set_access("private");
    return JSON.parse(answer.text) as string[];
}

/* Calls and sockets of the app's own page carry the pass. */
async function own_page_reaches(frame: Frame): Promise<string[]> {
    return frame.evaluate(async () => {
        const answer = await fetch("/hello");
        const socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}/ws`);
        const opened = await new Promise<string>((resolve) => {
            socket.onopen = () => resolve("open");
            socket.onerror = () => resolve("refused");
        });
        return [String(answer.status), opened];
    });
}

test("a direct visit goes by way of the console and ends where it was meant to", async ({ page }) => {
    await page.goto(`${PRIVATE_URL}/hello?a=1&b=%2F#/place`);
    await expect(page.getByText("hello", { exact: true })).toBeVisible();
    expect(page.url()).toBe(`${PRIVATE_URL}/hello?a=1&b=%2F#/place`);
    const cookies = await page.context().cookies(PRIVATE_URL);
    const pass = cookies.find((cookie) => cookie.name.endsWith("sandboxd_pass"));
    expect(pass).toMatchObject({ httpOnly: true, secure: true, sameSite: "None", path: "/" });
    expect(pass?.name.startsWith("__Host-")).toBe(secure);
    expect(await page.evaluate(() => document.cookie)).toBe("");
    expect(await own_page_reaches(page.mainFrame())).toEqual(["200", "open"]);
});

test("whoever is signed out signs in first and is brought back", async ({ browser }) => {
    const context = await browser.newContext(NOBODY);
    const page = await context.newPage();
    await page.goto(`${PRIVATE_URL}/hello?a=1#setup=abc`);
    await expect(page.getByRole("heading", { name: "Sign in" })).toBeVisible();
    expect(new URL(page.url()).origin).toBe(origin());
    await sign_in(page, PASSWORD);
    await expect(page.getByText("hello", { exact: true })).toBeVisible();
    expect(page.url()).toBe(`${PRIVATE_URL}/hello?a=1#setup=abc`);
    await context.close();
});

test("an address that names no preview of ours opens nothing", async ({ page }) => {
    for (const query of [
        "",
        `sandbox=${SANDBOX_ID}&port=3000&to=//evil.example/`,
        `sandbox=${SANDBOX_ID}&port=3000.evil.example&to=/`,
        `sandbox=${SANDBOX_ID}@evil.example&port=3000&to=/`,
    ]) {
        await page.goto(`/enter?${query}`);
        await expect(page.getByRole("heading", { name: "No such preview" })).toBeVisible();
    }
    await page.goto(`/enter?sandbox=${SANDBOX_ID}&port=3999&to=/`);
    await expect(page.getByRole("alert").filter({ hasText: "port 3999" })).toBeVisible();
    await page.goto("/enter?sandbox=01k9p3n8c4w6r2t5y7a9b1d3f5&port=3000&to=/");
    await expect(page.getByRole("alert").filter({ hasText: "Could not open" })).toBeVisible();
    expect(new URL(page.url()).origin).toBe(origin());
});

async function open_app(page: Page): Promise<void> {
    await page.goto(`/#/apps/${app_id}`);
    await expect(page.getByRole("link", { name: "Open preview" })).toHaveAttribute("href", /.+/);
}

test("the console shows it in a frame and opens it in a tab", async ({ page, context }) => {
    const faults = watch_faults(page);
    await open_app(page);
    await expect(page.getByText("Only you, signed in to this console")).toBeVisible();
    await page.getByRole("button", { name: "Show here" }).click();
    const pane = page.frameLocator("iframe");
    await expect(pane.getByText("the app knows no such page")).toBeVisible();
    const frame = page.frames().find((each) => each.url().startsWith(PRIVATE_URL));
    expect(frame && (await own_page_reaches(frame))).toEqual(["200", "open"]);
    const opened = context.waitForEvent("page");
    await page.getByRole("link", { name: "Open preview" }).click();
    const tab = await opened;
    await expect(tab.getByText("the app knows no such page")).toBeVisible();
    expect(tab.url()).toBe(`${PRIVATE_URL}/`);
    await tab.close();
    expect(faults()).toEqual([]);
});

test("a visible page of a running app says that somebody looks at it", async ({ page }) => {
    await page.goto(`${PRIVATE_URL}/hello`);
    await expect(page.getByText("hello", { exact: true })).toBeVisible();
    const said = page.waitForResponse((answer) =>
        answer.url().endsWith(`/v1/sandboxes/${SANDBOX_ID}/watching`),
    );
    await page.goto(`${origin()}/#/apps/${app_id}`);
    expect((await said).status()).toBe(204);
});

test("the switch says who can load it, and what was open ends", async ({ page, browser }) => {
    await open_app(page);
    const control = page.getByRole("switch", { name: "Private preview" });
    await expect(control).toBeChecked();
    await control.uncheck();
    await expect(page.getByText("Whoever has this address can load the app.")).toBeVisible();
    const context = await browser.newContext(NOBODY);
    const stranger = await context.newPage();
    await stranger.goto(`${PRIVATE_URL}/hello`);
    await expect(stranger.getByText("hello", { exact: true })).toBeVisible();
    await control.check();
    await expect(page.getByText("Only you, signed in to this console")).toBeVisible();
    await stranger.goto(`${PRIVATE_URL}/hello`);
    await expect(stranger.getByRole("heading", { name: "Sign in" })).toBeVisible();
    await context.close();
});

/* The owner has both open in one browser; the neighbour's page tries what a page can. */
async function attack(page: Page, context: BrowserContext): Promise<Record<string, string>> {
    const mine = await context.newPage();
    await mine.goto(`${PRIVATE_URL}/hello`);
    await expect(mine.getByText("hello", { exact: true })).toBeVisible();
    await page.goto(`${ATTACKER_URL}/hello`);
    return page.evaluate(
        async ({ target, console_origin, sandbox }) => {
            const outcome = async (work: () => Promise<string>): Promise<string> =>
                work().catch((error: unknown) => `failed: ${String(error)}`);
            const socket = new Promise<string>((resolve) => {
                const ws = new WebSocket(`${target.replace(/^http/, "ws")}/ws`);
                ws.onopen = () => resolve("open");
                ws.onerror = () => resolve("refused");
            });
            const form = new Promise<string>((resolve) => {
                const frame = document.createElement("iframe");
                frame.name = "form";
                document.body.append(frame);
                const sent = document.createElement("form");
                sent.method = "post";
                sent.action = `${target}/stolen-by-form`;
                sent.target = "form";
                document.body.append(sent);
                frame.onload = () => resolve("loaded");
                sent.submit();
            });
            return {
                read: await outcome(async () =>
                    (await fetch(`${target}/hello`, { credentials: "include" })).text(),
                ),
                post: await outcome(async () => {
                    const sent = await fetch(`${target}/stolen`, {
                        method: "POST",
                        credentials: "include",
                        mode: "no-cors",
                        body: "x",
                    });
                    return sent.type;
                }),
                ticket: await outcome(async () => {
                    const asked = await fetch(
                        `${console_origin}/v1/sandboxes/${sandbox}/preview-ticket`,
                        { method: "POST", credentials: "include", mode: "no-cors", body: "{}" },
                    );
                    return asked.type;
                }),
                socket: await socket,
                form: await form,
            };
        },
        { target: PRIVATE_URL, console_origin: environment().console_url, sandbox: SANDBOX_ID },
    );
}

test("the page of another preview reaches nothing with the owner's cookie", async ({
    page,
    context,
}) => {
    const before = await posts();
    const outcome = await attack(page, context);
    expect(outcome["read"]).toMatch(/^failed/);
    expect(outcome["socket"]).toBe("refused");
    expect(await posts(), "no call and no form of its reached the app").toEqual(before);
});

test("another preview cannot frame a private one, nor the way in", async ({ page, context }) => {
    const mine = await context.newPage();
    await mine.goto(`${PRIVATE_URL}/hello`);
    await expect(mine.getByText("hello", { exact: true })).toBeVisible();
    const { url } = await api<{ url: string }>("POST", `/v1/sandboxes/${SANDBOX_ID}/preview-ticket`, {
        path: "/hello",
    });
    const own = new URL(PRIVATE_URL);
    const stolen = url.replace(/^https?:\/\/[^/]+/, own.origin);
    await page.goto(`${ATTACKER_URL}/hello`);
    const enter = `${origin()}/enter?sandbox=${SANDBOX_ID}&port=3000&to=/hello`;
    for (const src of [`${PRIVATE_URL}/hello`, enter, stolen]) {
        await page.evaluate(async (address) => {
            const frame = document.createElement("iframe");
            frame.src = address;
            const loaded = new Promise((resolve) => frame.addEventListener("load", resolve));
            document.body.append(frame);
            await loaded;
        }, src);
    }
    await page.waitForTimeout(500);
    for (const frame of page.frames().filter((each) => each !== page.mainFrame())) {
        const text = await frame.evaluate(() => document.body?.innerText ?? "").catch(() => "");
        expect(text, frame.url()).not.toBe("hello");
    }
});
