"""The proxy in front that ends TLS, as an owner may have one: bytes in, bytes out, nothing added."""

import datetime
import socket
import ssl
import tempfile
import threading
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PIECE_BYTES = 65536
IDLE_SECONDS_MAX = 120


def write_certificate(folder, names):
    """A self-signed certificate and its key in one PEM file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sandboxd tests")])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = Path(folder) / "tls.pem"
    path.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return path


def pump(source, target):
    """One direction until its end; the other side learns of it."""
    try:
        while piece := source.recv(PIECE_BYTES):
            target.sendall(piece)
    except OSError:
        pass
    for sock in (source, target):
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class TlsProxy:
    """Listens at `port`, forwards to a port of this machine. A context manager; two threads per connection."""

    def __init__(self, target_port, names):
        self.target_port = target_port
        self.folder = tempfile.TemporaryDirectory()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(write_certificate(self.folder.name, names))
        # The edge speaks HTTP/1.1 here; h2 would be a promise that nobody keeps.
        self.context.set_alpn_protocols(["http/1.1"])
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_error):
        # A thread in accept() is not woken by close() alone.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.folder.cleanup()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        client.settimeout(IDLE_SECONDS_MAX)
        try:
            with (
                self.context.wrap_socket(client, server_side=True) as secure,
                socket.create_connection(("127.0.0.1", self.target_port)) as plain,
            ):
                back = threading.Thread(target=pump, args=(plain, secure), daemon=True)
                back.start()
                pump(secure, plain)
                back.join()
        except OSError:
            client.close()
