#!/usr/bin/env python3
"""Answers every request with the identity that the sidecar proved: backend.py PORT."""

import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = int(sys.argv[1])


class Handler(BaseHTTPRequestHandler):
    protocol_version, wbufsize = "HTTP/1.1", -1

    def do_GET(self):
        # The client may send elements of its own. The sidecar appends the proved one, so the last one counts alone.
        elements = ",".join(self.headers.get_all("x-forwarded-client-cert", []))
        found = re.search(r";URI=([^;]*)", elements.rpartition(",")[2])
        body = f"{found[1] if found else 'a client in plain text'}\n".encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
