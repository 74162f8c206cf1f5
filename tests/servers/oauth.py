#!/usr/bin/env python3
"""An OAuth 2.1 authorization server and an MCP server over Streamable HTTP whose tools want its access tokens: one process, one
port of 127.0.0.1, which it prints as its only line. It ends when its input does.

    oauth.py [--redirect URI]... [--lives SECONDS] [--grace SECONDS] [--interval SECONDS] [--sessionless]

--redirect   a redirect URI that is registered, compared exactly; without any, http://127.0.0.1:*/callback and http://localhost*
--lives      how long an access token is good (3600)
--grace      how long a rotated refresh token still gets the pair it was rotated to, while nobody has used that (0: never)
--interval   how long a device has to wait between two polls (1)
--sessionless  the MCP server gives no Mcp-Session-Id and wants none

The clients are `broker`, with the secret `s3cr3t-of-the-client` (by HTTP Basic or in the body), and `public`, without one.

    GET  /authorize            redirects with a code at once; `login_hint` is the person who logged in (ann)
    POST /token                authorization_code, refresh_token, urn:ietf:params:oauth:grant-type:device_code
    POST /device               RFC 8628; the first user code is WDJB-MJHT
    GET  /.well-known/oauth-authorization-server, /.well-known/oauth-protected-resource[/mcp]
    POST /mcp                  the tools `whoami`, `note` and `leak`; a session is its person's
    GET  /control/state        what was asked for; of each person, the family of tokens that began last
    POST /control/approve      {"user_code": .., "person"?: ..} or {"deny": user code}
    POST /control/fault        {"what": ANSWERS or FAULTS, "times"?: 1, "seconds"?: 3}; these queue up, "times": 0 clears them
    POST /control/expire       every access token; and /control/revoke {"person": ..} every token of a person
"""

import argparse
import base64
import hashlib
import http.server
import json
import re
import secrets
import sys
import threading
import time
from types import SimpleNamespace
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

CLIENTS = {"broker": "s3cr3t-of-the-client", "public": None}
SCOPES = ["openid", "email", "profile", "offline_access", "mcp"]
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
CODE_LIVES, DEVICE_LIVES = 60, 600
ANY_LOOPBACK = re.compile(r"http://127\.0\.0\.1(:\d+)?/callback|http://localhost(:\d+)?(/[^?#]*)?")
VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")
# Answers to a token request that has no effect, so that the client's tokens stay good.
ANSWERS = {
    "token-500": (500, b'{"error": "server_error"}', "application/json"),
    "token-garbage": (200, b'{"access_token": "at-', "application/json"),
    "token-html": (200, b"<html><p>Down for maintenance</p></html>", "text/html"),
    "token-redirect": (302, b"", "text/plain"),
    "token-huge": (200, b'{"access_token": "at-huge", "token_type": "Bearer", "more": "%s"}' % (b"x" * (10 << 20)),
                   "application/json"),
}
# All of it happens, and the answer comes late or never; or nothing is rotated.
FAULTS = ["token-slow", "token-lost", "token-no-refresh"]
TEXT = {"type": "string"}
WHO = {"type": "object", "properties": {"person": TEXT, "token_tail": TEXT}, "required": ["person", "token_tail"]}
READS = {"readOnlyHint": True, "openWorldHint": False}
WRITES = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False, "openWorldHint": False}
TOOLS = [
    {"name": "whoami", "description": "Says whose access token this is, and how it ends",
     "inputSchema": {"type": "object"}, "outputSchema": WHO, "annotations": READS},
    {"name": "note", "description": "Keeps a note, and says how many the person has",
     "inputSchema": {"type": "object", "properties": {"text": TEXT}}, "annotations": WRITES},
    {"name": "leak", "description": "Says the access token, as it is and in base64",
     "inputSchema": {"type": "object"}, "annotations": READS},
]

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--redirect", action="append", default=[])
parser.add_argument("--lives", type=float, default=3600)
parser.add_argument("--grace", type=float, default=0)
parser.add_argument("--interval", type=int, default=1)
parser.add_argument("--sessionless", action="store_true")
options = parser.parse_args()
lock = threading.Lock()


