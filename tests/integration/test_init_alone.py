"""sandboxd-init alone: PID 1 of a real container, everything around it scripted. What the whole product
promises about a sandbox begins here, so each promise is tried without the rest in the way.
"""

import contextlib
import hashlib
import json
import os
import random
import signal
import socket
import threading
import time

import pytest

from tests.integration import docker as engine
from tests.integration.init_fakes import Sandbox, new_id, own_network, wait_for
from tests.integration.records import encode

SERVER = """
import http.server, os, socketserver, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = ("answer of " + self.path + " HOSTNAME=" + os.environ.get("HOSTNAME", "none")).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass
socketserver.ThreadingTCPServer.allow_reuse_address = True
print("listening soon", flush=True)
host = sys.argv[1] if len(sys.argv) > 1 else "0.0.0.0"
if ":" in host:
    import socket
    socketserver.ThreadingTCPServer.address_family = socket.AF_INET6
socketserver.ThreadingTCPServer((host, int(os.environ["PORT"])), Handler).serve_forever()
"""
MANIFEST = """version: 1
web:
  command: exec python3 server.py
  port: 3000
"""
APP = {"server.py": SERVER, "sandbox.yaml": MANIFEST}


@pytest.fixture
def sandbox():
    with Sandbox(APP) as running:
        yield running


def wait_open(sandbox, port="3000"):
    return sandbox.control.wait("port", port=port, open="yes")


# ---- start -------------------------------------------------------------------------------------------


def test_the_web_process_runs_and_its_port_is_reported(sandbox):
    control = sandbox.control
    wait_open(sandbox)
    control.wait("phase", phase="running")
    hello = control.hellos[0]
    assert len(hello.get("boot_id")) == 26 and hello.get("version") and hello.all("task") == []
    process = control.wait("process", name="web", state="running")
    assert process.get("type") == "web" and int(process.get("pid")) > 1 and process.get("restarts") == "0"
    assert [r.get("state") for r in control.of("process")][0] == "starting"
    _, answer = sandbox.preview.request(3000, b"GET /x HTTP/1.0\r\n\r\n")
    assert answer.endswith(b"answer of /x HOSTNAME=none"), answer
    assert "listening soon" in sandbox.logs(), "the app's output is the container's own"


READY_SECONDS_MAX = 0.1


def test_readiness_is_told_the_moment_the_port_answers(sandbox):
    """The server notes when it listens, by the clock that this test reads too."""
    wait_open(sandbox)
    listens = "server = socketserver.ThreadingTCPServer((host, int(os.environ['PORT'])), Handler)\n"
    listens += "import time; open('at', 'w').write(repr(time.monotonic()))\nserver.serve_forever()\n"
    sandbox.put("server.py", SERVER.rsplit("socketserver.ThreadingTCPServer((", 1)[0] + listens)
    late = []
    for _ in range(5):
        sandbox.control.forget()
        sandbox.control.send("restart", ("name", "web"))
        sandbox.control.wait("port", port="3000", open="no")
        wait_open(sandbox)
        sandbox.control.wait("process", name="web", state="running")
        text = wait_for(lambda: (sandbox.app / "at").exists() and (sandbox.app / "at").read_text(), "the server's note")
        late.append(sandbox.control.time_of("port", port="3000", open="yes") - float(text))
        (sandbox.app / "at").unlink()
    assert sorted(late)[2] < READY_SECONDS_MAX, late


def test_an_empty_app_is_seeded_from_its_template():
    template = {f"react/{name}": text for name, text in APP.items()}
    template["react/deep/er/file.txt"] = "kept"
    with Sandbox(template=template) as sandbox:
        left = sandbox.home / "workspace" / ".seed-leftover"
        engine.docker("exec", sandbox.name, "sh", "-c", "mkdir -p /home/sandbox/workspace/.seed-leftover/x")
        sandbox.control.configure(("template", "react"), ("web_port", 3000))
        # The first configure named no template: the app stays empty until somebody asks.
        sandbox.control.wait("phase", phase="idle")
        sandbox.control.send("restart", ("name", "web"))
        wait_open(sandbox)
        assert sandbox.control.of("phase", phase="seeding")
        assert (sandbox.app / "deep/er/file.txt").read_text(encoding="utf-8") == "kept"
        assert os.stat(sandbox.app / "server.py").st_uid == os.stat(sandbox.home).st_uid
        assert not left.exists() and not list((sandbox.home / "workspace").glob(".seed-*"))


def test_a_template_that_the_image_lacks_is_said():
    sandbox = Sandbox()
    sandbox.control.configuration = [("template", "no-such"), ("web_port", 3000)]
    with sandbox:
        phase = sandbox.control.wait("phase", phase="failed")
        assert "no-such" in phase.get("detail") and "image has no template" in phase.get("detail")


