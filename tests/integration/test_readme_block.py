"""The block of the README, run to the letter in bash: it stands in people's scripts and guides.

Only what a person replaces is replaced: the address, the token, the key, and the ids where the block
says <task id> and <sandbox id>.
"""

import re
import subprocess

import pytest

from tests.integration import docker
from tests.integration.client import last_id
from tests.integration.edge import Edge
from tests.integration.harness import Stack
from tests.integration.programs import ROOT

MARK = "export AUTH="
COMMAND_SECONDS_MAX = 240


def readme_blocks():
    return re.findall(r"^```\w*\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S | re.M)


def readme_block():
    found = [b for b in readme_blocks() if MARK in b]
    assert len(found) == 1, f"the README has {len(found)} blocks with {MARK}"
    return found[0].splitlines()


class Shell:
    """One bash that keeps its variables from line to line."""

    END = "__END_OF_OUTPUT__"

    def __init__(self):
        # A person sees curl's progress on the terminal; it is no part of an answer.
        self.process = subprocess.Popen(
            ["bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd="/tmp"
        )

    def run(self, line):
        self.process.stdin.write(f"{line}\necho; echo {self.END} $?\n")
        self.process.stdin.flush()
        output = []
        while True:
            text = self.process.stdout.readline()
            assert text, f"bash ended at: {line}"
            if text.startswith(self.END):
                assert text.split()[1] == "0", f"{line}\n{''.join(output)}"
                return "".join(output).strip()
            output.append(text)

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)


def is_install(line):
    return "install.sh" in line or "install-sandboxd.sh" in line


@pytest.fixture(scope="module")
def own(model):
    with Stack(model=model) as running, Edge(running):
        yield running


def run_block(own):
    key = own.secret("sk-ant-")
    shell = Shell()
    seen = {}
    for line in readme_block():
        line = line.replace("127.0.0.1:9090", f"127.0.0.1:{own.api_port}")
        line = re.sub(r"(SANDBOXD_TOKEN=)\S+", rf"\g<1>{own.token}", line)
        line = line.replace("sk-ant-...", key)
        if "<task id>" in line:
            line = line.replace("<task id>", seen["task"])
        if is_install(line) or not line.strip():
            continue
        if line.lstrip().startswith("#"):
            if ".preview.localhost" in line:
                visit(own, seen)
            continue
        output = shell.run(line)
        note(own, seen, line, output)
    shell.close()
    return seen


def visit(own, seen):
    """The line of the block that a person opens in a browser."""
    answer = own.preview.wait_answer(seen["sandbox"])
    assert answer.status_code == 200


def note(own, seen, line, output):
    if "/healthz" in line:
        assert output == "ok"
    elif line.startswith("echo "):
        found = re.match(r"app=(\S+) sandbox=(\S+)$", output)
        assert found, output
        seen["app"], seen["sandbox"] = found.groups()
        assert docker.state(seen["sandbox"]) == "running"
    elif "/tasks -H" in line and "-XPOST" in line:
        assert '"error"' not in output, output
        seen["task"] = last_id(output)
    elif "/events" in line:
        assert "event: done" in output or "event:done" in output, output[-2000:]
        assert own.api.task(seen["sandbox"], seen["task"])["status"] == "succeeded"
    elif line.rstrip().split("#")[0].strip().endswith(f'/tasks/{seen.get("task")} -H "$AUTH"'):
        assert last_id(output) == seen["task"]
    elif "/stop" in line:
        assert docker.state(seen["sandbox"]) == "exited"
    elif "-XDELETE $API/v1/sandboxes" in line:
        assert docker.state(seen["sandbox"]) == "missing"
    elif "-XDELETE $API/v1/apps" in line:
        assert own.api.get(f"/v1/apps/{seen['app']}").status_code == 404


def test_the_image_is_there(own):
    """The block waits for no build; what builds it is the installer."""
    app = own.api.make_app("react-vite")
    own.api.make_sandbox(app["id"])
    assert own.api.delete(f"/v1/apps/{app['id']}").status_code in (202, 204)


def test_the_block_runs_to_the_letter(own):
    seen = run_block(own)
    assert set(seen) == {"app", "sandbox", "task"}


def test_the_block_runs_again(own):
    run_block(own)
    assert own.api.get("/v1/apps").json()["apps"] == []
    assert docker.containers(own.data) == []


def test_the_readme_has_exactly_two_set_up_commands():
    assert [b.strip() for b in readme_blocks() if MARK not in b] == ["./install.sh", "make test"]


def test_openapi_in_the_answer_is_the_one_in_docs(own):
    import yaml

    written = yaml.safe_load((ROOT / "docs" / "openapi.yaml").read_text(encoding="utf-8"))
    served = own.api.get("/v1/openapi.json").json()
    assert set(served["paths"]) == set(written["paths"])
