/*
 * From nothing to a session: the one-time code, the password, and what neither may do. In this
 * order.
 */
import { expect, test } from "@playwright/test";
import { environment, PASSWORD, STATE_FILE } from "./environment.ts";
import {
    call,
    cookie_header,
    expect_home,
    origin,
    set_password,
    sign_in,
    watch_faults,
    watch_network,
} from "./steps.ts";

test.describe.configure({ mode: "serial" });

test("without a session nothing but the form is to be had", async ({ page }) => {
    await page.goto("/");
    await expect(page.getByRole("heading", { name: "Choose a password" })).toBeVisible();
    await expect(page.getByLabel("One-time code")).toBeFocused();
    for (const path of ["/v1/apps", "/v1/status", "/v1/agents", "/v1/presets", "/v1/events"]) {
        expect((await call(origin(), path)).status, path).toBe(401);
    }
});

test("a code that is wrong is refused, and leaves the address bar at once", async ({ page }) => {
    await page.goto("/#setup=AAAAAAAAAAAAAAAAAAAAAA");
    await expect(page.getByRole("heading", { name: "Choose a password" })).toBeVisible();
    expect(page.url()).not.toContain("setup");
    await set_password(page, PASSWORD);
    await expect(page.getByRole("alert")).toContainText("Could not set the password.");
    expect(await cookie_header(page.context())).toBe("");
});

test("a short password and two that differ are told apart before anything is sent", async ({
    page,
}) => {
    const sent: string[] = [];
    page.on("request", (request) => request.method() === "POST" && sent.push(request.url()));
    await page.goto(`/#setup=${environment().setup_code}`);
    await set_password(page, "too short");
    await expect(page.getByRole("alert")).toContainText("9 of at least 10 characters");
    await page.getByLabel("The same again").fill("something else");
    await page.getByLabel("New password").fill(PASSWORD);
    await page.getByRole("button", { name: "Set password" }).click();
    await expect(page.getByRole("alert")).toContainText("differ");
    expect(sent).toEqual([]);
});

test("the code opens the console once", async ({ page, browser }) => {
    const foreign = watch_network(page.context());
    const faults = watch_faults(page);
    await page.goto(`/#setup=${environment().setup_code}`);
    await expect(page.getByRole("heading", { name: "Choose a password" })).toBeVisible();
    expect(page.url()).not.toContain(environment().setup_code);
    await set_password(page, PASSWORD);
    await expect_home(page);
    await page.goBack().catch(() => null);
    expect(page.url()).not.toContain(environment().setup_code);
    expect(foreign()).toEqual([]);
    expect(faults()).toEqual([]);

    const second = await browser.newContext();
    const other = await second.newPage();
    await other.goto(`${origin()}/#setup=${environment().setup_code}`);
    await set_password(other, "another long password");
    await expect(other.getByRole("alert")).toContainText("Could not set the password.");
    expect(await cookie_header(second)).toBe("");
    await second.close();
});

test("an address with a code works in a tab that is already open", async ({ page }) => {
    await page.goto("/");
    await expect(page.getByRole("heading", { name: "Sign in" })).toBeVisible();
    await page.evaluate(() => {
        location.hash = "#setup=BBBBBBBBBBBBBBBBBBBBBB";
    });
    await expect(page.getByRole("heading", { name: "Choose a new password" })).toBeVisible();
    expect(page.url()).not.toContain("setup");
});

test("password in, wrong password out, sign-out ends the session on the server", async ({
    page,
    context,
}) => {
    await page.goto("/");
    await expect(page.getByLabel("Password")).toBeFocused();
    await sign_in(page, "not the password");
    await expect(page.getByRole("alert")).toContainText("Could not sign in.");
    await sign_in(page, PASSWORD);
    await expect_home(page);
    await page.reload();
    await expect_home(page);

    const cookie = await cookie_header(context);
    expect((await call(origin(), "/v1/apps", { headers: { cookie } })).status).toBe(200);
    await page.getByRole("button", { name: "Sign out" }).click();
    await expect(page.getByRole("heading", { name: "Sign in" })).toBeVisible();
    expect((await call(origin(), "/v1/apps", { headers: { cookie } })).status).toBe(401);
    await page.reload();
    await expect(page.getByRole("heading", { name: "Sign in" })).toBeVisible();
});

test("how to get a new code stands below the form", async ({ page }) => {
    await page.goto("/");
    await page.getByText("Forgot the password?").click();
    await expect(
        page.getByText("docker compose exec sandboxd sandboxd console-code"),
    ).toBeVisible();
    await page.getByRole("button", { name: "Enter a one-time code" }).click();
    await expect(page.getByLabel("One-time code")).toBeVisible();
    await page.getByRole("button", { name: "Back to sign-in" }).click();
    await expect(page.getByLabel("Password")).toBeVisible();
});

test("a session for the tests that follow", async ({ page, context }) => {
    await page.goto("/");
    await sign_in(page, PASSWORD);
    await expect_home(page);
    await context.storageState({ path: STATE_FILE });
});
