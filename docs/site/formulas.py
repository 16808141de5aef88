"""Formulas of pages, written in LaTeX between dollars, as MathML, which browsers show without scripts."""

import html
import re

from latex2mathml.converter import convert

# A formula in a line or on lines of its own, as pymdownx.arithmatex marks it.
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def as_mathml(found: re.Match) -> str:
    """Return a marked formula as MathML."""
    tag, formula = found.groups()
    mathml = convert(html.unescape(formula).strip(), display="inline" if tag == "span" else "block")
    # The T of a transpose is upright: of all variants browsers know only this one.
    mathml = mathml.replace('mathvariant="sans-serif"', 'mathvariant="normal"')
    return f'<{tag} class="formula">{mathml}</{tag}>'


def with_mathml(page: str) -> str:
    """Return the HTML of a page with MathML in place of LaTeX."""
    return FORMULA.sub(as_mathml, page)
