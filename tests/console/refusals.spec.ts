/*
 * A preview page is an attacker's page. What it, and anybody with a cookie but the wrong manners,
 * may not do to the console; tried by hand-made requests and from a real preview in the same
 * browser.
 */
import { expect, type Page, test } from "@playwright/test";
import { environment } from "./environment.ts";
import { api, call, cookie_header, expect_home, origin } from "./steps.ts";

const PREVIEW_URL = process.env["CONSOLE_PREVIEW_URL"] ?? "";
const MARK = "made by an attacker";
const BODY = JSON.stringify({ name: MARK, runtime_preset: "node-http" });
const secure = origin().startsWith("https:");

async function nothing_was_made(): Promise<void> {
    const { apps } = await api<{ apps: { name: string }[] }>("GET", "/v1/apps?limit=200");
    expect(apps.filter((app) => app.name === MARK)).toEqual([]);
}

function error_code(text: string): string {
    return (JSON.parse(text) as { error: { code: string } }).error.code;
}

test.afterEach(nothing_was_made);

test("the session's cookie is for this host and no script", async ({ context }) => {
    const cookies = await context.cookies(origin());
    expect(cookies).toHaveLength(1);
    const cookie = cookies[0];
    expect(cookie).toMatchObject({
        httpOnly: true,
        sameSite: "Strict",
        secure,
        path: "/",
        domain: new URL(origin()).hostname,
    });
    expect(cookie?.name.startsWith("__Host-")).toBe(secure);
});

test("a mutation needs the console's own origin, port included, and JSON", async ({ context }) => {
    const cookie = await cookie_header(context);
    const json = { cookie, "content-type": "application/json" };
    const own = new URL(origin());
    const other_port = `${own.protocol}//${own.hostname}:${Number(own.port || 80) + 1}`;
    const other_scheme = `${secure ? "http:" : "https:"}//${own.host}`;
    const origins = [
        new URL(PREVIEW_URL).origin,
        "null",
        "http://evil.example",
        other_port,
        other_scheme,
        `${origin()}.evil.example`,
        "",
    ];
    for (const claimed of origins) {
        const answer = await call(origin(), "/v1/apps", {
            method: "POST",
            headers: { ...json, origin: claimed },
            body: BODY,
        });
        expect(answer.status, `Origin "${claimed}": ${answer.text}`).toBe(403);
    }
    expect(
        (await call(origin(), "/v1/apps", { method: "POST", headers: json, body: BODY })).status,
        "no Origin",
    ).toBe(403);
    for (const type of [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "",
    ]) {
        const headers = { cookie, origin: origin(), ...(type ? { "content-type": type } : {}) };
        const answer = await call(origin(), "/v1/apps", { method: "POST", headers, body: BODY });
        expect(answer.status, `content type "${type}": ${answer.text}`).toBe(415);
    }
    await nothing_was_made();
    const good = await call(origin(), "/v1/apps", {
        method: "POST",
        headers: { ...json, origin: origin() },
        body: BODY.replace(MARK, "made by the owner"),
    });
    expect(good.status, good.text).toBe(201);
    const { id } = JSON.parse(good.text) as { id: string };
    const gone = await call(origin(), `/v1/apps/${id}`, {
        method: "DELETE",
        headers: { cookie, origin: "http://evil.example" },
    });
    expect(gone.status, gone.text).toBe(403);
    await api("DELETE", `/v1/apps/${id}`);
});

test("keys, budgets and prices are changed from the console alone", async ({ context }) => {
    const cookie = await cookie_header(context);
    const json = { cookie, "content-type": "application/json" };
    const calls: [string, string, object][] = [
        ["PUT", "/v1/providers/evil", { kind: "openai-compatible", base_url: "http://evil.example" }],
        ["POST", "/v1/providers/openai/api-key", { api_key: "sk-evil" }],
        ["POST", "/v1/providers/openai/disconnect", {}],
        ["POST", "/v1/agents/claude-code/oauth/start", {}],
        ["PUT", "/v1/budgets/day", { limit_tokens: 1 }],
        ["DELETE", "/v1/budgets/day", {}],
        ["PUT", "/v1/prices", { provider: "openai", model: "m", input: 0, output: 0 }],
    ];
    for (const [method, path, body] of calls) {
        for (const claimed of [new URL(PREVIEW_URL).origin, "null"]) {
            const answer = await call(origin(), path, {
                method,
                headers: { ...json, origin: claimed },
                body: JSON.stringify(body),
            });
            expect(answer.status, `${method} ${path} from ${claimed}: ${answer.text}`).toBe(403);
        }
    }
    const { providers } = await api<{ providers: { id: string; status: string }[] }>("GET", "/v1/providers");
    expect(providers.find((one) => one.id === "evil")).toBeUndefined();
    expect(providers.find((one) => one.id === "openai")?.status).toBe("not_connected");
    expect((await api<{ budgets: object[] }>("GET", "/v1/budgets")).budgets).toEqual([]);
});

test("a token is refused at the console, and told where it works", async () => {
    const { api_token } = environment();
    const answer = await call(origin(), "/v1/apps", {
        headers: { authorization: `Bearer ${api_token}` },
    });
    expect(answer.status, answer.text).toBe(403);
    expect(error_code(answer.text)).toBe("forbidden");
    expect(answer.text).toContain("127.0.0.1");
});

test("a cookie is nothing to the API, and an Origin is refused there", async ({ context }) => {
    const { api_url, api_token } = environment();
    const cookie = await cookie_header(context);
    expect((await call(api_url, "/v1/apps", { headers: { cookie } })).status).toBe(401);
    const headers = { authorization: `Bearer ${api_token}`, origin: origin() };
    expect((await call(api_url, "/v1/apps", { headers })).status).toBe(403);
});

