"""The real Docker engine, asked by its own client: what a test looks at to know the truth."""

import json
import os
import re
import subprocess
from pathlib import Path

from tests.integration.programs import start_time

COMMAND_SECONDS_MAX = 120
OWNER_LABEL = "sandboxd.test-owner"


def docker(*args, check=True, stdin=None, timeout=COMMAND_SECONDS_MAX):
    """Output of a docker command; with check, its failure is the test's."""
    done = subprocess.run(
        ["docker", *args], input=stdin, capture_output=True, text=True, timeout=timeout, check=False
    )
    if check:
        assert done.returncode == 0, f"docker {' '.join(args)}: {done.stderr.strip()}"
        return done.stdout
    return done


def owned():
    """Options that mark a container as this run's, so that a later run can tell when it is an orphan."""
    return ("--label", f"{OWNER_LABEL}={os.getpid()}.{start_time(os.getpid())}")


def remove_orphans():
    """Removes the containers of test runs that were killed."""
    listed = docker("ps", "-a", "--filter", f"label={OWNER_LABEL}", "--format", '{{.ID}} {{.Label "%s"}}' % OWNER_LABEL)
    for line in listed.splitlines():
        container, _, owner = line.partition(" ")
        pid, _, start = owner.partition(".")
        if start_time(pid) != start:
            docker("rm", "-f", "-v", container, check=False)


def containers(data_dir, running_only=False):
    """Names of an instance's containers."""
    every = [] if running_only else ["-a"]
    label = f"label=sandboxd.instance={data_dir}"
    return docker("ps", *every, "--filter", label, "--format", "{{.Names}}").split()


def container_name(sandbox_id):
    return f"s-{sandbox_id}"


def inspect(sandbox_id):
    """Docker's own words on a sandbox, None when it has no container."""
    done = docker("inspect", container_name(sandbox_id), check=False)
    return json.loads(done.stdout)[0] if done.returncode == 0 else None


def state(sandbox_id):
    found = inspect(sandbox_id)
    return found["State"]["Status"] if found else "missing"


def run_inside(sandbox_id, *command, check=True, stdin=None, timeout=COMMAND_SECONDS_MAX):
    """Runs a command in a sandbox as its own user, the way an agent's tool would be."""
    done = docker(
        "exec", "-i", "-w", "/home/sandbox", container_name(sandbox_id), *command, check=False, stdin=stdin, timeout=timeout
    )
    if check:
        assert done.returncode == 0, f"{command}: {done.stdout} {done.stderr}"
        return done.stdout
    return done


def python_inside(sandbox_id, code, *args, **more):
    return run_inside(sandbox_id, "python3", "-c", code, *args, **more)


def on_the_host(*command):
    """Runs a command where dockerd is, whose mounts are not ours: what somebody does on the server itself."""
    [pid] = [p.parent.name for p in Path("/proc").glob("[0-9]*/comm") if p.read_text(encoding="utf-8").strip() == "dockerd"]
    # Into the mounts of another process: needs these three, and no more.
    rights = [word for right in ("SYS_ADMIN", "SYS_PTRACE", "SYS_CHROOT") for word in ("--cap-add", right)]
    apart = ("--security-opt", "apparmor=unconfined", "--network", "none", "--pid", "host")
    return docker("run", "--rm", *owned(), *rights, *apart, "--entrypoint", "nsenter", own_image(), "-t", pid, "-m", *command)


def own_image():
    """The image that this test runs in: it has iproute2, nftables and Python."""
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        found = re.search(r"/containers/([0-9a-f]{64})/(?:hostname|resolv\.conf|hosts)", line)
        if found:
            return json.loads(docker("inspect", found.group(1)))[0]["Image"]
    raise AssertionError("integration tests run inside the toolchain container: scripts/toolchain.sh run-host")
