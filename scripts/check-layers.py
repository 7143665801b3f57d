#!/usr/bin/env python3
"""Fails on an #include that points upwards or sideways, or names a library that is not that room's.

    scripts/check-layers.py [ROOM...]

Every include of ours is written from the root of the tree ("control/store/db.h"). The house, from the
roof down: main -> api -> sandbox, task, workspace, vault -> store, http -> lib, inside control/;
engine/, proxy/ and supervisor/ stand on lib/ alone and meet on sockets.
"""

import pathlib
import re
import sys

ROOMS = ("lib", "control", "engine", "proxy", "supervisor")

# Floors of control/, by folder; "" holds main.c and config.c. A part may include its own floor only
# where the floor is the domain's: sandbox, task, workspace and vault know one another.
FLOORS = {"": 4, "api": 3, "sandbox": 2, "task": 2, "workspace": 2, "vault": 2, "store": 1, "http": 1}
SHARED_FLOORS = (2,)
# The two headers of the top floor that say what every part of control/ may know.
CONTROL_OPEN_HEADERS = ("control/config.h",)

# Third-party headers and the one place that may name them. A place is a folder of the tree.
LIBRARIES = (
    (r"civetweb\.h", ("control/http",)),
    (r"sqlite3\.h", ("control/store",)),
    (r"curl/.*", ("lib",)),
    (r"git2(\.h|/.*)", ("control/workspace",)),
    (r"openssl/.*", ("lib",)),
    (r"uv(\.h|/.*)", ("proxy",)),
    (r"llhttp\.h", ("proxy",)),
    (r"yaml\.h", ("supervisor",)),
    (r"yyjson\.h", ("lib",)),
    (r"nftables/.*", ("engine",)),
    (r"archive(_entry)?\.h", ("control/workspace", "lib")),
    (r"seccomp\.h", ("control/workspace", "lib")),
    (r"pcre2(posix)?\.h", ("control/workspace",)),
    (r"cmocka.*\.h", ()),
)

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(<[^>\n]*>|"[^"\n]*")', re.MULTILINE)


def part_of(path):
    """The folder of control/ that a path is in; "" for the top. None outside control/."""
    parts = path.split("/")
    if parts[0] != "control":
        return None
    return parts[1] if len(parts) > 2 else ""


def control_fault(source, target):
    """Why one file of control/ may not include another; None when it may."""
    mine, theirs = part_of(source), part_of(target)
    for part, path in ((mine, source), (theirs, target)):
        if part not in FLOORS:
            return f"{path} is in no known part of control/ ({', '.join(p for p in FLOORS if p)})"
    if mine == theirs or target in CONTROL_OPEN_HEADERS:
        return None
    if FLOORS[theirs] > FLOORS[mine]:
        return f"control/{theirs or 'main'} stands above control/{mine}"
    if FLOORS[theirs] == FLOORS[mine] and FLOORS[mine] not in SHARED_FLOORS:
        return f"control/{theirs} stands beside control/{mine}"
    return None


def own_fault(source, target):
    """Why a file may not include another of ours; None when it may."""
    mine, theirs = source.split("/")[0], target.split("/")[0]
    if ".." in target.split("/"):
        return "an include is written from the root of the tree, without .."
    if theirs not in ROOMS:
        return f'"{target}" is in no room; write the path from the root of the tree'
    if theirs == "lib":
        return None
    if mine != theirs:
        return f"{mine}/ may use {mine}/ and lib/ only" if mine != "lib" else "lib/ stands on nothing of ours"
    return control_fault(source, target) if mine == "control" else None


def library_fault(source, header):
    for pattern, places in LIBRARIES:
        if not re.fullmatch(pattern, header):
            continue
        if any(source.startswith(place + "/") for place in places):
            return None
        home = " or ".join(place + "/" for place in places) or "tests/"
        return f"<{header}> may be included in {home} only"
    return None


def faults_of(source, text):
    """Yields (line, fault) for each include of one file."""
    for match in INCLUDE.finditer(text):
        name, is_own = match[1][1:-1], match[1][0] == '"'
        fault = own_fault(source, name) if is_own and not is_library(name) else library_fault(source, name)
        if fault:
            yield text.count("\n", 0, match.start()) + 1, fault


def is_library(name):
    return any(re.fullmatch(pattern, name) for pattern, _ in LIBRARIES)


def check(root, rooms):
    count = 0
    for room in rooms:
        for path in sorted(pathlib.Path(root, room).rglob("*.[ch]")):
            source = path.relative_to(root).as_posix()
            for line, fault in faults_of(source, path.read_text(encoding="utf-8", errors="replace")):
                print(f"{source}:{line}: {fault}")
                count += 1
    return count


def main(arguments):
    rooms = arguments or ROOMS
    unknown = [room for room in rooms if room not in ROOMS]
    if unknown:
        print(f"check-layers: no room {unknown[0]}; rooms: {', '.join(ROOMS)}", file=sys.stderr)
        return 2
    return 1 if check(pathlib.Path.cwd(), rooms) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
