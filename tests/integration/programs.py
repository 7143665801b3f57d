"""Starting and stopping our programs as the product's containers do: own user, own capabilities.

A program gets an environment built from nothing, the capabilities of the design's table and
no-new-privileges, and writes to a log file that is read for sanitiser reports at the end.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROFILE = os.environ.get("SANDBOXD_TEST_PROFILE", "asan")
TEST_DIR = Path(os.environ.get("SANDBOXD_TEST_DIR", "/var/lib/sandboxed-test"))
STOP_SECONDS_MAX = 30
LOG_TAIL_LINES = 40
SANITISER_REPORT = re.compile(
    r"ERROR: AddressSanitizer|LeakSanitizer: detected|runtime error:|WARNING: ThreadSanitizer|UndefinedBehaviorSanitizer"
)
CAPABILITIES = {
    "engine": "net_admin",
    "control": "chown,dac_override,fowner,setuid,setgid,sys_chroot,kill",
    "preview": "",
    "credentials": "",
}
BINARIES = {
    "engine": "sandboxd-engine",
    "control": "sandboxd",
    "preview": "sandboxd-preview-proxy",
    "credentials": "sandboxd-credentials-proxy",
}
# Started by the engine and by sandboxd, which look for them in their own directory.
BESIDE = ("sandboxd-walls", "sandboxd-fetch")
# Symbols would be read by a program that may not: a report without lines is enough to fail a test.
# Freed memory is kept back for 8 MiB, not 256: flat memory must be seen as flat.
SANITISER_ENV = {
    "ASAN_OPTIONS": "abort_on_error=0:exitcode=99:detect_leaks=0:allocator_may_return_null=1:quarantine_size_mb=8",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "exitcode=99",
}


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def built(name, profile=PROFILE):
    path = ROOT / "build" / profile / "bin" / name
    assert path.is_file(), f"{path} is not built: make PROFILE={profile}"
    return path


def copy_programs(target):
    """Puts the programs where their users may read them, wherever the tree lies."""
    target.mkdir(mode=0o755, parents=True, exist_ok=True)
    for name in sorted({*BINARIES.values(), *BESIDE}):
        shutil.copy2(built(name), target / name)
    # PID 1 ships static; the sanitised build of it is for unit tests only.
    shutil.copy2(built("sandboxd-init", "release"), target / "sandboxd-init")
    for path in target.iterdir():
        path.chmod(0o755)
    return target


class Program:
    """One program of ours: argv, environment, user, log. Started and stopped from one thread."""

    def __init__(self, role, directory, args, env, uid, log_path):
        self.role = role
        self.argv = self._privileges(role, uid) + [str(directory / BINARIES[role]), *args]
        self.env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", **SANITISER_ENV, **env}
        self.log_path = log_path
        self.process = None
        self.killed = False

    @staticmethod
    def _privileges(role, uid):
        kept = "".join(f",+{c}" for c in CAPABILITIES[role].split(",") if c)
        command = ["setpriv", "--no-new-privs", "--inh-caps=-all", f"--bounding-set=-all{kept}"]
        if uid:
            command += [f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
        return command + ["--"]

    @property
    def pid(self):
        assert self.process and self.process.poll() is None, f"{self.role} is not running"
        return self.process.pid

    def running(self):
        return self.process is not None and self.process.poll() is None

    def start(self):
        assert not self.running(), f"{self.role} runs already"
        self.killed = False
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.argv, env=self.env, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def run_to_end(self, *args, seconds=20):
        """Another verb of the same program, with the same user and environment: its finished process."""
        return subprocess.run(
            [*self.argv, *args], env=self.env, cwd="/", capture_output=True, text=True, timeout=seconds, check=False
        )

    def stop(self):
        """TERM, as an engine does; a program of ours leaves in order with 0."""
        if not self.running():
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"{self.role} did not leave within {STOP_SECONDS_MAX} s of SIGTERM\n{self.tail()}") from None
        assert code == 0, f"{self.role} left with {code} on SIGTERM\n{self.tail()}"

    def kill9(self):
        """What a crash or the kernel's OOM killer does."""
        self.killed = True
        os.kill(self.pid, signal.SIGKILL)
        self.process.wait()

    def discard(self):
        """Ends it whatever it takes: clean-up only, no test."""
        if self.running():
            self.process.kill()
            self.process.wait()

    def log(self):
        try:
            return Path(self.log_path).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    def tail(self, lines=LOG_TAIL_LINES):
        text = "\n".join(self.log().splitlines()[-lines:])
        return f"--- {self.role}: last lines of its log\n{text}"

    def assert_alive(self):
        code = self.process.poll() if self.process else None
        assert self.process and code is None, f"{self.role} ended with {code}\n{self.tail()}"

    def assert_no_report(self):
        found = SANITISER_REPORT.search(self.log())
        assert not found, f"{self.role}: {found.group(0)}\n{self.log()[max(0, found.start() - 200) : found.start() + 6000]}"


def start_time(pid):
    """The kernel's start time of a process: pids come again, pairs do not. None: no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[19]
    except (FileNotFoundError, ProcessLookupError):
        return None


def wait_until(check, seconds, what, pause=0.1):
    """Waits for a true value and returns it. The message may be a function."""
    end = time.monotonic() + seconds
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() >= end:
            raise AssertionError(f"after {seconds} s still not: {what() if callable(what) else what}")
        time.sleep(pause)
