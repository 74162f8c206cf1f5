#!/usr/bin/env python3
"""Writes betterleaks.toml and betterleaks.LICENSE anew, from a version of the crate kingfisher-rules.

  betterleaks.py 3.0.1

The crate carries the rule set of Betterleaks (MIT), the successor of gitleaks, as its authors wrote it. Cargo fetches
it. Of each rule that knows a credential by itself are taken: id, pattern, keywords, entropy, and what its filter says
the credential never is. Left out are rules for what is no secret (identifiers, hosts), rules that look for a name and
any value beside it (`assigned.rs` does that), and those whose filter says more than this script reads.
"""

import gzip
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib

CRATE = "kingfisher-rules"
HERE = pathlib.Path(__file__).parent
# Values that the broker knows by formats of its own, with check digits or without their surroundings.
OWN = {"curl-auth-header", "curl-auth-user", "generic-api-key", "generic-credential-uri", "generic-password"}
OWN |= {"generic-username", "gitlab-pat", "hashicorp-tf-password", "jwt", "jwt-base64", "kubernetes-secret-yaml"}
OWN |= {"mongodb-connection-string", "npm-access-token", "nuget-config-password", "private-key", "sidekiq-secret"}
OWN |= {"sidekiq-sensitive-url", "aws-access-token", "gcp-api-key", "github-pat", "github-oauth", "github-app-token"}
OWN |= {"github-refresh-token", "github-fine-grained-pat"}
NO_SECRET = re.compile(
    r"-(?:id|host|domain|url|name|username|address|endpoint)(?:\.\d+)?$|-(?:pub|public|publishable|project)-(?:api-)?(?:key|token)"
)
ENTROPY = re.compile(r'^entropy\(finding\["secret"\]\) <=? (\d+\.\d+)$')
RATIO = re.compile(r'^tokenRatio\(finding\["secret"\]\) >= \d+\.\d+$')
NEVER = re.compile(r'^matchesAny\(finding\["secret"\], \[(.*)\]\)$', re.S)
STRING = re.compile(r'`([^`]*)`|"((?:[^"\\]|\\.)*)"')


def source(version):
    subprocess.run(["cargo", "info", f"{CRATE}@{version}"], check=True, stdout=subprocess.DEVNULL)
    home = pathlib.Path(os.environ.get("CARGO_HOME", pathlib.Path.home() / ".cargo"))
    [crate] = home.glob(f"registry/src/*/{CRATE}-{version}")
    files = json.loads(gzip.decompress((crate / "generated/upstream-sources.json.gz").read_bytes()))
    mine = {url.rsplit("/", 1)[1]: (url, text) for url, text in files.items() if "/betterleaks/betterleaks/" in url}
    return mine["betterleaks.toml"], mine["LICENSE"][1]


def read(condition):
    """(entropy, what it never is) of a filter; None where it says more than that."""
    entropy, never = None, []
    for part in re.split(r"\s*\|\|\s*(?![^\[]*\]\))", condition.strip()):
        if found := ENTROPY.match(part):
            entropy = float(found[1])
        elif RATIO.match(part):
            # Words of a language have no digits; what is made at random has.
            never.append("^[^0-9]*$")
        elif found := NEVER.match(part):
            for raw, quoted in STRING.findall(found[1]):
                never.append(raw or json.loads(f'"{quoted}"'))
        elif part:
            return None
    return entropy, never


def usable(rule):
    names = rule.get("keywords", [])
    return (
        rule["id"] not in OWN
        and not NO_SECRET.search(rule["id"])
        and rule.get("confidence") == "high"
        and not rule.get("path")
        and "regex" in rule
        and names
        and all(len(name) >= 3 for name in names)
        # A pattern is tried near its words, so they must be in it.
        and any(name in rule["regex"].lower().replace("\\", "") for name in names)
    )


def quoted(text):
    return f"'''{text}'''" if "'''" not in text and not text.endswith("'") else json.dumps(text)


def main():
    (url, text), licence = source(sys.argv[1])
    lines = [
        f"# From {url}, MIT, see betterleaks.LICENSE.",
        f"# Written by betterleaks.py from {CRATE} {sys.argv[1]}; do not edit.",
    ]
    for rule in tomllib.loads(text)["rules"]:
        said = read(rule.get("filter", ""))
        if said is None or not usable(rule):
            continue
        entropy, never = said
        lines += ["", "[[rules]]", f"id = {json.dumps(rule['id'].split('.')[0])}", f"regex = {quoted(rule['regex'])}"]
        lines += [f"keywords = {json.dumps(rule['keywords'])}"]
        lines += [f"entropy = {entropy}"] if entropy else []
        lines += [f"allowlists = [{{ regexes = [{', '.join(map(quoted, never))}] }}]"] if never else []
    (HERE / "betterleaks.toml").write_text("\n".join(lines) + "\n")
    (HERE / "betterleaks.LICENSE").write_text(licence)


if __name__ == "__main__":
    main()