def test_an_app_that_has_files_is_never_seeded():
    template = {"react/sandbox.yaml": "version: 1\nweb:\n  command: 'false'\n"}
    sandbox = Sandbox(APP, template)
    sandbox.control.configuration = [("template", "react"), ("web_port", 3000)]
    with sandbox:
        wait_open(sandbox)
        assert (sandbox.app / "sandbox.yaml").read_text(encoding="utf-8") == MANIFEST


def test_a_broken_manifest_is_said_with_line_and_fix_and_mended_by_writing_it():
    with Sandbox({**APP, "sandbox.yaml": "version: 1\nweb:\n  command: x\n  prot: 3000\n"}) as sandbox:
        phase = sandbox.control.wait("phase", phase="failed")
        assert "line 4" in phase.get("detail") and "known are command, port" in phase.get("detail")
        sandbox.put("sandbox.yaml", MANIFEST)
        wait_open(sandbox)
        sandbox.control.wait("phase", phase="running")


def test_a_manifest_that_breaks_later_stops_nothing(sandbox):
    wait_open(sandbox)
    pid = sandbox.control.wait("process", name="web", state="running").get("pid")
    sandbox.put("sandbox.yaml", "version: 2\n")
    phase = wait_for(lambda: next((p for p in sandbox.control.of("phase") if "version" in (p.get("detail") or "")), None), "the problem")
    assert phase.get("phase") == "running"
    assert sandbox.control.of("process", name="web")[-1].get("pid") == pid


def test_nothing_to_run_is_idle_and_says_what_is_missing():
    with Sandbox() as sandbox:
        phase = sandbox.control.wait("phase", phase="idle")
        assert "sandbox.yaml" in phase.get("detail") and "package.json" in phase.get("detail")


def test_a_package_with_a_dev_script_runs_without_a_manifest():
    package = '{"name":"x","scripts":{"dev":"python3 server.py"}}'
    with Sandbox({"server.py": SERVER, "package.json": package, "node_modules/.keep": ""}) as sandbox:
        wait_open(sandbox)


# ---- processes ---------------------------------------------------------------------------------------


def test_a_process_that_ends_backs_off_and_is_given_up_with_its_last_lines():
    with Sandbox({"sandbox.yaml": "version: 1\nweb:\n  command: echo boom; exit 3\n"}) as sandbox:
        process = sandbox.control.wait("process", name="web", state="backoff")
        assert process.get("exit_code") == "3" and "boom" in process.get("lines")
        assert 0 < int(process.get("next_start_ms")) <= 1000
        failed = sandbox.control.wait("process", seconds=40, name="web", state="failed")
        assert failed.get("restarts") == "4"
        phase = sandbox.control.wait("phase", phase="failed")
        assert "exited with status 3" in phase.get("detail")
        sandbox.control.forget()
        sandbox.control.send("restart", ("name", "web"))
        sandbox.control.wait("process", name="web", state="backoff")


def test_workers_run_beside_the_web_process_and_restart_alone():
    manifest = MANIFEST + "workers:\n  - name: ticker\n    command: while true; do echo tick; sleep 1; done\n"
    with Sandbox({**APP, "sandbox.yaml": manifest}) as sandbox:
        worker = sandbox.control.wait("process", name="ticker", state="running")
        assert worker.get("type") == "worker"
        wait_open(sandbox)
        web = sandbox.control.wait("process", name="web", state="running").get("pid")
        sandbox.control.send("restart", ("name", "ticker"))
        again = wait_for(
            lambda: next((p for p in sandbox.control.of("process", name="ticker", state="running") if p.get("restarts") == "1"), None), "a restart"
        )
        assert again.get("pid") != worker.get("pid")
        assert sandbox.control.of("process", name="web")[-1].get("pid") == web
        sandbox.control.send("restart", ("name", "nobody"))
        assert "nobody" in sandbox.control.wait("error").get("message")


def test_a_restart_leaves_nothing_of_the_old_tree():
    """A web server that hides its children in sessions of their own still frees its port."""
    manifest = "version: 1\nweb:\n  command: setsid sh -c 'exec python3 server.py' & sleep 1000\n  port: 3000\n"
    with Sandbox({**APP, "sandbox.yaml": manifest}) as sandbox:
        wait_open(sandbox)
        before = sandbox.running("server.py")
        sandbox.control.forget()
        sandbox.control.send("restart", ("name", "web"))
        sandbox.control.wait("process", name="web", state="running")
        wait_open(sandbox)
        assert not set(before) & set(sandbox.running("server.py"))


def test_new_settings_reach_the_processes(sandbox):
    wait_open(sandbox)
    sandbox.put("server.py", SERVER.replace('"HOSTNAME"', '"COLOUR"'))
    sandbox.control.forget()
    sandbox.control.configure(("web_port", 3000), ("env", "COLOUR=green"), ("env", "PORT=1"))
    wait_open(sandbox)
    _, answer = sandbox.preview.request(3000)
    assert answer.endswith(b"HOSTNAME=green")


