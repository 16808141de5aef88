"""Numbers of pages: each is inserted from a file of results, so no two pages disagree."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs/site"))
import number_markers  # noqa: E402

# Factor of the numbers in the second set of results: it changes every digit of a number that is inserted.
OTHER_SCALE = 3.7
# Numbers that have to be inserted: times in nanoseconds and microseconds, rates, and factors of speed.
SPEED = re.compile(
    r"\d[\d.,]*(?:·10[⁰¹²³⁴-⁹]+)? "
    r"(?:ns|µs|CPU s|CPU seconds|(?:(?:million|billion) )?\w+ (?:per|in a) second|times (?:as fast|as long|faster))\b"
)
# Beginnings of the names of pages that are written from their own files of results.
GENERATED = ("comparison", "verification")


def prose(text: str) -> str:
    """Return a page without code, which the pages' own tests run."""
    return re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)


@pytest.fixture(scope="module")
def values():
    return number_markers.Values()


def test_pages_show_the_results(values):
    stale = [
        str(path.relative_to(ROOT))
        for path in number_markers.pages()
        if number_markers.insert(path.read_text("utf-8"), values) != path.read_text("utf-8")
    ]
    assert stale == [], "make numbers rewrites them"


def test_another_file_of_results_changes_every_number(values):
    other = number_markers.Values(scale=OTHER_SCALE)
    for path in number_markers.pages():
        text = path.read_text("utf-8")
        pairs = zip(
            number_markers.MARKER.finditer(text),
            number_markers.MARKER.finditer(number_markers.insert(text, other)),
            strict=True,
        )
        for before, after in pairs:
            named = before["expression"].startswith(("setting(", "machine(", "gpu_name("))
            assert named or before["text"] != after["text"], f"{path.name}: {before['expression']}"


def test_speeds_are_inserted():
    """No time or rate stands in a page without a marker behind it."""
    typed = {}
    for path in number_markers.pages():
        if path.suffix != ".md" or path.name in GENERATED:
            continue
        found = SPEED.findall(
            prose(re.sub(number_markers.MARKER, "", re.sub(number_markers.BLOCK, "", path.read_text("utf-8"))))
        )
        if found:
            typed[path.name] = found
    assert typed == {}
