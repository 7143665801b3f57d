// A server of the tests for a gigabyte each way; it keeps nothing of it but a digest.
import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import { Readable } from 'node:stream'

const PIECE = Buffer.alloc(1024 * 1024, 'sandboxd')

function* pieces(count) {
  for (let n = 0; n < count; n += 1) yield PIECE
}

const server = createServer((request, response) => {
  const url = new URL(request.url, 'http://x')
  if (request.method === 'POST') {
    const digest = createHash('sha256')
    let bytes = 0
    request.on('data', (part) => {
      digest.update(part)
      bytes += part.length
    })
    request.on('end', () => response.end(JSON.stringify({ bytes, sha256: digest.digest('hex') })))
  } else if (url.pathname === '/download') {
    const count = Number(url.searchParams.get('mib'))
    response.writeHead(200, { 'content-length': count * PIECE.length })
    Readable.from(pieces(count)).pipe(response)
  } else {
    response.end('hello')
  }
})
server.listen(3000, '127.0.0.1')