def test_declared_and_other_ports_are_told_apart(sandbox):
    wait_open(sandbox)
    sandbox.control.configure(("web_port", 3000), ("port", 4000))
    sandbox.control.wait("port", port="4000", open="no")
    script = "import socket,sys,time\ns=socket.create_server(('127.0.0.1',int(sys.argv[1])))\ntime.sleep(30)\n"
    sandbox.control.start_task("python3", "-c", script, "4000")
    sandbox.control.wait("port", port="4000", open="yes")
    sandbox.control.start_task("python3", "-c", script, "4001")
    sandbox.control.wait("other_port", port="4001")
    assert not sandbox.control.of("other_port", port="9100"), "the relay's own port is nobody's app"


def test_a_signal_from_inside_does_not_stop_the_sandbox(sandbox):
    wait_open(sandbox)
    task = sandbox.control.start_task("sh", "-c", "kill -TERM 1; kill -INT 1; kill -KILL 1; kill -USR1 1; echo done")
    sandbox.control.wait_exit(task)
    assert sandbox.control.lines(task) == ["done"]
    time.sleep(0.5)
    assert sandbox.preview.request(3000)[1].startswith(b"HTTP/1.0 200")


# ---- the way in --------------------------------------------------------------------------------------


def ask_server_at(host, options):
    manifest = MANIFEST.replace("exec python3 server.py", f"'exec python3 server.py {host}'")
    with Sandbox({**APP, "sandbox.yaml": manifest}, options=options) as sandbox:
        wait_open(sandbox)
        n, answer = sandbox.preview.request(3000, b"GET /y HTTP/1.0\r\n\r\n")
        assert b"answer of /y" in answer
        assert sandbox.preview.ends.get(timeout=5) == ("end", n)
        time.sleep(1)
        assert not sandbox.control.of("other_port"), "the engine's resolver is nobody's app"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "::"])
def test_a_stream_reaches_a_server_wherever_it_listens(host):
    ask_server_at(host, ("--network", "none", "--sysctl", "net.ipv6.conf.all.disable_ipv6=0"))


def test_a_stream_reaches_a_server_on_the_bridge_address():
    with own_network() as network:
        ask_server_at("$(hostname -i)", ("--network", network))


def test_a_port_nobody_listens_on_is_refused_at_once(sandbox):
    wait_open(sandbox)
    began = time.monotonic()
    for port in (3999, 9100):
        _, result, sock = sandbox.preview.open(port)
        assert result == "refused"
        assert sock.recv(1) == b""
    assert time.monotonic() - began < 1


ECHO = """
import socket, threading
def serve(c):
    data = b""
    while piece := c.recv(65536):
        c.sendall(piece)
    c.sendall(b"!")
    c.close()
s = socket.create_server(("127.0.0.1", 3000), backlog=512)
while True:
    c, _ = s.accept()
    threading.Thread(target=serve, args=(c,), daemon=True).start()
"""
ECHO_APP = {"server.py": ECHO, "sandbox.yaml": MANIFEST}


def test_half_close_and_back_pressure_keep_every_byte():
    """40 MB through an echo that nobody reads for a while; then the end of input, then the last byte."""
    with Sandbox(ECHO_APP) as sandbox:
        wait_open(sandbox)
        n, result, sock = sandbox.preview.open(3000)
        assert result == "ok"
        block = os.urandom(1 << 20)

        def send():
            for _ in range(40):
                sock.sendall(block)
            sock.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send)
        sender.start()
        time.sleep(1)
        assert sender.is_alive(), "the relay holds no more than the sockets do"
        got = bytearray()
        while piece := sock.recv(1 << 20):
            got += piece
        sender.join()
        assert len(got) == 40 * len(block) + 1
        assert bytes(got) == block * 40 + b"!"
        assert sandbox.preview.ends.get(timeout=5) == ("end", n)


def test_many_streams_at_once():
    with Sandbox(ECHO_APP) as sandbox:
        wait_open(sandbox)
        opened = [sandbox.preview.open(3000) for _ in range(300)]
        for i, (_, result, sock) in enumerate(opened):
            assert result == "ok"
            sock.sendall(f"number {i}".encode())
        for i, (_, _, sock) in enumerate(opened):
            assert sock.recv(100) == f"number {i}".encode()
            sock.close()


def misuse_a_stream(preview, choice, data):
    """One client: asks for an echo of some bytes and ends in one of the ways that clients end."""
    _, result, sock = preview.open(3000)
    assert result == "ok"
    with sock:
        if choice == "leaves at once":
            return
        sender = threading.Thread(target=send_all, args=(sock, data))
        sender.start()
        if choice == "leaves in the middle":
            sock.recv(len(data) // 2 + 1)
            sock.shutdown(socket.SHUT_RDWR)
        else:
            got = b""
            while piece := sock.recv(1 << 16):
                got += piece
            assert got == data + b"!"
        sender.join()


def send_all(sock, data):
    with contextlib.suppress(OSError):
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)


