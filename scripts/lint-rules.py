#!/usr/bin/env python3
"""The house rules that no other tool checks, over the C files given.

    scripts/lint-rules.py FILE...

Banned functions, // comments, raw allocation of a product, lines over 100 columns, files over 1000
lines, functions over 100, nesting, #pragma once, the first comment of a file, leftovers. Function
sizes come from universal-ctags. A rule has no waiver: what must break it is written differently.
"""

import json
import re
import subprocess
import sys

LINE_COLUMNS_MAX = 100
FILE_LINES_MAX = 1000
FUNCTION_LINES_MAX = 100

BANNED = {
    "strcpy": "struct buf or struct str",
    "strcat": "struct buf",
    "strncpy": "struct buf",
    "strncat": "struct buf",
    "stpcpy": "struct buf",
    "sprintf": "buf_printf or snprintf",
    "vsprintf": "buf_vprintf or vsnprintf",
    "gets": "a bounded read",
    "strtol": "str_to_u64",
    "strtoll": "str_to_u64",
    "strtoul": "str_to_u64",
    "strtoull": "str_to_u64",
    "atoi": "str_to_u64",
    "atol": "str_to_u64",
    "atoll": "str_to_u64",
    "atof": "a parser that refuses rubbish",
    "sscanf": "a parser that refuses rubbish",
    "strtok": "a slice",
    "strtok_r": "a slice",
    "system": "lib/proc",
    "popen": "lib/proc",
    "alloca": "an arena",
    "rand": "the random bytes of lib/",
    "srand": "the random bytes of lib/",
    "random": "the random bytes of lib/",
    "localtime": "gmtime_r",
    "gmtime": "gmtime_r",
    "ctime": "lib/clock",
    "asctime": "lib/clock",
    "strerror": "err_set with errno",
    "strsignal": "the number",
    "setenv": "an environment built for the child",
    "putenv": "an environment built for the child",
    "unsetenv": "an environment built for the child",
    "getpwnam": "the number; a static program has no name service",
    "getpwuid": "the number; a static program has no name service",
    "getgrnam": "the number; a static program has no name service",
    "getgrgid": "the number; a static program has no name service",
    "gethostbyname": "getaddrinfo",
    "inet_ntoa": "inet_ntop",
    "inet_addr": "inet_pton",
    "ttyname": "ttyname_r",
    "basename": "a slice",
    "dirname": "a slice",
    "tmpnam": "mkostemp or O_TMPFILE",
    "mktemp": "mkostemp or O_TMPFILE",
    "pthread_cancel": "a flag and a wake-up",
}

# A call: the name is not a member (x.rand, x->rand), not part of a longer one, and an ( follows.
CALL = re.compile(r"(?<![\w.])(?<!->)(" + "|".join(BANNED) + r")\s*\(")
PRODUCT = re.compile(r"(?<![\w.])(?:malloc|realloc|mem_alloc|mem_try_alloc)\s*\([^;{}]*(?<!sizeof)[\w)]\s*\*\s*[\w(]")
LEFTOVER = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
# Comments, strings and characters of C, in one pass, so that each is skipped inside the others.
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


def blank(text):
    """Same length and lines, nothing inside."""
    return re.sub(r"[^\n]", " ", text)


def code_only(text):
    """The text without comments and without what is inside strings; line numbers stay."""
    return TOKEN.sub(lambda m: blank(m[0]) if m[0][0] == "/" else m[0][0] + blank(m[0][1:-1]) + m[0][-1], text)


def line_at(text, position):
    return text.count("\n", 0, position) + 1


def text_faults(path, text):
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > LINE_COLUMNS_MAX:
            yield number, f"{len(line)} columns; {LINE_COLUMNS_MAX} at most"
        if "\t" in line:
            yield number, "a tab; indent with spaces"
    lines = text.count("\n")
    if lines > FILE_LINES_MAX:
        yield lines, f"{lines} lines; {FILE_LINES_MAX} at most: give the file one subject"
    if not text.startswith("/*"):
        yield 1, "a file opens with a comment: what it is, what it must never do, which thread runs it"
    if path.endswith(".h") and not re.search(r"^#pragma once$", text, re.MULTILINE):
        yield 1, "#pragma once is missing"
    for match in TOKEN.finditer(text):
        if match[0].startswith("//"):
            yield line_at(text, match.start()), "// comment; write /* */"
        elif match[0].startswith("/*"):
            for left in LEFTOVER.finditer(match[0]):
                yield line_at(text, match.start() + left.start()), f"{left[0]}: finish it or file an issue"


def code_faults(code):
    for match in CALL.finditer(code):
        yield line_at(code, match.start()), f"{match[1]} is banned; use {BANNED[match[1]]}"
    for match in PRODUCT.finditer(code):
        yield line_at(code, match.start()), "a product as an allocation size may overflow; use the array form"


def functions(paths):
    """Yields (path, name, first line, last line) of every function, by universal-ctags."""
    argv = ["ctags", "--quiet", "--options=NONE", "--language-force=C", "--kinds-C=f", "--fields=+ne",
            "--output-format=json", "-f", "-", *paths]
    done = subprocess.run(argv, stdout=subprocess.PIPE, check=True)
    for line in done.stdout.splitlines():
        tag = json.loads(line)
        if "end" in tag:
            yield tag["path"], tag["name"], tag["line"], tag["end"]


def check(paths):
    """Returns the faults of all files as (path, line, fault), in order."""
    faults = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        faults += [(path, *fault) for fault in text_faults(path, text)]
        faults += [(path, *fault) for fault in code_faults(code_only(text))]
    for path, name, first, last in functions(paths):
        if last - first + 1 > FUNCTION_LINES_MAX:
            faults.append((path, first, f"{name} has {last - first + 1} lines; {FUNCTION_LINES_MAX} at most"))
    return sorted(faults)


def main(paths):
    if not paths:
        return 0
    faults = check(paths)
    for path, line, fault in faults:
        print(f"{path}:{line}: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
