"""What is left when all clients are gone, read straight from the ledger's file and the mailboxes."""

import json
import os
import sqlite3
import time
from collections import Counter

from world import HOME, all_effects, check, end, same, wait_until

NAME = "afterwards"
ledger = sqlite3.connect(f"file:{HOME}/ledger.db?mode=ro", uri=True)
ledger.row_factory = sqlite3.Row


def rows(query, *values):
    return ledger.execute(query, values).fetchall()


with check(NAME, "no intent is open and no outcome unknown"):
    wait_until("every call has ended", 10, lambda: not rows("SELECT seq FROM open_intents"))
    same([tuple(row) for row in rows("SELECT seq FROM unknown_outcomes")], [])
with check(NAME, "the rows hang together without a gap") as said:
    last = None
    for number, row in enumerate(rows("SELECT seq, prev_hash, event_hash FROM ledger ORDER BY seq"), 1):
        same(row["seq"], number)
        assert last is None or row["prev_hash"] == last, f"row {number} does not follow"
        last = row["event_hash"]
    said.append(f"{number} rows")
with check(NAME, "each intent has one outcome, and each effect one intent") as said:
    intents = {}
    for row in rows("SELECT * FROM ledger WHERE kind = 'intended'"):
        if json.loads(row["body"]).get("stage") == "run":
            name = (row["caller"], row["request_id"])
            assert name not in intents, f"{name} was intended twice"
            intents[name] = row
    ended = Counter()
    for row in rows("SELECT * FROM ledger WHERE kind IN ('succeeded', 'failed', 'timed_out', 'unknown')"):
        ended[(row["caller"], row["request_id"])] += 1
    same(sorted(ended), sorted(intents))
    same(set(ended.values()), {1})
    written = sorted(row["request_id"] for row in intents.values() if row["level"] >= 2)
    same(sorted(all_effects()), written)
    said.append(f"{len(intents)} calls, {len(written)} effects")
with check(NAME, "every client has its rows") as said:
    kinds = Counter((row["caller"].removeprefix("group:"), row["kind"]) for row in rows("SELECT * FROM ledger"))
    for group in os.environ["CLIENTS_GROUPS"].split():
        same([group, kinds[group, "intended"] > 0, kinds[group, "refused"] > 0], [group, True, True])
        said.append(f"{group} {kinds[group, 'intended']}+{kinds[group, 'refused']}")
with check(NAME, "no request waits, and only replies that nobody came for are left") as said:
    names = {}
    for group in sorted(os.listdir(HOME / "ipc")):
        same([group, os.listdir(HOME / "ipc" / group / "tasks")], [group, []])
        names[group] = os.listdir(HOME / "ipc" / group / "responses")
        same([name for name in names[group] if name.startswith(".") or "progress" in name], [])
    answered = {row["request_id"] for row in rows("SELECT request_id FROM ledger WHERE request_id IS NOT NULL")}
    left = [name.removesuffix(".json") for group in names.values() for name in group]
    same([name for name in left if name not in answered], [])
    # Of each call that was given up the reply is left and that to the cancellation, until the host clears up.
    most = int(os.environ["CLIENTS_LEFT_MAX"])
    assert len(left) <= most, f"{len(left)} replies are left: {names}"
    said.append(f"{len(left)} left")
end()
