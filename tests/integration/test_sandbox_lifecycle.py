"""Sandboxes come, stop, start and go; each step can be repeated and finishes after a crash in its
middle (issue 3, items 4 and 5).
"""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration import docker
from tests.integration.client import assert_error
from tests.integration.harness import Stack
from tests.integration.programs import wait_until

SETTLE_SECONDS_MAX = 15
CRASH_SECONDS_MAX = 2.0


def host_config(sandbox):
    return docker.inspect(sandbox["id"])["HostConfig"]


# --- what a container is --------------------------------------------------------------------------


def test_a_container_is_named_and_labelled_after_its_sandbox(apps, stack):
    app = apps.app(name="my shop & more")
    sandbox = stack.api.make_sandbox(app["id"])
    config = docker.inspect(sandbox["id"])["Config"]
    assert docker.inspect(sandbox["id"])["Name"] == f"/s-{sandbox['id']}"
    assert config["Hostname"] == f"s-{sandbox['id']}"
    assert config["Labels"]["sandboxd.instance"] == str(stack.data)
    assert config["Labels"]["sandboxd.sandbox"] == sandbox["id"]
    assert config["Labels"]["sandboxd.app-name"] == "my shop & more"


def test_a_container_is_hardened(apps, stack):
    sandbox = apps.sandbox()
    found = docker.inspect(sandbox["id"])
    config = found["HostConfig"]
    assert config["ReadonlyRootfs"] is True
    assert config["Privileged"] is False
    assert [c.upper() for c in config["CapDrop"]] == ["ALL"] and not config["CapAdd"]
    assert any(o.startswith("no-new-privileges") for o in config["SecurityOpt"]), config["SecurityOpt"]
    assert not any("unconfined" in o for o in config["SecurityOpt"]), config["SecurityOpt"]
    assert 0 < config["PidsLimit"] <= 65536
    assert 1 << 30 <= config["Memory"] <= 4 << 30
    assert config["MemorySwap"] >= config["Memory"], "swap is written in the spec, not left to the engine"
    assert config["CpuShares"] == 100
    assert config["LogConfig"]["Config"]["max-size"], "the container's log has a cap"
    assert "noexec" in config["Tmpfs"]["/tmp"]
    assert config["NetworkMode"] not in ("host", "bridge", "default")
    assert not config["PidMode"] and not config["IpcMode"] == "host"
    assert not config.get("Devices") and not config["PortBindings"]
    assert found["State"]["Running"] is True


def test_a_container_has_its_own_uid_and_sees_only_its_own(apps, stack):
    first, second = apps.sandbox(), apps.sandbox()
    uids = set()
    for sandbox in (first, second):
        uid, gid, name = docker.run_inside(sandbox["id"], "sh", "-c", "id -u; id -g; id -un").split()
        assert uid == gid and name == "sandbox"
        assert stack.uid_base < int(uid) <= stack.uid_base + 99_999
        owner = stack.workspace(sandbox["id"]).stat()
        assert (owner.st_uid, owner.st_mode & 0o777) == (int(uid), 0o700)
        uids.add(uid)
    assert len(uids) == 2


def test_a_container_mounts_its_workspace_and_its_doors_and_nothing_else(apps, stack):
    sandbox = apps.sandbox()
    mounts = {m["Destination"]: m for m in docker.inspect(sandbox["id"])["Mounts"] if m["Type"] == "bind"}
    assert set(mounts) == {
        "/home/sandbox",
        "/run/sandboxd/control",
        "/run/sandboxd/in",
        "/run/sandboxd/out",
        "/run/sandboxd/init",
        "/etc/passwd",
        "/etc/group",
    }
    assert mounts["/home/sandbox"]["Source"] == str(stack.workspace(sandbox["id"]))
    assert [d for d, m in mounts.items() if m["RW"]] == ["/home/sandbox"]
    for source in (m["Source"] for m in mounts.values()):
        assert source.startswith(f"{stack.data}/"), source


