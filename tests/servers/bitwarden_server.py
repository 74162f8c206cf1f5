#!/usr/bin/env python3
"""A server of Bitwarden for one account, as far as the command line client `bw` needs it to log in, unlock and sync.

    bitwarden_server.py DIRECTORY

It is read only and listens with TLS on a port of 127.0.0.1. The client refuses `http` also for a loopback address.

DIRECTORY/vault.json   The account. It is read again at each sync.
    {"email": .., "password": .., "name"?: .., "items": [ITEM..]}
    An ITEM is {"name": ..} with any of: "id", "kind" (login, note, card or identity; login), "folder", "notes",
    "favorite", "reprompt", "deleted", "fields" ({name: hidden value}), "username", "password", "totp", "uris",
    "card" and "identity".
DIRECTORY/cert.pem     The certificate that a client must trust (NODE_EXTRA_CA_CERTS).
DIRECTORY/port         The port, once it listens.
DIRECTORY/requests.log One line for each request: method, path and status.

The keys come from the master password as Bitwarden documents it: PBKDF2 and HKDF with SHA-256. Values are encrypted with
AES-256-CBC and authenticated with HMAC-SHA-256. The client decrypts them, so an error here shows there. The requests and
answers are those of @bitwarden/cli 2026.9.0.
"""

import base64
import hashlib
import hmac
import http.server
import json
import os
import pathlib
import secrets
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse
import uuid

ITERATIONS = 5000  # the minimum of the client
MOST = 1 << 20  # bytes of a vault, a request or the log
LIVES = 3600  # the life of an access token in seconds
KINDS = {"login": 1, "note": 2, "card": 3, "identity": 4}
ITS_OWN = uuid.UUID("5f4b6a0e-0000-4000-8000-000000000000")  # the namespace of all ids


class Key:
    """A key of 64 bytes: the first half encrypts, the second half authenticates."""

    def __init__(self, both):
        self.both, self.key, self.mac = both, both[:32], both[32:]

    def encrypt(self, plain):
        if plain is None:
            return None
        vector = os.urandom(16)
        given = plain.encode() if isinstance(plain, str) else plain
        text = openssl("enc", "-aes-256-cbc", "-K", self.key.hex(), "-iv", vector.hex(), given=given)
        parts = [vector, text, hmac.digest(self.mac, vector + text, "sha256")]
        return "2." + "|".join(base64.b64encode(part).decode() for part in parts)


