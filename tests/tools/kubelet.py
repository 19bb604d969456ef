#!/usr/bin/env python3
"""The port-forward of a kubelet, for API servers that have no nodes.

Started by the suites and by docs.py. An API server passes `pods/NAME/portforward` on to the kubelet of the pod's node; this one
answers such a WebSocket (`v4.channel.k8s.io`) by a connection to an address of this machine:

    kubelet.py --cert FILE --key FILE NAMESPACE/POD:PORT=ADDRESS...

It prints its own port, then reads lines from standard input until it ends: `NAMESPACE/POD:PORT=ADDRESS` adds or changes a
destination, `-NAMESPACE/POD:PORT` removes it, `hang NAMESPACE/POD:PORT` accepts connections and then sends nothing. Each line is
answered by `ok`. A port without a destination is refused with the text that a kubelet would send.
"""

import argparse
import base64
import hashlib
import re
import socket
import ssl
import struct
import sys
import threading
from urllib.parse import parse_qs, urlsplit

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
PROTOCOL = "v4.channel.k8s.io"
PATH = re.compile(r"^/portForward/([^/]+)/([^/?]+)")
CLOSE, PING, PONG, BINARY = 8, 9, 10, 2


class Destinations:
    """Addresses by NAMESPACE/POD:PORT; None hangs."""

    def __init__(self, pairs):
        self.lock, self.all = threading.Lock(), {}
        for pair in pairs:
            self.change(pair)

    def change(self, line):
        with self.lock:
            if line.startswith("-"):
                self.all.pop(line[1:], None)
            elif line.startswith("hang "):
                self.all[line[5:]] = None
            else:
                name, _, address = line.partition("=")
                host, _, port = address.rpartition(":")
                self.all[name] = (host, int(port))

    def of(self, name):
        with self.lock:
            return name in self.all, self.all.get(name)


class Socket:
    """A WebSocket of a server, after its handshake."""

    def __init__(self, conn):
        self.conn, self.lock, self.buffer = conn, threading.Lock(), b""

    def exactly(self, count):
        while len(self.buffer) < count:
            more = self.conn.recv(65536)
            if not more:
                raise EOFError
            self.buffer += more
        out, self.buffer = self.buffer[:count], self.buffer[count:]
        return out

    def head(self):
        while b"\r\n\r\n" not in self.buffer:
            more = self.conn.recv(65536)
            if not more or len(self.buffer) > 1 << 16:
                raise EOFError
            self.buffer += more
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        fields = dict((name.strip().lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines))
        return first.split(" ")[1], fields

    def send(self, kind, payload):
        size = len(payload)
        if size < 126:
            head = bytes([0x80 | kind, size])
        elif size < 1 << 16:
            head = struct.pack(">BBH", 0x80 | kind, 126, size)
        else:
            head = struct.pack(">BBQ", 0x80 | kind, 127, size)
        with self.lock:
            self.conn.sendall(head + payload)

    def receive(self):
        first, second = self.exactly(2)
        size = second & 127
        if size == 126:
            (size,) = struct.unpack(">H", self.exactly(2))
        elif size == 127:
            (size,) = struct.unpack(">Q", self.exactly(8))
        mask = self.exactly(4) if second & 128 else b"\0\0\0\0"
        data = self.exactly(size)
        return first & 15, bytes(byte ^ mask[i % 4] for i, byte in enumerate(data))


def to_client(web, upstream):
    """Passes on what the destination sends."""
    try:
        while data := upstream.recv(65536):
            web.send(BINARY, b"\0" + data)
        web.send(CLOSE, struct.pack(">H", 1000))
    except OSError:
        pass


def to_destination(web, upstream):
    """Passes on what the client sends, until it closes."""
    while True:
        kind, data = web.receive()
        if kind == CLOSE:
            return
        if kind == PING:
            web.send(PONG, data)
        elif kind == BINARY and data[:1] == b"\0" and len(data) > 1:
            upstream.sendall(data[1:])


def forward(web, port, there, address):
    for channel in (0, 1):
        web.send(BINARY, bytes([channel]) + struct.pack("<H", port))
    if there and not address:
        threading.Event().wait()
    try:
        if not there:
            raise ConnectionRefusedError("connection refused")
        upstream = socket.create_connection(address, timeout=5)
        upstream.settimeout(None)
    except OSError as error:
        web.send(BINARY, b"\1" + f"failed to connect to localhost:{port} inside the pod: {error}".encode())
        web.send(CLOSE, struct.pack(">H", 1000))
        return
    threading.Thread(target=to_client, args=(web, upstream), daemon=True).start()
    try:
        to_destination(web, upstream)
    finally:
        upstream.close()


def serve(conn, context, destinations):
    try:
        web = Socket(context.wrap_socket(conn, server_side=True))
        target, fields = web.head()
        found = PATH.match(target)
        ports = parse_qs(urlsplit(target).query).get("port", [])
        if not found or not ports or PROTOCOL not in fields.get("sec-websocket-protocol", ""):
            web.conn.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            return
        key = base64.b64encode(hashlib.sha1(fields["sec-websocket-key"].encode() + GUID).digest()).decode()
        web.conn.sendall(
            f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {key}\r\nSec-WebSocket-Protocol: {PROTOCOL}\r\n\r\n".encode()
        )
        port = int(ports[0])
        forward(web, port, *destinations.of(f"{found[1]}/{found[2]}:{port}"))
    except (OSError, EOFError, KeyError, ValueError) as error:
        print(f"a connection ended: {error}", file=sys.stderr)
    finally:
        conn.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cert", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("destination", nargs="*")
    args = parser.parse_args()
    destinations = Destinations(args.destination)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(args.cert, args.key)
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)

    def accept():
        while True:
            conn, _ = listener.accept()
            threading.Thread(target=serve, args=(conn, context, destinations), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    for line in sys.stdin:
        destinations.change(line.strip())
        print("ok", flush=True)


if __name__ == "__main__":
    main()
