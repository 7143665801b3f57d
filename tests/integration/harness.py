"""A whole sandboxd on this machine: real programs, real Docker, its own data directory and bridge.

Several may run beside each other: every stack has ports, directory, bridge and user ids of its own.
What a stack made is removed at its end; what a killed test run left is removed by the next one.
"""

import json
import os
import random
import secrets
import shutil
import subprocess
import time
from pathlib import Path

import requests
import yaml

from tests.integration import docker as engine
from tests.integration.client import Api, Preview
from tests.integration.programs import (
    ROOT,
    TEST_DIR,
    Program,
    copy_programs,
    free_port,
    start_time,
)

READY_SECONDS_MAX = 60
START_ORDER = ("engine", "control", "preview", "credentials")
UID_BASE_FIRST = 2_000_000_000
UID_BASE_STEP = 200_000
UID_BASE_COUNT = 700
PREVIEW_UID_BELOW = 999
CREDENTIALS_UID_BELOW = 998


class Stack:
    """Use as a context manager. `settings` are settings of docs/protocols.md, section 1."""

    def __init__(self, model=None, settings=None, name=None):
        self.name = name or secrets.token_hex(3)
        self.data = TEST_DIR / self.name
        self.logs = TEST_DIR / f"{self.name}.logs"
        self.programs_dir = TEST_DIR / f"{self.name}.bin"
        self.share = TEST_DIR / f"{self.name}.share"
        self.owner_file = TEST_DIR / f"{self.name}.owner"
        self.bridge = f"sbt{secrets.token_hex(2)}"
        self.token = f"sk_{secrets.token_hex(20)}"
        self.uid_base = UID_BASE_FIRST + UID_BASE_STEP * random.randrange(1, UID_BASE_COUNT)
        self.api_port, self.console_port, self.preview_port, self.http_port = (free_port() for _ in range(4))
        self.model = model
        self.secrets = [self.token]
        self.settings = {**self._settings(), **(settings or {})}
        self.api = Api(self.api_port, self.token)
        self.preview = Preview(self.preview_port, self.settings.get("PREVIEW_DOMAIN", "localhost"))
        self.programs = {}

    def _settings(self):
        found = {
            "SANDBOXD_DATA_DIR": str(self.data),
            "API_PORT": str(self.api_port),
            "CONSOLE_PORT": str(self.console_port),
            "PREVIEW_PORT": str(self.preview_port),
            "HTTP_PORT": str(self.http_port),
            "SANDBOXD_API_TOKENS": f"test={self.token}",
            "SANDBOXD_UID_BASE": str(self.uid_base),
            "SANDBOXD_BRIDGE": self.bridge,
            "SANDBOXD_PRESETS_DIR": str(self.share / "presets"),
            "SANDBOXD_CONSOLE_DIR": str(ROOT / "console" / "dist"),
            "SANDBOXD_INIT_SOURCE": str(self.programs_dir / "sandboxd-init"),
            "SANDBOXD_LOG_LEVEL": "debug",
        }
        if self.model:
            found["SANDBOXD_PROVIDER_ZEN_BASE_URL"] = f"{self.model.base_url}/zen/v1"
            found["SANDBOXD_PROVIDER_ANTHROPIC_BASE_URL"] = f"{self.model.base_url}/anthropic"
            found["SANDBOXD_PROVIDER_OPENAI_BASE_URL"] = f"{self.model.base_url}/openai/v1"
        return found

    # --- life ---------------------------------------------------------------------------------

    def __enter__(self):
        try:
            self.prepare()
            for role in START_ORDER:
                self.programs[role].start()
            self.wait_ready()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, kind, _error, _trace):
        try:
            if kind is None:
                self.stop()
                self.assert_clean()
        finally:
            self.remove()

    def prepare(self):
        """Directories and programs; nothing runs yet. Docker may have made the data directory: 0755."""
        self.data.mkdir(mode=0o755, parents=True)
        self.logs.mkdir(mode=0o755)
        self.owner_file.write_text(
            json.dumps({"pid": os.getpid(), "start": start_time(os.getpid()), "bridge": self.bridge}), encoding="utf-8"
        )
        copy_programs(self.programs_dir)
        self._install_share()
        data = str(self.data)
        self._add("engine", [], self.settings, 0)
        self._add("control", [], self.settings, 0)
        preview = ["--data-dir", data, "--port", str(self.preview_port)]
        self._add("preview", preview, {}, self.uid_base - PREVIEW_UID_BELOW)
        credentials = ["--data-dir", data]
        self._add("credentials", credentials, {}, self.uid_base - CREDENTIALS_UID_BELOW)

    def _install_share(self):
        """The folder that the product's image has as /usr/share/sandboxd."""
        shutil.copytree(ROOT / "presets", self.share / "presets", symlinks=True)
        written = ROOT / "docs" / "openapi.yaml"
        if written.exists():
            described = yaml.safe_load(written.read_text(encoding="utf-8"))
            text = json.dumps(described, separators=(",", ":"), default=str)
            (self.share / "openapi.json").write_text(text, encoding="utf-8")

    def _add(self, role, args, env, uid):
        log = self.logs / f"{role}.log"
        level = {"SANDBOXD_LOG_LEVEL": self.settings["SANDBOXD_LOG_LEVEL"]}
        self.programs[role] = Program(role, self.programs_dir, args, {**level, **env}, uid, log)

    def __getitem__(self, role):
        return self.programs[role]

    def ready(self):
        try:
            return requests.get(f"{self.api.base}/readyz", timeout=5)
        except requests.ConnectionError:
            return None

    def wait_ready(self, seconds=READY_SECONDS_MAX):
        end = time.monotonic() + seconds
        while True:
            answer = self.ready()
            if answer is not None and answer.status_code == 200 and self._preview_listens():
                return
            for program in self.programs.values():
                program.assert_alive()
            if time.monotonic() > end:
                said = answer.text if answer is not None else "no answer"
                raise AssertionError(f"/readyz after {seconds} s: {said}\n{self.tails()}")
            time.sleep(0.1)

    def _preview_listens(self):
        try:
            requests.get(f"http://127.0.0.1:{self.preview_port}/", headers={"host": "nobody.invalid"}, timeout=5)
        except requests.ConnectionError:
            return False
        return True

    def restart(self, role):
        self.programs[role].stop()
        self.programs[role].start()
        self.wait_ready()

    def kill9_and_start(self, role):
        self.programs[role].kill9()
        self.programs[role].start()
        self.wait_ready()

    def stop(self):
        """In the order that Compose takes: who depends on others first."""
        for role in reversed(START_ORDER):
            if role in self.programs:
                self.programs[role].stop()

    # --- what holds at the end ----------------------------------------------------------------

    def tails(self):
        return "\n".join(program.tail() for program in self.programs.values())

    def assert_clean(self):
        """No sanitiser report and no secret in any log of ours."""
        for program in self.programs.values():
            program.assert_no_report()
        for secret in self.secrets:
            for path in self.logs.iterdir():
                text = path.read_text(encoding="utf-8", errors="replace")
                assert secret not in text, f"a secret of the test stands in {path.name}"

    def remove(self):
        for program in self.programs.values():
            program.discard()
        remove_leftovers(self.name, self.bridge)

    # --- the sandbox seen from the host -------------------------------------------------------

    def workspace(self, sandbox_id):
        return self.data / "workspaces" / sandbox_id

    def app_dir(self, sandbox_id):
        return self.workspace(sandbox_id) / "workspace" / "app"

    def put_file(self, sandbox_id, path, text):
        """Replaces a file of an app from outside, owned by the sandbox as if it had written it."""
        target = self.app_dir(sandbox_id) / path
        owner = self.workspace(sandbox_id).stat()
        missing = [folder for folder in target.parents if not folder.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        for folder in missing:
            os.chown(folder, owner.st_uid, owner.st_gid)
        target.write_text(text, encoding="utf-8")
        os.chown(target, owner.st_uid, owner.st_gid)

    def secret(self, prefix):
        """A secret of this test; found in a log at the end, it fails the stack."""
        value = f"{prefix}{secrets.token_hex(16)}"
        self.secrets.append(value)
        return value

    def keep(self, value):
        """A secret that somebody else made: searched for at the end as well."""
        self.secrets.append(value)
        return value

    def events(self, **query):
        answer = self.api.get("/v1/events?" + "&".join(f"{k}={v}" for k, v in {"limit": 200, **query}.items()))
        assert answer.status_code == 200, answer.text
        return answer.json()["events"]


# --- clean-up -------------------------------------------------------------------------------------


def remove_leftovers(name, bridge):
    """Containers, network, nftables table, files of one stack. Repeatable."""
    data = TEST_DIR / name
    for container in engine.containers(data):
        engine.docker("rm", "-f", "-v", container, check=False)
    remove_network(bridge)
    remove_table(bridge)
    for path in (data, TEST_DIR / f"{name}.bin", TEST_DIR / f"{name}.share"):
        shutil.rmtree(path, ignore_errors=True)
    keep = os.environ.get("SANDBOXD_TEST_KEEP_LOGS")
    if not keep:
        shutil.rmtree(TEST_DIR / f"{name}.logs", ignore_errors=True)
    (TEST_DIR / f"{name}.owner").unlink(missing_ok=True)


def networks_of(bridge):
    """Docker networks on that bridge."""
    found = []
    for network in engine.docker("network", "ls", "-q", "--filter", "driver=bridge").split():
        text = engine.docker("network", "inspect", network, check=False).stdout
        for each in json.loads(text or "[]"):
            if (each.get("Options") or {}).get("com.docker.network.bridge.name") == bridge:
                found.append(each["Name"])
    return found


def remove_network(bridge):
    for network in networks_of(bridge):
        engine.docker("network", "rm", network, check=False)


def tables_of(bridge):
    """(family, name) of our nftables tables for a bridge."""
    done = subprocess.run(["nft", "-j", "list", "tables"], capture_output=True, text=True, timeout=30, check=True)
    tables = [o["table"] for o in json.loads(done.stdout)["nftables"] if "table" in o]
    return [(t["family"], t["name"]) for t in tables if t["name"] == f"sandboxd_{bridge}"]


def remove_table(bridge):
    for family, name in tables_of(bridge):
        subprocess.run(["nft", "delete", "table", family, name], timeout=30, check=False)


def sweep():
    """Removes what a killed test run left: stacks whose owner is gone."""
    for path in TEST_DIR.glob("*.owner"):
        try:
            owner = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, FileNotFoundError):
            continue
        if start_time(owner["pid"]) != owner["start"]:
            remove_leftovers(path.stem, owner["bridge"])
    engine.remove_orphans()
