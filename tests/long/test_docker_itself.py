"""Docker restarted, pruned and gone, and a disk that is full to the last byte (issue 4, items 3, 13, 14).

All of it in a machine with an engine of its own, with the one that Debian 12 ships and with Debian 13's; the
tests that run there are in tests/integration/inside/check_docker.py.
"""

import pytest

from tests.integration.machine import ENGINES, Machine
from tests.integration.programs import PROFILE
from tests.integration.test_runsc import image_tags

CHECKS = "tests/integration/inside/check_docker.py"
INSIDE_SECONDS_MAX = 2400
SMALL_DISK = "/srv/small"
SMALL_DISK_MIB = 1536


@pytest.fixture(scope="module", params=ENGINES)
def machine(request, stack):
    # The images that the machine needs, built by the product on this engine first.
    app = stack.api.make_app("node-http", "for its image")
    stack.api.make_sandbox(app["id"])
    assert stack.api.delete(f"/v1/apps/{app['id']}").status_code in (202, 204)
    with Machine(f"sbt-docker-{request.param}", suite=request.param) as made:
        made.load(*image_tags("base", "node-http"), "debian:trixie-slim")
        made.run(f"mkdir -p {SMALL_DISK} && mount -t tmpfs -o size={SMALL_DISK_MIB}m,mode=0755 tmpfs {SMALL_DISK}")
        yield made


def checks(machine, marks, more=""):
    command = f"SANDBOXD_TEST_PROFILE={PROFILE} {more} python3 -m pytest -p no:cacheprovider -ra -q {CHECKS} -k '{marks}'"
    done = machine.run(command, timeout=INSIDE_SECONDS_MAX, check=False)
    assert done.returncode == 0, f"inside:\n{done.stdout[-20000:]}\n{done.stderr[-4000:]}"
    assert " passed" in done.stdout, done.stdout


@pytest.mark.timeout(1200)
def test_a_disk_that_is_full_to_the_last_byte(machine):
    checks(machine, "full", f"SANDBOXD_TEST_DIR={SMALL_DISK}")


@pytest.mark.timeout(1200)
def test_docker_restarted(machine):
    checks(machine, "restart")


@pytest.mark.timeout(3000)
def test_everything_pruned_while_everything_sleeps(machine):
    checks(machine, "prune")
