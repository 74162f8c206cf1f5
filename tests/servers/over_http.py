#!/usr/bin/env python3
"""A server of the Python SDK over Streamable HTTP, on a port of its own, which it prints. It speaks both eras of the protocol."""

import socket
import sys
import threading

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

server = MCPServer("over-http")
written = []


class Count(BaseModel):
    n: int


@server.tool()
def count(text: str) -> Count:
    """Counts the characters of a text"""
    return Count(n=len(text))


@server.tool()
async def keep(text: str, ctx: Context) -> str:
    """Keeps a text"""
    await ctx.report_progress(1, 2)
    written.append(text)
    return f"kept {len(written)}"


def end_with_input():
    sys.stdin.read()
    uvicorn_server.should_exit = True


listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
uvicorn_server = uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="warning"))
threading.Thread(target=end_with_input, daemon=True).start()
print(listener.getsockname()[1], flush=True)
uvicorn_server.run(sockets=[listener])