def test_streams_that_end_badly_cost_nothing():
    """Hundreds of clients that stay, half-close, or leave in the middle; then all 1,024 places are free."""
    with Sandbox(ECHO_APP, options=("--network", "none", "--pids-limit", "3000")) as sandbox:
        wait_open(sandbox)
        relay = sandbox.relay_pid()
        choices = ["leaves at once", "leaves in the middle", "stays"]
        failures = []

        def client(seed):
            rng = random.Random(seed)
            try:
                for _ in range(20):
                    misuse_a_stream(sandbox.preview, rng.choice(choices), rng.randbytes(rng.choice([1, 1000, 300_000])))
            except Exception as error:
                failures.append(error)

        clients = [threading.Thread(target=client, args=(seed,)) for seed in range(20)]
        for thread in clients:
            thread.start()
        for thread in clients:
            thread.join()
        assert not failures, failures[0]
        assert sandbox.relay_pid() == relay
        opened = [sandbox.preview.open(3000) for _ in range(1024)]
        assert {result for _, result, _ in opened} == {"ok"}
        while not sandbox.preview.ends.empty():
            sandbox.preview.ends.get()
        sandbox.preview.standing.sendall(encode("open", ("n", 999_999), ("port", 3000)))
        assert sandbox.preview.ends.get(timeout=5) == ("reset", 999_999), "one more than there may be"
        for _, _, sock in opened:
            sock.close()


def test_an_app_that_breaks_its_connection_is_a_reset():
    breaks = ECHO.replace("    data = b\"\"\n", "    import struct\n    c.recv(1)\n    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))\n    c.close()\n    return\n")
    with Sandbox({"server.py": breaks, "sandbox.yaml": MANIFEST}) as sandbox:
        wait_open(sandbox)
        n, _, sock = sandbox.preview.open(3000)
        sock.sendall(b"x")
        assert sandbox.preview.ends.get(timeout=5) == ("reset", n)


def test_a_client_that_leaves_ends_the_apps_connection():
    tells = ECHO.replace("    c.sendall(b\"!\")", "    open('left', 'w').close()")
    with Sandbox({"server.py": tells, "sandbox.yaml": MANIFEST}) as sandbox:
        wait_open(sandbox)
        _, _, sock = sandbox.preview.open(3000)
        sock.sendall(b"x")
        assert sock.recv(1) == b"x"
        sock.close()
        wait_for((sandbox.app / "left").exists, "the app saw the end", 5)


def test_a_proxy_that_restarts_is_found_again(sandbox):
    wait_open(sandbox)
    assert sandbox.preview.request(3000)[1].startswith(b"HTTP/1.0 200")
    sandbox.preview.stop()
    sandbox.preview.standing = None
    time.sleep(0.3)
    sandbox.preview.start()
    began = time.monotonic()
    assert sandbox.preview.request(3000)[1].startswith(b"HTTP/1.0 200")
    assert time.monotonic() - began < 1
    hellos = sandbox.preview.standing_hellos
    assert hellos[0].get("boot_id") == hellos[-1].get("boot_id") == sandbox.control.hellos[0].get("boot_id")


def test_a_relay_that_is_killed_is_back_within_100_ms(sandbox):
    wait_open(sandbox)
    wait_for(lambda: sandbox.preview.standing, "the relay")
    time.sleep(1.1)
    for _ in range(3):
        known = len(sandbox.preview.standing_hellos)
        pid = sandbox.relay_pid()
        top = engine.docker("top", sandbox.name, "-eo", "pid,args")
        host_pid = next(int(line.split()[0]) for line in top.splitlines() if "child relay" in line)
        os.kill(host_pid, signal.SIGKILL)
        began = time.monotonic()
        wait_for(lambda k=known: len(sandbox.preview.standing_hellos) > k, "a new standing connection", 5)
        assert time.monotonic() - began < 0.1
        assert sandbox.relay_pid() != pid
        assert sandbox.preview.request(3000)[1].startswith(b"HTTP/1.0 200")
        time.sleep(1.1)


# ---- the way out -------------------------------------------------------------------------------------

ASK = "import urllib.request,sys\nprint(urllib.request.urlopen('http://127.0.0.1:9100/anthropic/v1/x', timeout=20).read().decode())"


def test_the_way_out_is_relayed(sandbox):
    task = sandbox.control.start_task("python3", "-c", ASK)
    assert sandbox.control.wait_exit(task).get("code") == "0"
    assert sandbox.control.lines(task) == ["got GET /anthropic/v1/x HTTP/1.1"]