class Refused(Exception):
    """A request that is refused, with the reason as OAuth calls it."""

    def __init__(self, error, description="", status=400, **headers):
        super().__init__(error)
        self.answer = status, {"error": error, "error_description": description or error}, headers


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def parameters(encoded):
    """What a query or a form says; nothing twice but resources."""
    said = {}
    for name, value in parse_qsl(encoded, keep_blank_values=True):
        if name in said and name != "resource":
            raise Refused("invalid_request", f"{name} twice")
        said[name] = value
    return said


def form(headers, body):
    if headers.get_content_type() != "application/x-www-form-urlencoded":
        raise Refused("invalid_request", "no form")
    return parameters(body.decode("ascii", "replace"))


def basic(authorization):
    """The client and the secret of a header, or nothing of both."""
    scheme, _, encoded = (authorization or "").partition(" ")
    try:
        name, _, secret = base64.b64decode(encoded, validate=True).decode().partition(":")
    except ValueError:
        name = secret = ""
    return (unquote_plus(name), unquote_plus(secret)) if name and scheme.lower() == "basic" else (None, None)


class Authority:
    """The authorization server without its HTTP. Whoever asks it holds the lock."""

    def __init__(self):
        self.base, self.codes, self.devices, self.families = None, {}, {}, []
        self.by_access, self.by_refresh = {}, {}
        self.faults, self.requests, self.refreshes = [], [], 0
        self.sessions, self.calls, self.elsewhere = {}, [], 0

    def check_resource(self, said):
        if said.get("resource", self.base) not in (self.base, self.base + "/", self.base + "/mcp"):
            raise Refused("invalid_target", "no such resource")

    def authorize(self, said):
        """Where the browser goes with the code."""
        redirect, challenge = said.get("redirect_uri", ""), said.get("code_challenge", "")
        if said.get("client_id") not in CLIENTS:
            raise Refused("invalid_client", "client_id is unknown")
        if not (redirect in options.redirect if options.redirect else ANY_LOOPBACK.fullmatch(redirect)):
            raise Refused("invalid_request", "redirect_uri is not registered")
        if said.get("response_type") != "code":
            raise Refused("unsupported_response_type")
        if said.get("code_challenge_method") != "S256" or not re.fullmatch("[A-Za-z0-9_-]{43}", challenge):
            raise Refused("invalid_request", "PKCE with S256 is wanted")
        self.check_resource(said)
        code = "code-" + secrets.token_hex(12)
        self.codes[code] = SimpleNamespace(
            client=said["client_id"], person=said.get("login_hint") or "ann", scope=said.get("scope") or "mcp",
            redirect=redirect, challenge=challenge, expires=time.time() + CODE_LIVES, spent=False, family=None)
        back = {name: value for name, value in (("code", code), ("state", said.get("state"))) if value is not None}
        return redirect + ("&" if "?" in redirect else "?") + urlencode(back)

    def client(self, said, authorization):
        """The client this is, if it has shown so."""
        name, secret, refused = said.get("client_id"), said.get("client_secret"), Refused("invalid_client", status=401)
        if authorization is not None:
            if secret is not None:
                raise Refused("invalid_request", "the client authenticates in two ways")
            refused = Refused("invalid_client", status=401, WWW_Authenticate='Basic realm="token"')
            user, secret = basic(authorization)
            name = user if name in (None, user) else None
        if name not in CLIENTS or CLIENTS[name] != (secret or None):
            raise refused
        self.check_resource(said)
        return name

    def grant(self, said, authorization, rotates):
        """The answer with tokens."""
        client, kind = self.client(said, authorization), said.get("grant_type")
        if kind == "refresh_token":
            return self.answer(self.refresh(client, said, rotates))
        if kind not in ("authorization_code", DEVICE_GRANT):
            raise Refused("unsupported_grant_type" if kind else "invalid_request")
        begins = self.redeem(client, said) if kind == "authorization_code" else self.poll(client, said)
        begins.family = SimpleNamespace(person=begins.person, client=client, scope=begins.scope, revoked=False, rotations=0)
        self.families.append(begins.family)
        return self.answer(self.issue(begins.family, begins.scope, rotates))

    def redeem(self, client, said):
        code, verifier = self.codes.get(said.get("code")), said.get("code_verifier", "")
        if code is None or code.client != client:
            raise Refused("invalid_grant", "no such code")
        if code.spent:
            if code.family is not None:
                code.family.revoked = True
            raise Refused("invalid_grant", "the code was used before")
        # Also when it is refused now: whoever comes with half of what it takes has one try.
        code.spent = True
        if time.time() >= code.expires or said.get("redirect_uri") != code.redirect:
            raise Refused("invalid_grant", "the code has expired, or redirect_uri is another one")
        if not VERIFIER.fullmatch(verifier) or base64url(hashlib.sha256(verifier.encode()).digest()) != code.challenge:
            raise Refused("invalid_grant", "code_verifier is another one")
        return code

    def refresh(self, client, said, rotates):
        old, now = self.by_refresh.get(said.get("refresh_token")), time.time()
        if old is None or old.family.client != client:
            raise Refused("invalid_grant", "no such refresh token")
        family, scope = old.family, said.get("scope", old.family.scope)
        if family.revoked:
            raise Refused("invalid_grant", "revoked")
        if not set(scope.split()) <= set(family.scope.split()):
            raise Refused("invalid_scope")
        if old.newer and (now - old.rotated >= options.grace or old.newer.used):
            family.revoked = True
            raise Refused("invalid_grant", "the refresh token was used before")
        self.refreshes += 1
        old.used = True
        if old.newer and rotates:
            return old.newer
        new = self.issue(family, scope, rotates)
        if rotates:
            old.rotated, old.newer = now, new
            family.rotations += 1
        return new

    def pending(self, user_code):
        return next((each for each in self.devices.values() if (each.user_code, each.state) == (user_code, "pending")), None)

    def device(self, said, authorization):
        client, user_code = self.client(said, authorization), "WDJB-MJHT"
        while self.pending(user_code):
            user_code = "-".join("".join(secrets.choice("BCDFGHJKLMNPQRSTVWXZ") for _ in range(4)) for _ in range(2))
        name = "device-" + secrets.token_hex(12)
        self.devices[name] = SimpleNamespace(
            client=client, person=said.get("login_hint") or "ann", scope=said.get("scope") or "mcp", user_code=user_code,
            state="pending", polled=0, expires=time.time() + DEVICE_LIVES, family=None)
        return {"device_code": name, "user_code": user_code, "verification_uri": self.base + "/activate",
                "verification_uri_complete": f"{self.base}/activate?user_code={user_code}",
                "expires_in": DEVICE_LIVES, "interval": options.interval}

    def poll(self, client, said):
        device, now = self.devices.get(said.get("device_code")), time.time()
        if device is None or device.client != client or device.family is not None:
            raise Refused("invalid_grant", "no such device code")
        early, device.polled = now - device.polled < options.interval, now
        if now >= device.expires:
            raise Refused("expired_token")
        if early or device.state != "approved":
            raise Refused("slow_down" if early else "authorization_pending" if device.state == "pending" else "access_denied")
        return device

    def issue(self, family, scope, with_refresh):
        """An access token and the refresh token that goes with it. It was used when somebody has come with either."""
        pair = SimpleNamespace(family=family, scope=scope, access="at-" + secrets.token_hex(12), refresh=None, used=False,
                               expires=time.time() + options.lives, rotated=0, newer=None)
        self.by_access[pair.access] = pair
        if with_refresh:
            pair.refresh = "rt-" + secrets.token_hex(12)
            self.by_refresh[pair.refresh] = pair
        return pair

    def answer(self, pair):
        person, now = pair.family.person, time.time()
        claims = {"iss": self.base, "aud": pair.family.client, "sub": person, "email": f"{person}@example.com",
                  "name": person.capitalize(), "iat": int(now), "exp": int(now) + 3600}
        parts = json.dumps({"alg": "none", "typ": "JWT"}).encode(), json.dumps(claims).encode(), b"nobody signed this"
        answer = {"access_token": pair.access, "token_type": "Bearer", "expires_in": max(0, round(pair.expires - now)),
                  "scope": pair.scope, "id_token": ".".join(map(base64url, parts))}
        return answer | ({"refresh_token": pair.refresh} if pair.refresh else {})

    def control(self, what, said):
        """What a test does in the place of somebody else."""
        if what == "approve":
            device = self.pending(said.get("deny") or said.get("user_code"))
            if device is None:
                raise Refused("no such user code", status=404)
            device.state = "denied" if "deny" in said else "approved"
            device.person = said.get("person", device.person)
        elif what == "fault" and (said.get("what") in FAULTS or said.get("what") in ANSWERS or said.get("times") == 0):
            times = said.get("times", 1)
            self.faults = self.faults + [(said["what"], said.get("seconds", 3))] * times if times else []
        elif what == "expire":
            for pair in self.by_access.values():
                pair.expires = 0
        elif what == "revoke" and "person" in said:
            for family in self.families:
                family.revoked |= family.person == said["person"]
        else:
            raise Refused(f"no such thing as {what} {said}", status=404)
        return {}

    def state(self):
        families = {each.person: {"revoked": each.revoked, "rotations": each.rotations} for each in self.families}
        return {"token_requests": self.requests, "refreshes": self.refreshes, "families": families, "mcp_calls": self.calls,
                "elsewhere": self.elsewhere}

    def about(self, path):
        """What it says of itself and of the resource."""
        resource = path.removeprefix("/.well-known/oauth-protected-resource")
        if path == "/.well-known/oauth-authorization-server":
            endpoints = {"authorization": "/authorize", "token": "/token", "device_authorization": "/device"}
            return {f"{name}_endpoint": self.base + at for name, at in endpoints.items()} | {
                "issuer": self.base, "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
                "grant_types_supported": ["authorization_code", "refresh_token", DEVICE_GRANT], "scopes_supported": SCOPES,
                "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post", "none"]}
        if resource != path and resource in ("", "/mcp"):
            return {"resource": self.base + resource, "authorization_servers": [self.base], "scopes_supported": SCOPES,
                    "bearer_methods_supported": ["header"]}
        raise Refused("not_found", status=404)