def test_inside_it_nothing_but_the_home_and_tmp_can_be_written(apps):
    sandbox = apps.sandbox()
    script = "for d in / /usr /etc /opt /run /run/sandboxd/control /run/sandboxd/in /run/sandboxd/init /var; do touch $d/x 2>/dev/null && echo $d; done; true"
    assert docker.run_inside(sandbox["id"], "sh", "-c", script) == ""
    docker.run_inside(sandbox["id"], "sh", "-c", "touch /home/sandbox/x /home/sandbox/workspace/app/x && rm /home/sandbox/x /home/sandbox/workspace/app/x")
    refused = docker.run_inside(sandbox["id"], "sh", "-c", "cp /bin/true /tmp/t && /tmp/t", check=False)
    assert refused.returncode != 0, "/tmp runs nothing"


def test_what_is_ours_in_the_workspace_is_covered_inside(apps, stack):
    sandbox = apps.sandbox()
    ours = stack.workspace(sandbox["id"]) / ".sandboxd"
    assert (ours.stat().st_uid, ours.stat().st_mode & 0o777) == (0, 0o700)
    (ours / "planted").write_text("ours", encoding="utf-8")
    assert docker.run_inside(sandbox["id"], "ls", "-A", "/home/sandbox/.sandboxd", check=False).stdout == ""
    assert docker.run_inside(sandbox["id"], "cat", "/home/sandbox/.sandboxd/planted", check=False).returncode != 0
    assert docker.run_inside(sandbox["id"], "sh", "-c", "touch /home/sandbox/.sandboxd/x", check=False).returncode != 0


def test_an_app_is_a_git_repository_on_main_with_one_commit_from_its_first_minute(apps, preview):
    sandbox = apps.sandbox()
    preview.wait_answer(sandbox["id"])
    script = "cd ~/workspace/app && git rev-parse --abbrev-ref HEAD && git rev-list --count HEAD && git status --porcelain"
    assert docker.run_inside(sandbox["id"], "sh", "-c", script).split() == ["main", "1"]


# --- create ---------------------------------------------------------------------------------------


def test_create_answers_201_when_the_container_runs(apps, api):
    app = apps.app()
    sandbox = api.make_sandbox(app["id"])
    assert docker.state(sandbox["id"]) == "running"
    assert sandbox["app_id"] == app["id"] and sandbox["status"] == "running" and sandbox["ports"] == [3000]
    assert list(sandbox)[-1] == "id"
    assert api.get(f"/v1/apps/{app['id']}").json()["sandbox"]["sandbox_id"] == sandbox["id"]


def test_a_second_sandbox_is_a_409_that_names_the_first(apps, api):
    sandbox = apps.sandbox()
    answer = api.post(f"/v1/apps/{sandbox['app_id']}/sandbox", {"ports": [3000]})
    error = assert_error(answer, 409, "sandbox_exists", retryable=False)
    assert sandbox["id"] in error["message"]


def test_of_two_creates_at_once_one_wins(apps, api, stack):
    app = apps.app()
    api.make_sandbox(apps.app()["id"])  # the image is there from here on
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: api.post(f"/v1/apps/{app['id']}/sandbox", {"ports": [3000]}), range(6)))
    assert sorted(a.status_code for a in answers) == [201] + [409] * 5, [a.text for a in answers]
    winner = next(a.json() for a in answers if a.status_code == 201)
    rows = [c for c in docker.containers(stack.data) if c == f"s-{winner['id']}"]
    assert len(rows) == 1


