"""A fresh Debian machine with nothing on it but root: a container that runs a Docker engine of its own.

The machine is made as a person would get it from a hoster: no Docker, no git, no curl. No systemd
either; that one difference is named in docs/install.md. Everything in here works from the outside,
by `docker exec`, and everything that a test leaves behind goes with the machine.
"""

import hashlib
import os
import pathlib
import shlex
import subprocess
import tempfile
import uuid

HOST_CA_DIR = pathlib.Path("/usr/local/share/ca-certificates")
LABEL = "sandboxd.test=install"
DOCKER_SECONDS_MAX = 60

DOCKERFILE = """\
FROM debian:{suite}-slim
COPY ca/ /usr/local/share/ca-certificates/
RUN apt-get update \\
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ca-certificates procps iproute2 \\
 && update-ca-certificates \\
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
"""


class CommandFailed(Exception):
    """A command on the machine ended with another status than 0; the text has its words."""


def docker(*args, check=True, timeout=600, stdin=None):
    done = subprocess.run(["docker", *args], capture_output=True, text=True, timeout=timeout, input=stdin,
                          check=False)
    if check and done.returncode != 0:
        raise CommandFailed(f"docker {' '.join(args[:6])}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done


def image(suite):
    """The tag of the machine's image, made when it is not there."""
    cas = sorted(HOST_CA_DIR.glob("*.crt")) if HOST_CA_DIR.is_dir() else []
    text = DOCKERFILE.format(suite=suite)
    digest = hashlib.sha256(text.encode() + b"".join(ca.read_bytes() for ca in cas)).hexdigest()[:12]
    tag = f"sandboxd-fresh:{suite}-{digest}"
    if docker("image", "inspect", tag, check=False).returncode == 0:
        return tag
    with tempfile.TemporaryDirectory() as folder:
        context = pathlib.Path(folder)
        (context / "ca").mkdir()
        (context / "ca" / ".keep").touch()
        for ca in cas:
            (context / "ca" / ca.name).write_bytes(ca.read_bytes())
        (context / "Dockerfile").write_text(text)
        subprocess.run(["docker", "build", "-q", "--network", "host", "-t", tag, folder], check=True, timeout=900,
                       capture_output=True, env={"PATH": "/usr/bin:/bin:/usr/local/bin", "DOCKER_BUILDKIT": "0"})
    return tag


class Machine:
    """One machine; a context manager that removes it and its disks."""

    def __init__(self, suite):
        self.suite = suite
        self.name = f"sandboxd-fresh-{suite}-{uuid.uuid4().hex[:8]}"

    def __enter__(self):
        # Plain --privileged fails where the host itself lacks SYS_RESOURCE.
        docker("run", "-d", "--name", self.name, "--hostname", "vps", "--label", LABEL,
               "--cap-add", "ALL", "--cap-drop", "SYS_RESOURCE",
               "--security-opt", "seccomp=unconfined", "--security-opt", "systempaths=unconfined",
               "--security-opt", "apparmor=unconfined",
               "--device-cgroup-rule", "a *:* rwm", "--cgroupns", "host", "-v", "/sys/fs/cgroup:/sys/fs/cgroup:rw",
               "-v", "/var/lib/docker", "-v", "/var/lib/containerd", "-v", "/var/lib/sandboxed",
               "--tmpfs", "/run:exec", "--tmpfs", "/tmp:exec",
               image(self.suite), "sh", "-c", "mount -o remount,rw /sys; mkdir -p /run/lock; exec sleep infinity")
        return self

    def __exit__(self, *_):
        # To look around in afterwards; `docker rm -f -v` is yours then.
        if os.environ.get("SANDBOXD_TEST_KEEP") == "1":
            print(f"kept: {self.name}")
            return
        # Its engine's containers live in cgroups of the host; they end before their machine does.
        self.sh("command -v docker >/dev/null && timeout 60 docker ps -q | xargs -r timeout 60 docker kill", check=False)
        docker("rm", "-f", "-v", self.name, check=False)

    def sh(self, commands, check=True, timeout=1800, user=None, stdin=None):
        """Runs bash commands as root (or `user`) on the machine; the finished process."""
        options = ["-i"] if stdin is not None else []
        if user:
            commands = f"exec su {user} -s /bin/bash -c {shlex.quote('cd; ' + commands)}"
        done = docker("exec", *options, self.name, "bash", "-c", commands, check=False, timeout=timeout, stdin=stdin)
        if check and done.returncode != 0:
            raise CommandFailed(f"{commands[:200]}\nstatus {done.returncode}\n{done.stdout[-6000:]}{done.stderr[-6000:]}")
        return done

    def out(self, commands, **options):
        """What the commands print, without the last newline."""
        return self.sh(commands, **options).stdout.rstrip("\n")

    def put(self, source, target):
        docker("cp", str(source), f"{self.name}:{target}")

    def address(self):
        return docker("inspect", "-f", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}",
                      self.name).stdout.strip()

    def end_docker(self, signal):
        """Sends it and waits for the end. A zombie is one: the first process here collects none."""
        self.sh(f"pid=$(cat /var/run/docker.pid); kill -{signal} $pid; end=$((SECONDS + {DOCKER_SECONDS_MAX}))\n"
                "until [ ! -e /proc/$pid ] || grep -q '^State:.Z' /proc/$pid/status; do\n"
                "    [ $SECONDS -lt $end ] || { tail -20 /var/log/dockerd.log; exit 1; }\n"
                "    sleep 0.2\ndone")
