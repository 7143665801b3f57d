import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

// The preview reaches the app under a host name of its own, hence allowedHosts. Hot reload needs
// no address: the browser connects to where the page came from.
const server = { host: '0.0.0.0', port: 3000, strictPort: true, allowedHosts: true } as const;

export default defineConfig({
  plugins: [react()],
  server,
  preview: server,
});
