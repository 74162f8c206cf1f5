"""The Inspector's command line against the shim: its lint of the tools' schemas, calls, and a small load."""

import json
import os
import subprocess

from world import HOME, SHIM, check, effects, end, ipc, same

NAME = "Inspector"
COMMAND = [os.path.join(os.environ["CLIENTS_NPM"], "node_modules/.bin/mcp-inspector"), "--cli"]
SERVER = ["-e", f"EXT_IPC_DIR={ipc('inspector')}", SHIM]


def inspect(*arguments):
    environment = {"PATH": os.environ["PATH"], "HOME": str(HOME), "MCP_CATALOG_PATH": str(HOME / "catalog.json")}
    done = subprocess.run(
        [*COMMAND, *SERVER, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout, done.stderr


def call(tool, *arguments):
    more = ["--tool-arg", *arguments] if arguments else []
    return inspect("--method", "tools/call", "--tool-name", tool, *more)


with check(NAME, "the lint of the tools' schemas has nothing to say") as said:
    code, output, errors = inspect("--method", "tools/list", "--strict")
    same([code, errors], [0, ""])
    names = [tool["name"] for tool in json.loads(output)["tools"]]
    assert "mock__write" in names and "ext_call" in names, names
    said.append(f"{len(names)} tools")
with check(NAME, "an action's own tool has one effect"):
    code, output, errors = call("mock__write", "text=by the Inspector")
    same([code, errors], [0, ""])
    same(effects(json.loads(output)["_meta"]["broker/request_id"]), 1)
with check(NAME, "ext_call brings back what it sent"):
    code, output, _ = call("ext_call", "provider=mock", "action=echo", 'params={"a":[1,null]}')
    same([code, json.loads(output)["structuredContent"]["data"]], [0, {"a": [1, None]}])
with check(NAME, "a refusal is an error"):
    code, output, _ = call("ext_call", "provider=mock", "action=deploy")
    same([code, json.loads(output)["structuredContent"]["code"]], [5, "level_too_low"])
with check(NAME, "a small load has no errors") as said:
    code, output, _ = inspect(
        "--method", "tools/call", "--tool-name", "mock__echo", "--load", "--load-requests", "200"
    )
    load = json.loads(output)
    same([code, load["ok"], load["errors"], load["toolErrors"]], [0, 200, 0, 0])
    said.append(f"p50 {load['latencyMs']['p50']:.0f} ms with 10 at once")
end()
