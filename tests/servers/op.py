#!/usr/bin/env python3
"""Prints what the documents of 1Password's program `op` show for a vault `Agents` with four items, and for a vault `Keys`
whose item has the token of the service account itself.

Source: developer.1password.com/docs/cli/reference (item list, read) and …/docs/service-accounts. It takes exactly the
arguments that the broker gives, and fails for any other.
"""

import json
import os
import sys

VAULT = {"id": "vaultid1", "name": "Agents"}
ITEMS = [
    {"id": "itemid1", "title": "GitHub", "version": 2, "vault": VAULT, "category": "LOGIN",
     "additional_information": "ada", "urls": [{"label": "website", "primary": True, "href": "https://github.com"}]},
    {"id": "itemid2", "title": "Bare", "version": 1, "vault": VAULT, "category": "PASSWORD",
     "additional_information": "—"},
    # Names and ids that no other program could be given.
    {"id": "../../x", "title": "Path", "version": 1, "vault": VAULT, "category": "LOGIN"},
    {"id": "itemid4", "title": "Hid\u200bden", "version": 1, "vault": VAULT, "category": "LOGIN"},
]
TOKEN = "ops_token-of-the-tests"
SECRETS = {"itemid1": "op-Vx83-kQ1m-Zz05", "itemid2": "op-bare-Jd72-uW9s", "itemid5": TOKEN}
KEYS = [{"id": "itemid5", "title": "Own", "version": 1, "vault": {"id": "vaultid2", "name": "Keys"}, "category": "PASSWORD"}]


def main(arguments):
    token = os.environ.get("OP_SERVICE_ACCOUNT_TOKEN")
    if token != TOKEN:
        sys.exit("[ERROR] 2026/11/26 10:00:00 Signin credentials are not compatible with the provided user auth")
    if arguments == ["item", "list", "--categories", "Login,Password", "--vault", "Agents", "--format", "json",
                     "--cache=false"]:
        print(json.dumps(ITEMS))
        return
    if arguments[:6] == ["item", "list", "--categories", "Login,Password", "--vault", "Keys"]:
        print(json.dumps(KEYS))
        return
    if arguments[:2] == ["read", "--no-newline"] and arguments[3:] == ["--cache=false"]:
        parts = arguments[2].split("/")
        if len(parts) == 5 and parts[:2] == ["op:", ""] and parts[2] in ("vaultid1", "vaultid2") and parts[4] == "password":
            sys.stdout.write(SECRETS[parts[3]])
            return
    sys.exit(f"[ERROR] 2026/11/26 10:00:00 unknown command {arguments}")


main(sys.argv[1:])