def test_a_request_waits_for_a_credentials_proxy_that_restarts(sandbox):
    wait_open(sandbox)
    sandbox.credentials.stop()
    task = sandbox.control.start_task("python3", "-c", ASK)
    time.sleep(1)
    assert not sandbox.control.of("exit", task_id=task)
    sandbox.credentials.start()
    assert sandbox.control.wait_exit(task).get("code") == "0"


def test_a_credentials_proxy_that_stays_away_is_said(sandbox):
    wait_open(sandbox)
    sandbox.credentials.stop()
    task = sandbox.control.start_task("python3", "-c", ASK)
    sandbox.control.wait_exit(task, 20)
    assert any("503" in line for line in sandbox.control.lines(task, "err"))


# ---- tasks -------------------------------------------------------------------------------------------


def test_a_task_gets_its_input_its_environment_and_nothing_else(sandbox):
    text = os.urandom(200_000).hex().encode()
    script = "import os,sys,hashlib\nprint(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())\nprint(sorted(os.environ))\nprint(os.getcwd(), file=sys.stderr)"
    task = sandbox.control.start_task("python3", "-c", script, stdin=text, env={"A": "b c"}, cwd="/home/sandbox/workspace")
    done = sandbox.control.wait_exit(task)
    assert (done.get("code"), done.get("signal"), done.get("cause"), done.get("stuck")) == ("0", "0", "exit", None)
    out = sandbox.control.lines(task)
    assert out[0] == hashlib.sha256(text).hexdigest()
    assert set(eval(out[1])) <= {"A", "PATH", "LC_CTYPE"}, out[1]
    assert sandbox.control.lines(task, "err") == ["/home/sandbox/workspace"]
    assert sandbox.control.of("started", task_id=task)


def test_long_lines_come_in_parts_and_numbers_have_no_gap(sandbox):
    script = "print('x'*150000); print(); print('y'*60000); print('z', end='')"
    task = sandbox.control.start_task("python3", "-c", script)
    sandbox.control.wait_exit(task)
    assert sandbox.control.lines(task) == ["x" * 150000, "", "y" * 60000, "z"]
    records = sandbox.control.of("line", task_id=task)
    assert max(len(dict(r.fields)["data"]) for r in records) == 60000
    seqs = [int(r.get("seq")) for r in records] + [int(sandbox.control.wait_exit(task).get("seq"))]
    assert seqs == list(range(1, len(seqs) + 1))


@pytest.mark.parametrize(
    "argv, code", [(["/no/such/program"], "127"), (["/etc/passwd"], "126"), (["sh", "-c", "exit 7"], "7")]
)
def test_how_a_program_ends_is_told(sandbox, argv, code):
    task = sandbox.control.start_task(*argv)
    done = sandbox.control.wait_exit(task)
    assert done.get("code") == code and done.get("cause") == "exit"
    if code != "7":
        assert argv[0] in sandbox.control.lines(task, "err")[0]


def test_a_directory_that_is_not_there_is_told(sandbox):
    task = sandbox.control.start_task("true", cwd="/no/such/place")
    assert sandbox.control.wait_exit(task).get("code") == "126"
    assert "/no/such/place" in sandbox.control.lines(task, "err")[0]


def test_starting_twice_runs_once(sandbox):
    task = new_id()
    for _ in range(3):
        sandbox.control.start_task("sh", "-c", "echo once; cat; sleep 1", stdin=b"input", task_id=task)
    sandbox.control.wait_exit(task)
    assert sandbox.control.lines(task) == ["once", "input"]
    assert sandbox.control.of("started", task_id=task)


# Children that a process group, a session, an environment or a parent would not find again.
ESCAPE = """
trap '' TERM
MARK=escape-marker
sleep 1001 &
setsid sleep 1002 &
( ( setsid sleep 1003 & ) & )
env -i setsid /bin/sh -c 'trap "" TERM; /usr/bin/sleep 1004; /usr/bin/sleep 1005' &
python3 -c '
import os, signal, sys
for i in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.execvp("sleep", ["sleep", "1006"])
' &
kill -STOP $! 2>/dev/null; kill -CONT $!
echo ready
wait
sleep 1007
"""


def test_cancel_kills_the_whole_tree(sandbox):
    wait_open(sandbox)
    task = sandbox.control.start_task("bash", "-c", ESCAPE)
    wait_for(lambda: sandbox.control.lines(task), "the task's tree")
    wait_for(lambda: len(sandbox.running("sleep 100")) >= 7, "all of them", 5)
    began = time.monotonic()
    sandbox.control.send("cancel", ("task_id", task), ("grace_ms", 300))
    done = sandbox.control.wait_exit(task)
    assert time.monotonic() - began < 2
    assert done.get("cause") == "cancelled" and done.get("stuck") is None and done.get("signal") == "9"
    assert sandbox.running("sleep 100") == []
    assert sandbox.preview.request(3000)[1].startswith(b"HTTP/1.0 200"), "the app is not of that tree"


