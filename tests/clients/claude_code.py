"""Claude Code against the shim: registered, connected, and called by a model that plays a part on loopback."""

import json
import os
import subprocess
import sys
from pathlib import Path

from world import HOME, SHIM, all_effects, check, end, ipc, same

NAME = "Claude Code"
CLAUDE = os.path.join(os.environ["CLIENTS_NPM"], "node_modules/.bin/claude")
OWN = HOME / "claude"
WORK = OWN / "work"
# A fresh home, nothing but loopback, and every tool in the first request.
QUIET = {
    "HOME": str(OWN),
    "TMPDIR": str(OWN),
    "PATH": os.environ["PATH"],
    "TERM": "dumb",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "ENABLE_TOOL_SEARCH": "false",
}
PART = [
    ["mcp__broker__mock__write", {"text": "by Claude Code ✓"}],
    ["mcp__broker__ext_call", {"provider": "mock", "action": "echo", "params": {"a": [1, None]}}],
    ["mcp__broker__mock__leaky", {}],
    ["mcp__broker__ext_call", {"provider": "mock", "action": "deploy", "params": {}}],
]


def claude(*arguments, **more):
    return subprocess.run(
        [CLAUDE, *arguments],
        env=QUIET | more,
        cwd=WORK,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


WORK.mkdir(parents=True)
with check(NAME, "claude mcp add") as said:
    done = claude("mcp", "add", "broker", "-e", f"EXT_IPC_DIR={ipc('developer')}", "--", SHIM)
    assert done.returncode == 0 and "broker" in done.stdout, done.stdout + done.stderr
with check(NAME, "claude mcp list says that it is connected") as said:
    done = claude("mcp", "list")
    line = next((line for line in done.stdout.splitlines() if line.startswith("broker:")), "")
    assert "✔ Connected" in line, done.stdout + done.stderr
    said.append("✔ Connected")
with check(NAME, "claude -p calls the tools, and reads results and refusal") as said:
    before = len(all_effects())
    model = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("messages.py")), json.dumps(PART)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        port = model.stdout.readline().strip()
        tools = sorted({tool for tool, _ in PART})
        done = claude(
            *["-p", "Play your part.", "--output-format", "json", "--allowedTools", *tools],
            ANTHROPIC_BASE_URL=f"http://127.0.0.1:{port}",
            ANTHROPIC_API_KEY="none",
        )
    finally:
        model.kill()
        model.wait()
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(json.loads(done.stdout)["result"])
    same([answer["error"] for answer in told], [False, False, False, True])
    wrote, echoed, leaked, refused = (" ".join(answer["texts"]) for answer in told)
    # Its model is shown the structured content of what was executed, and the text of what was refused.
    same(json.loads(wrote)["data"], {"ok": True})
    same(json.loads(echoed)["data"], {"a": [1, None]})
    assert "looked like secrets were replaced" in leaked and "horse" not in leaked, leaked
    assert "requires L3 (production)" in refused and "Ask the main group's agent" in refused, refused
    same(len(all_effects()), before + 1)
    said.append(f"it was told: {refused}")
end()
