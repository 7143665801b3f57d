"""gVisor end to end: start, preview, WebSocket, stop, one task (issue 3, item 5).

Debian's runsc is registered with an engine of its own, in a machine of its own; the tests that run
there are in inside/check_runsc.py.
"""

import json
import subprocess

import pytest

from tests.integration.machine import Machine
from tests.integration.programs import PROFILE, ROOT

GOOD_ARGUMENTS = ["--platform=ptrace", "--host-uds=open", "--network=host"]
INSIDE_SECONDS_MAX = 1200
CHECKS = "tests/integration/inside/check_runsc.py"


def daemon(arguments):
    return json.dumps({"runtimes": {"runsc": {"path": "/usr/bin/runsc", "runtimeArgs": arguments}}})


def image_tags(*names):
    command = ["presets/build.sh", "--tag-only", *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.split()


def run_checks(machine, marks):
    command = f"SANDBOXD_TEST_PROFILE={PROFILE} python3 -m pytest -p no:cacheprovider -ra -q {CHECKS} -k '{marks}'"
    done = machine.run(command, timeout=INSIDE_SECONDS_MAX, check=False)
    assert done.returncode == 0, f"inside:\n{done.stdout[-20000:]}\n{done.stderr[-4000:]}"
    assert " passed" in done.stdout, done.stdout


@pytest.fixture(scope="module")
def images(stack):
    """The images that the machine needs, built by the product on this engine first."""
    app = stack.api.make_app("node-http", "for its image")
    stack.api.make_sandbox(app["id"])
    assert stack.api.delete(f"/v1/apps/{app['id']}").status_code in (202, 204)
    return image_tags("base", "node-http")


@pytest.mark.timeout(1800)
def test_runsc_works_from_start_to_task(images):
    with Machine("sbt-runsc", ["runsc"], daemon(GOOD_ARGUMENTS)) as machine:
        machine.load(*images)
        run_checks(machine, "works")


@pytest.mark.timeout(1200)
def test_runsc_without_host_uds_is_refused_with_the_lines_that_are_missing():
    with Machine("sbt-runsc-bare", ["runsc"], daemon(["--platform=ptrace", "--network=host"])) as machine:
        run_checks(machine, "refused")
