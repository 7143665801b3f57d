/*
 * What the browser remembers between reloads: drafts and choices. Never a key, a password or a
 * code. A browser may forbid storage altogether; then nothing is remembered and everything else
 * works.
 */

export function remember(store: "tab" | "browser", name: string, value: string | null): void {
    try {
        const storage = store === "tab" ? sessionStorage : localStorage;
        if (value === null || value === "") {
            storage.removeItem(`sandboxd.${name}`);
        } else {
            storage.setItem(`sandboxd.${name}`, value);
        }
    } catch {
        /* Full or forbidden. */
    }
}

export function recall(store: "tab" | "browser", name: string): string | null {
    try {
        return (store === "tab" ? sessionStorage : localStorage).getItem(`sandboxd.${name}`);
    } catch {
        return null;
    }
}
