"""From nothing to a running product, and back: one story on each empty machine, in this order."""

import json
import re
import subprocess
import time

import pytest

from tests.install.story import SERVICES, block, last_id
from tests.install.visitors import CountingApp, LongDownload, Visitors


def console_address(words):
    return re.search(r"Console +(http://console\.localhost\S*)", words)[1]


# ---- before anything is there -----------------------------------------------------------------------------


def test_without_a_terminal_and_without_yes_nothing_changes(story):
    before = story.machine.out("dpkg -l | sha256sum; ls -A /root /home /var/lib | sha256sum")
    done = story.install(check=False, yes=False)
    assert done.returncode == 1
    assert re.search(r"missing here: .*git.*docker.*compose", done.stdout) and "nothing was changed" in done.stdout
    assert story.machine.out("dpkg -l | sha256sum; ls -A /root /home /var/lib | sha256sum") == before


def test_an_unknown_ref_stops_before_anything_changes(story):
    done = story.install(check=False, ref="no-such-tag")
    assert done.returncode == 1 and "SANDBOXD_REF=no-such-tag is no tag, branch or commit" in done.stdout
    assert "nothing was changed" in done.stdout
    assert story.machine.sh("command -v dockerd", check=False).returncode != 0
    assert story.machine.sh(f"test -e {story.src}/.env", check=False).returncode != 0


def test_a_taken_port_is_named_with_its_owner_and_the_line(story):
    listen = "use IO::Socket::INET; my $s = IO::Socket::INET->new(LocalPort => 80, Listen => 1, ReuseAddr => 1) or die; sleep 9999"
    story.machine.sh(f"perl -e '{listen}' </dev/null >/dev/null 2>&1 & echo $! >/run/listener")
    done = story.install(check=False)
    pid = story.machine.out("cat /run/listener")
    found = re.search(r"port 80 is taken by perl \(pid (\d+)\).*?line (\d+) of (\S+?),", done.stdout, re.S)
    assert done.returncode == 1 and found, done.stdout
    assert found[1] == pid and found[3] == f"{story.src}/.env"
    assert story.out(f"sed -n {found[2]}p {story.src}/.env") == "HTTP_PORT=80"
    assert story.containers() == {}
    story.machine.sh(f"kill {pid}")


# ---- the first command -------------------------------------------------------------------------------------


def test_the_first_command_ends_with_a_running_product(story):
    done = story.install()
    words = done.stdout
    env = story.env()
    story.token = env["SANDBOXD_API_TOKENS"].split("=", 1)[1]
    assert re.fullmatch(r"sk_[A-Za-z0-9_-]{32,}", story.token)
    assert story.out("curl -s http://127.0.0.1:9090/healthz") == "ok"
    assert re.fullmatch(r"http://console\.localhost/#setup=\S{20,}", console_address(words))
    assert re.search(r"ssh -L 8080:127\.0\.0\.1:80 (ann|root)@[\d.]+ -p \d+", words)
    assert "http://console.localhost:8080/#setup=" in words
    assert "http://127.0.0.1:9090" in words and story.token in words and "/var/lib/sandboxed" in words
    commit = story.out(f"git -c safe.directory='*' -C {story.src} rev-parse HEAD")
    assert f"SANDBOXD_REF={commit}" in words and "curl http://127.0.0.1:9090/healthz" in words
    assert ("sudo docker-compose" in words) == bool(story.user)


def test_env_belongs_to_the_person_alone(story):
    assert story.machine.out(f"stat -c '%a %U' {story.src}/.env") == f"600 {story.user or 'root'}"


def test_five_services_run_and_compose_shows_them_without_flags(story):
    assert set(story.containers()) == set(SERVICES)
    shown = story.compose("ps")
    for name in SERVICES:
        assert name in shown
    assert story.compose("logs sandboxd")


def test_the_console_answers_on_this_machine(story):
    assert "<html" in story.out("curl -s -H 'Host: console.localhost' http://127.0.0.1/").lower()
    assert story.out("curl -s -o /dev/null -w '%{http_code}' -H 'Host: console.localhost.' http://127.0.0.1/") == "404"


def test_health_checks_come_out_well(story):
    end = time.monotonic() + 120
    while True:
        rows = story.docker("ps", "--filter", "label=com.docker.compose.project=sandboxd", "--format",
                            '{{.Label "com.docker.compose.service"}} {{.Status}}').splitlines()
        if len(rows) == 5 and all("(healthy)" in row for row in rows):
            return
        assert time.monotonic() < end and not any("unhealthy" in row for row in rows), rows
        time.sleep(2)


