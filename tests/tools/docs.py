#!/usr/bin/env python3
"""Runs every command in the documents, as a reader would, and compares the output.

Called by `./test docs`. In each Markdown file the fenced blocks run in order, in a scratch copy of
the examples, with free ports in the environment:

    ```sh               runs and must succeed
    ```sh exit=3        runs and must end with that code
    ```sh limit=90      may take that many seconds
    ```sh serve         runs in the background until the file ends; the next block waits for its port
    ```sh skip=reason   is not run; the reason is printed
    ```text             right after a command: its lines must appear in the output, in order;
                        `…` stands for anything
    <!-- run            runs like ```sh, hidden from readers, until a line `-->`: actions of a
                        cluster's controllers, or of a reader in another terminal
    <!-- serve          runs like ```sh serve, hidden from readers

A document that needs servers has a line `<!-- needs: kubernetes consul helm -->`: each is started for it alone,
with KUBECONFIG, kubectl, CONSUL_HTTP_ADDR and helm in place; `server/deploy` is at its path. `clusters` are three, which documents use one after the other: each
finds what the one before left. 192.0.2.10 is this machine's own address in all documents.

Blocks of a file run in order; files are independent.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from servers import Clusters, Consul, Kubernetes, free_ports, own_address

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^(```+)(\S*)\s*(.*)$")
# Ports in documents and examples; each document gets free ones in their place.
NAMED = ["15010", "15012", "15014", "15020", "15443", "10000", "9901", "15017", "8081", "8082", "8083", "8500", "4318"]
# The address of this machine in documents and examples.
HERE = "192.0.2.10"
# Blocks that readers do not see, each with what the info of a fence would be.
HIDDEN = {"<!-- run": "", "<!-- serve": "serve"}
NEEDS = re.compile(r"^<!-- needs: (.*) -->$", re.MULTILINE)
LIMIT = float(os.environ.get("TRIBUTARY_DOCS_LIMIT", "30"))


def blocks(path):
    """Yields (line, language, info, text) for each fenced block of a file."""
    lines = path.read_text().splitlines()
    i = 0
    while i < len(lines):
        opened = FENCE.match(lines[i].strip())
        if (hidden := HIDDEN.get(lines[i].strip())) is not None:
            start, i, body = i, i + 1, []
            while i < len(lines) and lines[i].strip() != "-->":
                body.append(lines[i])
                i += 1
            yield start + 1, "sh", hidden, "\n".join(body)
        if not opened:
            i += 1
            continue
        start, body = i, []
        i += 1
        while i < len(lines) and lines[i].strip() != opened[1]:
            body.append(lines[i])
            i += 1
        yield start + 1, opened[2], opened[3], "\n".join(body)
        i += 1


class Shared:
    """The three clusters, started when the first document needs them."""

    def __init__(self):
        self.home, self.clusters = None, None

    def env(self):
        if not self.clusters:
            self.home = Path(tempfile.mkdtemp(prefix="tributary-docs-clusters-"))
            self.clusters = Clusters(self.home)
        return self.clusters.env()

    def close(self):
        if self.clusters is not None:
            self.clusters.close()
        if self.home is not None:
            shutil.rmtree(self.home, ignore_errors=True)


class Reader:
    """One document's scratch folder, environment and background commands."""

    def __init__(self, path, shared):
        self.path, self.shared = path, shared
        self.home = Path(tempfile.mkdtemp(prefix="tributary-docs-"))
        self.ports = dict(zip(NAMED, free_ports(len(NAMED))))
        self.admin = self.ports["15014"]
        shutil.copytree(ROOT / "docs" / "examples", self.home / "docs" / "examples")
        shutil.copytree(ROOT / "server" / "deploy", self.home / "server" / "deploy", symlinks=True)
        for file in (self.home / "docs" / "examples").rglob("*"):
            if file.is_file():
                file.write_text(self.with_ports(file.read_text()))
        self.background = []
        self.env = dict(
            os.environ,
            HOME=str(self.home),
            TRIBUTARY_XDS__LISTEN=f"127.0.0.1:{self.ports['15010']}",
            TRIBUTARY_ADMIN__LISTEN=f"127.0.0.1:{self.admin}",
            TRIBUTARY_SERVER=f"http://127.0.0.1:{self.admin}",
            NO_COLOR="1",
        )
        self.servers = []
        for server in self.wanted():
            self.servers.append(server)
            self.env.update(server.env())

    def wanted(self):
        """Yields the servers that the document needs, each started when it is reached."""
        needs = NEEDS.search(self.path.read_text())
        for name in needs[1].split() if needs else []:
            if name == "kubernetes":
                yield Kubernetes(self.home)
            elif name == "consul":
                yield Consul(self.home, self.ports["8500"])
            elif name == "helm":
                self.env["PATH"] = f"{Path(os.environ['TRIBUTARY_HELM']).parent}:{self.env['PATH']}"
            elif name == "clusters":
                self.env.update(self.shared.env())
            else:
                sys.exit(f"{self.path}: unknown server {name}; use kubernetes, clusters, consul or helm")

    def with_ports(self, text):
        """Replaces the ports and the address of documents by free ports and the machine's own address."""
        text = text.replace(HERE, own_address()) if HERE in text else text
        return re.sub(rf"\b({'|'.join(NAMED)})\b", lambda m: str(self.ports[m[1]]), text)

    def start(self, command):
        out = open(self.home / f"background-{len(self.background)}.log", "w")
        self.background.append(self.spawn(command, out))

    def spawn(self, command, out):
        return subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", self.with_ports(command)],
            cwd=self.home, env=self.env, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def wait_ready(self):
        """Waits until the server answers; returns None, or the reason why it does not."""
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            ready = subprocess.run(
                ["curl", "-sf", "-o", "/dev/null", f"http://127.0.0.1:{self.admin}/readyz"], check=False
            )
            if ready.returncode == 0:
                return None
            # earlier ones may have been stopped on purpose
            if self.background and self.background[-1].poll() is not None:
                return "a background command ended"
            time.sleep(0.05)  # another process owns the condition, so polling is the only way
        return f"no server answered within {LIMIT:.0f} s"

    def run(self, command, limit=LIMIT):
        child = self.spawn(command, subprocess.PIPE)
        try:
            printed, _ = child.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            printed, _ = child.communicate()
            return None, printed.decode(errors="replace")
        return child.returncode, printed.decode(errors="replace")

    def close(self):
        for child in self.background:
            try:
                os.killpg(child.pid, signal.SIGTERM)
                child.wait(10)
            except ProcessLookupError:
                pass
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
        for server in self.servers:
            server.close()
        logs = "".join(f.read_text() for f in sorted(self.home.glob("background-*.log")))
        shutil.rmtree(self.home, ignore_errors=True)
        return logs


