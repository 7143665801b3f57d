"""A provider that speaks HTTP/2 over TLS: nghttp2 by ctypes, one thread per connection, scripted by path.

The bodies are generators of bytes and of pauses in seconds; nothing of the client is imitated.
"""

import ctypes
import select
import socket
import ssl
import threading
import time

PTR, SIZE, I32, U8, U32 = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int32, ctypes.c_uint8, ctypes.c_uint32
SSIZE = ctypes.c_ssize_t
HEADERS_FRAME, DATA_FRAME, GOAWAY_FRAME = 1, 0, 7
END_STREAM = 1
DATA_EOF = 1
DEFERRED = -508
CANCEL, REFUSED = 8, 7


class FrameHead(ctypes.Structure):
    _fields_ = [("length", SIZE), ("stream_id", I32), ("type", U8), ("flags", U8), ("reserved", U8)]


class Pair(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_char_p), ("name_length", SIZE), ("value_length", SIZE), ("flags", U8)]


READ = ctypes.CFUNCTYPE(SSIZE, PTR, I32, PTR, SIZE, ctypes.POINTER(U32), PTR, PTR)


class DataProvider(ctypes.Structure):
    _fields_ = [("source", PTR), ("read", READ)]


ON_FRAME = ctypes.CFUNCTYPE(ctypes.c_int, PTR, ctypes.POINTER(FrameHead), PTR)
ON_HEADER = ctypes.CFUNCTYPE(ctypes.c_int, PTR, ctypes.POINTER(FrameHead), PTR, SIZE, PTR, SIZE, U8, PTR)
ON_CHUNK = ctypes.CFUNCTYPE(ctypes.c_int, PTR, U8, I32, PTR, SIZE, PTR)
ON_CLOSE = ctypes.CFUNCTYPE(ctypes.c_int, PTR, I32, U32, PTR)


def library():
    lib = ctypes.CDLL("libnghttp2.so.14")
    for name, kinds, result in (
        ("nghttp2_session_callbacks_new", [ctypes.POINTER(PTR)], ctypes.c_int),
        ("nghttp2_session_callbacks_set_on_frame_recv_callback", [PTR, ON_FRAME], None),
        ("nghttp2_session_callbacks_set_on_header_callback", [PTR, ON_HEADER], None),
        ("nghttp2_session_callbacks_set_on_data_chunk_recv_callback", [PTR, ON_CHUNK], None),
        ("nghttp2_session_callbacks_set_on_stream_close_callback", [PTR, ON_CLOSE], None),
        ("nghttp2_session_server_new", [ctypes.POINTER(PTR), PTR, PTR], ctypes.c_int),
        ("nghttp2_session_mem_recv", [PTR, ctypes.c_char_p, SIZE], SSIZE),
        ("nghttp2_session_mem_send", [PTR, ctypes.POINTER(PTR)], SSIZE),
        ("nghttp2_submit_settings", [PTR, U8, PTR, SIZE], ctypes.c_int),
        ("nghttp2_submit_response", [PTR, I32, ctypes.POINTER(Pair), SIZE, ctypes.POINTER(DataProvider)], ctypes.c_int),
        ("nghttp2_submit_rst_stream", [PTR, U8, I32, U32], ctypes.c_int),
        ("nghttp2_session_resume_data", [PTR, I32], ctypes.c_int),
    ):  # fmt: skip
        function = getattr(lib, name)
        function.argtypes, function.restype = kinds, result
    return lib


class Stream:
    def __init__(self):
        self.headers, self.body = [], b""
        self.parts = None  # what is still to be sent
        self.ready, self.due, self.ended = b"", 0.0, False

    def advance(self):
        """Takes the next parts that are due. True: something may be sent."""
        while not self.ended and len(self.ready) < 65536 and time.monotonic() >= self.due:
            part = next(self.parts, None)
            if part is None:
                self.ended = True
            elif isinstance(part, float):
                self.due = time.monotonic() + part
            else:
                self.ready += part
        return bool(self.ready) or self.ended


