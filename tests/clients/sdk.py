"""The Python SDK against the shim, whichever version this interpreter has: `python sdk.py py-v2`."""

import json
import os
import sys
import time
from contextlib import AsyncExitStack
from importlib.metadata import version

import anyio
from world import SHIM, all_effects, approve, check, effects, end, grant, ipc, same, the_host_sleeps, wait_until, waiting

GROUP = sys.argv[1]
MODERN = int(version("mcp").split(".")[0]) >= 2
NAME = f"Python SDK {version('mcp')}"


def is_(name):
    return check(NAME, name)


class Connection:
    """One client with its shim; the two versions of the SDK behind the same few words."""

    def __init__(self, group):
        self.group = group
        self.changes = 0
        self._exits = AsyncExitStack()

    async def __aenter__(self):
        from mcp import StdioServerParameters

        server = StdioServerParameters(command=SHIM, env={"EXT_IPC_DIR": str(ipc(self.group))})
        if MODERN:
            from mcp import Client

            self._client = await self._exits.enter_async_context(Client(server))
            self.revision, self.instructions = self._client.protocol_version, self._client.instructions
            tasks = await self._exits.enter_async_context(anyio.create_task_group())
            self._exits.callback(tasks.cancel_scope.cancel)
            await tasks.start(self._listen)
        else:
            from mcp import ClientSession
            from mcp.client.stdio import stdio_client

            read, write = await self._exits.enter_async_context(stdio_client(server))
            self._client = await self._exits.enter_async_context(
                ClientSession(read, write, message_handler=self._hear)
            )
            greeting = await self._client.initialize()
            self.revision, self.instructions = greeting.protocolVersion, greeting.instructions
        return self

    async def __aexit__(self, *why):
        await self._exits.aclose()

    async def _listen(self, *, task_status):
        async with self._client.listen(tools_list_changed=True) as events:
            task_status.started()
            async for _ in events:
                self.changes += 1

    async def _hear(self, message):
        if type(getattr(message, "root", None)).__name__ == "ToolListChangedNotification":
            self.changes += 1

    async def names(self):
        return sorted(tool.name for tool in (await self._client.list_tools()).tools)

    async def call(self, tool, arguments, progress=None):
        return Answer(await self._client.call_tool(tool, arguments, progress_callback=progress))

    async def give_up(self, tool, arguments, seconds):
        """Calls and gives up after a while. The first version leaves it to its user to tell the server."""
        number = None if MODERN else self._client._request_id
        with anyio.move_on_after(seconds) as scope:
            await self.call(tool, arguments)
        assert scope.cancelled_caught, "it was answered"
        if not MODERN:
            from mcp.types import CancelledNotification, CancelledNotificationParams, ClientNotification

            params = CancelledNotificationParams(requestId=number)
            note = CancelledNotification(method="notifications/cancelled", params=params)
            await self._client.send_notification(ClientNotification(note))

    async def remembered(self):
        uri = "broker://calls"
        if not MODERN:
            from pydantic import AnyUrl

            uri = AnyUrl(uri)
        return json.loads((await self._client.read_resource(uri)).contents[0].text)["calls"]


class Answer:
    def __init__(self, result):
        document = result.model_dump(by_alias=True)
        self.text = result.content[0].text
        self.is_error = document["isError"]
        self.structured = document["structuredContent"]
        self.meta = document["_meta"]
        self.id = self.meta["broker/request_id"]

    def executed(self):
        assert not self.is_error, self.text
        return self

    def refused(self, code, words):
        assert self.is_error, "no error"
        same(self.structured["code"], code)
        assert self.text.startswith("External call denied: ") and words in self.text, self.text


