/*
 * What several tests do: calls past the browser, the steps of a person, and who was asked over the
 * network.
 */
import { type BrowserContext, expect, type Page } from "@playwright/test";
import { request as http_request } from "node:http";
import { request as https_request } from "node:https";
import { environment } from "./environment.ts";

export interface Answer {
    status: number;
    headers: Record<string, string | string[] | undefined>;
    text: string;
}

export interface Call {
    method?: string;
    headers?: Record<string, string>;
    body?: string;
}

/*
 * A request with exactly these headers. It goes to this machine whatever the name says: Node
 * resolves no *.localhost, and what a test of refusals sends must not be completed by a helpful
 * client.
 */
export function call(
    base: string,
    path: string,
    { method = "GET", headers = {}, body = "" }: Call = {},
): Promise<Answer> {
    const url = new URL(base);
    const secure = url.protocol === "https:";
    const options = {
        host: "127.0.0.1",
        port: url.port || (secure ? 443 : 80),
        path,
        method,
        headers: {
            host: url.host,
            connection: "close",
            ...(body ? { "content-length": String(Buffer.byteLength(body)) } : {}),
            ...headers,
        },
        servername: url.hostname,
        rejectUnauthorized: false,
    };
    return new Promise((resolve, reject) => {
        const sent = (secure ? https_request : http_request)(options, (answer) => {
            const parts: Buffer[] = [];
            answer.on("data", (part: Buffer) => parts.push(part));
            answer.on("end", () =>
                resolve({
                    status: answer.statusCode ?? 0,
                    headers: answer.headers,
                    text: Buffer.concat(parts).toString(),
                }),
            );
        });
        sent.setTimeout(90_000, () =>
            sent.destroy(new Error(`${method} ${path}: no answer in 90 s`)),
        );
        sent.on("error", reject);
        sent.end(body);
    });
}

/* The API with the owner's token. */
export async function api<T>(method: string, path: string, body?: unknown): Promise<T> {
    const { api_url, api_token } = environment();
    const answer = await call(api_url, path, {
        method,
        headers: {
            authorization: `Bearer ${api_token}`,
            ...(body === undefined ? {} : { "content-type": "application/json" }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    expect(answer.status, `${method} ${path}: ${answer.text}`).toBeLessThan(300);
    return (answer.text === "" ? undefined : JSON.parse(answer.text)) as T;
}

export async function cookie_header(context: BrowserContext): Promise<string> {
    const cookies = await context.cookies(environment().console_url);
    return cookies.map((cookie) => `${cookie.name}=${cookie.value}`).join("; ");
}

export function origin(): string {
    return new URL(environment().console_url).origin;
}

export async function set_password(page: Page, password: string): Promise<void> {
    await page.getByLabel("New password").fill(password);
    await page.getByLabel("The same again").fill(password);
    await page.getByRole("button", { name: "Set password" }).click();
}

export async function sign_in(page: Page, password: string): Promise<void> {
    await page.getByLabel("Password").fill(password);
    await page.getByRole("button", { name: "Sign in" }).click();
}

export async function expect_home(page: Page): Promise<void> {
    await expect(page.getByRole("heading", { name: "What do you want to build?" })).toBeVisible();
    await expect(page.getByRole("button", { name: "Sign out" })).toBeVisible();
}

/* From the box of the home page to the page of the new app; the id of the app. */
export async function build(
    page: Page,
    prompt: string,
    preset = environment().app_preset,
): Promise<string> {
    await page.goto("/#/");
    await expect(page.getByLabel("Preset")).toContainText(preset);
    await expect(page.getByLabel("Agent")).toContainText("OpenCode");
    await page.getByLabel("Preset").selectOption({ label: preset });
    await page.getByLabel("What do you want to build?").fill(prompt);
    await page.getByRole("button", { name: "Build it" }).click();
    await expect(page).toHaveURL(/#\/apps\/[0-7][0-9a-z]{25}$/);
    return page.url().replace(/.*#\/apps\//, "");
}

export async function delete_app(app_id: string): Promise<void> {
    await api("DELETE", `/v1/apps/${app_id}`);
}

/* Every address that anything in this context asks for, previews of ours apart. */
export function watch_network(context: BrowserContext): () => string[] {
    const asked = new Set<string>();
    context.on("request", (request) => {
        const url = new URL(request.url());
        if (url.origin !== origin() && !url.hostname.includes(".preview.")) {
            asked.add(url.origin);
        }
    });
    return () => [...asked];
}

/* Errors that a page must not have: exceptions, and anything its own policy forbade. */
export function watch_faults(page: Page): () => string[] {
    const faults: string[] = [];
    page.on("pageerror", (error) => faults.push(String(error)));
    page.on("console", (message) => {
        if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) {
            faults.push(message.text());
        }
    });
    return () => faults;
}
