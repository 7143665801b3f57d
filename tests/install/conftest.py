"""The machines, one for each Debian asked for, and what they install from.

Everything on one machine is one story: a step stands on the one before it. A step whose story has
broken off fails at once instead of waiting for what cannot come.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from tests.install.story import Story
from tests.stubs.model_server import ModelServer

ROOT = pathlib.Path(__file__).parents[2]
SUITES = os.environ.get("SANDBOXD_TEST_SUITES", "trixie").split()


def git(*args, **options):
    env = {**os.environ, "GIT_AUTHOR_NAME": "test", "GIT_AUTHOR_EMAIL": "test@localhost", "GIT_COMMITTER_NAME": "test",
           "GIT_COMMITTER_EMAIL": "test@localhost", **options.pop("env", {})}
    done = subprocess.run(["git", "-c", f"safe.directory={ROOT}", *args], capture_output=True, text=True, check=False,
                          env=env, timeout=120, **options)
    assert done.returncode == 0, f"git {' '.join(args)}: {done.stderr}"
    return done.stdout.strip()


@pytest.fixture(scope="session")
def origin():
    """A bare repository whose main, and whose tag v0-test, are the tree under test as it is on disk."""
    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": f"{folder}/index"}
        git("-C", str(ROOT), "read-tree", "HEAD", env=index)
        git("-C", str(ROOT), "add", "-A", env=index)
        tree = git("-C", str(ROOT), "write-tree", env=index)
        commit = git("-C", str(ROOT), "commit-tree", tree, "-p", "HEAD", "-m", "the tree under test")
        git("init", "-q", "--bare", "-b", "main", f"{folder}/sandboxd.git")
        git("-C", str(ROOT), "push", "-q", f"{folder}/sandboxd.git", f"{commit}:refs/heads/main", f"{commit}:refs/tags/v0-test")
        git("clone", "-q", f"{folder}/sandboxd.git", f"{folder}/checkout")
        git("-C", f"{folder}/checkout", "remote", "set-url", "origin", "/srv/sandboxd.git")
        shutil.copy(ROOT / "install.sh", f"{folder}/install-sandboxd.sh")
        yield pathlib.Path(folder) / "sandboxd.git"


@pytest.fixture(scope="session")
def model():
    """The scripted model, on every address of this host: a machine reaches it at its own default gateway."""
    with ModelServer(host="0.0.0.0") as server:
        yield server


@pytest.fixture(scope="module", params=SUITES)
def story(request, origin, model):
    with Story(request.param, origin, model) as told:
        yield told


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    told = getattr(item, "funcargs", {}).get("story")
    if told and call.when == "call" and outcome.get_result().failed:
        told.broken = told.broken or item.name


@pytest.fixture(autouse=True)
def unbroken(request):
    if "story" in request.fixturenames:
        told = request.getfixturevalue("story")
        if told.broken:
            pytest.fail(f"the story of this machine broke off at {told.broken}")