def missing(expected, printed):
    """Returns the first expected line that does not appear in order, or None."""
    rest = printed.splitlines()
    for line in filter(str.strip, expected.splitlines()):
        pattern = ".*".join(re.escape(part) for part in re.split(r"\s*…\s*", line.strip()))
        for n, got in enumerate(rest):
            if re.search(pattern, got):
                rest = rest[n + 1:]
                break
        else:
            return line
    return None


def check(path, shared):
    """Runs one document; returns (commands run, list of failures)."""
    reader, ran, failures, printed, waiting = Reader(path, shared), 0, [], None, False
    name = path.relative_to(ROOT)
    for line, language, info, text in blocks(path):
        at = f"{name}:{line}"
        if language == "text" and printed is not None:
            if (lost := missing(reader.with_ports(text), printed)) is not None:
                failures.append(f"{at}: not printed: {lost}\n--- printed ---\n{printed}")
            printed = None
            continue
        printed = None
        if language != "sh":
            continue
        if info.startswith("skip="):
            print(f"  {at}: not run: {info[5:]}")
            continue
        if info == "serve":
            reader.start(text)
            waiting, ran = True, ran + 1
            continue
        if waiting:
            waiting = False
            if (why := reader.wait_ready()) is not None:
                failures.append(f"{at}: {why}")
                break
        want = int(info.removeprefix("exit=")) if info.startswith("exit=") else 0
        limit = float(info.removeprefix("limit=")) if info.startswith("limit=") else LIMIT
        code, printed = reader.run(text, limit)
        ran += 1
        if code != want:
            failures.append(f"{at}: ended with {code}, not {want}\n--- printed ---\n{printed}")
            break
    if waiting and (why := reader.wait_ready()) is not None:
        failures.append(f"{name}: {why}")
    logs = reader.close()
    if failures and logs:
        failures.append(f"--- background of {name} ---\n{logs[-1200:]}")
    return ran, failures


def main():
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    wanted = [p for p in paths if p.exists() and (len(sys.argv) < 2 or str(p.relative_to(ROOT)) in sys.argv[1:])]
    total, bad, shared = 0, [], Shared()
    try:
        for path in wanted:
            ran, failures = check(path, shared)
            total += ran
            bad += failures
            if ran:
                print(f"  {path.relative_to(ROOT)}: {ran} commands, {'ok' if not failures else 'FAILED'}")
    finally:
        shared.close()
    if total == 0:
        bad.append("no document has a command: the search is broken")
    print("\n".join(bad), file=sys.stderr)
    print(f"{total} commands ran in {len(wanted)} documents")
    sys.exit(1 if bad else 0)


main()
