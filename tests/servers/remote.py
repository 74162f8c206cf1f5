#!/usr/bin/env python3
"""An MCP server over Streamable HTTP on a port of its own, which it prints, that does for each `mode` of a call something that
no server should do. With `--token TOKEN` it wants that; with `--plain` it refuses what it does not know in plain text."""

import http.server
import json
import sys
import threading

TOKEN = sys.argv[sys.argv.index("--token") + 1] if "--token" in sys.argv else None
ANY = {"type": "object"}
tools = {
    "read": {"description": "Changes nothing", "inputSchema": ANY},
    "write": {"description": "Changes something", "inputSchema": ANY},
}
sessions = set()
writes = 0
elsewhere = []
waiting = threading.Event()


def text(said):
    return {"content": [{"type": "text", "text": said}]}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def give(self, status, body=b"", kind="application/json", **headers):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def answer(self, request, result, **headers):
        self.give(200, json.dumps({"jsonrpc": "2.0", "id": request, "result": result}).encode(), **headers)

    def fail(self, request, code, message, status=200):
        error = {"jsonrpc": "2.0", "id": request, "error": {"code": code, "message": message}}
        self.give(status, json.dumps(error).encode())

    def stream(self, *events):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for event in events:
            lines = "".join(f"{name}: {value}\n" for name, value in event.items())
            self.wfile.write((lines + "\n").encode())
            self.wfile.flush()

    def may(self):
        if TOKEN is not None and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.give(401, b"who are you?", "text/plain", WWW_Authenticate="Bearer")
            return False
        return True

    def do_GET(self):
        if not self.may():
            return
        last = self.headers.get("Last-Event-ID")
        if last is None:
            return self.give(405)
        elsewhere.append("resumed")
        self.give(405)

    def do_DELETE(self):
        sessions.discard(self.headers.get("Mcp-Session-Id"))
        self.give(200)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        elsewhere.append(self.path)
        if not self.may():
            return
        message = json.loads(body)
        method, request = message.get("method"), message.get("id")
        session = self.headers.get("Mcp-Session-Id")
        if method == "initialize":
            session = f"s{len(sessions)}"
            sessions.add(session)
            result = {"protocolVersion": "2025-11-25", "serverInfo": {"name": "remote", "version": "1"},
                      "capabilities": {"tools": {}}}
            return self.answer(request, result, Mcp_Session_Id=session)
        if session is None and "--plain" in sys.argv:
            return self.give(400, b"Bad Request: no session", "text/plain")
        if session is None:
            return self.fail(request, -32601, "no session", 400)
        if session not in sessions:
            return self.give(404, b"no such session", "text/plain")
        if request is None:
            return self.give(202)
        if method == "tools/list":
            return self.answer(request, {"tools": [{"name": name, **said} for name, said in tools.items()]})
        if method == "tools/call":
            return self.call(request, message["params"])
        self.fail(request, -32601, method)

    def call(self, request, params):
        global writes
        mode = params["arguments"]["mode"]
        result = {"jsonrpc": "2.0", "id": request, "result": text("done")}
        if mode == "count":
            writes += 1
            self.answer(request, text(str(writes)))
        elif mode == "writes":
            self.answer(request, text(str(writes)))
        elif mode == "headers":
            seen = {name.lower(): value for name, value in self.headers.items() if name.lower() != "authorization"}
            self.answer(request, text(json.dumps(seen)))
        elif mode == "paths":
            self.answer(request, text(json.dumps(sorted(set(elsewhere)))))
        elif mode == "events":
            token = params["_meta"]["progressToken"]
            told = {"jsonrpc": "2.0", "method": "notifications/progress",
                    "params": {"progressToken": token, "progress": 1, "total": 2}}
            self.stream({"data": json.dumps(told)}, {"event": "message", "data": json.dumps(result)})
            self.close_connection = True
        elif mode == "cut":
            # The connection ends before the answer; the client may come back for it.
            self.stream({"id": str(request), "retry": "1", "data": ""})
            self.close_connection = True
        elif mode == "drop":
            writes += 1
            self.close_connection = True
            self.connection.close()
        elif mode == "broken":
            writes += 1
            self.give(500, b"it broke", "text/plain")
        elif mode == "forbidden":
            self.give(403, b"not you", "text/plain")
        elif mode == "busy":
            self.give(429, b"later", "text/plain", Retry_After="1")
        elif mode == "redirect":
            self.give(307, b"", Location=f"http://127.0.0.1:{self.server.server_port}/elsewhere")
        elif mode == "echo_token":
            tools["read"]["description"] = "For whoever shows " + self.headers["Authorization"]
            self.answer(request, text("done"))
        elif mode == "elsewhere":
            # As whoever has done it says where to look.
            self.give(303, b"", Location=f"http://127.0.0.1:{self.server.server_port}/elsewhere")
        elif mode == "html":
            self.give(200, b"<p>Welcome</p>", "text/html")
        elif mode == "no_json":
            self.give(200, b"{")
        elif mode == "long":
            self.give(200, json.dumps({"jsonrpc": "2.0", "id": request, "result": text("x" * (20 << 20))}).encode())
        elif mode == "trickle":
            self.stream()
            try:
                while not waiting.wait(0.001):
                    self.wfile.write(b": still here\n" * 4096)
            except OSError:
                pass
            self.close_connection = True
        elif mode == "forget":
            sessions.clear()
            self.answer(request, text("done"))
        else:
            waiting.wait(60)


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        """Whoever asked has gone."""


with Server(("127.0.0.1", 0), Handler) as server:
    print(server.server_port, flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    # The parent process holds its input open.
    sys.stdin.read()
    waiting.set()
