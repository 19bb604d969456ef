#!/usr/bin/env python3
"""Answers every request with a name: backend.py NAME PORT. While a file NAME.down exists, it answers 503."""

import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NAME, PORT = sys.argv[1], int(sys.argv[2])


class Handler(BaseHTTPRequestHandler):
    protocol_version, wbufsize = "HTTP/1.1", -1

    def do_GET(self):
        body = f"{NAME}\n".encode()
        self.send_response(503 if os.path.exists(f"{NAME}.down") else 200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("0.0.0.0", PORT), Handler).serve_forever()
