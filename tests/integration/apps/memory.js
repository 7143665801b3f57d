// A server of the tests for a node-http app that uses memory when told to. Bounded by the limit of its sandbox.
import { spawn } from 'node:child_process'
import { createServer } from 'node:http'

const PORT = Number(process.env.PORT ?? 3000)
const held = []

function hold(mib) {
  for (let i = 0; i < mib; i += 1) {
    held.push(Buffer.alloc(1024 * 1024, 'x'))
  }
}

// What a build is: a process of its own below the app's. Answers how it ended.
function build(response) {
  const script = "const a = []; for (;;) a.push(Buffer.alloc(1024 * 1024, 'x'))"
  const child = spawn('node', ['-e', script], { stdio: 'inherit' })
  child.on('exit', (code, signal) => response.end(JSON.stringify({ code, signal })))
}

function fillHeap() {
  const list = []
  for (;;) {
    list.push(new Array(100_000).fill(list.length + 0.5))
  }
}

createServer((request, response) => {
  const url = new URL(request.url, 'http://x')
  if (url.pathname === '/hold') {
    hold(Number(url.searchParams.get('mib')))
    response.end('held')
  } else if (url.pathname === '/build') {
    build(response)
  } else if (url.pathname === '/eat') {
    response.end('eating')
    setTimeout(() => hold(1e9), 50)
  } else if (url.pathname === '/heap') {
    response.end('filling')
    setTimeout(fillHeap, 50)
  } else {
    response.end('hello')
  }
}).listen(PORT)
