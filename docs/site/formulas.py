"""Formulas of pages, written in LaTeX between dollars, as MathML, which browsers show without scripts."""

import html
import re

from latex2mathml.converter import convert

# A formula in a line or on lines of its own, as pymdownx.arithmatex marks it.
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
# A named function, perhaps with an exponent or a base: the converter leaves no space around it.
NAMED = r"<mi>(?:sin|cos|tan|arcsin|arccos|arctan|exp|log|ln)</mi>"
FUNCTION = re.compile(rf"<(msup|msub)>{NAMED}(?:<mn>\d+</mn>|<mrow><mn>\d+</mn></mrow>)</\1>|{NAMED}")
THIN_SPACE = '<mspace width="0.17em" />'


def as_mathml(found: re.Match) -> str:
    """Return a marked formula as MathML."""
    tag, formula = found.groups()
    mathml = convert(html.unescape(formula).strip(), display="inline" if tag == "span" else "block")
    # The T of a transpose is upright: of all variants browsers know only this one.
    mathml = mathml.replace('mathvariant="sans-serif"', 'mathvariant="normal"')
    # Browsers know no negative spaces.
    mathml = mathml.replace('<mspace width="negativethinmathspace" />', "")
    mathml = FUNCTION.sub(lambda function: THIN_SPACE + function[0] + THIN_SPACE, mathml)
    return f'<{tag} class="formula">{mathml}</{tag}>'


def with_mathml(page: str) -> str:
    """Return the HTML of a page with MathML in place of LaTeX."""
    return FORMULA.sub(as_mathml, page)
