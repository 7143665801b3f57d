"""sandboxd-engine trusts nobody: whoever has taken over the control plane and speaks on its socket
still gets nothing started that is not ours (issue 3, item 5). The caller here is this test.
"""

import os
import socket
import struct
import subprocess
import sys

import pytest

from tests.integration import docker
from tests.integration.client import api_id
from tests.integration.records import RecordClient, encode

BASE_IMAGE = "node-http"
CONNECTIONS_MAX = 64


@pytest.fixture
def door(stack):
    return stack.data / "run" / "engine" / "engine.sock"


@pytest.fixture
def caller(door):
    with RecordClient(door, role="sandboxd", seconds=60) as client:
        assert client.hello.kind == "hello", client.hello
        yield client


@pytest.fixture(autouse=True)
def nothing_is_started(stack):
    before = sorted(docker.containers(stack.data))
    yield
    assert sorted(docker.containers(stack.data)) == before


@pytest.fixture
def workspace(stack):
    """A workspace and its doors as the control plane makes them, and the fields of a good create."""
    made = Workspace(stack)
    yield made
    made.remove()


class Workspace:
    def __init__(self, stack):
        self.stack = stack
        self.id = api_id()
        self.uid = stack.uid_base + 99_000
        preview, credentials = stack.uid_base - 999, stack.uid_base - 998
        self.dirs = {
            stack.data / "workspaces" / self.id: (self.uid, 0o700),
            stack.data / "workspaces" / self.id / ".sandboxd": (0, 0o700),
            stack.data / "run" / "control" / self.id: (0, 0o711),
            stack.data / "run" / "in" / self.id: (preview, 0o711),
            stack.data / "run" / "out" / self.id: (credentials, 0o711),
            stack.data / "run" / "etc" / self.id: (0, 0o755),
        }
        for path, (owner, mode) in self.dirs.items():
            path.mkdir(mode=mode)
            os.chmod(path, mode)
            os.chown(path, owner, owner if path.parent.name == "workspaces" or owner else 0)
        for name in ("passwd", "group"):
            file = stack.data / "run" / "etc" / self.id / name
            file.write_text(f"sandbox:x:{self.uid}:{self.uid}::/home/sandbox:/bin/bash\n", encoding="utf-8")
            file.chmod(0o644)

    def fields(self, **changed):
        init = next(p.name for p in (self.stack.data / "init").iterdir())
        fields = {
            "id": self.id,
            "uid": self.uid,
            "image": BASE_IMAGE,
            "init": init,
            "memory": 0,
            "cpus_milli": 0,
            "app_name": "x",
        }
        fields.update(changed)
        return [(k, v) for k, v in fields.items() if v is not None]

    def remove(self):
        for path in sorted(self.dirs, reverse=True):
            if path.is_symlink():
                path.unlink()
            elif path.is_dir():
                for file in path.iterdir():
                    if not file.is_dir():
                        file.unlink()
                path.rmdir()


def assert_refused(answer, *codes):
    assert answer is not None and answer.kind == "error", answer
    assert answer.get("code") in codes, answer
    assert answer.get("message"), answer


def refuse_create(stack, caller, workspace, *codes, **changed):
    answer = caller.ask("create", *workspace.fields(**changed))
    assert_refused(answer, *(codes or ("invalid", "refused")))
    return answer


def test_the_same_call_without_a_fault_is_taken(stack, caller, workspace, apps):
    """Else the refusals below would prove nothing."""
    apps.sandbox()  # the image is there
    answer = caller.ask("create", *workspace.fields())
    assert answer.kind == "container", answer
    assert answer.get("state") == "created"
    assert docker.state(workspace.id) == "created"
    assert caller.ask("remove", ("id", workspace.id)).kind == "removed"
    assert docker.state(workspace.id) == "missing"


