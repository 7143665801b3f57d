"""A scripted OAuth server: the token endpoint of a login with PKCE, and a provider that judges keys.

    with OAuthServer() as server:
        server.token_url           # http://127.0.0.1:<port>/token
        server.browse(url)         # plays the person's browser: "code#state"
        server.authorize_url       # the page that a real browser opens: it shows the same
        server.asked               # grant types so far, oldest first

`mode` decides what the token endpoint does next: ok, refuse, hang, error, garbage, large, redirect, trickle; `renew_mode`, when it is
set, does so for renewals. Refresh
tokens rotate and are good once; a used one is refused, as the real ones do.

GET /models answers 200 to a key in `good_keys`, else 401 with words of its own, which quote the key.

POST /_stub {"renew_mode": …, "expires_in": …} sets these from another process.
"""

import base64
import hashlib
import json
import secrets
import threading
import time
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

HANG_SECONDS_MAX = 120
TRICKLE_SECONDS = 0.05
LARGE_BYTES = 8 << 20


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_args):
        """What was asked is the log."""

    def do_GET(self):
        stub = self.server.stub
        if urlsplit(self.path).path == "/authorize":
            code = stub.browse(self.path)
            self._send(200, f"<!doctype html><title>Login</title><p>Your code: <code>{escape(code)}</code>".encode(), kind="text/html")
            return
        sent = (self.headers.get("authorization") or "").removeprefix("Bearer ") or self.headers.get("x-api-key", "")
        stub.checked.append(dict(self.headers.items()))
        stub.go_on.wait(stub.check_seconds)
        if sent in stub.good_keys:
            self._json(200, {"data": ["x" * stub.list_bytes]})
        else:
            self._json(401, {"error": {"message": stub.refusal.replace("KEY", sent)}})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        stub = self.server.stub
        if self.path == "/_stub":
            stub.renew_mode, stub.expires_in = body["renew_mode"], body["expires_in"]
            self._json(200, {})
            return
        with stub.lock:
            stub.asked.append(body["grant_type"])
            mode = stub.mode
            if stub.renew_mode and body["grant_type"] == "refresh_token":
                mode = stub.renew_mode
        if mode == "hang":
            stub.go_on.wait(HANG_SECONDS_MAX)
            self.close_connection = True
        elif mode == "error":
            self._json(500, {"error": "overloaded"})
        elif mode == "garbage":
            self._send(200, b"<html>not a token</html>")
        elif mode == "large":
            self._json(200, {**stub.answer(body)[1], "padding": "x" * LARGE_BYTES})
        elif mode == "redirect":
            self.send_response(307)
            self.send_header("location", stub.base_url + "/elsewhere")
            self.send_header("content-length", "0")
            self.end_headers()
        elif mode == "refuse":
            self._json(400, {"error": "invalid_grant", "error_description": "that grant is not known here"})
        else:
            self._json(*stub.answer(body), slowly=mode == "trickle")

    def _json(self, status, value, slowly=False):
        self._send(status, json.dumps(value).encode(), slowly)

    def _send(self, status, data, slowly=False, kind="application/json"):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        for i in range(0, len(data), 8 if slowly else len(data)):
            self.wfile.write(data[i : i + (8 if slowly else len(data))])
            self.wfile.flush()
            if slowly:
                time.sleep(TRICKLE_SECONDS)


class OAuthServer:
    def __init__(self, keep=lambda value: value):
        """keep is told every token that was made: for the search that finds none of them."""
        self.lock = threading.Lock()
        self.keep = keep
        self.mode = "ok"
        self.renew_mode = None
        self.expires_in = 3600
        self.asked = []
        self.checked = []
        self.list_bytes = 0  # of the models that a good key sees
        self.check_seconds = 0  # before a key is judged
        self.good_keys = set()
        self.refusal = "the key KEY is not one of ours"
        self.go_on = threading.Event()
        self.pending = {}
        self.refresh_tokens = set()
        self.access_tokens = []
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.http.stub = self
        self.base_url = f"http://127.0.0.1:{self.http.server_address[1]}"
        self.token_url = f"{self.base_url}/token"
        self.authorize_url = f"{self.base_url}/authorize"

    def __enter__(self):
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_args):
        self.go_on.set()
        self.http.shutdown()
        self.http.server_close()

    def browse(self, url):
        """What a person's browser would bring home from that address."""
        query = {k: v[0] for k, v in parse_qs(urlsplit(url).query, strict_parsing=True).items()}
        assert query["response_type"] == "code" and query["code_challenge_method"] == "S256", query
        code = self.keep(f"code-{secrets.token_hex(12)}")
        with self.lock:
            self.pending[code] = query
        return f"{code}#{query['state']}"

    def answer(self, body):
        with self.lock:
            if body["grant_type"] == "authorization_code":
                return self._begin(body)
            return self._renew(body)

    def _begin(self, body):
        query = self.pending.pop(body["code"], None)
        digest = hashlib.sha256(body["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if query is None or query["code_challenge"] != challenge or query["state"] != body["state"]:
            return 400, {"error": "invalid_grant", "error_description": "the code does not fit"}
        if query["redirect_uri"] != body["redirect_uri"] or query["client_id"] != body["client_id"]:
            return 400, {"error": "invalid_client"}
        return 200, self._tokens()

    def _renew(self, body):
        if body["refresh_token"] not in self.refresh_tokens:
            return 400, {"error": "invalid_grant", "error_description": "the refresh token was used"}
        self.refresh_tokens.discard(body["refresh_token"])
        return 200, self._tokens()

    def _tokens(self):
        access = self.keep(f"oat-{secrets.token_hex(24)}")
        refresh = self.keep(f"ort-{secrets.token_hex(24)}")
        self.refresh_tokens.add(refresh)
        self.access_tokens.append(access)
        return {"access_token": access, "refresh_token": refresh, "expires_in": self.expires_in, "scope": "user:inference"}

    def count(self, grant_type):
        with self.lock:
            return self.asked.count(grant_type)
