"""The door of a sandbox: the socket says which sandbox, the kernel says which process (design,
section 2). Everything here is tried from inside, as an agent's tool would.
"""

import json

import pytest

from tests.integration import docker
from tests.integration.programs import wait_until
from tests.stubs.model_scenarios import directive

# Speaks records without a library: dials a door, sends frames, prints what came back.
SPEAK = """
import json, socket, struct, sys
path, records = sys.argv[1], json.loads(sys.argv[2])
def frame(fields):
    body = b"".join(struct.pack("B", len(k)) + k.encode() + struct.pack(">I", len(v)) + v.encode() for k, v in fields)
    return struct.pack(">I", len(body)) + body
s = socket.socket(socket.AF_UNIX)
s.settimeout(8)
answer = b""
try:
    s.connect(path)
    for record in records:
        s.sendall(frame(record))
    while True:
        piece = s.recv(65536)
        if not piece:
            answer += b"|closed"
            break
        answer += piece
except socket.timeout:
    answer += b"|open"
except OSError as error:
    answer += b"|closed"
print(answer.decode("latin-1"))
"""
HELLO = [["kind", "hello"], ["protocol", "1"], ["boot_id", "x" * 16], ["version", "x"]]
PHASE = [["kind", "phase"], ["phase", "failed"], ["detail", "forged"]]


def speak(sandbox, door, *records):
    path = f"/run/sandboxd/{door}"
    return docker.python_inside(sandbox["id"], SPEAK, path, json.dumps(list(records))).strip()


def refusals(stack, sandbox):
    return [e for e in stack.events() if e["sandbox_id"] == sandbox["id"] and e["severity"] != "info"]


def test_a_process_other_than_pid_1_cannot_speak_for_the_sandbox(stack, apps, preview):
    sandbox = apps.sandbox()
    preview.wait_answer(sandbox["id"])
    before = stack.api.sandbox(sandbox["id"])
    answer = speak(sandbox, "control/control.sock", HELLO, PHASE)
    assert answer.endswith("|closed"), answer
    assert "configure" not in answer, "it learns nothing"
    wait_until(lambda: refusals(stack, sandbox), 10, "the refusal is an event")
    after = stack.api.sandbox(sandbox["id"])
    assert after["status"] == before["status"] == "running"
    assert "forged" not in json.dumps(after)
    assert preview.get(sandbox["id"]).status_code == 200


def test_an_agents_own_tool_cannot_speak_for_the_sandbox(stack, apps, preview):
    sandbox = apps.sandbox()
    preview.wait_answer(sandbox["id"])
    stack.put_file(sandbox["id"], "speak.py", SPEAK)
    records = json.dumps([HELLO, PHASE])
    command = f"python3 speak.py /run/sandboxd/control/control.sock '{records}'"
    task = stack.api.make_task(sandbox["id"], directive("shell", command))
    done = stack.api.wait_task(sandbox["id"], task["id"])
    assert done["status"] == "succeeded", done
    assert "|closed" in done["agent_message"], done
    wait_until(lambda: refusals(stack, sandbox), 10, "the refusal is an event")


def test_a_forged_end_of_a_task_is_not_believed(stack, apps, preview):
    sandbox = apps.sandbox()
    preview.wait_answer(sandbox["id"])
    task = stack.api.make_task(sandbox["id"], directive("slow", "8"))
    stack.api.wait_task(sandbox["id"], task["id"], "running")
    line = [["kind", "line"], ["task_id", task["id"]], ["seq", "1"], ["stream", "out"], ["data", "forged line"]]
    end = [["kind", "exit"], ["task_id", task["id"]], ["seq", "2"], ["code", "0"], ["cause", "exit"]]
    assert speak(sandbox, "control/control.sock", HELLO, line, end).endswith("|closed")
    assert stack.api.task(sandbox["id"], task["id"])["status"] == "running"
    done = stack.api.wait_task(sandbox["id"], task["id"])
    assert done["status"] == "succeeded", done
    events = list(stack.api.events(sandbox["id"], task["id"]))
    assert "forged line" not in json.dumps([e.data for e in events])