class Account:
    def __init__(self, directory):
        self.file = directory / "vault.json"
        vault = self.read()
        self.email, password = vault["email"].strip().lower(), vault["password"].encode()
        self.name, self.id = vault.get("name"), self.made("account", self.email)
        self.stamp, self.key_id = self.made("stamp", self.email), None
        master = hashlib.pbkdf2_hmac("sha256", password, self.email.encode(), ITERATIONS)
        self.hash = base64.b64encode(hashlib.pbkdf2_hmac("sha256", master, password, 1)).decode()
        # HKDF-Expand only (RFC 5869): the master key is random enough.
        stretched = b"".join(hmac.digest(master, use + b"\1", "sha256") for use in (b"enc", b"mac"))
        self.key = Key(os.urandom(64))
        self.protected_key = Key(stretched).encrypt(self.key.both)
        pair = openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048")
        pair = openssl("pkcs8", "-topk8", "-nocrypt", "-outform", "DER", given=pair)
        self.public_key = base64.b64encode(openssl("pkey", "-inform", "DER", "-pubout", "-outform", "DER", given=pair)).decode()
        self.private_key = self.key.encrypt(pair)
        self.refresh = base64.urlsafe_b64encode(hmac.digest(self.key.mac, b"refresh", "sha256")).decode()

    def read(self):
        with self.file.open("rb") as file:
            return json.loads(file.read(MOST))

    def made(self, *parts):
        return str(uuid.uuid5(ITS_OWN, "/".join(map(str, parts))))

    def changed(self):
        return self.file.stat().st_mtime

    def keys(self):
        return {"publicKeyEncryptionKeyPair": {"publicKey": self.public_key, "wrappedPrivateKey": self.private_key}}

    def unlock(self):
        kdf = {"kdfType": 0, "iterations": ITERATIONS}
        return {"salt": self.email, "kdf": kdf, "masterKeyEncryptedUserKey": self.protected_key}

    def sign(self, text):
        return unpadded(hmac.digest(self.key.mac, text.encode(), "sha256"))

    def token(self):
        now = int(time.time())
        claims = {"nbf": now, "exp": now + LIVES, "iss": "stand-in", "client_id": "cli", "sub": self.id, "email": self.email,
                  "name": self.name, "email_verified": True, "premium": False, "sstamp": self.stamp,
                  "scope": ["api", "offline_access"], "amr": ["Application"]}
        text = ".".join(unpadded(json.dumps(part).encode()) for part in ({"alg": "HS256", "typ": "JWT"}, claims))
        return {"access_token": f"{text}.{self.sign(text)}", "expires_in": LIVES, "token_type": "Bearer",
                "refresh_token": self.refresh, "scope": "api offline_access"}

    def knows(self, token):
        text, _, signature = token.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self.sign(text).encode()):
            return False
        claims = text.partition(".")[2]
        return json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"] > time.time()

    def profile(self):
        return {"id": self.id, "name": self.name, "email": self.email, "emailVerified": True, "premium": False,
                "culture": "en-US", "twoFactorEnabled": False, "key": self.protected_key, "privateKey": self.private_key,
                "accountKeys": self.keys(), "securityStamp": self.stamp, "creationDate": date(0), "organizations": [],
                "providers": [], "providerOrganizations": [], "object": "profile"}

    def sync(self):
        items, when = self.read()["items"], date(self.changed())
        folders = dict.fromkeys(item["folder"] for item in items if item.get("folder"))
        return {"profile": self.profile(), "ciphers": [self.cipher(*item, when) for item in enumerate(items)],
                "folders": [{"id": self.made("folder", name), "name": self.key.encrypt(name), "revisionDate": when,
                             "object": "folder"} for name in folders],
                "collections": [], "policies": [], "sends": [], "domains": None,
                "userDecryption": {"masterPasswordUnlock": self.unlock(), "userKeyId": self.key_id}, "object": "sync"}

    def cipher(self, place, item, when):
        encrypt, kind, folder = self.key.encrypt, item.get("kind", "login"), item.get("folder")
        about = {
            "id": item.get("id") or self.made("item", place), "type": KINDS[kind], "name": encrypt(item["name"]),
            "notes": encrypt(item.get("notes")), "folderId": self.made("folder", folder) if folder else None,
            "favorite": item.get("favorite", False), "reprompt": int(item.get("reprompt", False)),
            "fields": [{"type": 1, "name": encrypt(name), "value": encrypt(value), "linkedId": None}
                       for name, value in item.get("fields", {}).items()],
            "login": None, "secureNote": None, "card": None, "identity": None, "organizationId": None, "collectionIds": [],
            "organizationUseTotp": False, "key": None, "attachments": None, "passwordHistory": None, "edit": True,
            "viewPassword": True, "permissions": {"delete": True, "restore": True}, "creationDate": date(0),
            "revisionDate": when, "deletedDate": when if item.get("deleted") else None, "archivedDate": None,
            "object": "cipherDetails",
        }
        if kind == "login":
            uris = [{"uri": encrypt(uri), "match": None,
                     "uriChecksum": encrypt(base64.b64encode(hashlib.sha256(uri.encode()).digest()).decode())}
                    for uri in item.get("uris", [])]
            about["login"] = {name: encrypt(item.get(name)) for name in ("username", "password", "totp")} | {"uris": uris}
        elif kind == "note":
            about["secureNote"] = {"type": 0}
        else:
            about[kind] = {name: encrypt(value) for name, value in item.get(kind, {}).items()}
        return about


def openssl(*arguments, given=b""):
    return subprocess.run(["openssl", *arguments], input=given, capture_output=True, check=True, timeout=60).stdout


