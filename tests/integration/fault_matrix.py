"""The table of README.md: which tests are the fault matrix."""

import re
from pathlib import Path

HERE = Path(__file__).parent
ENTRY = re.compile(r"`((?:\.\./long/)?test_\w+\.py)(?:::(\w+))?`")


def entries():
    """(file, test or None for the whole file) of every line of the table."""
    table = (HERE / "README.md").read_text(encoding="utf-8").partition("## The fault matrix")[2]
    return [(name, test or None) for name, test in ENTRY.findall(table)]


def is_listed(listed, path, function):
    return (path.name, None) in listed or (path.name, function) in listed
