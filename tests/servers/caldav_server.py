#!/usr/bin/env python3
"""Radicale on a port of its own, which it prints, with the storage and the password file of its arguments."""

import socketserver
import sys
import wsgiref.simple_server

from radicale import Application, config

storage, users = sys.argv[1:]
configuration = config.load()
configuration.update(
    {
        "auth": {"type": "htpasswd", "htpasswd_filename": users, "htpasswd_encryption": "plain", "delay": "0"},
        "storage": {"filesystem_folder": storage},
        "logging": {"level": "critical"},
    },
    "test",
)


class Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    daemon_threads = True


class Handler(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_):
        pass


server = wsgiref.simple_server.make_server("127.0.0.1", 0, Application(configuration), Server, Handler)
print(server.server_port, flush=True)
server.serve_forever()
