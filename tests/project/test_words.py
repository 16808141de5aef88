"""Plain docstrings and comments, and one constant per line, in all Python files."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
ROOMS = ("jaxmbs", "tests", "benchmarks", "verification", "campaign", "examples", "docs/site")
FILES = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
# Sentences that begin like this hide their subject.
BAD_BEGINNINGS = re.compile(r"(What|Whether|How|Where|That which)\b")
# A constant, such as MAX_STEPS.
CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]+$")


def docstrings(tree):
    """Return the line and the text of each docstring of a module."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(tree) if isinstance(node, documented) and ast.get_docstring(node)]
    return [(node.body[0].lineno, ast.get_docstring(node)) for node in nodes]


def comments(text):
    """Return the line and the text of each comment; a comment of several lines counts once."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    found = [(token.start[0], token.string.lstrip("# ")) for token in tokens if token.type == tokenize.COMMENT]
    lines = {line for line, _ in found}
    return [(line, comment) for line, comment in found if line - 1 not in lines]


def bundled_constants(tree):
    """Return the line of each assignment of several constants at once at the top of a module, `A, B = 1, 2`."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple) else []
        names = [x.id for target in targets if isinstance(target, ast.Tuple) for x in target.elts if hasattr(x, "id")]
        if len(names) > 1 and all(map(CONSTANT.match, names)):
            yield node.lineno, ", ".join(names)


def complaints(text):
    """Return what is wrong with the text of a module, with line numbers."""
    tree = ast.parse(text)
    begins = [(line, words) for line, words in docstrings(tree) + comments(text) if BAD_BEGINNINGS.match(words)]
    return [f"{line}: {words.splitlines()[0]}" for line, words in begins + list(bundled_constants(tree))]


@pytest.mark.parametrize("room", ROOMS)
def test_plain_words(room):
    found = [
        f"{path.relative_to(ROOT)}:{complaint}"
        for path in FILES
        if path.is_relative_to(ROOT / room)
        for complaint in complaints(path.read_text())
    ]
    assert not found, "\n".join(found)


def test_bad_words_are_found():
    assert complaints('"""How it works."""\n# Where it is.\nA_LIMIT, B_LIMIT = 1, 2\n') == [
        "1: How it works.",
        "2: Where it is.",
        "3: A_LIMIT, B_LIMIT",
    ]
