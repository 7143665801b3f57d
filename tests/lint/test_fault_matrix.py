"""Every test that the fault matrix names is there: a renamed one would leave it without a word."""

import re
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[1] / "integration"
TABLE = (HERE / "README.md").read_text(encoding="utf-8").partition("## The fault matrix")[2]
LISTED = re.findall(r"`((?:\.\./long/)?test_\w+\.py)(?:::(\w+))?`", TABLE)


def test_the_matrix_is_found():
    assert len(LISTED) > 20


@pytest.mark.parametrize("name,test", LISTED)
def test_what_it_names_is_there(name, test):
    text = (HERE / name).read_text(encoding="utf-8")
    assert not test or f"\ndef {test}(" in text
