"""The page gpu.md, whose sections several scripts write."""

import re
from pathlib import Path

# File of the page on GPUs, whose sections benchmarks replace.
PAGE = Path(__file__).with_name("gpu.md")


def write(section, lines):
    """Replace the lines of a section of the page on GPUs."""
    text = PAGE.read_text() if PAGE.exists() else "# Kernels on GPUs\n\n"
    body = "\n".join(lines).strip()
    new = f"## {section}\n\n{body}\n\n"
    pattern = re.compile(rf"^## {re.escape(section)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    text = pattern.sub(lambda _: new, text) if pattern.search(text) else f"{text.rstrip()}\n\n{new}"
    PAGE.write_text(text.rstrip() + "\n")
