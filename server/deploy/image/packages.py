"""Pinned Debian packages of the image: reads packages.tsv, downloads from the sources of the machine's apt, and checks
every file. `build` and `update-pins` use it, and the tests. A file is used only if its SHA-256 is the pinned one.
"""

import hashlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
PINS = HERE / "packages.tsv"
# What the image needs: the libraries of the binary, certificates of public authorities, and the name of the system.
NAMES = ["base-files", "ca-certificates", "libc6", "libgcc-s1"]
HEAD = "# Debian packages of the image: architecture, name, version, SHA-256. Written by server/deploy/image/update-pins.\n"


@dataclass(frozen=True)
class Pin:
    """One package of one architecture."""

    arch: str
    name: str
    version: str
    sha256: str

    def file(self, folder):
        return folder / f"{self.name}_{self.version.replace(':', '%3a')}_{self.arch}.deb"


def fail(text):
    sys.exit(f"error: {text}")


def read(path=PINS):
    """Returns all pins of a file."""
    rows = [line.split("\t") for line in path.read_text().splitlines() if line and not line.startswith("#")]
    if any(len(row) != 4 for row in rows):
        fail(f"{path}: a row has not four columns; run server/deploy/image/update-pins")
    return [Pin(*row) for row in rows]


def of(arch, path=PINS):
    """Returns the pins of an architecture."""
    pins = [pin for pin in read(path) if pin.arch == arch]
    missing = sorted(set(NAMES) - {pin.name for pin in pins})
    if missing:
        fail(f"{path} pins no {', '.join(missing)} for {arch}; run server/deploy/image/update-pins {arch}")
    return pins


def machine():
    """Returns the architecture of this machine."""
    return subprocess.run(["dpkg", "--print-architecture"], check=True, capture_output=True, text=True).stdout.strip()


def foreign(arch, folder):
    """Returns the options with which apt knows another architecture, without a change of this machine. Its lists lie in the folder."""
    lists = (folder / f"lists-{arch}").resolve()
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    options = {"APT::Architecture": arch, "APT::Architectures": arch, "Dir::State::Lists": lists, "Dir::State::status": "/dev/null"}
    return [part for name, value in options.items() for part in ("-o", f"{name}={value}")]


def apt(*args, cwd=None):
    """Runs apt-get as root, because it may not write to the folder as another user."""
    command = ["apt-get", "-q", "-o", "APT::Sandbox::User=root", *args]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True)


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def download(name, version, arch, folder):
    """Downloads one version of a package, or the current one; returns its pin, or apt's error."""
    folder.mkdir(parents=True, exist_ok=True)
    options = [] if arch == machine() else foreign(arch, folder)
    if options and not any(folder.glob(f"lists-{arch}/*Packages*")):
        updated = apt(*options, "update")
        if updated.returncode != 0:
            return updated.stderr.strip()
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        done = apt(*options, "download", f"{name}:{arch}={version}" if version else f"{name}:{arch}", cwd=scratch)
        found = list(Path(scratch).glob("*.deb"))
        if done.returncode != 0 or len(found) != 1:
            return done.stderr.strip() or "nothing was downloaded"
        pin = Pin(arch, name, control(found[0], "Version"), digest(found[0]))
        found[0].replace(pin.file(folder))
        return pin


def fetch(pin, folder):
    """Returns the file of a pinned package, downloaded unless the folder has it."""
    path = pin.file(folder)
    if not path.exists():
        found = download(pin.name, pin.version, pin.arch, folder)
        if isinstance(found, str):
            fail(f"{pin.name} {pin.version} for {pin.arch} is not available from this machine's package sources: {found}\n"
                 f"next: run `apt-get update` (another architecture has its lists in {folder}), and if the version is gone, "
                 f"`server/deploy/image/update-pins {pin.arch}`")
    have = digest(path)
    if have != pin.sha256:
        fail(f"{path} has SHA-256 {have}, and {pin.sha256} is pinned; remove the file, "
             f"and if it comes back, check the source and run `server/deploy/image/update-pins {pin.arch}`")
    return path


def control(path, field):
    """Returns a field of a package."""
    return subprocess.run(["dpkg-deb", "-f", path, field], check=True, capture_output=True, text=True).stdout.strip()
