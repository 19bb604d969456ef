#!/usr/bin/env python3
"""Runs what plain `cargo test` runs, with two test binaries side by side: many of them wait most of the time.

Called by `./test unit`. One command builds all binaries. The output of each is printed whole when it ends, in the form that
`cargo test` prints. Tests in documents run last. Ends with 1 if a test failed; the others run all the same.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

SIDE_BY_SIDE = 2
# Binaries that take longest, and start first.
LONG = ["scripted", "memory", "conformance", "app", "tributary_xds", "simulation", "decoder", "tributary_core"]


def built():
    """Builds every test binary; returns (name, executable, folder of its package)."""
    command = ["cargo", "test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]
    build = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if build.returncode:
        sys.exit(build.returncode)
    messages = [json.loads(line) for line in build.stdout.splitlines() if line.startswith("{")]
    found = [m for m in messages if m["reason"] == "compiler-artifact" and m["profile"]["test"] and m["executable"]]
    return [(m["target"]["name"], m["executable"], str(Path(m["manifest_path"]).parent)) for m in found]


def run(binary):
    """Runs one binary as cargo does; returns its status and its output."""
    name, executable, folder = binary
    environment = dict(os.environ, CARGO_MANIFEST_DIR=folder)
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    ended = subprocess.run([executable], cwd=folder, env=environment, stdin=subprocess.DEVNULL, **output)
    text = ended.stdout.decode(errors="replace")
    return ended.returncode, f"     Running {name} ({executable})\n{text}"


def main():
    binaries = built()
    if not binaries:
        sys.exit("cargo named no test binary")
    binaries.sort(key=lambda binary: LONG.index(binary[0]) if binary[0] in LONG else len(LONG))
    failed = []
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        runs = {pool.submit(run, binary): binary for binary in binaries}
        for ended in as_completed(runs):
            status, text = ended.result()
            print(text, flush=True)
            if status:
                failed.append(f"{runs[ended][0]} of {runs[ended][2]}")
    documents = subprocess.run(["cargo", "test", "--workspace", "--doc", "--no-fail-fast"]).returncode
    if failed:
        print("failed: " + ", ".join(sorted(failed)))
    sys.exit(1 if failed or documents else 0)


if __name__ == "__main__":
    main()