def unpadded(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def date(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(seconds))


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, directory):
        super().__init__(("127.0.0.1", 0), Handler)
        self.account, self.log, self.writing = Account(directory), (directory / "requests.log").open("a"), threading.Lock()
        certificate, key = directory / "cert.pem", directory / "cert.key"
        if not key.exists():
            openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
                    "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost",
                    "-keyout", key, "-out", certificate)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        # The handshake runs in the thread of the connection, so a slow client delays no other.
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, request, client_address):
        # A client can go away. Any other error is one of this program.
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    def log_message(self, *_):
        pass

    def log_request(self, code="-", size="-"):
        with self.server.writing:
            if self.server.log.tell() < MOST:
                print(self.command, self.path, int(code), file=self.server.log, flush=True)

    def give(self, answer, status=200):
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status, message):
        self.give({"message": message, "validationErrors": None, "object": "error"}, status)

    def may(self):
        kind, _, token = self.headers.get("Authorization", "").partition(" ")
        if kind == "Bearer" and self.server.account.knows(token):
            return True
        self.refuse(401, "Unauthorized")
        return False

    def do_GET(self):
        account, path = self.server.account, urllib.parse.urlsplit(self.path).path
        if path == "/api/config":
            return self.give(self.config())
        if not self.may():
            return
        if path == "/api/accounts/revision-date":
            return self.give(int(account.changed() * 1000))
        if path == "/api/accounts/profile":
            return self.give(account.profile())
        if path == "/api/sync":
            return self.give(account.sync())
        self.refuse(404, "Not found")

    def do_POST(self):
        account, length = self.server.account, int(self.headers.get("Content-Length", 0))
        if not 0 <= length <= MOST:
            self.close_connection = True
            return self.refuse(413, "Too large")
        body = self.rfile.read(length).decode()
        if self.path in ("/identity/accounts/prelogin", "/identity/accounts/prelogin/password"):  # the first until 2025
            # A server answers the same for an address that it does not know.
            asked = json.loads(body)["email"]
            settings = {"kdfType": 0, "iterations": ITERATIONS, "memory": None, "parallelism": None}
            return self.give({"kdf": 0, "kdfIterations": ITERATIONS, "kdfSettings": settings, "salt": asked})
        if self.path == "/identity/connect/token":
            form = dict(urllib.parse.parse_qsl(body, max_num_fields=50))
            if form.get("grant_type") == "refresh_token" and form.get("refresh_token") == account.refresh:
                return self.give(account.token())
            given = form.get("grant_type"), form.get("username", "").strip().lower(), form.get("password")
            if given == ("password", account.email, account.hash):
                return self.give(account.token() | self.first())
            wrong = {"Message": "Username or password is incorrect. Try again.", "Object": "error"}
            why = "invalid_username_or_password"
            return self.give({"error": "invalid_grant", "error_description": why, "ErrorModel": wrong}, 400)
        if not self.may():
            return
        if self.path == "/api/accounts/key-management/user-key-id":
            # Without this answer, a login ends with an error.
            account.key_id = json.loads(body)["userKeyId"]
            return self.give({})
        self.refuse(404, "Not found")

    def first(self):
        """The members of an answer to a login beside the tokens."""
        account = self.server.account
        options = {"HasMasterPassword": True, "MasterPasswordUnlock": account.unlock(), "Object": "userDecryptionOptions"}
        return {"Key": account.protected_key, "PrivateKey": account.private_key, "AccountKeys": account.keys(), "Kdf": 0,
                "KdfIterations": ITERATIONS, "KdfMemory": None, "KdfParallelism": None, "ForcePasswordReset": False,
                "ResetMasterPassword": False, "MasterPasswordPolicy": None, "UserDecryptionOptions": options}

    def config(self):
        here = f"https://127.0.0.1:{self.server.server_port}"
        urls = {"vault": here, "api": here + "/api", "identity": here + "/identity", "notifications": None, "sso": None}
        return {"version": "2026.9.0", "gitHash": "0000000", "server": {"name": "stand-in", "url": here},
                "environment": urls | {"cloudRegion": None}, "featureStates": {}, "push": None, "settings": None,
                "object": "config"}


directory = pathlib.Path(sys.argv[1])
server = Server(directory)
written = directory / f"port.{secrets.token_hex(4)}"
written.write_text(str(server.server_port))
written.rename(directory / "port")
server.serve_forever()