# gVisor has neither; a seccomp profile makes this kernel look the same.
PR_SET_CHILD_SUBREAPER = 36
POOR_KERNEL = {
    "defaultAction": "SCMP_ACT_ALLOW",
    "syscalls": [
        {"names": ["prctl"], "action": "SCMP_ACT_ERRNO", "args": [{"index": 0, "value": PR_SET_CHILD_SUBREAPER, "op": "SCMP_CMP_EQ"}]},
        {"names": ["socket"], "action": "SCMP_ACT_ERRNO", "args": [{"index": 0, "value": int(socket.AF_NETLINK), "op": "SCMP_CMP_EQ"}]},
    ],
}


def test_a_kernel_without_subreaper_and_socket_diagnosis_is_enough(tmp_path):
    """Orphans fall to PID 1 there; ports are read from /proc. A daemon that the app began earlier stays."""
    profile = tmp_path / "seccomp.json"
    profile.write_text(json.dumps(POOR_KERNEL), encoding="utf-8")
    manifest = "version: 1\nweb:\n  command: (setsid sleep 2000 &); exec python3 server.py\n  port: 3000\n"
    options = ("--network", "none", "--security-opt", f"seccomp={profile}")
    with Sandbox({**APP, "sandbox.yaml": manifest}, options=options) as sandbox:
        wait_open(sandbox)
        time.sleep(0.1)
        task = sandbox.control.start_task("bash", "-c", ESCAPE)
        wait_for(lambda: sandbox.control.lines(task), "the task's tree")
        wait_for(lambda: len(sandbox.running("sleep 100")) >= 7, "all of them", 5)
        sandbox.control.send("cancel", ("task_id", task), ("grace_ms", 300))
        assert sandbox.control.wait_exit(task).get("cause") == "cancelled"
        assert sandbox.running("sleep 100") == []
        assert len(sandbox.running("setsid sleep 2000") + sandbox.running("sleep 2000")) >= 1
        assert sandbox.preview.request(3000)[1].startswith(b"HTTP/1.0 200")
        sandbox.control.forget()
        sandbox.control.send("restart", ("name", "web"))
        sandbox.control.wait("process", name="web", state="running")
        assert sandbox.stop() == 0


def test_a_tree_that_ends_on_term_is_not_killed(sandbox):
    task = sandbox.control.start_task("bash", "-c", "trap 'echo bye; exit 5' TERM; echo ready; while true; do sleep 0.1; done")
    wait_for(lambda: sandbox.control.lines(task), "ready")
    sandbox.control.send("cancel", ("task_id", task), ("grace_ms", 10000))
    done = sandbox.control.wait_exit(task, 5)
    assert done.get("code") == "5" and sandbox.control.lines(task) == ["ready", "bye"]


def test_a_timeout_ends_the_tree(sandbox):
    task = sandbox.control.start_task("bash", "-c", "setsid sleep 1008 & sleep 1009", timeout_ms=500)
    done = sandbox.control.wait_exit(task)
    assert done.get("cause") == "timeout" and sandbox.running("sleep 100") == []


def test_finish_lets_it_leave_then_ends_it(sandbox):
    leaves = sandbox.control.start_task("sh", "-c", "sleep 0.3; exit 4")
    stays = sandbox.control.start_task("sleep", "1010")
    for task in (leaves, stays):
        sandbox.control.send("finish", ("task_id", task), ("after_ms", 1000))
    assert sandbox.control.wait_exit(leaves).get("cause") == "exit"
    assert sandbox.control.wait_exit(stays).get("cause") == "ended"
    assert sandbox.running("sleep 1010") == []


def test_what_a_task_leaves_behind_ends_with_it(sandbox):
    task = sandbox.control.start_task("bash", "-c", "setsid sleep 1011 >/dev/null 2>&1 & echo left")
    assert sandbox.control.wait_exit(task).get("code") == "0"
    assert sandbox.running("sleep 1011") == []


def test_a_task_that_kills_its_own_runner_leaves_nothing(sandbox):
    """The runner has the task's uid, so the task may kill it: what it held falls to PID 1 and is ended there."""
    wait_open(sandbox)
    web = sandbox.running("server.py")
    task = sandbox.control.start_task("bash", "-c", "setsid sleep 1012 & sleep 1013 & echo here; kill -KILL $PPID; sleep 1014")
    done = sandbox.control.wait_exit(task)
    assert done.get("signal") == "9"
    wait_for(lambda: sandbox.running("sleep 101") == [], "nothing left", 5)
    assert sandbox.running("server.py") == web


def test_a_stopped_runner_does_not_protect_its_tree(sandbox):
    task = sandbox.control.start_task("bash", "-c", "kill -STOP $PPID; echo stopped; sleep 1015")
    wait_for(lambda: sandbox.control.lines(task), "stopped")
    sandbox.control.send("cancel", ("task_id", task), ("grace_ms", 100))
    assert sandbox.control.wait_exit(task).get("cause") == "cancelled"
    assert sandbox.running("sleep 1015") == []


