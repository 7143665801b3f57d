"""Fixtures. `stack` is shared by the whole run; tests that break things start their own."""

import pytest

from tests.integration import fault_matrix, harness
from tests.stubs.model_server import ModelServer
from tests.stubs.oauth_server import OAuthServer

TEST_SECONDS_MAX = 600


def pytest_configure(config):
    config.addinivalue_line("markers", "fault: a line of the fault matrix in README.md; `make test-faults` runs them")


def pytest_collection_modifyitems(items):
    """Nothing waits for ever: every test has a deadline. What looks at the whole run comes last."""
    items.sort(key=lambda item: item.path.name == "test_openapi.py")
    listed = set(fault_matrix.entries())
    for item in items:
        if fault_matrix.is_listed(listed, item.path, getattr(item, "originalname", item.name)):
            item.add_marker(pytest.mark.fault)
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_SECONDS_MAX))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failure shows what our programs said last."""
    report = (yield).get_result()
    if report.failed and call.when in ("setup", "call"):
        for name in ("stack", "own_stack"):
            stack = getattr(item, "funcargs", {}).get(name)
            if stack is not None:
                report.sections.append((f"programs of {name}", stack.tails()))


@pytest.fixture(scope="session", autouse=True)
def leftovers():
    harness.TEST_DIR.mkdir(parents=True, exist_ok=True)
    harness.sweep()


@pytest.fixture(scope="session")
def model():
    """The scripted model server of the whole run."""
    with ModelServer() as server:
        yield server


@pytest.fixture(scope="session")
def oauth():
    """The scripted server of logins, for the shared stack."""
    with OAuthServer() as server:
        yield server


@pytest.fixture(scope="session")
def stack(model, oauth):
    with harness.Stack(model=model, settings={"SANDBOXD_CLAUDE_TOKEN_URL": oauth.token_url}) as running:
        oauth.keep = running.keep
        yield running


@pytest.fixture(autouse=True)
def programs_survive(request):
    """A test that ends a program of the shared stack fails, and leaves a whole stack to the next one."""
    yield
    if "stack" not in request.fixturenames:
        return
    running = request.getfixturevalue("stack")
    ended = [program for program in running.programs.values() if not program.running()]
    said = "\n".join(program.tail() for program in ended)
    for program in ended:
        program.start()
    if ended:
        running.wait_ready()
        pytest.fail(f"ended in this test: {', '.join(program.role for program in ended)}\n{said}")


@pytest.fixture
def api(stack):
    return stack.api


@pytest.fixture
def preview(stack):
    return stack.preview


class Apps:
    """Makes apps and sandboxes for one test and deletes them at its end."""

    def __init__(self, stack):
        self.stack = stack
        self.made = []

    def app(self, preset="node-http", name="test app"):
        app = self.stack.api.make_app(preset, name)
        self.made.append(app["id"])
        return app

    def sandbox(self, preset="node-http", ports=(3000,)):
        """A running sandbox of a new app."""
        return self.stack.api.make_sandbox(self.app(preset)["id"], ports)

    def server(self, script="server.js", source="echo.js", ports=(3000,)):
        """A sandbox of node-http that runs a server of the tests in place of the template's."""
        sandbox = self.sandbox("node-http", ports)
        self.stack.preview.wait_answer(sandbox["id"])
        text = (harness.ROOT / "tests" / "integration" / "apps" / source).read_text(encoding="utf-8")
        self.stack.put_file(sandbox["id"], script, text)
        self.stop(sandbox["id"])
        self.start(sandbox["id"])
        self.stack.preview.wait_answer(sandbox["id"], "/hello")
        return sandbox

    def stop(self, sandbox_id):
        answer = self.stack.api.post(f"/v1/sandboxes/{sandbox_id}/stop")
        assert answer.status_code == 200, answer.text
        assert self.stack.api.sandbox(sandbox_id)["status"] == "stopped"

    def start(self, sandbox_id):
        answer = self.stack.api.post(f"/v1/sandboxes/{sandbox_id}/start")
        assert answer.status_code in (200, 202), answer.text
        self.stack.api.wait_sandbox(sandbox_id, "running")

    def delete_all(self):
        for app_id in self.made:
            answer = self.stack.api.delete(f"/v1/apps/{app_id}")
            assert answer.status_code in (202, 204), answer.text


@pytest.fixture
def apps(stack):
    made = Apps(stack)
    yield made
    made.delete_all()


@pytest.fixture
def apps_of():
    """The same for a stack of a test's own."""
    made = []

    def of(stack):
        made.append(Apps(stack))
        return made[-1]

    return of
