"""A receiver of traces (OTLP over HTTP) that decodes them with the messages of the specification's authors.

otlp_receiver.py PORT_FILE SPANS_FILE [REJECTED]

Writes its port into PORT_FILE, and each span as a line of JSON into SPANS_FILE. Says in its first answer that it has
rejected so many spans.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

port_file, spans_file = sys.argv[1:3]
rejected = int(sys.argv[3]) if len(sys.argv) > 3 else 0


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        global rejected
        request = ExportTraceServiceRequest()
        request.ParseFromString(self.rfile.read(int(self.headers["content-length"])))
        is_right = self.path == "/v1/traces" and self.headers["content-type"] == "application/x-protobuf"
        with open(spans_file, "a") as spans:
            for resource in request.resource_spans:
                about = {one.key: one.value.string_value for one in resource.resource.attributes}
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        line = MessageToDict(span)
                        line["attributes"] = {
                            one.key: one.value.string_value or one.value.int_value for one in span.attributes
                        }
                        line.update(
                            trace=span.trace_id.hex(),
                            span=span.span_id.hex(),
                            parent=span.parent_span_id.hex(),
                            start=span.start_time_unix_nano,
                            end=span.end_time_unix_nano,
                            service=about["service.name"],
                            authorization=self.headers["authorization"],
                        )
                        spans.write(json.dumps(line) + "\n")
        answer = ExportTraceServiceResponse()
        answer.partial_success.rejected_spans, rejected = rejected, 0
        body = answer.SerializeToString()
        self.send_response(200 if is_right else 404)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Receiver)
with open(port_file + ".new", "w") as file:
    file.write(str(server.server_port))
os.rename(port_file + ".new", port_file)
server.serve_forever()
