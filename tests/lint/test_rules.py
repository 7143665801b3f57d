"""The house rules: each rule finds its fault on the right line, and clean code passes."""

import contextlib
import io

import pytest

from script import load

rules = load("lint-rules")
CLEAN = '/* A file. */\n#include <stdio.h>\n\nvoid file_say(void)\n{\n    puts("strcpy(a, b) // no");\n}\n'


def run(folder, text, name="a.c"):
    path = folder / name
    path.write_text(text)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        status = rules.main([str(path)])
    return status, [line.removeprefix(f"{path}:") for line in output.getvalue().splitlines()]


def body(line):
    return f"/* A file. */\nvoid file_do(void)\n{{\n    {line}\n}}\n"


def test_clean_code_passes(tmp_path):
    assert run(tmp_path, CLEAN) == (0, [])


def test_nothing_to_check_passes():
    assert rules.main([]) == 0


@pytest.mark.parametrize("call", ["strcpy(a, b);", "x = atoi (s);", "return strerror(errno);",
                                  "if (system(s))", "(void)sprintf(a, b);", "y = rand();"])
def test_a_banned_call_is_found(tmp_path, call):
    status, faults = run(tmp_path, body(call))
    assert status == 1
    assert len(faults) == 1 and faults[0].startswith("4: ") and "is banned" in faults[0]


@pytest.mark.parametrize("line", ["my_strcpy(a);", "snprintf(a, 1, b);", "x->rand(1);", "x.system(1);",
                                  "/* never strcpy(a, b) */", 'puts("atoi(x)");', "gmtime_r(a, b);",
                                  "strcpy_count = 1;"])
def test_what_only_looks_banned_passes(tmp_path, line):
    assert run(tmp_path, body(line)) == (0, [])


def test_a_line_comment_is_found(tmp_path):
    assert run(tmp_path, body("x = 1; // why"))[1] == ["4: // comment; write /* */"]
    assert run(tmp_path, body('x = "http://a"; /* // */')) == (0, [])


def test_a_product_as_a_size_is_found(tmp_path):
    assert "may overflow" in run(tmp_path, body("p = malloc(count * size);"))[1][0]
    assert "may overflow" in run(tmp_path, body("p = mem_alloc(sizeof(*p) * (count));"))[1][0]
    assert run(tmp_path, body("p = malloc(sizeof(*p));")) == (0, [])
    assert run(tmp_path, "/* A file. */\nvoid *mem_alloc(size_t n)\n{\n    void *p = NULL;\n}\n") == (0, [])


def test_a_long_line_is_found(tmp_path):
    fits = "x = " + "1" * (100 - 4 - 5) + ";"
    assert run(tmp_path, body(fits)) == (0, [])
    assert run(tmp_path, body(fits + ";"))[1] == ["4: 101 columns; 100 at most"]


def test_a_long_function_is_found(tmp_path):
    def text(lines):
        return "/* A file. */\nvoid file_do(void)\n{\n" + "    x();\n" * (lines - 3) + "}\n"

    assert run(tmp_path, text(100)) == (0, [])
    assert run(tmp_path, text(101))[1] == ["2: file_do has 101 lines; 100 at most"]


def test_a_long_file_is_found(tmp_path):
    assert run(tmp_path, "/* A file. */\n" + "int x;\n" * 999) == (0, [])
    assert run(tmp_path, "/* A file. */\n" + "int x;\n" * 1000)[1][0].startswith("1001: 1001 lines")


def test_a_header_needs_pragma_once(tmp_path):
    assert run(tmp_path, "/* A file. */\nint x;\n", "a.h")[1] == ["1: #pragma once is missing"]
    assert run(tmp_path, "/* A file. */\n#pragma once\nint x;\n", "a.h") == (0, [])


def test_a_file_needs_its_first_comment(tmp_path):
    assert run(tmp_path, "int x;\n")[0] == 1


def test_a_leftover_is_found(tmp_path):
    leftover = "TO" + "DO"
    assert run(tmp_path, body(f"/* {leftover}: later */"))[1][0].startswith(f"4: {leftover}")
