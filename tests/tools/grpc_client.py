"""A gRPC client for the suites: resolves xds:/// targets with the C core, controlled by lines of JSON.

Reads one command per line from standard input and answers each with one line on standard output:

  {"do": "call", "target": T, "timeout": S, "wait": bool}   makes one call; returns its outcome; "path" names another method,
                                                            "headers" adds pairs, "retries" follows retry policies
  {"do": "start", "target": T, "rate": N, "workers": N}     starts a steady load
  {"do": "report"}                                          returns the outcome of the load so far
  {"do": "stop"}                                            ends the load; returns the final count

Calls are generic unary ones, so no generated code is needed; the answer is the bare name of the backend.
It retries only if `retries` is set, and waits for a channel to recover only if `wait` is set.
"""

import json
import os
import sys
import threading
import time

import grpc
import grpc.experimental

METHOD = "/tributary.test.Echo/Call"
KEPT_FAILURES = 20


class Channels:
    """Up to two channels for each target, one of which retries, made on first use."""

    def __init__(self):
        self._channels = {}
        self._lock = threading.Lock()

    def method(self, target, path=METHOD, retries=False):
        key = (target, retries)
        with self._lock:
            if key not in self._channels:
                options = [("grpc.enable_retries", int(retries))]
                self._channels[key] = channel("xds:///" + target, options)
            return self._channels[key].unary_unary(path)


def channel(target, options):
    """Makes a channel; with certificates in the bootstrap, the control plane decides whether it is secure."""
    if "certificate_providers" in os.environ.get("GRPC_XDS_BOOTSTRAP_CONFIG", ""):
        plain = grpc.experimental.insecure_channel_credentials()
        return grpc.secure_channel(target, grpc.xds_channel_credentials(plain), options=options)
    return grpc.insecure_channel(target, options=options)


class Load:
    """Workers that call at a steady rate and count the outcomes."""

    def __init__(self, method, rate, workers):
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._answers, self._failed, self._failures = {}, 0, []
        self._threads = [
            threading.Thread(target=self._work, args=(method, workers / rate, index / rate), daemon=True)
            for index in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def _work(self, method, period, offset):
        due = time.monotonic() + offset
        while not self._over.wait(max(0.0, due - time.monotonic())):
            due += period
            self._count(call(method, 10.0, False))

    def _count(self, outcome):
        with self._lock:
            if outcome["ok"]:
                name = outcome["backend"]
                self._answers[name] = self._answers.get(name, 0) + 1
                return
            self._failed += 1
            if len(self._failures) < KEPT_FAILURES:
                self._failures.append(outcome["code"] + ": " + outcome["details"])

    def report(self):
        with self._lock:
            return {"answers": dict(self._answers), "failed": self._failed, "failures": list(self._failures)}

    def stop(self):
        self._over.set()
        for thread in self._threads:
            thread.join()
        return self.report()


def call(method, timeout, wait, headers=()):
    try:
        answer = method(b"", timeout=timeout, wait_for_ready=wait, metadata=headers)
        return {"ok": True, "backend": answer.decode()}
    except grpc.RpcError as error:
        return {"ok": False, "code": error.code().name, "details": error.details() or ""}


def main():
    channels, load = Channels(), None
    send({"ready": grpc.__version__})
    for line in sys.stdin:
        command = json.loads(line)
        kind = command["do"]
        if kind == "call":
            method = channels.method(command["target"], command.get("path", METHOD), command.get("retries", False))
            headers = [tuple(pair) for pair in command.get("headers", [])]
            send(call(method, command["timeout"], command["wait"], headers))
        elif kind == "start":
            load = Load(channels.method(command["target"]), command["rate"], command["workers"])
            send({"started": True})
        elif kind in ("report", "stop") and load is not None:
            send(load.report() if kind == "report" else load.stop())
        else:
            send({"error": "command " + kind + " is not possible now"})


def send(answer):
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