def test_a_fork_bomb_ends(sandbox):
    wait_open(sandbox)
    bomb = "import os,time\nprint('go', flush=True)\nwhile True:\n    try:\n        if os.fork() == 0:\n            os.setsid()\n    except OSError:\n        time.sleep(0.01)\n"
    task = sandbox.control.start_task("python3", "-c", bomb)
    wait_for(lambda: sandbox.control.lines(task), "the bomb")
    time.sleep(1)
    sandbox.control.send("cancel", ("task_id", task), ("grace_ms", 0))
    assert sandbox.control.wait_exit(task, 20).get("stuck") is None
    assert sandbox.preview.request(3000)[1].startswith(b"HTTP/1.0 200")


def test_restart_after_task_and_a_new_manifest_take_effect_when_a_task_ends():
    manifest = MANIFEST + "  restart_after_task: true\nworkers:\n  - name: w\n    command: sleep 2000\n"
    with Sandbox({**APP, "sandbox.yaml": manifest}) as sandbox:
        wait_open(sandbox)
        worker = sandbox.control.wait("process", name="w", state="running").get("pid")
        sandbox.control.wait_exit(sandbox.control.start_task("true"))
        wait_for(lambda: [p for p in sandbox.control.of("process", name="web", state="running") if p.get("restarts") == "1"], "a restart")
        assert sandbox.control.of("process", name="w")[-1].get("pid") == worker


# ---- the channel -------------------------------------------------------------------------------------

COUNT = "import time\nfor i in range({n}):\n    print('line', i, flush=True)\n    time.sleep({pause})\n"


def test_a_control_plane_that_dies_in_the_middle_misses_nothing(sandbox):
    wait_open(sandbox)
    task = sandbox.control.start_task("python3", "-c", COUNT.format(n=300, pause=0.01))
    for _ in range(4):
        time.sleep(0.5)
        sandbox.control.stop()
        sandbox.control.current = None
        time.sleep(0.2)
        sandbox.control.start()
    sandbox.control.wait_exit(task)
    assert sandbox.control.lines(task) == [f"line {i}" for i in range(300)]
    assert len(sandbox.control.of("exit", task_id=task)) == 1
    assert task in sandbox.control.hellos[1].all("task")
    assert len({h.get("boot_id") for h in sandbox.control.hellos}) == 1
    assert sandbox.control.of("port", port="3000", open="yes"), "the port is told again"


def test_everything_unacknowledged_is_sent_again_in_order(sandbox):
    sandbox.control.acks = False
    task = sandbox.control.start_task("sh", "-c", "for i in 1 2 3 4 5; do echo $i; done")
    sandbox.control.wait_exit(task)
    sandbox.control.stop()
    sandbox.control.current = None
    sandbox.control.forget()
    sandbox.control.acks = True
    sandbox.control.start()
    sandbox.control.wait_exit(task)
    assert [r.get("seq") for r in sandbox.control.of("line", task_id=task)] == ["1", "2", "3", "4", "5"]
    wait_for(lambda: sandbox.control.current, "connected")
    time.sleep(0.2)
    sandbox.control.stop()
    sandbox.control.current = None
    hellos = len(sandbox.control.hellos)
    sandbox.control.start()
    wait_for(lambda: len(sandbox.control.hellos) > hellos, "a new hello")
    assert sandbox.control.hellos[-1].all("task") == [], "acknowledged to its exit, it is forgotten"


def test_an_agent_waits_when_too_much_is_unacknowledged(sandbox):
    """8 MiB held, then the agent's write blocks; every line arrives once somebody acknowledges."""
    sandbox.control.acks = False
    script = "import sys\nfor i in range(4000):\n    sys.stdout.write(f'{i} ' + 'x' * 5000 + chr(10))\n"
    task = sandbox.control.start_task("python3", "-c", script)
    wait_for(lambda: len(sandbox.control.of("line", task_id=task)) > 1500, "the first 8 MiB")
    time.sleep(1)
    count = len(sandbox.control.of("line", task_id=task))
    assert count * 5000 < 9 << 20 and not sandbox.control.of("exit", task_id=task)
    sandbox.control.acks = True
    sandbox.control.send("ack", ("task_id", task), ("seq", count))
    sandbox.control.wait_exit(task, 30)
    assert [line.split()[0] for line in sandbox.control.lines(task)] == [str(i) for i in range(4000)]


def test_a_control_plane_that_does_not_read_holds_nobody_up(sandbox):
    wait_open(sandbox)
    sandbox.control.reads.clear()
    task = sandbox.control.start_task("python3", "-c", COUNT.format(n=2000, pause=0))
    time.sleep(1)
    assert sandbox.preview.request(3000)[1].startswith(b"HTTP/1.0 200")
    sandbox.control.reads.set()
    sandbox.control.wait_exit(task)
    assert len(sandbox.control.lines(task)) == 2000


