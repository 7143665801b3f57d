/*
 * Which page an address means. The place is kept in the fragment: Back works, a reload keeps it,
 * and the server needs to know one document only. No DOM: node's test runner runs this file.
 */

export type Route =
    | { page: "home" }
    | { page: "app"; app_id: string }
    | { page: "settings"; provider: string }
    | { page: "usage"; part: string };

/* Null for a fragment that is no place of ours. */
export function route_of_hash(hash: string): Route | null {
    const path = hash.replace(/^#/, "");
    if (path === "" || path === "/") {
        return { page: "home" };
    }
    const settings = /^\/settings(?:\/([a-z0-9-]{1,32}))?$/.exec(path);
    if (settings) {
        return { page: "settings", provider: settings[1] ?? "" };
    }
    const usage = /^\/usage(?:\/(budgets|prices))?$/.exec(path);
    if (usage) {
        return { page: "usage", part: usage[1] ?? "" };
    }
    const app = /^\/apps\/([0-7][0-9a-hjkmnp-tv-z]{25})$/.exec(path);
    return app?.[1] ? { page: "app", app_id: app[1] } : null;
}

export function hash_of_app(app_id: string): string {
    return `#/apps/${app_id}`;
}

/* A place inside a preview of ours; port null is the sandbox's own choice. */
export interface Place {
    sandbox_id: string;
    port: number | null;
    path: string;
}

export const ENTER_PATH = "/enter";
const PATH_CHARS_MAX = 2048;

/*
 * What the address of the enter page names, each exactly once and exactly as we write it, else null.
 * A hostile page may have written it.
 */
export function place_of_search(search: string): Place | null {
    const values = new URLSearchParams(search);
    const one = (name: string): string => {
        const all = values.getAll(name);
        return all.length === 1 ? (all[0] ?? "") : "";
    };
    const sandbox_id = one("sandbox");
    const port = Number(/^[1-9][0-9]{0,4}$/.exec(one("port"))?.[0] ?? "0");
    const path = one("to");
    const is_path =
        path.length <= PATH_CHARS_MAX &&
        /^\/(?!\/)[!-~]*$/.test(path) &&
        !/[\\#]/.test(path) &&
        !path.startsWith("/.sandboxd/");
    if (!/^[0-7][0-9a-hjkmnp-tv-z]{25}$/.test(sandbox_id) || port < 1 || port > 65535 || !is_path) {
        return null;
    }
    return { sandbox_id, port, path };
}

/* Where the console opens a private preview: this console's own page that fetches a ticket. */
export function enter_address(place: Place & { port: number }): string {
    const values = new URLSearchParams({
        sandbox: place.sandbox_id,
        port: String(place.port),
        to: place.path,
    });
    return `${ENTER_PATH}?${values}`;
}

export function hash_of_provider(provider: string): string {
    return `#/settings/${provider}`;
}

/* The one-time code of an address that ends in `#setup=<code>`, else null. */
export function setup_code_of_hash(hash: string): string | null {
    const found = /^#setup=(.{1,200})$/.exec(hash);
    if (!found?.[1]) {
        return null;
    }
    try {
        return decodeURIComponent(found[1]).trim();
    } catch {
        return null;
    }
}