def test_the_environment_of_every_container_holds_only_what_it_may(story):
    ids = story.containers()
    for name, identity in ids.items():
        facts = json.loads(story.docker("inspect", identity))[0]
        configured = dict(line.split("=", 1) for line in facts["Config"]["Env"])
        pid = facts["State"]["Pid"]
        running = dict(line.split("=", 1) for line in story.machine.out(f"tr '\\0' '\\n' </proc/{pid}/environ").splitlines() if "=" in line)
        for found in (configured, running):
            ours = {key: value for key, value in found.items() if key.startswith("SANDBOXD_") and value}
            if name in ("sandboxd", "sandboxd-engine"):
                assert ours["SANDBOXD_API_TOKENS"].endswith(story.token)
            else:
                assert ours == {}
                assert story.token not in " ".join(found.values())
    assert not set(story.docker("inspect", "-f", "{{.HostConfig.Privileged}}", *ids.values()).split()) - {"false"}


def test_a_token_of_the_shell_changes_nothing(story):
    before = story.containers()
    assert "rror" not in story.out(
        f"cd {story.src} && export SANDBOXD_TOKEN=sk_other && {'sudo -E ' if story.user else ''}"
        f"{'docker-compose' if story.machine.suite == 'bookworm' else 'docker compose'} up -d 2>&1", timeout=300)
    assert story.containers() == before


# ---- the block ----------------------------------------------------------------------------------------------


def test_a_changed_setting_needs_only_up(story):
    url = f"http://{story.out('ip -4 route show default').split()[2]}:{story.model.port}"
    story.set_env(SANDBOXD_PROVIDER_ZEN_BASE_URL=f"{url}/zen/v1", SANDBOXD_PROVIDER_ANTHROPIC_BASE_URL=f"{url}/anthropic")
    before = story.containers()
    story.compose("up -d")
    after = story.containers()
    assert after["sandboxd"] != before["sandboxd"] and after["preview-proxy"] == before["preview-proxy"]
    wait_ready(story)


def wait_ready(story):
    end = time.monotonic() + 120
    while story.sh("curl -fsS http://127.0.0.1:9090/readyz", check=False).returncode != 0:
        assert time.monotonic() < end, story.out("curl -sS http://127.0.0.1:9090/readyz 2>&1 || true") + story.compose("logs --tail 15")
        time.sleep(1)