def test_several_sandboxes_start_side_by_side(apps, api, preview):
    made = [apps.app()["id"] for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        sandboxes = list(pool.map(api.make_sandbox, made))
    assert len({s["id"] for s in sandboxes}) == 4
    for sandbox in sandboxes:
        assert preview.wait_answer(sandbox["id"]).status_code == 200


# --- stop and start -------------------------------------------------------------------------------


def test_stop_keeps_files_and_container_and_ends_with_0(apps, stack, api):
    sandbox = apps.sandbox()
    stack.preview.wait_answer(sandbox["id"])
    stack.put_file(sandbox["id"], "kept.txt", "kept")
    stopped = api.post(f"/v1/sandboxes/{sandbox['id']}/stop")
    assert stopped.status_code == 200, stopped.text
    assert stopped.json()["status"] == "stopped" and stopped.json()["id"] == sandbox["id"]
    state = docker.inspect(sandbox["id"])["State"]
    assert state["Status"] == "exited"
    assert state["ExitCode"] == 0, "137 and OOMKilled keep their meaning"
    apps.start(sandbox["id"])
    assert docker.state(sandbox["id"]) == "running"
    assert (stack.app_dir(sandbox["id"]) / "kept.txt").read_text(encoding="utf-8") == "kept"


def test_stop_is_quick_with_a_plain_server(apps, stack, api):
    sandbox = apps.sandbox()
    stack.preview.wait_answer(sandbox["id"])
    start = time.monotonic()
    apps.stop(sandbox["id"])
    assert time.monotonic() - start < 5


def test_stop_and_start_can_be_repeated(apps, api):
    sandbox = apps.sandbox()
    for _ in range(3):
        assert api.post(f"/v1/sandboxes/{sandbox['id']}/stop").status_code == 200
    for _ in range(3):
        assert api.post(f"/v1/sandboxes/{sandbox['id']}/start").status_code == 200
    assert docker.state(sandbox["id"]) == "running"


def test_stops_and_starts_at_once_leave_row_and_container_of_one_mind(apps, api):
    sandbox = apps.sandbox()
    verbs = ["stop", "start"] * 6
    random.shuffle(verbs)
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda v: api.post(f"/v1/sandboxes/{sandbox['id']}/{v}"), verbs))
    assert all(a.status_code in (200, 202, 409) for a in answers), [(a.status_code, a.text) for a in answers]
    settled(api, sandbox["id"])


def settled(api, sandbox_id):
    """Row and container say the same, whatever it is."""
    pairs = {"running": "running", "stopped": "exited"}

    def agree():
        row = api.sandbox(sandbox_id)["status"]
        return row in pairs and docker.state(sandbox_id) == pairs[row] and api.sandbox(sandbox_id)["status"] == row

    wait_until(agree, SETTLE_SECONDS_MAX, lambda: f"{api.sandbox(sandbox_id)['status']} beside {docker.state(sandbox_id)}")


# --- delete ---------------------------------------------------------------------------------------


def test_delete_of_a_sandbox_removes_container_and_files_and_keeps_the_app(apps, stack, api):
    sandbox = apps.sandbox()
    answer = api.delete(f"/v1/sandboxes/{sandbox['id']}")
    assert answer.status_code == 204, answer.text
    assert docker.state(sandbox["id"]) == "missing"
    assert not stack.workspace(sandbox["id"]).exists()
    for role in ("control", "in", "out", "etc"):
        assert not (stack.data / "run" / role / sandbox["id"]).exists(), role
    assert api.get(f"/v1/apps/{sandbox['app_id']}").json()["sandbox"] is None
    assert api.delete(f"/v1/sandboxes/{sandbox['id']}").status_code == 204, "repeated while the app is known"
    again = api.make_sandbox(sandbox["app_id"])
    assert again["id"] != sandbox["id"]
    assert stack.preview.wait_answer(again["id"]).status_code == 200


def test_delete_of_an_app_removes_everything_under_it(apps, stack, api):
    sandbox = apps.sandbox()
    assert api.delete(f"/v1/apps/{sandbox['app_id']}").status_code == 204
    apps.made.remove(sandbox["app_id"])
    assert docker.state(sandbox["id"]) == "missing"
    assert not stack.workspace(sandbox["id"]).exists()
    assert_error(api.get(f"/v1/sandboxes/{sandbox['id']}"), 404, "not_found")
    assert_error(api.delete(f"/v1/sandboxes/{sandbox['id']}"), 404, "not_found")