class Connection:
    """One client: everything on its own thread."""

    def __init__(self, owner, sock):
        self.owner, self.sock, self.lib = owner, sock, owner.lib
        self.streams, self.session = {}, PTR()
        self.keep = [ON_FRAME(self.on_frame), ON_HEADER(self.on_header), ON_CHUNK(self.on_chunk), ON_CLOSE(self.on_close),
                     READ(self.on_read)]
        callbacks = PTR()
        self.lib.nghttp2_session_callbacks_new(ctypes.byref(callbacks))
        for name, callback in zip(("frame_recv", "header", "data_chunk_recv", "stream_close"), self.keep):
            getattr(self.lib, f"nghttp2_session_callbacks_set_on_{name}_callback")(callbacks, callback)
        self.lib.nghttp2_session_server_new(ctypes.byref(self.session), callbacks, None)
        self.lib.nghttp2_submit_settings(self.session, 0, None, 0)

    # nghttp2 calls these; an exception in one would be lost, so they only note and copy.

    def on_frame(self, _session, frame, _user):
        head = frame.contents
        if head.type in (HEADERS_FRAME, DATA_FRAME) and head.flags & END_STREAM:
            self.respond(head.stream_id)
        return 0

    def on_header(self, _session, frame, name, name_length, value, value_length, _flags, _user):
        stream = self.streams.setdefault(frame.contents.stream_id, Stream())
        stream.headers.append((ctypes.string_at(name, name_length).decode(), ctypes.string_at(value, value_length).decode()))
        return 0

    def on_chunk(self, _session, _flags, stream_id, data, length, _user):
        self.streams[stream_id].body += ctypes.string_at(data, length)
        return 0

    def on_close(self, _session, stream_id, code, _user):
        stream = self.streams.pop(stream_id, None)
        if stream:
            self.owner.closed.append((dict(stream.headers)[":path"], code, time.monotonic()))
        return 0

    def on_read(self, _session, stream_id, room, length, flags, _source, _user):
        stream = self.streams[stream_id]
        if not stream.advance():
            return DEFERRED
        part, stream.ready = stream.ready[:length], stream.ready[length:]
        ctypes.memmove(room, part, len(part))
        self.owner.sent += len(part)
        if stream.ended and not stream.ready:
            flags[0] |= DATA_EOF
        return len(part)

    def respond(self, stream_id):
        stream = self.streams[stream_id]
        self.owner.requests.append((dict(stream.headers), stream.body))
        answer = self.owner.answer(dict(stream.headers)[":path"], stream.body)
        if answer is None:
            return
        if isinstance(answer, int):
            self.lib.nghttp2_submit_rst_stream(self.session, 0, stream_id, answer)
            return
        status, fields, stream.parts = answer
        pairs = [(b":status", str(status).encode()), *((k.encode(), v.encode()) for k, v in fields.items())]
        array = (Pair * len(pairs))(*[Pair(k, v, len(k), len(v), 0) for k, v in pairs])
        self.lib.nghttp2_submit_response(self.session, stream_id, array, len(pairs), ctypes.byref(DataProvider(None, self.keep[4])))

    def send_all(self):
        while True:
            data = PTR()
            length = self.lib.nghttp2_session_mem_send(self.session, ctypes.byref(data))
            if length <= 0:
                return
            self.sock.sendall(ctypes.string_at(data, length))

    def run(self):
        while True:
            for stream_id, stream in list(self.streams.items()):
                if stream.parts and stream.advance():
                    self.lib.nghttp2_session_resume_data(self.session, stream_id)
            self.send_all()
            if not self.sock.pending() and not select.select([self.sock], [], [], 0.005)[0]:
                continue
            data = self.sock.recv(65536)
            if not data or self.lib.nghttp2_session_mem_recv(self.session, data, len(data)) < 0:
                return


class Http2Provider:
    """`answer(path, body)` gives (status, fields, parts), an error code that resets the stream, or None for never."""

    def __init__(self, certificate, answer):
        self.lib, self.answer = library(), answer
        self.requests, self.closed, self.sent, self.connections = [], [], 0, 0
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate)
        self.context.set_alpn_protocols(["h2"])
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.listener.close()

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.context.wrap_socket(sock, server_side=True) as wrapped:
                self.connections += 1
                Connection(self, wrapped).run()
        except OSError:
            pass
