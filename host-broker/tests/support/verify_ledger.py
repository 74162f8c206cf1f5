#!/usr/bin/env python3
"""Verifies a ledger of the access broker: a database file, or an export with one row a line.

    verify_ledger.py FILE [SEQ:HASH]

SEQ:HASH is a head that was kept elsewhere: row SEQ must be there and have the hash sha256:HASH.
Exit code 0 and one line if everything holds; 1 and the first bad row if not. Knows the format's description only. The
signatures of checkpoints are not verified, because Python's own library has no Ed25519.
"""

import base64
import hashlib
import json
import sqlite3
import sys

COLUMNS = (
    "seq ts kind caller person request_id provider action level params_digest summary reason_code result_summary "
    "result_digest task_id approval policy_version duration_ms body prev_hash event_hash"
).split()
DIGESTS = {"params_digest", "result_digest", "prev_hash", "event_hash"}


def from_database(path):
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    connection.text_factory = bytes
    rows = connection.execute(f"SELECT {', '.join(COLUMNS)} FROM ledger ORDER BY seq")
    return (dict(zip(COLUMNS, row)) for row in rows)


def from_export(path):
    for line in open(path, encoding="utf-8"):
        row = json.loads(line)
        for column in DIGESTS:
            if row[column] is not None:
                row[column] = bytes.fromhex(row[column].removeprefix("sha256:"))
        yield row


def encoded(value):
    if value is None:
        return b"-,"
    data = value if isinstance(value, bytes) else str(value).encode()
    return b"%d:%s," % (len(data), data)


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


class Tree:
    """The Merkle tree of RFC 6962: (size, hash) of each complete subtree, largest first."""

    def __init__(self):
        self.subtrees = []

    def push(self, leaf):
        size, node = 1, sha256(b"\0", leaf)
        while self.subtrees and self.subtrees[-1][0] == size:
            node = sha256(b"\1", self.subtrees.pop()[1], node)
            size *= 2
        self.subtrees.append((size, node))

    def root(self):
        node = self.subtrees[-1][1]
        for _, left in reversed(self.subtrees[:-1]):
            node = sha256(b"\1", left, node)
        return node


def fault(row, expected, before, time, open_intents, tree):
    if row["seq"] != expected:
        return f"row {row['seq']} stands where row {expected} should be"
    if row["prev_hash"] != before:
        return f"row {expected} does not follow from the row before it"
    content = b"ext-broker ledger row v1\n" + b"".join(encoded(row[column]) for column in COLUMNS[:-1])
    if row["event_hash"] != hashlib.sha256(content).digest():
        return f"row {expected} does not have the hash of its content"
    kind = row["kind"] if isinstance(row["kind"], str) else row["kind"].decode()
    if time is not None and row["ts"] < time and kind != "clock_accepted":
        return f"row {expected} is earlier than the row before it"
    if kind == "intended":
        open_intents.add(expected)
    elif kind in ("succeeded", "failed", "timed_out", "unknown"):
        intent = json.loads(row["body"]).get("of")
        if type(intent) is not int or intent not in open_intents:
            return f"row {expected} closes no open intent"
        open_intents.remove(intent)
    elif kind == "checkpointed":
        _, size, root = json.loads(row["body"])["note"].split("\n\n")[0].split("\n")
        if int(size) != expected - 1 or base64.b64decode(root) != tree.root():
            return f"row {expected} is a checkpoint of other rows"
    tree.push(row["event_hash"])
    return None


def main(path, kept=None):
    with open(path, "rb") as file:
        is_database = file.read(16) == b"SQLite format 3\0"
    seq, before, time, open_intents, tree = 0, bytes(32), None, set(), Tree()
    kept_seq, kept_hash = kept.split(":") if kept else (0, "")
    for row in from_database(path) if is_database else from_export(path):
        found = fault(row, seq + 1, before, time, open_intents, tree)
        if found:
            sys.exit(found)
        seq, before, time = row["seq"], row["event_hash"], row["ts"]
        if seq == int(kept_seq) and before.hex() != kept_hash:
            sys.exit(f"row {seq} is not the one that was kept")
    if seq < int(kept_seq):
        sys.exit(f"the ledger ends at row {seq}, but row {kept_seq} was acknowledged")
    print(f"{seq} rows, head sha256:{before.hex()}, {len(open_intents)} intents open")


if __name__ == "__main__":
    main(*sys.argv[1:])
