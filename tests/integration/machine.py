"""A machine with a Docker engine of its own: a container of the toolchain image that runs dockerd.

For what must not be done to the engine of the machine we test on: another runtime, another version,
a restart. The tree is mounted at its own path. Nothing of the machine outside is touched.
"""

import subprocess
import time

from tests.integration.docker import docker, own_image, owned
from tests.integration.programs import ROOT

INSTALL_SECONDS_MAX = 300
START_SECONDS_MAX = 60


# Debian's releases and the engine that each of them ships.
ENGINES = {"bookworm": "20.10", "trixie": "26.1"}


class Machine:
    """`packages` are Debian's; `daemon` is the engine's configuration as JSON text; the engine with its
    containerd and runc are those of the release `suite`. A context manager."""

    def __init__(self, name, packages=(), daemon="{}", suite="trixie"):
        self.name = name
        self.packages = [f"{part}/{suite}" for part in ("docker.io", "containerd", "runc")] + ["iptables", *packages]
        self.daemon = daemon
        self.suite = suite

    def __enter__(self):
        docker("rm", "-f", "-v", self.name, check=False)
        # All capabilities but the one that the host itself may lack; device rules and the writable
        # cgroup tree are what an engine inside needs.
        # --init collects the dead as a machine does: Docker takes the zombie of a killed containerd for a living one.
        docker(
            "run", "-d", "--init", *owned(), "--name", self.name, "--hostname", self.name,
            "--cap-add", "ALL", "--cap-drop", "SYS_RESOURCE",
            "--security-opt", "seccomp=unconfined", "--security-opt", "systempaths=unconfined",
            "--device-cgroup-rule", "a *:* rwm", "--cgroupns", "host",
            "-v", "/sys/fs/cgroup:/sys/fs/cgroup:rw",
            "-v", "/var/lib/docker", "-v", "/var/lib/containerd", "-v", "/var/lib/sandboxed-test",
            "-v", f"{ROOT}:{ROOT}", "-w", str(ROOT),
            "--tmpfs", "/run:exec", "--tmpfs", "/tmp:exec",
            own_image(),
            "sh", "-c", "mount -o remount,rw /sys; mkdir -p /run/lock; exec sleep infinity",
        )  # fmt: skip
        try:
            self._install()
            self._start_engine()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error):
        docker("rm", "-f", "-v", self.name, check=False)

    def run(self, script, timeout=INSTALL_SECONDS_MAX, check=True):
        done = docker("exec", "-e", "DEBIAN_FRONTEND=noninteractive", self.name, "bash", "-c", script, check=False, timeout=timeout)
        assert not check or done.returncode == 0, f"{script}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done

    def _install(self):
        names = " ".join(self.packages)
        sources = f"/etc/apt/sources.list.d/{self.suite}.list"
        self.run(f"sed 's/trixie/{self.suite}/' /etc/apt/sources.list >{sources} && apt-get update -qq"
                 f" && apt-get install -y -qq --no-install-recommends --allow-downgrades {names}")

    def _start_engine(self):
        self.run(f"mkdir -p /etc/docker && cat > /etc/docker/daemon.json <<'END'\n{self.daemon}\nEND")
        docker("exec", "-d", self.name, "sh", "-c", "exec dockerd >/var/log/dockerd.log 2>&1")
        end = time.monotonic() + START_SECONDS_MAX
        while self.run("docker version", check=False).returncode != 0:
            if time.monotonic() > end:
                raise AssertionError("dockerd does not start: " + self.run("tail -20 /var/log/dockerd.log", check=False).stdout)
            time.sleep(0.5)
        version = self.run("docker version -f '{{.Server.Version}}'").stdout
        assert version.startswith(ENGINES[self.suite]), version

    def load(self, *images):
        """Copies images of this engine into the machine's."""
        save = subprocess.Popen(["docker", "save", *images], stdout=subprocess.PIPE)
        load = subprocess.run(
            ["docker", "exec", "-i", self.name, "docker", "load", "-q"],
            stdin=save.stdout, capture_output=True, text=True, timeout=INSTALL_SECONDS_MAX, check=False,
        )  # fmt: skip
        save.stdout.close()
        assert save.wait() == 0 and load.returncode == 0, load.stderr