@pytest.mark.parametrize("bad", ["", "x", "..", "../../etc", "a" * 26, "A" * 26, "01arz3ndektsv4rrffq69g5fa\x00", "01arz3ndektsv4rrffq69g5fav/..", "sandboxd"])
@pytest.mark.parametrize("verb", ["create", "start", "stop", "remove", "inspect", "usage", "logs"])
def test_what_is_no_id_is_refused(stack, caller, workspace, verb, bad):
    if verb == "create":
        assert_refused(caller.ask("create", *workspace.fields(id=bad)), "invalid")
    else:
        assert_refused(caller.ask(verb, ("id", bad)), "invalid")


@pytest.mark.parametrize("verb", ["start", "stop", "remove"])
def test_containers_of_others_are_out_of_reach(stack, caller, verb):
    """An id of the right form whose container carries another instance's label."""
    foreign = api_id()
    docker.docker(
        "create", "--name", f"s-{foreign}", "--label", "sandboxd.instance=/somewhere/else",
        "--label", f"sandboxd.sandbox={foreign}", docker.own_image(), "sleep", "60",
    )  # fmt: skip
    try:
        answer = caller.ask(verb, ("id", foreign))
        assert answer is not None
        assert docker.state(foreign) == "created", f"{verb}: {answer}"
    finally:
        docker.docker("rm", "-f", f"s-{foreign}")


@pytest.mark.parametrize("name", ["root", "base", "below", "proxy", "above", "huge", "negative", "word", "missing", "nobody"])
def test_a_uid_out_of_range_is_refused(stack, caller, workspace, name):
    base = stack.uid_base
    value = {
        "root": 0,
        "base": base,
        "below": base - 1,
        "proxy": base - 999,
        "above": base + 100_000,
        "huge": 2**32 + base + 1,
        "negative": -1,
        "word": "root",
        "missing": None,
        "nobody": 65534,
    }[name]
    refuse_create(stack, caller, workspace, uid=value)


@pytest.mark.parametrize("image", ["", "debian", "debian:trixie-slim", "no-such", "../base", "sandboxd-base", "alpine@sha256:0", None])
def test_an_image_that_is_not_ours_is_refused(stack, caller, workspace, image):
    refuse_create(stack, caller, workspace, "invalid", "refused", "not_found", image=image)


@pytest.mark.parametrize("init", ["", "..", "../../../bin", "x", "0" * 16, "/bin", None])
def test_an_init_that_is_not_ours_is_refused(stack, caller, workspace, init):
    refuse_create(stack, caller, workspace, "invalid", "refused", "not_found", init=init)


@pytest.mark.parametrize("memory", [1, 64 * 1024 * 1024 - 1, 1 << 50, -1, "1g", "99999999999999999999"])
def test_a_memory_limit_out_of_range_is_refused(stack, caller, workspace, memory):
    refuse_create(stack, caller, workspace, memory=memory)


@pytest.mark.parametrize("where", ["workspaces", "control", "in", "out", "etc"])
def test_a_symlink_in_place_of_a_directory_is_refused(stack, caller, workspace, where):
    path = stack.data / ("workspaces" if where == "workspaces" else f"run/{where}") / workspace.id
    for child in path.iterdir():
        child.rmdir() if child.is_dir() else child.unlink()
    path.rmdir()
    path.symlink_to("/etc")
    refuse_create(stack, caller, workspace, "refused", "invalid")


def test_a_symlink_above_the_workspace_is_refused(stack, caller, workspace):
    real = stack.data / "workspaces"
    moved = stack.data / "moved"
    real.rename(moved)
    real.symlink_to(moved)
    try:
        refuse_create(stack, caller, workspace, "refused", "invalid")
    finally:
        real.unlink()
        moved.rename(real)


@pytest.mark.parametrize("owner", ["root", "another sandbox", "a proxy"])
def test_a_workspace_of_another_owner_is_refused(stack, caller, workspace, owner):
    uid = {"root": 0, "another sandbox": workspace.uid - 1, "a proxy": stack.uid_base - 999}[owner]
    os.chown(stack.data / "workspaces" / workspace.id, uid, uid)
    refuse_create(stack, caller, workspace, "refused", "invalid")


