"""What stands around sandboxd-credentials-proxy in its own tests: a scripted sandboxd, a scripted provider, a sandbox's client."""

import datetime
import ipaddress
import json
import pathlib
import ssl
import time

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.integration.proxy_fakes import App, Broker, Client, Proxy, encode, new_id, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build/asan/bin/sandboxd-credentials-proxy"
TOKEN = "tk_the-tasks-own-token"
KEY = "sk-real-key-of-the-owner"
PATHS = ["POST /echo", "GET /models", "GET /models/*", "GET /big", "GET /slow", "GET /redirect", "POST /upload", "GET /cut-length",
         "GET /no-answer", "GET /cookies", "GET /hang", "POST /once", "GET /ok"]
# What costs: its path, how its spend is read, where the cost stands.
METERED = [("POST /v1/messages", "anthropic-messages", None), ("POST /chat/completions", "openai-chat", "usage.cost"),
           ("POST /responses", "openai-responses", None), ("POST /models/*", "google-gemini", None)]


def event(data, name=None):
    return (f"event: {name}\n" if name else "").encode() + b"data: " + (data if isinstance(data, bytes) else
                                                                         json.dumps(data).encode()) + b"\n\n"


class Provider(App):
    """Answers as providers do, well and badly; `events` is what a stream consists of."""

    def __init__(self):
        super().__init__()
        self.events = []
        self.status, self.more = 200, ""
        self.answer = None

    def model(self, sock, request):
        if self.answer:
            return self.answer(sock, request)
        return self.do_echo(sock, request) if self.status >= 400 else self.stream(sock, request)

    def stream(self, sock, _request):
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n")
        for part in self.events:
            if isinstance(part, float):
                time.sleep(part)
            else:
                sock.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        sock.sendall(b"0\r\n\r\n")
        return True

    do_v1_messages = do_chat_completions = do_responses = do_models_gemini_streamGenerateContent = model

    def do_echo(self, sock, request):
        body = b'{"error":{"message":"in the words of the provider"}}' if self.status >= 400 else request["body"]
        sock.sendall(f"HTTP/1.1 {self.status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{self.more}\r\n"
                     .encode() + body)
        return True

    def do_redirect(self, sock, _request):
        sock.sendall(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/steal\r\nContent-Length: 0\r\n\r\n")
        return True

    def do_once(self, sock, request):
        """The first answer is fine; the connection then dies as an idle one does."""
        self.do_echo(sock, request)
        return False


class World:
    def __init__(self, base, program=PROGRAM):
        self.dir = base
        for name in ("run/out", "run/broker/credentials"):
            (base / name).mkdir(parents=True)
        self.id = new_id()
        self.add(self.id)
        self.app = Provider()
        self.broker = Broker(base, "credentials").start()
        self.broker.handlers["grant"] = self.grant
        self.broker.handlers["admit"] = self.admit
        self.broker.handlers["usage"] = lambda r: self.broker.send("noted", {"n": r["n"]})
        self.proxy = Proxy(program, "credentials", base)
        self.header, self.prefix, self.key = "x-api-key", "", KEY
        self.base_url = f"http://127.0.0.1:{self.app.port}"
        self.silent = False
        self.requests_per_minute = 0
        self.extras, self.state, self.state_message = [], "ok", ""
        self.refusals = []  # (code, message) of the admissions to come
        self.left = {"left_microusd": 5000000, "left_tokens": 1000000, "input_price": 3000000, "output_price": 15000000}

    def add(self, sandbox_id):
        (self.dir / "run/out" / sandbox_id).mkdir()

    def grant(self, record):
        if self.silent:
            return
        if record["sandbox_id"] != self.id or record["token"] != TOKEN:
            self.broker.send("grant", {"n": record["n"], "status": "unknown"})
            return
        self.broker.send("grant", [("n", record["n"]), ("status", "ok"), ("task_id", "task1"),
                                   ("requests_per_minute", self.requests_per_minute),
                                   ("provider", "stub"), ("base_url", self.base_url + "/"), ("header", self.header),
                                   ("prefix", self.prefix), ("key", self.key), ("state", self.state),
                                   ("message", self.state_message), *(("extra", e) for e in self.extras),
                                   *(("path", p) for p in PATHS), *self.metered(),
                                   ("provider", "free"), ("base_url", self.base_url), ("header", ""), ("prefix", ""),
                                   ("key", ""), ("path", "POST /echo")])

    @staticmethod
    def metered():
        for path, usage, cost in METERED:
            yield from (("path", path), ("usage", usage), *((("cost", cost),) if cost else ()))

    def admit(self, record):
        if self.silent:
            return
        if self.refusals and record["running"] == "no":
            code, message = self.refusals.pop(0)
            self.broker.send("refused", {"n": record["n"], "code": code, "message": message, "retry_after_s": 3})
            return
        self.broker.send("admitted", {"n": record["n"], **self.left})

    def start(self):
        self.proxy.start()
        wait_for(self.socket(self.id).exists, what="the door")
        wait_for(lambda: self.broker.connections, what="the proxy at the broker")
        return self

    def stop(self):
        self.proxy.stop()
        self.broker.stop()
        self.app.close()

    def socket(self, sandbox_id):
        return self.dir / "run/out" / sandbox_id / "out.sock"

    def client(self, sandbox_id=None):
        return Client(0, self.socket(sandbox_id or self.id), encode("hello", {"protocol": 1}))

    def text(self, method, path, headers=None, body=""):
        headers = f"Authorization: Bearer {TOKEN}\r\n" if headers is None else headers
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:9100\r\n{headers}{length}\r\n{body}"

    def ask(self, path, method="POST", headers=None, body="", sandbox_id=None):
        c = self.client(sandbox_id)
        try:
            return c.send(self.text(method, path, headers, body)).answer(method)
        finally:
            c.close()

    def checked_stop(self):
        """Stops, and looks at what the program said: no key, no token, nothing of a sanitiser."""
        self.stop()
        log = self.proxy.log()
        assert "AddressSanitizer" not in log and "runtime error" not in log and "LeakSanitizer" not in log, log
        assert KEY not in log and TOKEN not in log


def error_of(answer):
    return answer.status, json.loads(answer.body)["error"]["type"]


def memory_kib(pid):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("RssAnon"):
            return int(line.split()[1])
    return 0


def make_certificate(directory):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "stub provider")])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
                   .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1))
                   .not_valid_after(now + datetime.timedelta(days=1))
                   .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
                   .add_extension(x509.BasicConstraints(ca=True, path_length=None), True).sign(key, hashes.SHA256()))
    path = directory / "cert.pem"
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return path


def serve_tls(app, certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    plain = app._serve

    def serve(sock):
        try:
            plain(context.wrap_socket(sock, server_side=True))
        except OSError:
            sock.close()

    app._serve = serve
