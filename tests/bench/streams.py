"""Token streams through the credentials proxy and straight to the provider: a provider in a process of its own, a client that
reads all streams on one loop, every event with the time of its sending in it.

Nothing here knows a target.
"""

import dataclasses
import json
import multiprocessing
import re
import selectors
import socket
import statistics
import time

from tests.bench.measure import cpu_ns, status_kib
from tests.integration.credentials_fakes import TOKEN, World
from tests.integration.proxy_fakes import Client

STREAMS = 200
EVENTS = 200
PERIOD_NS = 20_000_000  # 50 tokens a second and stream
START_NS = 500_000_000
REQUESTS = 400
BODY_BYTES = 50_000
STAMP = re.compile(rb'"t":(\d+)')
PATH = "/chat/completions"
END = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":9}}\n\ndata: [DONE]\n\n'


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


# --- the provider ------------------------------------------------------------------------------------


class Peer:
    def __init__(self, sock):
        self.sock, self.data, self.due, self.left, self.waits = sock, b"", 0, 0, False

    def read(self):
        """False: it left."""
        data = self.sock.recv(1 << 18)
        self.data += data
        at = self.data.find(b"\r\n\r\n")
        if at >= 0:
            length = int(re.search(rb"(?i)content-length: (\d+)", self.data[:at]).group(1))
            if len(self.data) >= at + 4 + length:
                self.answer(b"short" in self.data[at:at + 40])
                self.data = b""
        return bool(data)

    def answer(self, short):
        if short:
            body = b'{"usage":{"prompt_tokens":9,"completion_tokens":9}}'
            self.sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            return
        self.sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        self.waits = True

    def tick(self, now):
        if not self.left or now < self.due:
            return
        self.due += PERIOD_NS
        self.left -= 1
        text = b'data: {"choices":[{"delta":{"content":" token"},"finish_reason":null}],"t":%d}\n\n' % time.monotonic_ns()
        self.sock.sendall(chunk(text) if self.left else chunk(text) + chunk(END) + b"0\r\n\r\n")


def begin_together(peers):
    """Once all have asked, so that nobody who still sends is late at reading; spread over the period, as models are."""
    waiting = [peer for peer in peers.values() if peer.waits]
    if len(waiting) < STREAMS:
        return
    for number, peer in enumerate(waiting):
        peer.waits, peer.left = False, EVENTS
        peer.due = time.monotonic_ns() + START_NS + PERIOD_NS * number // STREAMS


def provide(listener):
    peers, selector = {}, selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select(0.001):
            if key.fileobj is listener:
                sock = listener.accept()[0]
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                peers[sock] = Peer(sock)
                selector.register(sock, selectors.EVENT_READ)
            elif not peers[key.fileobj].read():
                selector.unregister(key.fileobj)
                peers.pop(key.fileobj).sock.close()
        begin_together(peers)
        now = time.monotonic_ns()
        for peer in peers.values():
            peer.tick(now)


# --- the client --------------------------------------------------------------------------------------


@dataclasses.dataclass
class Measured:
    p50_ms: float
    p99_ms: float
    rate: float
    events: int
    memory_kib: int
    cpu_us: float  # of the proxy, per event


class Reader:
    def __init__(self, client):
        self.client, self.tail, self.stamps, self.done = client, b"", [], False

    def read(self, delays):
        data = self.client.sock.recv(1 << 16)
        now = time.monotonic_ns()
        assert data, "a stream broke off"
        text = self.tail + data
        end = 0
        for found in STAMP.finditer(text):
            if found.end() == len(text):
                break  # the number may go on
            end = found.end()
            stamp = int(found.group(1))
            assert not self.stamps or stamp >= self.stamps[-1]
            self.stamps.append(stamp)
            delays.append((now - stamp) / 1e6)
        self.tail = text[max(end, len(text) - 64):]
        self.done = text.endswith(b"0\r\n\r\n")


class Path:
    """Both ways to one provider."""

    def __init__(self, folder, program):
        listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = listener.getsockname()[1]
        self.provider = multiprocessing.get_context("fork").Process(target=provide, args=(listener,), daemon=True)
        self.provider.start()
        listener.close()
        self.world = World(folder, program)
        self.world.base_url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        self.world.start()
        return self

    def __exit__(self, *_error):
        self.world.stop()
        self.provider.kill()

    def client(self, straight):
        return Client(self.port) if straight else self.world.client()

    @staticmethod
    def request(straight, word):
        body = json.dumps({"kind": word, "model": "m-1", "max_tokens": 1000, "stream": True, "messages": "m" * BODY_BYTES})
        path = PATH if straight else f"/stub{PATH}"
        return f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()

    def latencies(self):
        """Milliseconds of requests one after the other, both ways in turn."""
        took = {True: [], False: []}
        clients = {straight: self.client(straight) for straight in took}
        texts = {straight: self.request(straight, "short") for straight in took}
        for _ in range(REQUESTS):
            for straight in took:
                start = time.monotonic()
                assert clients[straight].send(texts[straight]).answer().status == 200
                took[straight].append((time.monotonic() - start) * 1000)
        return took[False], took[True]

    def streams(self, straight):
        """All of them at once, to their ends."""
        selector, delays, memory = selectors.DefaultSelector(), [], 0
        readers = [Reader(self.client(straight).send(self.request(straight, "long"))) for _ in range(STREAMS)]
        for reader in readers:
            selector.register(reader.client.sock, selectors.EVENT_READ, reader)
        look, cpu = 0, cpu_ns(self.world.proxy.process.pid)
        while selector.get_map():
            for key, _ in selector.select(10):
                key.data.read(delays)
                if key.data.done:
                    selector.unregister(key.fileobj)
            if time.monotonic() > look:
                look = time.monotonic() + 0.5
                memory = max(memory, status_kib(self.world.proxy.process.pid, "RssAnon"))
        seconds = (time.monotonic_ns() - min(r.stamps[0] for r in readers)) / 1e9
        cpu = (cpu_ns(self.world.proxy.process.pid) - cpu) / 1000 / len(delays)
        assert [len(r.stamps) for r in readers] == [EVENTS] * STREAMS
        delays.sort()
        for reader in readers:
            reader.client.close()
        return Measured(statistics.median(delays), delays[len(delays) * 99 // 100], len(delays) / seconds, len(delays), memory, cpu)
