"""What happens on one machine: who installs, from where, and how a person uses what is there then.

On Debian 13 root runs the README's first command in a checkout. On Debian 12 an ordinary user with
sudo and a umask of 077 runs the downloaded script, as the first lines of the README's block say.
"""

import pathlib
import re
import shlex

from tests.install.machine import Machine, docker

INSTALL_SECONDS_MAX = 3600
SERVICES = ("sandboxd", "sandboxd-engine", "traefik", "preview-proxy", "credentials-proxy")


class Story:
    def __init__(self, suite, origin, model):
        self.machine = Machine(suite)
        self.origin = origin
        self.model = model
        self.broken = None
        self.user = "ann" if suite == "bookworm" else None
        self.home = "/home/ann" if self.user else "/root"
        self.src = f"{self.home}/.sandboxd/src" if self.user else f"{self.home}/sandboxd"
        self.token = None

    def __enter__(self):
        self.machine.__enter__()
        try:
            self.machine.put(self.origin, "/srv/sandboxd.git")
            if self.user:
                self._make_user()
            else:
                self._put_checkout()
            # git serves a folder to its owner only.
            self.machine.sh(f"chown -R {self.user or 'root'}: /srv/sandboxd.git")
        except BaseException:
            self.machine.__exit__()
            raise
        return self

    def __exit__(self, *error):
        self.machine.__exit__(*error)

    def _make_user(self):
        self.machine.sh("apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends sudo"
                        " && useradd -m -s /bin/bash ann && echo 'ann ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/ann"
                        " && echo 'umask 077' >>/home/ann/.profile", timeout=600)
        self.machine.put(self.origin.parent / "install-sandboxd.sh", "/home/ann/install-sandboxd.sh")
        self.machine.sh("chown ann: /home/ann/install-sandboxd.sh")

    def _put_checkout(self):
        # As a person who cloned elsewhere and copied the folder: this machine has no git yet.
        checkout = self.origin.parent / "checkout"
        self.machine.put(checkout, self.src)
        self.machine.sh(f"chown -R root:root {self.src}")

    # ---- commands of the person -----------------------------------------------------------------

    def sh(self, commands, **options):
        return self.machine.sh(commands, user=self.user, **options)

    def out(self, commands, **options):
        return self.sh(commands, **options).stdout.rstrip("\n")

    def docker(self, *args):
        return self.machine.out(shlex.join(["docker", *args]))

    def install(self, check=True, yes=True, ref=None, **settings):
        """The installer as this person runs it; the finished process with both outputs in stdout."""
        if self.user:
            settings = {"SANDBOXD_REPO_URL": "/srv/sandboxd.git", "SANDBOXD_REF": ref or "v0-test", **settings}
            command = "umask 077; {} bash install-sandboxd.sh {}"
        else:
            settings = {**({"SANDBOXD_REF": ref} if ref else {}), **settings}
            command = f"cd {self.src}; {{}} {first_command()} {{}}"
        words = " ".join(f"{name}={shlex.quote(value)}" for name, value in settings.items())
        return self.sh(f"({command.format(words, '--yes' if yes else '')}) </dev/null 2>&1", check=check,
                       timeout=INSTALL_SECONDS_MAX)

    def compose(self, words):
        """Compose by the name that this machine has it under, as the installer printed it."""
        name = "docker-compose" if self.machine.suite == "bookworm" else "docker compose"
        return self.out(f"cd {self.src} && {'sudo ' if self.user else ''}{name} {words} 2>&1", timeout=600)

    # ---- what is there -----------------------------------------------------------------------------

    def containers(self):
        """Service to container id."""
        rows = self.docker("ps", "--filter", "label=com.docker.compose.project=sandboxd", "--no-trunc",
                           "--format", '{{.Label "com.docker.compose.service"}} {{.ID}}')
        return dict(row.split() for row in rows.splitlines())

    def env(self):
        text = self.out(f"cat {self.src}/.env")
        return dict(line.split("=", 1) for line in text.splitlines() if line and not line.startswith("#"))

    def set_env(self, **values):
        for name, value in values.items():
            self.sh(f"cd {self.src} && sed -i {shlex.quote(f's|^{name}=.*|{name}={value}|')} .env")

    def api(self, method, path, body=None):
        data = f"-H 'content-type: application/json' -d {shlex.quote(body)}" if body else ""
        return self.out(f"curl -sS -X{method} -H 'Authorization: Bearer {self.token}' {data} http://127.0.0.1:9090{path}")

    def commit(self, message, edits):
        """A newer commit on main of the origin: path to new text, or to a function of the old text."""
        self.sh("rm -rf ~/newer; git clone -q /srv/sandboxd.git ~/newer")
        for path, edit in edits.items():
            old = self.out(f"cat ~/newer/{path} 2>/dev/null || true") + "\n"
            new = edit(old) if callable(edit) else edit
            assert new != old, f"{path} is not changed by the edit"
            self.sh(f"cat >~/newer/{path}", stdin=new)
        return self.out(
            "cd ~/newer && git add -A && git -c user.name=t -c user.email=t@localhost commit -q -m "
            f"{shlex.quote(message)} && git push -q origin HEAD:main && git rev-parse HEAD")

    def outside(self, port, host=None, timeout=3):
        """What somebody beside the machine gets at its address: an HTTP status, or 0."""
        import requests

        try:
            return requests.get(f"http://{self.machine.address()}:{port}/", headers={"Host": host} if host else {},
                                timeout=timeout).status_code
        except requests.RequestException:
            return 0


ROOT = pathlib.Path(__file__).parents[2]


def readme():
    return (ROOT / "README.md").read_text(encoding="utf-8")


def first_command():
    """The first command that the README tells."""
    return re.findall(r"^```\w*\n(.*?)^```", readme(), re.S | re.M)[0].strip()


def block():
    """The lines of the README's block."""
    found = [b for b in re.findall(r"^```sh\n(.*?)^```", readme(), re.S | re.M) if "export AUTH=" in b]
    assert len(found) == 1
    return found[0].splitlines()


def last_id(text):
    return re.sub(r'.*"id":"([^"]+)".*', r"\1", text.strip(), flags=re.S)


__all__ = ["Story", "SERVICES", "block", "docker", "first_command", "last_id"]
