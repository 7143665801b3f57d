// A server of the tests whose page registers a service worker that keeps whatever it gets, for ever.
// It needs seconds before it listens, so that a visitor meets our page first.
import { createServer } from 'node:http'

const LISTEN_AFTER_MS = 3000

const WORKER = `
self.addEventListener('install', () => self.skipWaiting())
self.addEventListener('activate', (event) => event.waitUntil(clients.claim()))
self.addEventListener('fetch', (event) => event.respondWith((async () => {
  const cache = await caches.open('everything')
  const kept = await cache.match(event.request, { ignoreSearch: true })
  if (kept) return kept
  const answer = await fetch(event.request)
  cache.put(event.request, answer.clone()).catch(() => {})
  return answer
})()))
`

const PAGE = `<!doctype html><title>app</title><h1>the app</h1>
<script>navigator.serviceWorker.register('/worker.js')</script>`

const server = createServer((request, response) => {
  if (request.url === '/worker.js') {
    response.writeHead(200, { 'content-type': 'text/javascript' })
    response.end(WORKER)
  } else if (request.url === '/hello') {
    response.end('hello')
  } else {
    response.writeHead(200, { 'content-type': 'text/html' })
    response.end(PAGE.replace('the app', `the app at ${request.url}`))
  }
})

setTimeout(() => server.listen(3000), LISTEN_AFTER_MS)
