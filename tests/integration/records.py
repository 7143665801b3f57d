"""Records in Python (docs/protocols.md, section 3): a second reading of the format, written apart
from lib/record.c, so that the two check each other.
"""

import array
import socket
import struct

FRAME_BYTES_MAX = 65536
PROTOCOL = 1


def encode(kind, *fields):
    """One frame. Fields are (key, value) pairs; a value is bytes, str, int or bool."""
    body = b"".join(_field(key, value) for key, value in (("kind", kind), *fields))
    return struct.pack(">I", len(body)) + body


def _field(key, value):
    if isinstance(value, bool):
        value = "yes" if value else "no"
    if isinstance(value, int):
        value = str(value)
    if isinstance(value, str):
        value = value.encode()
    name = key.encode()
    return struct.pack("B", len(name)) + name + struct.pack(">I", len(value)) + value


def decode(body):
    """(kind, [(key, bytes)]) of a frame without its length."""
    fields = []
    at = 0
    while at < len(body):
        key_length = body[at]
        key = body[at + 1 : at + 1 + key_length].decode()
        at += 1 + key_length
        (length,) = struct.unpack_from(">I", body, at)
        at += 4
        assert at + length <= len(body), "a value runs past its frame"
        fields.append((key, body[at : at + length]))
        at += length
    assert fields and fields[0][0] == "kind", fields
    return fields[0][1].decode(), fields[1:]


class Record:
    def __init__(self, body):
        self.kind, self.fields = decode(body)

    def get(self, key):
        return next((v.decode("utf-8", "replace") for k, v in self.fields if k == key), None)

    def all(self, key):
        return [v.decode("utf-8", "replace") for k, v in self.fields if k == key]

    def __repr__(self):
        return f"{self.kind}{self.fields}"


class RecordClient:
    """A connection that says hello as `role` and then exchanges records. None: the peer closed."""

    def __init__(self, path, role=None, seconds=15, hello=True):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(seconds)
        self.sock.connect(str(path))
        self.buffer = b""
        if hello:
            more = (("role", role),) if role else ()
            self.hello = self.ask("hello", ("protocol", PROTOCOL), *more)

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.sock.close()

    def send(self, kind, *fields, descriptor=None):
        self.send_raw(encode(kind, *fields), descriptor)

    def send_raw(self, data, descriptor=None):
        if descriptor is None:
            self.sock.sendall(data)
            return
        rights = array.array("i", [descriptor])
        self.sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])

    def receive(self):
        """The next record, or None when the peer closed."""
        while True:
            if len(self.buffer) >= 4:
                (length,) = struct.unpack_from(">I", self.buffer)
                assert 1 <= length <= FRAME_BYTES_MAX, f"a frame of {length} bytes"
                if len(self.buffer) >= 4 + length:
                    body = self.buffer[4 : 4 + length]
                    self.buffer = self.buffer[4 + length :]
                    return Record(body)
            try:
                piece = self.sock.recv(65536)
            except ConnectionResetError:
                return None
            if not piece:
                return None
            self.buffer += piece

    def ask(self, kind, *fields, descriptor=None):
        try:
            self.send(kind, *fields, descriptor=descriptor)
        except (BrokenPipeError, ConnectionResetError):
            return None
        return self.receive()
