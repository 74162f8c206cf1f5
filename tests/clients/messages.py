"""A stand-in for the Messages API on loopback: a model that plays a part.

It calls the tools of the part one after the other, each as soon as the answer of the one before has come, and ends
by saying what it was answered. Whatever else it is asked (for a title, say) it answers with one word. Prints its port.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PART = json.loads(sys.argv[1])  # [[tool, arguments], ...]


def answers(messages):
    """What the tools of the part have answered so far, in order."""
    found = {}
    for message in messages:
        for block in message["content"] if isinstance(message["content"], list) else []:
            if block.get("type") == "tool_result":
                content = block.get("content", "")
                texts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
                found[block["tool_use_id"]] = {"error": bool(block.get("is_error")), "texts": texts}
    return [found[name] for number in range(len(PART)) if (name := f"toolu_part_{number}") in found]


def next_block(request):
    offered = {tool.get("name") for tool in request.get("tools", [])}
    missing = [tool for tool, _ in PART if tool not in offered]
    if missing:
        return {"type": "text", "text": f"OK (not offered: {missing})"}
    done = answers(request["messages"])
    if len(done) == len(PART):
        return {"type": "text", "text": json.dumps(done)}
    tool, arguments = PART[len(done)]
    return {"type": "tool_use", "id": f"toolu_part_{len(done)}", "name": tool, "input": arguments}


def events(model, block):
    """The answer as the stream of events in which it is sent."""
    uses_tool = block["type"] == "tool_use"
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "msg_part", "type": "message", "role": "assistant", "model": model, "content": []}
    yield {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}}
    if uses_tool:
        start, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    else:
        start, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
    yield {"type": "content_block_start", "index": 0, "content_block": start}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    reason = {"stop_reason": "tool_use" if uses_tool else "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": reason, "usage": {"output_tokens": 1}}
    yield {"type": "message_stop"}


class Messages(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = self.path.partition("?")[0]
        if path == "/v1/messages/count_tokens":
            return self.answer(200, "application/json", json.dumps({"input_tokens": 1}))
        if path != "/v1/messages":
            return self.answer(404, "application/json", "{}")
        request = json.loads(body)
        block, model = next_block(request), request["model"]
        if request.get("stream"):
            stream = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events(model, block))
            return self.answer(200, "text/event-stream", stream)
        reason = "tool_use" if block["type"] == "tool_use" else "end_turn"
        message = {"id": "msg_part", "type": "message", "role": "assistant", "model": model, "content": [block]}
        usage = {"input_tokens": 1, "output_tokens": 1}
        whole = {**message, "stop_reason": reason, "stop_sequence": None, "usage": usage}
        return self.answer(200, "application/json", json.dumps(whole))

    def do_GET(self):
        self.answer(404, "application/json", "{}")

    do_HEAD = do_GET

    def answer(self, status, kind, text):
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Messages)
print(server.server_address[1], flush=True)
server.serve_forever()
