"""A setting that cannot be meant stops the start with one line that names it, what was found and
what is accepted (issue 3, items 3 and 4; docs/protocols.md, section 1).
"""

import requests
import pytest

from tests.integration import docker
from tests.integration.client import assert_error, Api
from tests.integration.harness import Stack, tables_of
from tests.integration.programs import wait_until

GIVE_UP_SECONDS_MAX = 20


@pytest.fixture
def unstarted(request):
    """A prepared stack of which nothing runs."""
    made = []

    def make(settings):
        stack = Stack(settings=settings)
        made.append(stack)
        stack.prepare()
        return stack

    yield make
    for stack in made:
        stack.remove()


def gives_up(stack, role):
    """Starts one program and returns the lines it left with."""
    stack[role].start()
    wait_until(lambda: not stack[role].running(), GIVE_UP_SECONDS_MAX, lambda: f"{role} gives up\n{stack[role].tail()}")
    assert stack[role].process.returncode not in (0, None)
    stack[role].assert_no_report()
    return stack[role].log()


CONTROL = [
    ("SANDBOXD_API_AUTH_DISABLED", "maybe"),
    ("SANDBOXD_API_AUTH_DISABLED", "TRUE "),
    ("SANDBOXD_API_AUTH_DISABLED", "2"),
    ("API_PORT", "0"),
    ("API_PORT", "65536"),
    ("API_PORT", "http"),
    ("CONSOLE_PORT", "-1"),
    ("HTTP_PORT", "80x"),
    ("PREVIEW_TLS", "perhaps"),
    ("PREVIEW_DOMAIN", "exa mple"),
    ("SANDBOXD_DATA_DIR", "relative/path"),
    ("SANDBOXD_UID_BASE", "0"),
    ("SANDBOXD_UID_BASE", "many"),
    ("SANDBOXD_IDLE_THRESHOLD_SECONDS", "-5"),
    ("SANDBOXD_IDLE_THRESHOLD_SECONDS", "soon"),
    ("SANDBOXD_MEMORY_LOW_PERCENT", "100"),
    ("SANDBOXD_MEMORY_CRITICAL_PERCENT", "50"),
    ("SANDBOXD_MEMORY_WATCHED_SECONDS", "-1"),
    ("SANDBOXD_PREVIEW_ACCESS", "secret"),
    ("SANDBOXD_WAKES_PER_MINUTE", "-1"),
    ("SANDBOXD_WAKES_PER_MINUTE_PER_CLIENT", "few"),
    ("SANDBOXD_KEEP_ALIVE_MAX_SECONDS", "0"),
    ("SANDBOXD_KEEP_ALIVE_MAX_SECONDS", "a day"),
    ("SANDBOXD_SECRETS_KEY", "short"),
    ("SANDBOXD_API_TOKENS", "notoken"),
    ("SANDBOXD_API_TOKENS", "a=sk_x,a=sk_y"),
    ("SANDBOXD_DEFAULT_AGENT", "nobody"),
    ("SANDBOXD_PROVIDER_ZEN_BASE_URL", "ftp://x"),
    ("SANDBOXD_LOG_LEVEL", "loud"),
]
ENGINE = [
    ("SANDBOXD_WALLS", "down"),
    ("SANDBOXD_RUNTIME", "kata"),
    ("SANDBOXD_SANDBOX_MEMORY", "lots"),
    ("SANDBOXD_SANDBOX_MEMORY", "1k"),
    ("SANDBOXD_SANDBOX_CPUS", "-1"),
    ("SANDBOXD_EGRESS_ALLOW", "everything"),
    ("SANDBOXD_EGRESS_ALLOW", "10.0.0.0/99"),
    ("SANDBOXD_EGRESS_ALLOW", "10.0.0.1:70000"),
    ("SANDBOXD_BRIDGE", "a-name-that-is-too-long"),
    ("SANDBOXD_BRIDGE", "x/y"),
    ("SANDBOXD_SUBNET", "10.0.0.0"),
    ("SANDBOXD_DNS", "resolver"),
]