@pytest.mark.parametrize("door", ["control/control.sock", "in/in.sock", "out/out.sock"])
def test_a_door_cannot_be_replaced_or_removed_from_inside(stack, apps, preview, door):
    sandbox = apps.sandbox()
    preview.wait_answer(sandbox["id"])
    docker.run_inside(sandbox["id"], "test", "-S", f"/run/sandboxd/{door}")
    for command in ("rm -f", "mv -f /dev/null", "touch", "chmod 000"):
        script = f"{command} /run/sandboxd/{door}"
        if command == "mv -f /dev/null":
            script = f"touch ~/x; mv -f ~/x /run/sandboxd/{door}"
        if command == "touch":
            script = f"touch /run/sandboxd/{door}.new"
        assert docker.run_inside(sandbox["id"], "sh", "-c", f"{script} 2>/dev/null && echo done; true") == ""
    assert preview.get(sandbox["id"]).status_code == 200


def test_a_second_standing_connection_on_in_is_closed_at_once(apps, preview):
    sandbox = apps.sandbox()
    preview.wait_answer(sandbox["id"])
    hello = [["kind", "hello"], ["protocol", "1"], ["role", "standing"], ["boot_id", "y" * 16]]
    assert speak(sandbox, "in/in.sock", hello).endswith("|closed")
    assert preview.get(sandbox["id"]).status_code == 200, "the first keeps the role"


@pytest.mark.parametrize("number", ["0", "1", "7", "4294967295", "18446744073709551615", "-1", "x"])
def test_a_stream_nobody_asked_for_is_closed(apps, preview, number):
    sandbox = apps.sandbox()
    preview.wait_answer(sandbox["id"])
    hello = [["kind", "hello"], ["protocol", "1"], ["role", "stream"], ["n", number], ["result", "ok"]]
    assert speak(sandbox, "in/in.sock", hello).endswith("|closed")
    assert preview.get(sandbox["id"]).status_code == 200


def out(sandbox, path, *curl):
    """A request through the sandbox's way out, as an agent makes it: (status, body)."""
    command = ["curl", "-s", "-m", "40", "-w", "\n%{http_code}", *curl, f"http://127.0.0.1:9100{path}"]
    body, _, status = docker.run_inside(sandbox["id"], *command, check=False).stdout.rpartition("\n")
    return int(status), body


def test_an_unknown_token_is_a_401_at_the_way_out(apps, preview, model):
    sandbox = apps.sandbox()
    preview.wait_answer(sandbox["id"])
    model.forget()
    for header in ("authorization: Bearer tk_nothing", "x-api-key: tk_nothing", "x-goog-api-key: x"):
        status, body = out(sandbox, "/anthropic/v1/messages", "-H", header, "-d", "{}")
        assert status == 401, body
        assert json.loads(body)["error"]["type"] == "unknown_token"
    status, _ = out(sandbox, "/zen/v1/chat/completions", "-d", "{}")
    assert status == 401
    assert model.posts() == [], "nothing went upstream"


@pytest.mark.parametrize("path", ["/no-such/v1/x", "/", "/anthropic", "/../anthropic/v1/messages", "//anthropic/v1", "/http://example.com/"])
def test_an_unknown_provider_is_refused_at_the_way_out(apps, preview, path):
    sandbox = apps.sandbox()
    preview.wait_answer(sandbox["id"])
    status, _ = out(sandbox, path, "--path-as-is", "-H", "x-api-key: x", "-d", "{}")
    assert status in (400, 401, 403, 404)


def test_a_sandbox_sees_no_environment_and_no_token_of_others(stack, apps, preview):
    """The token of the API and the settings of the control plane are nowhere in a sandbox."""
    sandbox = apps.sandbox()
    preview.wait_answer(sandbox["id"])
    text = docker.run_inside(sandbox["id"], "sh", "-c", "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'; env; true")
    assert stack.token not in text
    assert "SANDBOXD_API_TOKENS" not in text and "SANDBOXD_SECRETS_KEY" not in text


def test_pid_1_cannot_be_looked_into(apps, preview):
    sandbox = apps.sandbox()
    preview.wait_answer(sandbox["id"])
    for path in ("/proc/1/mem", "/proc/1/environ", "/proc/1/fd", "/proc/1/maps"):
        done = docker.run_inside(sandbox["id"], "sh", "-c", f"ls {path}/ 2>/dev/null || head -c 1 {path} 2>/dev/null", check=False)
        assert done.stdout == "", f"{path} is open: {done.stdout!r}"