test("what is for the machine alone does not exist at the console", async ({ context }) => {
    const cookie = await cookie_header(context);
    for (const path of [
        "/metrics",
        "/readyz",
        "/healthz",
        "/v2/apps",
        "/.env",
        "/../secrets.key",
        "/assets/../../secrets.key",
    ]) {
        for (const headers of [{}, { cookie }] as Record<string, string>[]) {
            const answer = await call(origin(), path, { headers });
            expect([400, 404], `${path}: ${answer.status}`).toContain(answer.status);
        }
    }
});

test("the page's own policy: no frame, nothing inline, nothing from elsewhere", async () => {
    for (const path of ["/", "/v1/session"]) {
        const { headers } = await call(origin(), path);
        const policy = String(headers["content-security-policy"]);
        expect(policy, path).toContain("frame-ancestors 'none'");
        expect(policy, path).toContain("default-src 'self'");
        expect(policy, path).not.toContain("unsafe");
        expect(headers["x-content-type-options"], path).toBe("nosniff");
        expect(headers["access-control-allow-origin"], path).toBeUndefined();
    }
});

/*
 * ---- from a real preview, in the browser that has the session
 * ----------------------------------------
 */

async function open_preview(page: Page, path = "/hello"): Promise<void> {
    const answer = await page.goto(`${PREVIEW_URL}${path}`);
    expect(answer?.status()).toBe(200);
}

test("a preview gets no cookie of the console's", async ({ page }) => {
    await page.goto("/#/");
    await expect_home(page);
    await open_preview(page, "/headers");
    const headers = JSON.parse(await page.evaluate(() => document.body.innerText)) as Record<
        string,
        string
    >;
    expect(headers["host"]).toContain(".preview.");
    expect(headers["cookie"]).toBeUndefined();
    expect(headers["authorization"]).toBeUndefined();
});

test("a script in a preview reads nothing and changes nothing", async ({ page }) => {
    await open_preview(page);
    const seen = await page.evaluate(
        async ({ target, body }) => {
            const attempt = async (init: RequestInit): Promise<string> => {
                try {
                    const answer = await fetch(`${target}/v1/apps`, {
                        credentials: "include",
                        ...init,
                    });
                    return answer.type === "opaque" ? "sent unread" : `read ${answer.status}`;
                } catch {
                    return "blocked";
                }
            };
            return {
                read: await attempt({}),
                json: await attempt({
                    method: "POST",
                    headers: { "content-type": "application/json" },
                    body,
                }),
                simple: await attempt({
                    method: "POST",
                    mode: "no-cors",
                    headers: { "content-type": "text/plain" },
                    body,
                }),
                remove: await attempt({ method: "DELETE" }),
            };
        },
        { target: origin(), body: BODY },
    );
    expect(seen.read).toBe("blocked");
    expect(seen.json).toBe("blocked");
    expect(seen.remove).toBe("blocked");
    await nothing_was_made();
});

test("a form in a preview changes nothing", async ({ page }) => {
    await open_preview(page);
    const answered = page.waitForResponse((response) => response.url() === `${origin()}/v1/apps`);
    await page.evaluate(
        ({ target, body }) => {
            const form = document.createElement("form");
            form.method = "post";
            form.enctype = "text/plain";
            form.action = `${target}/v1/apps`;
            const input = document.createElement("input");
            input.name = `${body.slice(0, -1)},"x":"`;
            input.value = '"}';
            form.append(input);
            document.body.append(form);
            form.submit();
        },
        { target: origin(), body: BODY },
    );
    expect((await answered).status()).toBeGreaterThanOrEqual(400);
});

test("a preview cannot frame the console or reach into its window", async ({ page, context }) => {
    await open_preview(page);
    const framed = await page.evaluate(async (target) => {
        const frame = document.createElement("iframe");
        frame.src = `${target}/`;
        const loaded = new Promise((resolve) => frame.addEventListener("load", resolve));
        document.body.append(frame);
        await loaded;
        return frame.contentDocument === null;
    }, origin());
    expect(framed).toBe(true);
    const inner = page.frames().find((frame) => frame !== page.mainFrame());
    expect(
        await inner
            ?.getByText("What do you want to build?")
            .count()
            .catch(() => 0),
    ).toBe(0);

    const opened = context.waitForEvent("page");
    const reached = await page.evaluate((target) => {
        const other = window.open(`${target}/`);
        return new Promise<string>((resolve) =>
            setTimeout(() => {
                try {
                    resolve(other?.document.title ?? "nothing");
                } catch {
                    resolve("denied");
                }
            }, 1_500),
        );
    }, origin());
    expect(["denied", "nothing"]).toContain(reached);
    await (await opened).close();
});

test("a cookie that a preview tosses at the console ends no session and begins none", async ({
    page,
    context,
}) => {
    const name = (await context.cookies(origin()))[0]?.name ?? "";
    expect(name).not.toBe("");
    await open_preview(page);
    await page.evaluate(
        ({ cookie, domain }) => {
            for (const path of ["/", "/v1", "/v1/apps"]) {
                document.cookie = `${cookie}=tossed; domain=${domain}; path=${path}`;
            }
        },
        { cookie: name, domain: new URL(origin()).hostname.replace(/^[^.]+\./, "") },
    );
    await page.goto("/#/");
    await expect_home(page);

    const value =
        (await context.cookies(origin())).find((cookie) => cookie.value !== "tossed")?.value ?? "";
    const both = await call(origin(), "/v1/apps", {
        headers: { cookie: `${name}=tossed; ${name}=${value}` },
    });
    expect(both.status, "the good one among several of the same name").toBe(200);
    expect(
        (await call(origin(), "/v1/apps", { headers: { cookie: `${name}=tossed` } })).status,
    ).toBe(401);
});