def test_a_workspace_that_fights_back_is_deleted_too(apps, stack, api):
    """Deep folders, no permissions, links out of it: files of others stay."""
    sandbox = apps.sandbox()
    outside = stack.data / "outside.txt"
    outside.write_text("stays", encoding="utf-8")
    script = f"cd ~ && mkdir -p locked/a && chmod 000 locked && ln -s {outside} link && ln -s / root && mkfifo pipe && " + (
        'd=.; for i in $(seq 300); do d=$d/deep; done; mkdir -p "$d" && touch "$d/file"'
    )
    docker.run_inside(sandbox["id"], "sh", "-c", script)
    assert api.delete(f"/v1/sandboxes/{sandbox['id']}").status_code == 204
    assert not stack.workspace(sandbox["id"]).exists()
    assert outside.read_text(encoding="utf-8") == "stays"


# --- others touch our containers ------------------------------------------------------------------


def test_a_container_stopped_by_hand_is_stopped_within_seconds(apps, api):
    sandbox = apps.sandbox()
    docker.docker("stop", "-t", "5", f"s-{sandbox['id']}")
    api.wait_sandbox(sandbox["id"], "stopped", seconds=SETTLE_SECONDS_MAX)
    apps.start(sandbox["id"])


def test_a_container_removed_by_hand_is_made_anew_with_its_files(apps, stack, api):
    sandbox = apps.sandbox()
    stack.preview.wait_answer(sandbox["id"])
    stack.put_file(sandbox["id"], "kept.txt", "kept")
    docker.docker("rm", "-f", f"s-{sandbox['id']}")
    api.wait_sandbox(sandbox["id"], "stopped", "error", seconds=SETTLE_SECONDS_MAX)
    assert stack.preview.get(sandbox["id"]).status_code == 200, "the first request wakes it"
    assert (stack.app_dir(sandbox["id"]) / "kept.txt").read_text(encoding="utf-8") == "kept"


def test_a_pruned_network_is_made_anew_at_the_next_start(model, apps_of):
    from tests.integration.harness import networks_of

    with Stack(model=model) as own_stack:
        apps = apps_of(own_stack)
        sandbox = apps.sandbox()
        apps.stop(sandbox["id"])
        for network in networks_of(own_stack.bridge):
            docker.docker("network", "rm", network)
        apps.start(sandbox["id"])
        assert own_stack.preview.wait_answer(sandbox["id"]).status_code == 200
        apps.delete_all()


# --- crashes --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def crashing(model):
    """A stack that may be killed as often as a test likes."""
    with Stack(model=model) as running:
        yield running


