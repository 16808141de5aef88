"""Published problems of synthesis, one call of `synthesis.path` or `synthesis.curve` each; writes published.json.

Paths: Cabrera, Simon and Prado 2002; Kunjur and Krishnamurty 1997; Bulatović, Miodragović and Bošković 2016; Acharyya and
Mandal 2009. Letters: LINK-ABC by Heyrani Nobari, Srivastava, Gutfreund and Ahmed 2024, arXiv:2405.20592. Entries that the
file already has are kept, except those named: `python benchmarks/published.py O "Watt I"` repeats a letter and a linkage.
"""

import json
import sys
import time
from pathlib import Path

import jax
import numpy as np
from timing import machine

from jaxmbs import synthesis

jax.config.update("jax_enable_x64", True)

# Results of this program.
RESULTS = Path(__file__).parent / "published.json"
# Folder of the published problems.
REFERENCES = Path(__file__).parents[1] / "tests" / "references"
# Linkages for the published paths. Only four-bars get the published bounds.
LINKAGES = ("four-bar", "slider-crank", "geared five-bar", "Watt I", "Stephenson I", "Stephenson III")


def path(linkage: str, problem: dict) -> dict:
    """Return the error of the best linkage for a published path, and the seconds of the call."""
    timing = np.deg2rad(20) * np.arange(18) if "degrees" in problem["timing"] else None
    bounds = problem.get("bounds", {}) if linkage == "four-bar" else {}
    lower, upper = ({name: pair[k] for name, pair in bounds.items()} or None for k in (0, 1))
    began = time.time()
    found = synthesis.path(problem["targets"], mechanism=linkage, crank_angles=timing, lower=lower, upper=upper)
    checks = {name: bool(found.best.checks[name]) for name in ("turns", "assembled", "ordered")}
    return {"error": float(found.best.error), **checks, "seconds": time.time() - began}


def letter(points: list) -> dict:
    """Return errors of the best linkage of each number of links for a letter, and the seconds of the call."""
    began = time.time()
    found = synthesis.curve(points, keep=1)
    return {
        "errors": {str(one.links): one.error for one in found.front},
        "error": found.best.error,
        "ordered error": found.best.ordered_error,
        "links": found.best.links,
        "assembled": bool(found.best.checks["assembled"]),
        "seconds": time.time() - began,
    }


def main():
    """Search linkages for each entry that is asked for or missing."""
    problems = json.loads((REFERENCES / "path_synthesis_cases.json").read_text())["cases"]
    alphabet = json.loads((REFERENCES / "link_abc.json").read_text())
    record = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    paths, letters = record.setdefault("paths", {}), record.setdefault("letters", {})
    repeated = sys.argv[1:]

    def save():
        """Write the record, with the machine of the last entry."""
        RESULTS.write_text(json.dumps({"setting": machine(), **record}, indent=1) + "\n")

    for name, points in alphabet["letters"].items():
        if name not in letters or name in repeated:
            letters[name] = {**letter(points), "LInK": alphabet["link_chamfer"][name]}
            save()
            print(f"{name} {letters[name]['error']:.4f}, LInK {letters[name]['LInK']:.4f}", flush=True)
    for linkage in LINKAGES:
        if linkage not in paths or linkage in repeated:
            paths[linkage] = {name: path(linkage, problem) for name, problem in problems.items()}
            save()
            print(linkage, {name: f"{found['error']:.3g}" for name, found in paths[linkage].items()}, flush=True)


if __name__ == "__main__":
    main()
