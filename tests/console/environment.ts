/* What the stack's starter says about it, and how the browser is started. */

export const CHROMIUM_PATH = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
export const STATE_FILE = ".state/session.json";
export const PASSWORD = "seven wet umbrellas";

/* A name that only this stack knows leads to this machine; *.localhost does by itself. */
export const CHROMIUM_ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    ...(process.env["CONSOLE_HOST_RULES"]
        ? [`--host-resolver-rules=${process.env["CONSOLE_HOST_RULES"]}`]
        : []),
];

export interface Environment {
    console_url: string; /* through the edge, as a person opens it */
    setup_code: string;
    api_url: string;
    api_token: string;
    good_key: string; /* the scripted OpenRouter takes it and no other */
    login_url: string; /* of the scripted server behind the login with a subscription */
    model_url: string;
    app_preset: string; /* a preset whose apps the scripted model can change */
}

function wanted(name: string): string {
    const value = process.env[name];
    if (!value) {
        throw new Error(`${name} is not set: run.py starts the stack and these tests`);
    }
    return value;
}

export function environment(): Environment {
    return {
        console_url: wanted("CONSOLE_URL"),
        setup_code: wanted("CONSOLE_SETUP_CODE"),
        api_url: wanted("API_URL"),
        api_token: wanted("API_TOKEN"),
        good_key: wanted("GOOD_KEY"),
        login_url: wanted("LOGIN_URL"),
        model_url: wanted("MODEL_URL"),
        app_preset: process.env["CONSOLE_PRESET"] ?? "React + Vite",
    };
}
