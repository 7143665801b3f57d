import { createServer } from 'node:http';

const port = Number(process.env.PORT ?? 3000);

const page = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Your app</title>
<style>
  :root { color-scheme: light dark; font: 1.125rem/1.5 system-ui, sans-serif }
  body { min-height: 100svh; margin: 0; display: grid; place-content: center; text-align: center }
  h1 { margin: 0; font-size: clamp(2rem, 6vw, 3.5rem); letter-spacing: -0.03em }
  p { margin: 0.75rem 0 0; opacity: 0.7 }
</style>
<h1>Your app starts here</h1>
<p>Send a prompt, or edit <code>server.js</code>.</p>
`;

const server = createServer((request, response) => {
  if (request.url.split('?')[0] !== '/') {
    response.writeHead(404, { 'content-type': 'text/plain; charset=utf-8' }).end('not found\n');
    return;
  }
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    response.writeHead(405, { allow: 'GET, HEAD' }).end();
    return;
  }
  response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(page);
});

server.listen(port, '0.0.0.0', () => console.log(`listening on port ${port}`));

// Open keep-alive connections would hold the process for seconds when it is asked to stop.
process.on('SIGTERM', () => {
  server.close(() => process.exit(0));
  server.closeAllConnections();
});