def shims():
    """The processes of the shim that serve this group."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                environment = file.read()
            if os.readlink(f"/proc/{pid}/exe") == os.path.realpath(SHIM) and str(ipc(GROUP)).encode() in environment:
                found.append(pid)
        except OSError:
            pass
    return found


async def until(what, seconds, holds):
    finish = time.monotonic() + seconds
    while not (value := holds()):
        assert time.monotonic() < finish, f"not within {seconds} s: {what}"
        await anyio.sleep(0.02)
    return value


async def give_up(here, tool, arguments, seconds):
    """Calls, gives up after a while, and says under which name the call was sent: whoever gives up is not told."""
    known = {call["request_id"] for call in await here.remembered()}
    await here.give_up(tool, arguments, seconds)
    for _ in range(250):
        new = [call for call in await here.remembered() if call["request_id"] not in known]
        if new and new[0].get("status"):
            return new[0]
        await anyio.sleep(0.02)
    raise AssertionError(f"the shim has not let go: {new}")


async def converse(here):
    with is_("connects") as said:
        same(here.revision, "2026-07-28" if MODERN else "2025-11-25")
        assert "ext_capabilities" in here.instructions
        said.append(here.revision)
    with is_("lists what the group may do, and nothing else"):
        fixed = ["ext_call", "ext_cancel", "ext_capabilities", "ext_plan", "ext_result"]
        same(await here.names(), [*fixed, "mock__echo", "mock__leaky", "mock__slow", "mock__write"])

    odd = {"": False, "deep": [None, {"a": [1.5, -7, 2**53 - 1]}], "text": 'größer ✓ 漢字 🦀 \0 \u2028 "\\'}
    with is_("ext_call brings back what it sent"):
        answer = (await here.call("ext_call", {"provider": "mock", "action": "echo", "params": odd})).executed()
        same(json.loads(answer.text), odd)
        same(answer.structured["data"], odd)
        assert answer.meta["broker/evidence"]["seq"] > 0
    with is_("null is as good as absent"):
        none = dict.fromkeys(["params", "task_id", "idempotency_key", "dry_run"])
        same(json.loads((await here.call("ext_call", {"provider": "mock", "action": "echo", **none})).text), {})
    with is_("an action's own tool has one effect"):
        same(effects((await here.call("mock__write", {"text": "once"})).executed().id), 1)
    with is_("a person approves a plan once, and its calls run in order"):
        calls = [{"provider": "mock", "action": "write", "params": {"text": text}} for text in ["first", "second"]]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, approve, GROUP, "plan")
            answer = (await here.call("ext_plan", {"reason": "To try it.", "calls": calls})).executed()
        ran = answer.structured["data"]["calls"]
        same([call["state"] for call in ran], ["succeeded", "succeeded"])
        ids = [call["request_id"] for call in ran]
        same([effect for effect in all_effects() if effect in ids], ids)
    with is_("refusals say why and what to do"):
        async def call(provider, action, params=None):
            return await here.call("ext_call", {"provider": provider, "action": action, "params": params or {}})

        (await call("mock", "deploy")).refused("level_too_low", "Ask the main group's agent")
        (await call("other", "read")).refused("no_grant", "for a grant")
        (await call("mock", "nothing")).refused("unknown_action", "ext_capabilities")
        (await call("mock", "write", {"text": 5})).refused("invalid_params", "text")
        (await call("mock", "echo", {"n": 2**63})).refused("invalid_params", "cannot be kept exactly")
        (await here.call("ext_call", {"provider": "mock"})).refused("invalid_params", "action")
        (await here.call("ext_list", {})).refused("main_only", "Only the main group")
    with is_("an aborted call that the host has not taken never runs"):
        before = len(all_effects())
        with the_host_sleeps():
            last = await give_up(here, "mock__write", {"text": "never"}, 0.2)
            assert f"{last['request_id']}.json" not in waiting(GROUP), waiting(GROUP)
        # A host that stands still does not say whether it has taken a call that came over the socket.
        same([last["action"], last["code"]], ["write", "no_answer"])
        await anyio.sleep(0.3)
        same(len(all_effects()), before)
    with is_("an aborted call that runs is not repeated, and its outcome can be asked for"):
        last = await give_up(here, "mock__slow", {"ms": 900}, 0.3)
        same([last["action"], last["code"]], ["slow", "no_answer"])
        (await here.call("ext_result", {"of": last["request_id"]})).executed()
        same(effects(last["request_id"]), 1)
    with is_("15 calls at once are each answered under their own name"):
        answers = {}

        async def ask(n):
            answers[n] = (await here.call("mock__echo", {"n": n})).structured["data"]["n"]

        async with anyio.create_task_group() as tasks:
            for n in range(15):
                tasks.start_soon(ask, n)
        same(answers, {n: n for n in range(15)})
    with is_("a grant on the host changes the list while the client looks on"):
        before = here.changes
        await anyio.to_thread.run_sync(grant, GROUP, "other", 1)
        await until("tools/list_changed", 4, lambda: here.changes > before)
        assert "other__read" in await here.names()
        same(json.loads((await here.call("other__read", {"new": True})).text), {"new": True})
    with is_("a slow call says that it runs, and ends") as said:
        heard = []

        async def hear(progress, total, message):
            heard.append(message)

        answer = (await here.call("mock__slow", {}, hear)).executed()
        assert heard and heard[0], "no progress"
        same(effects(answer.id), 1)
        said.append(f"{len(heard)} × {heard[0]}")


async def main():
    started = time.monotonic()
    async with Connection(GROUP) as here:
        await converse(here)
        started = time.monotonic()
    with is_("closes quickly") as said:
        took = time.monotonic() - started
        assert took < 1, f"{took} s"
        same(shims(), [])
        said.append(f"{took * 1000:.0f} ms")
    with is_("closes quickly during a call, which is not repeated") as said:
        before = len(all_effects())
        try:
            async with Connection(GROUP) as here, anyio.create_task_group() as tasks:
                tasks.start_soon(here.call, "mock__slow", {"ms": 1000})
                await anyio.sleep(0.3)
                same(waiting(GROUP), [])
                tasks.cancel_scope.cancel()
                started = time.monotonic()
        except* anyio.BrokenResourceError:
            # The first version stumbles over whatever a server still says after the goodbye.
            assert not MODERN
        took = time.monotonic() - started
        assert took < 1.5, f"{took} s"
        wait_until("its effect", 3, lambda: len(all_effects()) == before + 1)
        same(shims(), [])
        said.append(f"{took * 1000:.0f} ms")


with is_("the conversation goes to its end"):
    anyio.run(main)
end()
