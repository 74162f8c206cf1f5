"""What every check needs to know of the home, and how a check is written down: see world.mjs."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

HOME = Path(os.environ["CLIENTS_HOME"])
SHIM = os.environ["CLIENTS_SHIM"]
_BROKER = os.environ.get("CLIENTS_BROKER", "")
_DAEMON = int(os.environ.get("CLIENTS_DAEMON", "0"))
_failed = False


def ipc(group):
    return HOME / "ipc" / group


def all_effects():
    path = HOME / "effects.log"
    return path.read_text().split() if path.exists() else []


def effects(request_id):
    """How often this request has had its effect."""
    return all_effects().count(request_id)


def waiting(group):
    return sorted(os.listdir(ipc(group) / "tasks"))


def grant(group, provider, level):
    command = [_BROKER, "--home", str(HOME), "grant", group, provider, str(level)]
    subprocess.run(command, check=True, capture_output=True)


def approve(group, action):
    """Approves, as the operator, the action that waits for a group."""

    def approvals(*arguments):
        command = [_BROKER, "--home", str(HOME), "approvals", *arguments, "--json"]
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)

    def waits():
        listed = approvals("list")["approvals"]
        return [asked for asked in listed if (asked["caller"], asked["action"]) == (f"group:{group}", action)]

    approvals("approve", wait_until("the approval request", 5, waits)[0]["code"])


@contextmanager
def the_host_sleeps():
    os.kill(_DAEMON, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(_DAEMON, signal.SIGCONT)


def same(left, right):
    assert left == right, f"{json.dumps(left, default=str)[:400]} is not {json.dumps(right, default=str)[:400]}"


@contextmanager
def check(client, name):
    """Writes down whether the block holds. What it appends to the list it is given is said beside it."""
    said = []
    try:
        yield said
    except Exception as fault:  # whatever it is, the next check goes on
        global _failed
        _failed = True
        while isinstance(fault, BaseExceptionGroup):
            fault = fault.exceptions[0]
        why = " ".join(f"{type(fault).__name__}: {fault}".split())
        print(f"NOT  {client}: {name}: {why[:600]}", flush=True)
    else:
        beside = f" ({', '.join(map(str, said))})" if said else ""
        print(f"ok   {client}: {name}{beside}", flush=True)


def wait_until(what, seconds, holds):
    end = time.monotonic() + seconds
    while not (value := holds()):
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.02)
    return value


def end():
    sys.stdout.flush()
    sys.exit(1 if _failed else 0)