def test_ping_is_answered_and_rubbish_closes_the_connection(sandbox):
    wait_open(sandbox)
    sandbox.control.send("ping", ("n", 42))
    assert sandbox.control.wait("pong").get("n") == "42"
    for rubbish in (b"\x00\x00\x00\x00", b"\xff\xff\xff\xff", b"\x00\x00\x00\x05\x04kind", b"\x00\x00\x00\x09\x04kind\xff\xff\xff\xff"):
        hellos = len(sandbox.control.hellos)
        sandbox.control.current.sendall(rubbish)
        wait_for(lambda h=hellos: len(sandbox.control.hellos) > h, "a new connection")
        time.sleep(0.05)
    hellos = len(sandbox.control.hellos)
    sandbox.control.send("no_such_kind", ("x", 1))
    assert "no_such_kind" in sandbox.control.wait("error").get("message")
    wait_for(lambda: len(sandbox.control.hellos) > hellos, "a new connection")
    assert sandbox.preview.request(3000)[1].startswith(b"HTTP/1.0 200")


def test_a_control_plane_that_comes_late_is_waited_for():
    sandbox = Sandbox(APP)
    sandbox.preview.start()
    sandbox.credentials.start()
    with contextlib.ExitStack() as stack:
        stack.callback(sandbox.__exit__, None, None, None)
        sandbox.run()
        time.sleep(2)
        sandbox.control.start()
        began = time.monotonic()
        wait_for(lambda: sandbox.control.hellos, "the first hello")
        assert time.monotonic() - began < 0.7
        wait_open(sandbox)


# ---- the end -----------------------------------------------------------------------------------------


def test_an_ordinary_stop_ends_with_0(sandbox):
    wait_open(sandbox)
    began = time.monotonic()
    assert sandbox.stop() == 0
    assert time.monotonic() - began < 2, "a server that ends on TERM is not waited for"


def test_a_stop_with_a_task_tells_its_end_and_ends_with_0(sandbox):
    wait_open(sandbox)
    task = sandbox.control.start_task("bash", "-c", "trap 'echo bye; exit 0' TERM; echo up; while true; do sleep 0.05; done")
    wait_for(lambda: sandbox.control.lines(task), "up")
    assert sandbox.stop() == 0
    assert sandbox.control.wait_exit(task).get("cause") == "cancelled"
    assert sandbox.control.lines(task) == ["up", "bye"]


def test_a_stop_of_what_will_not_end_still_ends_with_0():
    manifest = "version: 1\nweb:\n  command: trap '' TERM; while true; do sleep 1; done\n"
    with Sandbox({"sandbox.yaml": manifest}) as sandbox:
        sandbox.control.wait("process", name="web", state="starting")
        time.sleep(0.3)
        began = time.monotonic()
        assert sandbox.stop(20) == 0
        assert 4 < time.monotonic() - began < 9


# ---- walls between processes of one uid --------------------------------------------------------------


def test_pid_1_and_relay_cannot_be_looked_into_and_die_last(sandbox):
    wait_open(sandbox)
    relay = sandbox.relay_pid()
    runner = sandbox.running("child runner")[0]
    for pid in (1, relay, runner):
        for name in ("environ", "maps", "mem"):
            task = sandbox.control.start_task("sh", "-c", f"head -c 1 /proc/{pid}/{name} && echo open")
            sandbox.control.wait_exit(task)
            assert sandbox.control.lines(task) == [], f"/proc/{pid}/{name} can be read"
    score = sandbox.inside("sh", "-c", "for p in /proc/[0-9]*; do echo $(cat $p/oom_score_adj) $(tr '\\0' ' ' <$p/cmdline); done")
    for line in score.splitlines():
        if "child relay" in line or "child runner" in line or "server.py" in line:
            assert line.startswith("500 "), line
    assert sandbox.inside("cat", "/proc/1/oom_score_adj").strip() != "500"


def test_it_stays_small_and_idle(sandbox):
    wait_open(sandbox)
    time.sleep(1)
    pid = int(engine.docker("inspect", "-f", "{{.State.Pid}}", sandbox.name))

    def figures():
        stat = open(f"/proc/{pid}/stat", encoding="utf-8").read().rsplit(")", 1)[1].split()
        status = open(f"/proc/{pid}/status", encoding="utf-8").read()
        anon = int(status.split("RssAnon:")[1].split()[0])
        return int(stat[11]) + int(stat[12]), anon

    before, _ = figures()
    time.sleep(5)
    after, anon = figures()
    assert after - before <= 2, "20 ms of CPU in 5 s is more than it needs"
    assert anon < 1024, f"{anon} KiB of private memory"
