"""Servers that a document needs: a Kubernetes API server over etcd, and Consul, each on free ports.

docs.py starts them for documents with a `needs` line. They run in the document's own folder and end with it. No
controller runs in the cluster: a document creates the objects of controllers in a hidden block.
"""

import json
import os
import shlex
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
LIMIT = 60


def free_ports(count):
    """Returns ports that were free a moment ago."""
    held = [socket.socket() for _ in range(count)]
    for s in held:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


def own_address():
    """Returns an address of this machine other than loopback, which no EndpointSlice may hold."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(("192.0.2.1", 9))  # nothing is sent
        return s.getsockname()[0]


class Server:
    """Processes that end together."""

    def __init__(self, home):
        self.home, self.children = home, []

    def spawn(self, name, *args):
        out = open(self.home / f"{name}.log", "w")
        self.children.append(
            subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                             start_new_session=True))

    def wait(self, what, probe):
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            if any(child.poll() is not None for child in self.children):
                break
            try:
                if probe():
                    return
            except (OSError, urllib.error.URLError, ValueError):
                pass
            time.sleep(0.05)  # another process owns the condition, so polling is the only way
        self.close()
        logs = "".join(f.read_text()[-1500:] for f in sorted(self.home.glob("*.log")))
        raise RuntimeError(f"{what} did not start:\n{logs}")

    def close(self):
        for child in self.children:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            child.wait(10)


class Kubernetes(Server):
    """An API server and its etcd; KUBECONFIG has its administrator, and kubectl is a small substitute."""

    def __init__(self, home, name="docs"):
        super().__init__(home / f"cluster-{name}")
        self.name = name
        self.home.mkdir()
        client, peer, port = free_ports(3)
        etcd = f"http://127.0.0.1:{client}"
        peers = f"http://127.0.0.1:{peer}"
        self.spawn("etcd", os.environ["TRIBUTARY_ETCD"], "--name", "e", "--data-dir", str(self.home / "etcd"),
                   "--listen-client-urls", etcd, "--advertise-client-urls", etcd, "--listen-peer-urls", peers,
                   "--initial-advertise-peer-urls", peers, "--initial-cluster", f"e={peers}",
                   "--unsafe-no-fsync", "--log-level", "warn")
        self.wait("etcd", lambda: urllib.request.urlopen(f"{etcd}/health", timeout=5).status == 200)
        self.make_key()
        (self.home / "tokens.csv").write_text('admin-token,admin,admin,"system:masters"\n')
        self.command = [
            os.environ["TRIBUTARY_KUBE_APISERVER"], f"--etcd-servers={etcd}",
            f"--secure-port={port}", "--bind-address=127.0.0.1", f"--cert-dir={self.home}/certs",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.home}/sa.pub",
            f"--service-account-signing-key-file={self.home}/sa.key",
            "--service-cluster-ip-range=10.0.0.0/16", "--authorization-mode=RBAC",
            f"--token-auth-file={self.home}/tokens.csv",
            "--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none"]
        self.spawn("apiserver", *self.command)
        self.url = f"https://127.0.0.1:{port}"
        self.wait("the API server", self.is_ready)
        (self.home / "pid").write_text(str(self.children[-1].pid))
        (self.home / "command").write_text(shlex.join(self.command))
        self.kubeconfig = self.home / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(self.config()))

    def close(self):
        """Ends the API server of `api-server start`, too."""
        try:
            os.killpg(int((self.home / "pid").read_text()), signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            pass
        super().close()

    def make_key(self):
        key, public = self.home / "sa.key", self.home / "sa.pub"
        quiet = {"check": True, "capture_output": True}
        subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key], **quiet)
        subprocess.run(["openssl", "ec", "-in", key, "-pubout", "-out", public], **quiet)

    def is_ready(self):
        authority = ssl.create_default_context(cafile=str(self.home / "certs" / "apiserver.crt"))
        request = urllib.request.Request(f"{self.url}/readyz", headers={"authorization": "Bearer admin-token"})
        return urllib.request.urlopen(request, context=authority, timeout=5).status == 200

    def config(self):
        authority, name = str(self.home / "certs" / "apiserver.crt"), self.name
        return {
            "apiVersion": "v1", "kind": "Config", "current-context": name,
            "clusters": [{"name": name, "cluster": {"server": self.url, "certificate-authority": authority}}],
            "users": [{"name": name, "user": {"token": "admin-token"}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        }

    def env(self):
        return {"KUBECONFIG": str(self.kubeconfig), "PATH": f"{TOOLS / 'bin'}:{os.environ['PATH']}"}


class Clusters(Server):
    """Three clusters; KUBECONFIG has a context for each: home, which is the current one, east and west. The command
    `api-server stop|start NAME` takes the API server of one away and brings it back."""

    def __init__(self, home):
        super().__init__(home)
        self.all = [Kubernetes(home, name) for name in ("home", "east", "west")]
        first, *others = (cluster.config() for cluster in self.all)
        for other in others:
            for part in ("clusters", "users", "contexts"):
                first[part] += other[part]
        self.kubeconfig = home / "clusters.kubeconfig"
        self.kubeconfig.write_text(json.dumps(first))

    def env(self):
        return {**self.all[0].env(), "KUBECONFIG": str(self.kubeconfig), "TRIBUTARY_CLUSTERS": str(self.home)}

    def close(self):
        for cluster in self.all:
            cluster.close()


class Consul(Server):
    """A dev agent; CONSUL_HTTP_ADDR has its address."""

    def __init__(self, home, port):
        super().__init__(home / "consul")
        self.home.mkdir()
        self.port = port
        serf, rpc = free_ports(2)
        self.spawn("consul", os.environ["TRIBUTARY_CONSUL"], "agent", "-dev", "-bind", "127.0.0.1", "-node", "docs",
                   "-http-port", str(port), "-grpc-port", "-1", "-grpc-tls-port", "-1", "-dns-port", "-1",
                   "-serf-lan-port", str(serf), "-serf-wan-port", "-1", "-server-port", str(rpc),
                   "-disable-host-node-id", "-log-level", "warn")
        leader = f"http://127.0.0.1:{port}/v1/status/leader"
        self.wait("Consul", lambda: len(urllib.request.urlopen(leader, timeout=5).read()) > 4)

    def env(self):
        return {"CONSUL_HTTP_ADDR": f"http://127.0.0.1:{self.port}"}