@pytest.mark.parametrize("name,value", CONTROL, ids=[f"{n}={v}" for n, v in CONTROL])
def test_the_control_plane_names_the_setting_it_cannot_use(unstarted, name, value):
    stack = unstarted({name: value})
    said = gives_up(stack, "control")
    lines = [line for line in said.splitlines() if name in line]
    assert lines, said
    if "TOKEN" not in name and "KEY" not in name:
        assert value.strip() in lines[-1], said
    assert docker.containers(stack.data) == []


@pytest.mark.parametrize("name,value", ENGINE, ids=[f"{n}={v}" for n, v in ENGINE])
def test_the_engine_names_the_setting_it_cannot_use(unstarted, name, value):
    stack = unstarted({name: value})
    said = gives_up(stack, "engine")
    lines = [line for line in said.splitlines() if name in line]
    assert lines and value in lines[-1], said


def test_an_unknown_secret_is_not_printed_when_it_is_refused(unstarted):
    stack = unstarted({"SANDBOXD_SECRETS_KEY": "QUJDREVGR0hJSktMTU5PUA=="})
    assert "QUJDREVGR0hJSktMTU5PUA" not in gives_up(stack, "control")


@pytest.mark.parametrize("value", ["true", "1", "yes", "on"])
def test_auth_disabled_frees_the_loopback_api_and_nothing_else(model, value):
    with Stack(model=model, settings={"SANDBOXD_API_AUTH_DISABLED": value}) as own_stack:
        free = Api(own_stack.api_port, None)
        assert free.get("/v1/apps").status_code == 200
        console = requests.get(
            f"http://127.0.0.1:{own_stack.console_port}/v1/apps", headers={"host": "console.localhost"}, timeout=10
        )
        assert console.status_code in (401, 403), console.text
        assert_error(free.get("/v1/apps", headers={"origin": "http://evil.test"}), 403, "forbidden")


@pytest.mark.parametrize("value", ["false", "0", "no", "off", ""])
def test_auth_not_disabled_is_not_disabled(model, value):
    with Stack(model=model, settings={"SANDBOXD_API_AUTH_DISABLED": value}) as own_stack:
        assert own_stack.api.get("/v1/apps", token=None).status_code == 401


def test_auth_disabled_is_refused_with_a_real_domain(unstarted):
    stack = unstarted({"SANDBOXD_API_AUTH_DISABLED": "true", "PREVIEW_DOMAIN": "example.com"})
    said = gives_up(stack, "control")
    assert "SANDBOXD_API_AUTH_DISABLED" in said and "PREVIEW_DOMAIN" in said, said


def test_a_taken_port_is_named(unstarted, stack):
    other = unstarted({"API_PORT": str(stack.api_port)})
    said = gives_up(other, "control")
    assert str(stack.api_port) in said and "API_PORT" in said, said


def test_a_missing_runtime_is_refused_with_the_lines_for_the_engines_configuration(model):
    """Unless this machine has runsc registered, in which case test_runsc tells more."""
    stack = Stack(model=model, settings={"SANDBOXD_RUNTIME": "runsc"})
    stack.prepare()
    try:
        for role in ("engine", "control"):
            stack[role].start()
        registered = "runsc" in docker.docker("info", "--format", "{{json .Runtimes}}")
        if registered:
            stack.wait_ready()
            return

        def refused():
            text = stack["engine"].log()
            answer = stack.ready()
            ready = answer is not None and answer.status_code == 200
            assert not ready, "it must not get ready"
            return "daemon.json" in text or (answer is not None and "daemon.json" in answer.text)

        wait_until(refused, 20, lambda: stack.tails())
        said = stack["engine"].log() + (stack.ready().text if stack.ready() is not None else "")
        for part in ("runsc", "--host-uds=open", "runtimes"):
            assert part in said, said
    finally:
        stack.remove()


def test_version_is_told_without_a_start(unstarted):
    stack = unstarted({})
    done = stack["control"].run_to_end("version")
    assert done.returncode == 0 and done.stdout.strip(), done


def test_a_stopped_stack_leaves_its_walls_and_takes_them_back(model):
    """The table outlives the program: sandboxes that run on stay behind walls."""
    with Stack(model=model) as own_stack:
        own_stack["engine"].kill9()
        assert tables_of(own_stack.bridge), "walls stand without their keeper"
        own_stack["engine"].start()
        own_stack.wait_ready()
