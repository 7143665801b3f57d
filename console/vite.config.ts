import { defineConfig } from "vite";

// The server sends `default-src 'self'`: nothing may be inlined, neither scripts nor data: images.
export default defineConfig({
    base: "/",
    build: {
        target: "es2022",
        assetsInlineLimit: 0,
        modulePreload: { polyfill: false },
        sourcemap: false,
        reportCompressedSize: true,
    },
});
