"""The layer check finds every edge it is there to find, and no other."""

import contextlib
import io

import pytest

from script import load

layers = load("check-layers")


def run(tree, files, *rooms):
    """Exit status and output of the script over a tree made of these files."""
    for name, text in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    output = io.StringIO()
    with contextlib.chdir(tree), contextlib.redirect_stdout(output):
        status = layers.main(rooms)
    return status, output.getvalue()


def include(header):
    return f'/* A file. */\n#include "{header}"\n'


@pytest.mark.parametrize("source,header", [
    ("lib/a.c", "engine/b.h"),
    ("lib/a.c", "control/store/db.h"),
    ("engine/a.c", "control/config.h"),
    ("engine/a.c", "proxy/b.h"),
    ("proxy/a.c", "supervisor/b.h"),
    ("supervisor/a.c", "engine/b.h"),
    ("control/main.c", "engine/b.h"),
    ("control/store/a.c", "control/http/b.h"),
    ("control/http/a.c", "control/store/b.h"),
    ("control/store/a.c", "control/sandbox/b.h"),
    ("control/sandbox/a.c", "control/api/b.h"),
    ("control/vault/a.h", "control/api/b.h"),
    ("control/api/a.c", "control/app.h"),
    ("control/attic/a.c", "control/store/b.h"),
    ("engine/a.c", "b.h"),
    ("engine/a.c", "engine/../lib/b.h"),
])
def test_a_wrong_edge_is_found(tmp_path, source, header):
    status, output = run(tmp_path, {source: include(header)})
    assert status == 1
    assert output.startswith(f"{source}:2: ")
    assert output.count("\n") == 1


@pytest.mark.parametrize("source,header", [
    ("lib/a.c", "lib/b.h"),
    ("engine/a.c", "lib/b.h"),
    ("engine/spec/a.c", "engine/b.h"),
    ("control/main.c", "control/api/b.h"),
    ("control/main.c", "control/store/b.h"),
    ("control/api/a.c", "control/sandbox/b.h"),
    ("control/api/a.c", "control/http/b.h"),
    ("control/sandbox/a.c", "control/task/b.h"),
    ("control/task/a.c", "control/store/b.h"),
    ("control/store/a.c", "control/config.h"),
    ("control/store/a.c", "control/store/b.h"),
])
def test_a_right_edge_passes(tmp_path, source, header):
    assert run(tmp_path, {source: include(header)}) == (0, "")


@pytest.mark.parametrize("header,home", [
    ("civetweb.h", "control/http"),
    ("sqlite3.h", "control/store"),
    ("curl/curl.h", "lib"),
    ("git2.h", "control/workspace"),
    ("git2/sys/transport.h", "control/workspace"),
    ("openssl/evp.h", "lib"),
    ("uv.h", "proxy"),
    ("llhttp.h", "proxy"),
    ("yaml.h", "supervisor"),
    ("yyjson.h", "lib"),
    ("nftables/libnftables.h", "engine"),
    ("archive.h", "control/workspace"),
    ("seccomp.h", "control/workspace"),
    ("pcre2.h", "control/workspace"),
])
def test_a_library_has_one_home(tmp_path, header, home):
    text = f"/* A file. */\n#include <{header}>\n"
    assert run(tmp_path, {f"{home}/a.c": text}) == (0, "")
    status, output = run(tmp_path, {f"{home}/a.c": text, "control/api/b.c": text})
    assert status == 1
    assert f"control/api/b.c:2: <{header}> may be included in {home}/" in output


def test_quotes_do_not_hide_a_library(tmp_path):
    assert run(tmp_path, {"engine/a.c": include("sqlite3.h")})[0] == 1


def test_spaces_and_a_tab_do_not_hide_an_include(tmp_path):
    assert run(tmp_path, {"engine/a.c": '/* A. */\n #\tinclude  "proxy/b.h"\n'})[0] == 1


def test_one_room_alone(tmp_path):
    files = {"engine/a.c": include("proxy/b.h"), "proxy/a.c": include("lib/b.h")}
    assert run(tmp_path, files, "proxy")[0] == 0
    assert run(tmp_path, files, "engine")[0] == 1
    assert run(tmp_path, files, "attic")[0] == 2
