/*
 * The console in real Chromium against a running stack; run.py starts the stack and sets the
 * environment. One worker and a fixed order: the one-time code works once, and the last file locks
 * the client out.
 */
import { defineConfig } from "@playwright/test";
import { CHROMIUM_ARGS, CHROMIUM_PATH, STATE_FILE, environment } from "./environment.ts";

const signed_in = { storageState: STATE_FILE };

export default defineConfig({
    testDir: ".",
    outputDir: "test-results",
    workers: 1,
    retries: 0,
    timeout: 120_000,
    expect: { timeout: 20_000 },
    reporter: [["list"]],
    use: {
        baseURL: environment().console_url,
        ignoreHTTPSErrors: true,
        viewport: { width: 1280, height: 800 },
        screenshot: "only-on-failure",
        launchOptions: { executablePath: CHROMIUM_PATH, args: CHROMIUM_ARGS },
    },
    projects: [
        { name: "door", testMatch: "sign-in.spec.ts" },
        { name: "pages", testMatch: "pages.spec.ts", dependencies: ["door"], use: signed_in },
        { name: "prompt", testMatch: "prompt.spec.ts", dependencies: ["door"], use: signed_in },
        { name: "providers", testMatch: "providers.spec.ts", dependencies: ["door"], use: signed_in },
        { name: "spend", testMatch: "spend.spec.ts", dependencies: ["door"], use: signed_in },
        { name: "config", testMatch: "config.spec.ts", dependencies: ["door"], use: signed_in },
        { name: "refusals", testMatch: "refusals.spec.ts", dependencies: ["door"], use: signed_in },
        { name: "access", testMatch: "access.spec.ts", dependencies: ["door"], use: signed_in },
        {
            name: "lock",
            testMatch: "lock.spec.ts",
            dependencies: ["pages", "prompt", "providers", "spend", "config", "refusals", "access"],
        },
    ],
});