authority = Authority()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # An answer goes out at once, and not in two pieces of which the second waits for the first.
    wbufsize = -1

    def log_message(self, *_):
        pass

    def give(self, status, body=b"", kind="application/json", **headers):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        headers |= {"Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store"}
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def serve(self):
        url, body = urlsplit(self.path), self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            if url.path == "/mcp":
                self.mcp(body)
            elif url.path == "/token" and self.command == "POST":
                self.token(body)
            elif url.path == "/authorize" and self.command == "GET":
                with lock:
                    back = authority.authorize(parameters(url.query))
                self.give(302, Location=back)
            else:
                with lock:
                    answer = json.dumps(self.small(url.path, body)).encode()
                self.give(200, answer)
        except Refused as refused:
            status, said, headers = refused.answer
            self.give(status, said, **headers)

    do_GET = do_POST = do_DELETE = serve

    def small(self, path, body):
        """The answer to what takes no more than a look or a note."""
        asked = f"{self.command} {path}"
        if asked == "POST /device":
            return authority.device(form(self.headers, body), self.headers.get("Authorization"))
        if asked.startswith("POST /control/"):
            return authority.control(path.removeprefix("/control/"), json.loads(body or b"{}"))
        if asked == "GET /control/state":
            return authority.state()
        if path == "/elsewhere":
            # The page for every visitor looks good.
            authority.elsewhere += 1
            return {"access_token": "at-elsewhere", "refresh_token": "rt-elsewhere", "token_type": "Bearer"}
        if asked == "GET /activate":
            return "POST /control/approve plays the person"
        return authority.about(asked.removeprefix("GET "))

    def token(self, body):
        request, authorization = {"grant_type": None, "ok": False, "client": None}, self.headers.get("Authorization")
        answered = refused = None
        with lock:
            authority.requests.append(request)
            fault, late = authority.faults.pop(0) if authority.faults else (None, 0)
            try:
                said = form(self.headers, body)
                request.update(grant_type=said.get("grant_type"), client=said.get("client_id") or basic(authorization)[0])
                if fault not in ANSWERS:
                    answered = authority.grant(said, authorization, fault != "token-no-refresh")
                    request["ok"] = fault != "token-lost"
            except Refused as caught:
                refused = caught
        if fault == "token-lost":
            self.close_connection = True
            return None
        if fault == "token-slow":
            time.sleep(late)
        if refused is not None:
            raise refused
        if fault == "token-redirect":
            return self.give(*ANSWERS[fault], Location=authority.base + "/elsewhere")
        return self.give(*ANSWERS.get(fault, (200, answered)))

    def bearer(self):
        """The tokens of whoever this is, or `None` when it is told that it is nobody."""
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        wanted = f'Bearer resource_metadata="{authority.base}/.well-known/oauth-protected-resource/mcp"'
        with lock:
            pair = authority.by_access.get(token) if scheme.lower() == "bearer" else None
            if pair is not None:
                pair.used = True
                if not pair.family.revoked and time.time() < pair.expires:
                    return pair
        return self.give(401, WWW_Authenticate=wanted + (', error="invalid_token"' if token else ""))

    def mcp(self, body):
        pair, session = self.bearer(), self.headers.get("Mcp-Session-Id")
        if pair is None:
            return None
        person, sessions = pair.family.person, authority.sessions
        if self.command == "DELETE":
            return self.give(200 if sessions.get(session) == person and sessions.pop(session, None) else 404)
        if self.command == "GET":
            return self.give(405)
        message = json.loads(body)
        method, request, params = message.get("method"), message.get("id"), message.get("params", {})
        if method == "initialize":
            result = {"protocolVersion": "2025-11-25", "serverInfo": {"name": "oauth", "version": "1"},
                      "capabilities": {"tools": {}}}
            session = secrets.token_hex(8)
            sessions[session] = person
            return self.answer(request, result, **({} if options.sessionless else {"Mcp_Session_Id": session}))
        if method == "server/discover" or session is None and not options.sessionless:
            return self.give(400, {"jsonrpc": "2.0", "id": request, "error": {"code": -32601, "message": "no session"}})
        if not options.sessionless and sessions.get(session) != person:
            return self.give(404, b"no such session", "text/plain")
        if request is None:
            return self.give(202)
        if method == "tools/list":
            return self.answer(request, {"tools": TOOLS})
        if method == "tools/call" and params["name"] in [tool["name"] for tool in TOOLS]:
            return self.answer(request, self.call(person, pair.access, params["name"]))
        return self.give(200, {"jsonrpc": "2.0", "id": request, "error": {"code": -32601, "message": f"no such {method}"}})

    def call(self, person, access, tool):
        with lock:
            authority.calls.append({"person": person, "tool": tool})
            notes = authority.calls.count({"person": person, "tool": "note"})
        who = {"person": person, "token_tail": access[-4:]}
        said = {"whoami": json.dumps(who), "note": str(notes), "leak": f"{access} {base64.b64encode(access.encode()).decode()}"}
        result = {"content": [{"type": "text", "text": said[tool]}]}
        return result | ({"structuredContent": who} if tool == "whoami" else {})

    def answer(self, request, result, **headers):
        self.give(200, {"jsonrpc": "2.0", "id": request, "result": result}, **headers)


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128

    def handle_error(self, request, client_address):
        # The client may have gone.
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


with Server(("127.0.0.1", 0), Handler) as server:
    authority.base = f"http://127.0.0.1:{server.server_port}"
    print(server.server_port, flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    # The parent process holds its input open.
    sys.stdin.read()
