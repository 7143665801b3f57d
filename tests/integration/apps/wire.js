// A server of the tests that writes HTTP down to the byte: interim answers, trailers, no length at all.
import { createServer } from 'node:http'

const answers = {
  '/hello': (_request, response) => response.end('hello'),
  '/hints': (_request, response) => {
    response.writeEarlyHints({ link: '</style.css>; rel=preload; as=style' })
    response.end('after the hints')
  },
  '/nothing': (_request, response) => response.writeHead(204).end(),
  '/unchanged': (_request, response) => response.writeHead(304, { etag: '"1"' }).end(),
  '/trailers': (request, response) => {
    request.resume().on('end', () => {
      response.writeHead(200, { trailer: 'x-sum' })
      response.write(`got ${request.trailers['x-sent']}`)
      response.addTrailers({ 'x-sum': '3' })
      response.end()
    })
  },
  '/old': (request, _response) => request.socket.end('HTTP/1.0 200 OK\r\ncontent-type: text/plain\r\n\r\nto the end'),
  '/old-cut': (request, _response) => {
    request.socket.write('HTTP/1.0 200 OK\r\ncontent-type: text/plain\r\n\r\nto the e')
    setTimeout(() => request.socket.resetAndDestroy(), 100)
  },
  '/echo': (request, response) => {
    const parts = []
    request.on('data', (part) => parts.push(part))
    request.on('end', () => response.end(Buffer.concat(parts)))
  },
}

const server = createServer((request, response) => {
  const answer = answers[request.url.split('?')[0]] ?? ((_request, other) => other.writeHead(404).end('no such page'))
  answer(request, response)
})
server.listen(3000, '127.0.0.1')