def in_background(call):
    """Runs a call that will be cut by a crash; its outcome does not matter."""

    def quiet():
        try:
            call()
        except OSError:
            pass

    thread = threading.Thread(target=quiet, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("role", ["control", "engine"])
@pytest.mark.parametrize("verb", ["start", "stop", "delete"])
@pytest.mark.parametrize("after_ms", [0, 30, 150, 500])
def test_a_crash_in_the_middle_of_a_step_is_finished_by_the_next_start(crashing, apps_of, role, verb, after_ms):
    apps = apps_of(crashing)
    api = crashing.api
    sandbox = apps.sandbox()
    if verb == "start":
        apps.stop(sandbox["id"])
    path = f"/v1/sandboxes/{sandbox['id']}"
    thread = in_background(lambda: api.delete(path) if verb == "delete" else api.post(f"{path}/{verb}"))
    time.sleep(after_ms / 1000)
    crashing.kill9_and_start(role)
    thread.join(60)
    if verb == "delete":
        wait_until(lambda: api.delete(path).status_code == 204, 30, lambda: f"{api.delete(path).text}")
        assert docker.state(sandbox["id"]) == "missing"
        assert not crashing.workspace(sandbox["id"]).exists()
    else:
        settled(api, sandbox["id"])
        wait_until(lambda: api.post(f"{path}/{verb}").status_code == 200, 30, lambda: api.post(f"{path}/{verb}").text)
        settled(api, sandbox["id"])
        wanted = "running" if verb == "start" else "stopped"
        assert api.sandbox(sandbox["id"])["status"] == wanted
    apps.delete_all()


@pytest.mark.parametrize("after_ms", [0, 50, 200, 600])
def test_a_crash_while_a_sandbox_is_made_leaves_one_or_none(crashing, apps_of, after_ms):
    apps = apps_of(crashing)
    others = set(docker.containers(crashing.data))
    app = apps.app()
    path = f"/v1/apps/{app['id']}/sandbox"
    thread = in_background(lambda: crashing.api.post(path, {"ports": [3000]}))
    time.sleep(after_ms / 1000)
    crashing.kill9_and_start("control")
    thread.join(60)

    def one_of_a_mind():
        row = crashing.api.get(f"/v1/apps/{app['id']}").json()["sandbox"]
        found = sorted(set(docker.containers(crashing.data)) - others)
        if row is None:
            return found == []
        return found == [f"s-{row['sandbox_id']}"] and row["status"] in ("running", "stopped", "error")

    wait_until(one_of_a_mind, 30, lambda: (crashing.api.get(f"/v1/apps/{app['id']}").text, docker.containers(crashing.data)))
    row = crashing.api.get(f"/v1/apps/{app['id']}").json()["sandbox"]
    sandbox_id = row["sandbox_id"] if row else crashing.api.make_sandbox(app["id"])["id"]
    assert crashing.preview.wait_answer(sandbox_id).status_code == 200
    apps.delete_all()
    assert set(docker.containers(crashing.data)) <= others
    assert {f"s-{path.name}" for path in (crashing.data / "workspaces").iterdir() if path.is_dir()} <= others


def test_running_previews_go_on_without_the_control_plane(crashing, apps_of):
    apps = apps_of(crashing)
    sandbox = apps.sandbox()
    crashing.preview.wait_answer(sandbox["id"])
    crashing["control"].kill9()
    for _ in range(20):
        assert crashing.preview.get(sandbox["id"]).status_code == 200
    crashing["control"].start()
    crashing.wait_ready()
    assert crashing.preview.get(sandbox["id"]).status_code == 200
    apps.delete_all()


def test_a_restarted_preview_proxy_serves_running_apps_even_alone(crashing, apps_of):
    apps = apps_of(crashing)
    sandbox = apps.sandbox()
    crashing.preview.wait_answer(sandbox["id"])
    time.sleep(3)  # the proxy keeps its route table; it is written within seconds
    crashing["control"].kill9()
    crashing["preview"].kill9()
    crashing["preview"].start()
    wait_until(lambda: crashing._preview_listens(), 20, "the preview proxy listens")
    assert crashing.preview.wait_answer(sandbox["id"], seconds=20).status_code == 200
    crashing["control"].start()
    crashing.wait_ready()
    apps.delete_all()


def test_what_was_true_of_the_engine_counts_no_more_when_its_program_died(crashing):
    """Or /readyz says ready for a second, and the call that believes it is refused."""
    broke = "event stream broke"

    def follows():
        log = crashing["control"].log()
        return log.rfind("the engine is up") > log.rfind(broke)

    wait_until(follows, 15, "sandboxd follows the engine")
    before = crashing["control"].log().count(broke)
    assert crashing.ready().status_code == 200
    crashing["engine"].kill9()
    wait_until(lambda: crashing["control"].log().count(broke) > before, 10, "the end of the stream is seen")
    assert crashing.ready().status_code == 503
    crashing["engine"].start()
    crashing.wait_ready()


def test_without_the_engine_program_the_api_says_so_and_recovers(crashing, apps_of):
    apps = apps_of(crashing)
    sandbox = apps.sandbox()
    apps.stop(sandbox["id"])
    crashing["engine"].kill9()
    wait_until(lambda: crashing.ready().status_code == 503, 15, "/readyz is 503")
    answer = crashing.api.post(f"/v1/sandboxes/{sandbox['id']}/start")
    assert_error(answer, 503, "engine_unavailable", retryable=True)
    assert crashing.api.get("/healthz", token=None).status_code == 200
    crashing["engine"].start()
    crashing.wait_ready()
    apps.start(sandbox["id"])
    apps.delete_all()
