// A server of the tests that needs three seconds before it listens.
import { createServer } from 'node:http'

const LISTEN_AFTER_MS = 3000

setTimeout(() => createServer((_request, response) => response.end('hello')).listen(3000), LISTEN_AFTER_MS)