@pytest.mark.parametrize("door_name", ["control", "in", "out"])
def test_a_door_of_another_owner_is_refused(stack, caller, workspace, door_name):
    os.chown(stack.data / "run" / door_name / workspace.id, workspace.uid, workspace.uid)
    refuse_create(stack, caller, workspace, "refused", "invalid")


def test_a_missing_workspace_is_refused(stack, caller, workspace):
    workspace.remove()
    refuse_create(stack, caller, workspace, "refused", "invalid", "not_found")
    workspace.dirs = {}


def test_a_command_a_mount_or_a_privilege_in_the_record_changes_nothing(stack, caller, workspace, apps):
    apps.sandbox()
    more = [
        ("cmd", "sh"), ("mount", "/:/host"), ("bind", "/:/host"), ("privileged", "yes"), ("user", "0"),
        ("network", "host"), ("cap_add", "ALL"), ("env", "LD_PRELOAD=/tmp/x"), ("entrypoint", "/bin/sh"),
    ]  # fmt: skip
    answer = caller.ask("create", *workspace.fields(), *more)
    assert answer.kind == "container", answer
    config = docker.inspect(workspace.id)
    assert config["HostConfig"]["Privileged"] is False and not config["HostConfig"]["CapAdd"]
    assert config["HostConfig"]["NetworkMode"] != "host"
    assert config["Config"]["User"].split(":")[0] == str(workspace.uid)
    assert config["Config"]["Entrypoint"] == ["/run/sandboxd/init/sandboxd-init"]
    assert all(m["Source"].startswith(f"{stack.data}/") for m in config["Mounts"] if m["Type"] == "bind")
    assert "LD_PRELOAD" not in str(config["Config"]["Env"])
    assert caller.ask("remove", ("id", workspace.id)).kind == "removed"


def test_an_app_name_cannot_break_out_of_its_label(stack, caller, workspace, apps):
    apps.sandbox()
    name = 'x","Privileged":true,"y":"\n\\"{}'
    answer = caller.ask("create", *workspace.fields(app_name=name))
    assert answer.kind in ("container", "error"), answer
    if answer.kind == "container":
        config = docker.inspect(workspace.id)
        assert config["HostConfig"]["Privileged"] is False
        assert caller.ask("remove", ("id", workspace.id)).kind == "removed"


def assert_closed(client):
    """Closed, with at most an error before it."""
    answer = client.receive()
    if answer is not None:
        assert answer.kind == "error", answer
        assert client.receive() is None


