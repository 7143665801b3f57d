// A server of the tests for a node-http app: answers that tell what arrived, no dependency.
// It writes every POST to a file, so that "exactly once" can be counted whatever restarts happened.
import { createHash } from 'node:crypto'
import { appendFileSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'

const PORT = Number(process.env.PORT ?? 3000)
const LOG = `${process.env.HOME}/posts.log`
const STARTED = Date.now()

function posts() {
  try {
    return readFileSync(LOG, 'utf8').split('\n').filter(Boolean)
  } catch {
    return []
  }
}

function body(request) {
  return new Promise((resolve, reject) => {
    const parts = []
    request.on('data', (part) => parts.push(part))
    request.on('end', () => resolve(Buffer.concat(parts)))
    request.on('error', reject)
  })
}

const routes = {
  '/hello': (_request, response) => response.end('hello'),
  '/started': (_request, response) => response.end(String(STARTED)),
  '/headers': (request, response) => response.end(JSON.stringify(request.headers)),
  '/posts': (_request, response) => response.end(JSON.stringify(posts())),
  '/env': (_request, response) => response.end(JSON.stringify(process.env)),
  '/slow': (request, response) => {
    const ms = Number(new URL(request.url, 'http://x').searchParams.get('ms') ?? 1000)
    setTimeout(() => response.end('slow'), ms)
  },
  '/quiet': (_request, response) => {
    // An event stream that has nothing to say, for as long as somebody listens.
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(': open\n\n')
  },
  // A GET that is counted like a POST.
  '/hit': (request, response) => {
    appendFileSync(LOG, `${request.url}\n`)
    response.end('hit')
  },
  '/slow-hit': (request, response) => {
    appendFileSync(LOG, `${request.url}\n`)
    routes['/slow'](request, response)
  },
  // Never ends by itself.
  '/drip': (request, response) => {
    appendFileSync(LOG, `${request.url}\n`)
    response.writeHead(200, { 'content-type': 'text/plain' })
    response.write('first drop')
  },
  '/big': (_request, response) => response.end(Buffer.alloc(8 * 1024 * 1024, 'x')),
  '/cut': (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/plain' })
    response.write('this answer is cut')
    setTimeout(() => response.socket.resetAndDestroy(), 50)
  },
  '/sse': (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    let n = 0
    const timer = setInterval(() => {
      response.write(`data: ${n}\n\n`)
      n += 1
      if (n === 5) {
        clearInterval(timer)
        response.end()
      }
    }, 100)
  },
}

const server = createServer(async (request, response) => {
  const path = request.url.split('?')[0]
  if (request.method === 'POST') {
    const received = await body(request)
    const digest = createHash('sha256').update(received).digest('hex')
    appendFileSync(LOG, `${path} ${received.length} ${digest}\n`)
    response.end(JSON.stringify({ bytes: received.length, sha256: digest }))
    return
  }
  const route = routes[path]
  if (route) {
    route(request, response)
    return
  }
  response.statusCode = 404
  response.end('the app knows no such page')
})

// A WebSocket that sends back what it gets: enough of RFC 6455 for short text frames.
const TEXT = 1
const CLOSE = 8
const PING = 9
const PONG = 10

function frame(opcode, payload) {
  return Buffer.concat([Buffer.from([0x80 | opcode, payload.length]), payload])
}

function echoFrames(socket, pending) {
  while (pending.length >= 6) {
    const length = pending[1] & 0x7f
    if (length > 125 || pending.length < 6 + length) break
    const mask = pending.subarray(2, 6)
    const payload = Buffer.from(pending.subarray(6, 6 + length).map((byte, at) => byte ^ mask[at % 4]))
    const opcode = pending[0] & 0x0f
    if (opcode === CLOSE) {
      socket.end(frame(CLOSE, Buffer.alloc(0)))
      return Buffer.alloc(0)
    }
    socket.write(frame(opcode === PING ? PONG : TEXT, payload))
    pending = pending.subarray(6 + length)
  }
  return pending
}

server.on('upgrade', (request, socket) => {
  const accept = createHash('sha1')
    .update(`${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
    .digest('base64')
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
  )
  let pending = Buffer.alloc(0)
  socket.on('data', (part) => {
    pending = echoFrames(socket, Buffer.concat([pending, part]))
  })
  socket.on('error', () => socket.destroy())
})

server.listen(PORT, '127.0.0.1')