class Shell:
    """One bash of the person on the machine that keeps its variables from line to line."""

    END = "__END_OF_OUTPUT__"

    def __init__(self, story):
        self.process = subprocess.Popen(["docker", "exec", "-i", "-u", story.user or "root", story.machine.name, "bash"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def run(self, line):
        self.process.stdin.write(f"{line}\necho; echo {self.END} $?\n")
        self.process.stdin.flush()
        output = []
        while True:
            text = self.process.stdout.readline()
            assert text, f"bash ended at: {line}"
            if text.startswith(self.END):
                return "".join(output).strip()
            output.append(text)

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)


def run_block(story):
    """To the letter; only what a person replaces is replaced. The installer's lines ran before."""
    shell, seen = Shell(story), {}
    for line in block():
        if "install-sandboxd.sh" in line or not line.strip():
            continue
        line = re.sub(r"(SANDBOXD_TOKEN=)\S+", rf"\g<1>{story.token}", line).replace("sk-ant-...", "sk-ant-planted-0123456789")
        line = line.replace("<task id>", seen.get("task", "<task id>"))
        if line.startswith("#"):
            seen["preview"] = visit(story, seen)
            continue
        note(story, seen, line, shell.run(line))
    shell.close()
    return seen


def visit(story, seen):
    """The address that a person opens: asleep or awake, it answers."""
    url = f"http://s-{seen['sandbox']}-3000.preview.localhost/"
    end = time.monotonic() + 120
    while True:
        status = story.out(f"curl -s -m 60 -o /dev/null -w '%{{http_code}}' {url}")
        if status == "200":
            return story.out(f"curl -s -m 60 {url}src/App.tsx")
        assert time.monotonic() < end, f"{url} answers {status}"
        time.sleep(1)


def note(story, seen, line, output):
    if "/healthz" in line:
        assert output == "ok"
    elif line.startswith("echo "):
        found = re.search(r"app=([0-9a-z]{26}) sandbox=([0-9a-z]{26})$", output)
        assert found, output
        seen["app"], seen["sandbox"] = found.groups()
    elif "/tasks -H" in line and "-XPOST" in line:
        assert '"error"' not in output.replace('"error":null', ""), output
        seen["task"] = last_id(output)
    elif "/events" in line:
        assert re.search(r"event: ?done", output), output[-3000:]
        assert '"status":"succeeded"' in story.api("GET", f"/v1/sandboxes/{seen['sandbox']}/tasks/{seen['task']}")
    elif "/stop" in line:
        assert '"error":{' not in output, output


def test_the_block_runs_to_the_letter(story):
    story.model.forget()
    seen = run_block(story)
    assert story.model.posts(), "the agent never asked the model"
    assert "localStorage" in seen["preview"]
    assert story.docker("ps", "-aq", "--filter", "label=sandboxd.instance=/var/lib/sandboxed") == ""
    assert story.machine.out("ls /var/lib/sandboxed/workspaces") == ""


def test_the_planted_key_is_in_no_log(story):
    for name in SERVICES:
        logs = story.machine.out(f"docker logs {story.containers()[name]} 2>&1 | grep -c sk-ant-planted || true")
        assert logs == "0", name


# ---- again ----------------------------------------------------------------------------------------------------


def test_a_second_run_changes_nothing(story):
    before, env = story.containers(), story.out(f"cat {story.src}/.env")
    done = story.install()
    assert story.containers() == before
    assert story.out(f"cat {story.src}/.env") == env
    assert "sandboxd runs." in done.stdout and "building" not in done.stdout


def test_the_block_runs_again(story):
    run_block(story)
    assert json.loads(story.api("GET", "/v1/apps"))["apps"] == []


# ---- restarts ------------------------------------------------------------------------------------------------------

VISITORS = 5


def test_the_preview_proxy_made_anew_by_compose_loses_and_doubles_nothing(story):
    story.counts = CountingApp(story)
    before = story.containers()
    with Visitors(story.machine, story.counts.url, VISITORS) as visitors:
        download = LongDownload(story.machine, story.counts.url)
        time.sleep(2)
        story.compose("up -d --force-recreate preview-proxy")
        time.sleep(2)
    after = story.containers()
    assert after.pop("preview-proxy") != before.pop("preview-proxy") and after == before
    assert {name: told for name, told in visitors.answers.items() if told != "200"} == {}
    came = story.counts.came()
    assert len(visitors.answers) > VISITORS * 3
    assert {name: came[name] for name in visitors.answers if came[name] != 1} == {}
    assert download.status() == LongDownload.CUT and came["/drip"] == 1, "it kept the proxy for as long as anything can"


@pytest.mark.parametrize("signal", ["TERM", "KILL"])
def test_everything_is_back_by_itself_when_docker_is(story, signal):
    before = story.containers()
    story.machine.end_docker(signal)
    assert story.counts.get("/hello")[0] == (0 if signal == "TERM" else 200)
    story.machine.sh(f"bash {story.src}/scripts/engine.sh")
    assert story.counts.wait("/hello", 90) == "hello"
    wait_ready(story)
    assert story.containers() == before


def test_the_app_that_counts_goes_again(story):
    story.counts.delete()
    assert json.loads(story.api("GET", "/v1/apps"))["apps"] == []


# ---- upgrade -----------------------------------------------------------------------------------------------------


def test_an_upgrade_takes_edits_along_and_keeps_apps(story):
    story.kept = last_id(story.api("POST", "/v1/apps", '{"name":"kept","runtime_preset":"react-vite"}'))
    story.sh(f"cd {story.src} && sed -i 's/readTimeout: 10m/readTimeout: 11m/' traefik/traefik.yml")
    old = story.docker("image", "inspect", "-f", "{{.Id}}", "sandboxd:current")
    new = story.commit("newer", {"docs/newer.md": "newer\n", "traefik/traefik.yml": lambda text: text.replace("level: ERROR", "level: WARN")})
    done = story.install(ref="main")
    assert new in done.stdout and story.out(f"git -c safe.directory='*' -C {story.src} rev-parse HEAD") == new
    edited = story.out(f"cat {story.src}/traefik/traefik.yml")
    assert "readTimeout: 11m" in edited and "level: WARN" in edited
    assert story.docker("image", "inspect", "-f", "{{.Id}}", "sandboxd:previous") == old
    assert new[:12] in story.docker("image", "ls", "--format", "{{.Tag}}", "sandboxd")
    assert story.kept in story.api("GET", "/v1/apps")
    assert story.env()["SANDBOXD_API_TOKENS"].endswith(story.token)


def test_an_edit_that_does_not_fit_stops_before_anything_changes(story):
    before = story.containers(), story.out(f"cd {story.src} && git -c safe.directory='*' status --porcelain; cat traefik/traefik.yml")
    story.commit("conflict", {"traefik/traefik.yml": lambda text: text.replace("readTimeout: 10m", "readTimeout: 12m")})
    done = story.install(ref="main", check=False)
    assert done.returncode == 1 and "traefik/traefik.yml" in done.stdout and "nothing was changed" in done.stdout
    assert (story.containers(), story.out(f"cd {story.src} && git -c safe.directory='*' status --porcelain; cat traefik/traefik.yml")) == before
    assert story.out("curl -s http://127.0.0.1:9090/healthz") == "ok"


# ---- an owner's edge -----------------------------------------------------------------------------------------------


def test_an_addition_works_and_a_broken_one_hurts_nobody(story):
    story.sh(f"printf 'http: [' >{story.src}/traefik/dynamic/broken.yml; chmod a+r {story.src}/traefik/dynamic/broken.yml")
    story.sh(f"cp {story.src}/traefik/dynamic/tls.yml {story.src}/traefik/dynamic/closed.yml; chmod 600 {story.src}/traefik/dynamic/closed.yml")
    # Traefik's own service for nothing answers 418: no other router does.
    story.sh(f"""cat >{story.src}/traefik/dynamic/mine.yml <<'END'
http:
  routers:
    mine: {{rule: "Host(`mine.test`)", service: "noop@internal"}}
END
chmod a+r {story.src}/traefik/dynamic/mine.yml""")
    story.compose("restart traefik")
    end = time.monotonic() + 60
    while story.out("curl -s -o /dev/null -w '%{http_code}' -H 'Host: mine.test' http://127.0.0.1/ || true") != "418":
        assert time.monotonic() < end, story.compose("logs --tail 20 traefik")
        time.sleep(0.5)
    assert "<html" in story.out("curl -s -H 'Host: console.localhost' http://127.0.0.1/").lower()
    identity = story.containers()["traefik"]
    started = story.docker("inspect", "-f", "{{.State.StartedAt}}", identity)
    logs = story.machine.out(f"docker logs --since {started} {identity} 2>&1")
    assert len(re.findall(r"traefik/dynamic/broken\.yml is broken and left out", logs)) == 1
    # Root's own file is readable for root; somebody else's of mode 600 is not.
    assert ("traefik/dynamic/closed.yml cannot be read" in logs) == bool(story.user)
    story.sh(f"cd {story.src}/traefik/dynamic && rm broken.yml closed.yml mine.yml")
    story.compose("restart traefik")


# ---- firewall ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("port", [9080, 9090, 9091])
def test_loopback_ports_answer_nothing_from_outside(story, port):
    assert story.outside(port) == 0


def test_from_outside_the_edge_says_nothing(story):
    wait_edge(story)
    assert story.outside(80) == 404
    assert story.outside(80, host="console.localhost") == 404
    assert story.outside(80, host="s-00000000000000000000000000-3000.preview.localhost") == 404


def wait_edge(story):
    end = time.monotonic() + 60
    while story.out("curl -s -o /dev/null -w '%{http_code}' -H 'Host: console.localhost' http://127.0.0.1/ || true") != "200":
        assert time.monotonic() < end
        time.sleep(0.5)


def test_the_block_runs_behind_a_default_drop_firewall(story):
    story.machine.sh(
        "iptables -A INPUT -i lo -j ACCEPT && iptables -A INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT"
        " && for port in 22 80 443; do iptables -A INPUT -p tcp --dport $port -j ACCEPT; done && iptables -P INPUT DROP")
    run_block(story)
    assert story.outside(80) == 404
    assert [story.outside(port, timeout=2) for port in (9080, 9090, 9091)] == [0, 0, 0]


# ---- leaving ---------------------------------------------------------------------------------------------------------


def uninstall(story, words):
    return story.out(f"cd {story.src} && ./uninstall.sh --yes {words} </dev/null 2>&1", timeout=600)


def test_uninstall_keeps_the_data_and_install_brings_it_back(story):
    last_id(story.api("POST", f"/v1/apps/{story.kept}/sandbox", '{"ports":[3000]}'))
    words = uninstall(story, "--keep-images")
    assert "Kept: the data in /var/lib/sandboxed" in words
    assert story.docker("ps", "-aq") == ""
    assert "sbx0" not in story.docker("network", "ls", "--format", "{{.Name}}").splitlines()
    assert story.machine.sh("ip link show sbx0", check=False).returncode != 0
    story.install(ref=story.out(f"git -c safe.directory='*' -C {story.src} rev-parse HEAD") if story.user else None)
    assert story.kept in story.api("GET", "/v1/apps")


def test_uninstall_with_data_leaves_nothing_of_ours(story):
    words = uninstall(story, "--data")
    assert "removed, with its data" in words
    assert story.docker("ps", "-aq") == ""
    images = story.docker("image", "ls", "--format", "{{.Repository}}").splitlines()
    assert [name for name in images if name.startswith("sandboxd")] == []
    assert story.machine.out("ls -A /var/lib/sandboxed 2>/dev/null || true") == ""
    assert story.machine.sh(f"test -e {story.src}/.env", check=False).returncode != 0
    story.machine.sh("command -v nft >/dev/null || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nftables",
                     timeout=300)
    assert "sandboxd" not in story.machine.out("nft list tables")
