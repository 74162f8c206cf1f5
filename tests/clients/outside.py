"""The Python SDK as an agent outside, at /mcp with a bearer: `python outside.py py-v2`."""

import json
import subprocess
import sys
from contextlib import asynccontextmanager
from importlib.metadata import version

import anyio
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
from world import _BROKER, HOME, check, end, same

MODERN = int(version("mcp").split(".")[0]) >= 2
NAME = f"Python SDK {version('mcp')}, outside"


def is_(name):
    return check(NAME, name)


def broker(*arguments):
    command = [_BROKER, "--home", str(HOME), "--json", *arguments]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def mcp():
    port = broker("status")["web"].rstrip("/").rsplit(":", 1)[1]
    return f"http://127.0.0.1:{port}/mcp"


def minted(*tools):
    wanted = [word for tool in tools for word in ("--tool", tool)]
    return broker("flow", "grant", "mint", "flow_outside", "1.0.0", *wanted)


@asynccontextmanager
async def connected(bearer):
    async with create_mcp_http_client(headers={"Authorization": f"Bearer {bearer}"}) as http:
        if MODERN:
            from mcp import Client

            async with Client(streamable_http_client(URL, http_client=http)) as client:
                yield client
        else:
            from mcp import ClientSession

            async with streamable_http_client(URL, http_client=http) as (read, write, _):
                async with ClientSession(read, write) as client:
                    await client.initialize()
                    yield client


async def called(client, tool, arguments):
    return (await client.call_tool(tool, arguments)).model_dump(by_alias=True)


async def main():
    access = minted("echo", "write")
    async with connected(access["bearer"]) as client:
        with is_("it sees its tools and nothing else"):
            tools = {tool.name: tool.model_dump(by_alias=True) for tool in (await client.list_tools()).tools}
            same(sorted(tools), ["echo", "ext_cancel", "ext_result", "write"])
            same(list(tools["echo"]["inputSchema"]["properties"]), ["text"])
            same([tools[name]["annotations"]["readOnlyHint"] for name in ("echo", "write")], [True, False])
        with is_("what is fixed is fixed, and what is open is given"):
            result = await called(client, "echo", {"text": "hello"})
            assert not result["isError"], result
            same(result["structuredContent"], {"to": "us", "text": "hello"})
        with is_("nothing else can be given, and no other tool called"):
            result = await called(client, "echo", {"to": "them"})
            assert result["isError"] and "no such parameter" in result["content"][0]["text"], result
            same(result["structuredContent"]["code"], "invalid_params")
            try:
                await called(client, "list_everything", {})
                raise AssertionError("it was called")
            except Exception as fault:
                assert "Unknown tool: list_everything" in str(fault), fault
        with is_("ended is ended, in the middle of a conversation"):
            broker("flow", "grant", "revoke", access["grant"]["grant_id"])
            result = await called(client, "echo", {"text": "x"})
            assert result["structuredContent"]["code"] == "FLOW_EXTERNAL_GRANT_REVOKED", result
            same((await client.list_tools()).tools, [])
    with is_("without a bearer nobody is served"):
        try:
            with anyio.fail_after(20):
                async with connected("fgrnt_bearer_" + "0" * 64) as client:
                    await client.list_tools()
            raise AssertionError("it was served")
        except AssertionError:
            raise
        except BaseException as fault:
            text = repr(fault.exceptions if isinstance(fault, BaseExceptionGroup) else fault)
            assert not isinstance(fault, TimeoutError), "it waits"
            assert text, text


URL = mcp()
anyio.run(main)
end()
