/*
 * Which page an address means. The place is kept in the fragment: Back works, a reload keeps it,
 * and the server needs to know one document only. No DOM: node's test runner runs this file.
 */

export type Route = { page: "home" } | { page: "app"; app_id: string } | { page: "settings" };

/* Null for a fragment that is no place of ours. */
export function route_of_hash(hash: string): Route | null {
    const path = hash.replace(/^#/, "");
    if (path === "" || path === "/") {
        return { page: "home" };
    }
    if (path === "/settings") {
        return { page: "settings" };
    }
    const app = /^\/apps\/([0-7][0-9a-hjkmnp-tv-z]{25})$/.exec(path);
    return app?.[1] ? { page: "app", app_id: app[1] } : null;
}

export function hash_of_app(app_id: string): string {
    return `#/apps/${app_id}`;
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