BROKEN = {
    "over-long": struct.pack(">I", 70_000) + b"x" * 70_000,
    "giant length": b"\xff\xff\xff\xff",
    "length zero": struct.pack(">I", 0),
    "key past the frame": struct.pack(">I", 4) + b"\x20abc",
    "value past the frame": struct.pack(">I", 9) + b"\x04kind" + struct.pack(">I", 500),
    "no kind first": encode("x")[:4] + encode("x")[4:].replace(b"kind", b"kinx"),
    "empty key": struct.pack(">I", 5) + b"\x00" + struct.pack(">I", 0),
    "capital key": encode("create")[:4] + encode("create")[4:].replace(b"kind", b"KIND"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_record_closes_the_connection_and_harms_nobody(stack, door, caller, name):
    with RecordClient(door, role="sandboxd") as broken:
        try:
            broken.send_raw(BROKEN[name])
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert_closed(broken)
    assert caller.ask("status").kind == "status"


def test_an_unknown_kind_is_refused_and_closed(door):
    with RecordClient(door, role="sandboxd") as client:
        client.send("exec", ("id", api_id()), ("argv", "sh"))
        answer = client.receive()
        assert answer is None or answer.kind == "error", answer
        assert client.receive() is None


def test_a_wrong_protocol_is_answered_and_closed(door):
    with RecordClient(door, hello=False) as client:
        answer = client.ask("hello", ("protocol", 999), ("role", "sandboxd"))
        assert_refused(answer, "protocol")
        assert client.receive() is None


def test_without_hello_nothing_is_done(door):
    with RecordClient(door, hello=False) as client:
        client.send("status")
        assert_closed(client)


def test_a_caller_that_is_not_root_gets_nothing(stack, door):
    """The folder is closed to others; even with an open folder the peer's uid is looked at."""
    folder = door.parent
    assert folder.stat().st_mode & 0o777 == 0o700
    assert door.stat().st_mode & 0o777 == 0o600
    script = (
        "import socket, sys\n"
        "from tests.integration.records import RecordClient\n"
        "try:\n"
        "    client = RecordClient(sys.argv[1], role='sandboxd', seconds=10)\n"
        "    print('hello' if client.hello and client.hello.kind == 'hello' else 'refused')\n"
        "except OSError as error:\n"
        "    print('refused')\n"
    )
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", sys.executable, "-c", script, str(door)]
    folder.chmod(0o711)
    door.chmod(0o666)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=os.getcwd(), check=False)
    finally:
        door.chmod(0o600)
        folder.chmod(0o700)
    assert done.stdout.strip() == "refused", (done.stdout, done.stderr)


def test_a_crowd_of_silent_callers_does_not_lock_out_the_control_plane(stack, door, api):
    """More than the limit: the surplus is closed, the control plane's own connections stay."""
    crowd = []
    try:
        for _ in range(CONNECTIONS_MAX + 20):
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(5)
            try:
                sock.connect(str(door))
            except OSError:
                sock.close()
                continue
            crowd.append(sock)
        assert api.get("/readyz", token=None).status_code == 200
    finally:
        for sock in crowd:
            sock.close()
    assert api.get("/readyz", token=None).status_code == 200


def test_peer_with_a_descriptor_that_is_no_socket_is_refused(caller, apps):
    sandbox = apps.sandbox()
    with open("/dev/null", "rb") as null:
        answer = caller.ask("peer", ("id", sandbox["id"]), descriptor=null.fileno())
    assert answer.kind in ("error", "peer"), answer
    assert answer.get("verdict") != "init"


def test_peer_says_other_for_any_process_but_pid_1(caller, apps):
    """This test is the peer of its own socket pair."""
    sandbox = apps.sandbox()
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        answer = caller.ask("peer", ("id", sandbox["id"]), descriptor=ours.fileno())
    assert answer.kind == "peer", answer
    assert answer.get("verdict") == "other", answer


def test_peer_without_a_descriptor_is_refused(caller, apps):
    sandbox = apps.sandbox()
    assert_refused(caller.ask("peer", ("id", sandbox["id"])), "invalid")


def test_status_tells_the_figures_a_caller_needs(caller):
    answer = caller.ask("status")
    assert answer.kind == "status"
    assert answer.get("docker") == "up" and answer.get("walls") == "up", answer
    assert answer.get("cgroup") in ("1", "2")
    assert int(answer.get("mem_total")) > int(answer.get("mem_available")) > 0
    assert 1 << 30 <= int(answer.get("memory_default")) <= 4 << 30


def test_inspect_usage_and_port_tell_the_truth(stack, caller, apps, preview):
    sandbox = apps.sandbox()
    preview.wait_answer(sandbox["id"])
    seen = caller.ask("inspect", ("id", sandbox["id"]))
    truth = docker.inspect(sandbox["id"])["State"]
    assert (seen.get("state"), int(seen.get("pid"))) == ("running", truth["Pid"])
    assert seen.get("spec_current") == "yes"
    assert caller.ask("port", ("id", sandbox["id"]), ("port", 3000)).get("open") == "yes"
    assert caller.ask("port", ("id", sandbox["id"]), ("port", 3001)).get("open") == "no"
    usage = caller.ask("usage", ("id", sandbox["id"]))
    assert 1 << 20 < int(usage.get("memory")) < int(usage.get("memory_limit"))
    assert int(usage.get("cpu_usec")) > 0
