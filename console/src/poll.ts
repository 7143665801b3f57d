/* Asks again and again while somebody looks: a hidden tab asks nothing, a visible one at once. */

export interface Poller {
    now(): void;
    stop(): void;
}

/* `work` never overlaps itself; it handles its own errors. */
export function poll_while_visible(interval_ms: number, work: () => Promise<void>): Poller {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let running = false;
    let again = false;
    let stopped = false;

    async function turn(): Promise<void> {
        clearTimeout(timer);
        if (running) {
            again = true;
            return;
        }
        running = true;
        try {
            await work();
        } finally {
            running = false;
            if (!stopped && !document.hidden) {
                timer = setTimeout(() => void turn(), again ? 0 : interval_ms);
            }
            again = false;
        }
    }
    function on_visibility(): void {
        clearTimeout(timer);
        if (!document.hidden) {
            void turn();
        }
    }
    document.addEventListener("visibilitychange", on_visibility);
    void turn();
    return {
        now: () => void turn(),
        stop() {
            stopped = true;
            clearTimeout(timer);
            document.removeEventListener("visibilitychange", on_visibility);
        },
    };
}
