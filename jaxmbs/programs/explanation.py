"""Descriptions of the code that programs run as, for `mbs.explain`."""

from __future__ import annotations

from jaxmbs.programs.backends import EMISSION, EMISSIONS, backend_for
from jaxmbs.programs.runtime.jax_compat import default_platform
from jaxmbs.programs.tracing.program import Program


def explain_programs(programs: dict[str, Program]) -> str:
    """Return the kind of code that programs run as here, and why some of them run as another kind, as text.

    Args:
        programs: the programs by the names under which they are reported.
    """
    if EMISSIONS.get(EMISSION.value) == ():
        return "array code: chosen by JAXMBS_EMISSION"
    platform = default_platform()
    usual = backend_for(EMISSION.value, platform)
    others = {name: why for name, program in programs.items() if (why := usual.refusal(program)) is not None}
    if not others:
        return usual.explain()
    first, why = next(iter(others.items()))
    other = backend_for(EMISSION.value, platform, programs[first])
    return f"{usual.explain()}; {other.explain()} for {', '.join(others)}: {why} [{first}]"
