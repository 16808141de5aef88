"""Files that other tools read: `python -m benchmarks.loops.export [mechanism …]`, in the root of the repository.

For each mechanism it writes the MJCF file and a JSON file into the folder `files`. The JSON file has bodies and joints with
their numbers, the state at the start, and the poses at the end of a converged motion.
"""

import json
import sys
from pathlib import Path

import numpy as np

# Folder of the files.
FILES = Path(__file__).parent / "files"
# Number of steps of the converged motion by the Runge–Kutta method; a motion with half as many is its check.
REFERENCE_STEPS = 8000


def path_of(name: str, ending: str) -> Path:
    """Return the path of a file of a mechanism."""
    return FILES / (name.lower().replace(" ", "_") + ending)


def facts(name: str) -> dict:
    """Return the contents of the JSON file of a mechanism."""
    return json.loads(path_of(name, ".json").read_text())


def plan_facts(name: str) -> dict:
    """Return the numbers of a mechanism that do not need a simulation."""
    from benchmarks.loops import models

    case = models.CASES[name]
    plan = case.plan()
    return {
        "end": case.end,
        "gravity": [0.0, 0.0, -models.GRAVITY],
        "size": models.size(plan),
        "bodies": {key: {"mass": body.mass, "inertia": list(body.inertia)} for key, body in plan.bodies.items()},
        "joints": {
            key: {"kind": joint.kind.__name__, "i": joint.i, "j": joint.j}
            | {"point_i": list(joint.point_i), "point_j": list(joint.point_j)}
            | {axis: list(vector) for axis, vector in joint.axes.items()}
            for key, joint in plan.joints.items()
        },
    }


def motion_facts(name: str) -> dict:
    """Return poses and velocities at the start, and poses at the end of a motion with many steps, with its accuracy.

    "difference of check" is the largest change (m) of a position at the end with half as many steps, "displacement" the
    largest change (m) of a position from start to end.
    """
    import jax

    import jaxmbs as mbs
    from benchmarks.loops import models

    mech, q, v = models.start(name)
    end = models.CASES[name].end

    def final(steps):
        """Return the poses at the end of a motion."""
        run = jax.jit(lambda v: mbs.simulate(mech, np.array([0.0, end]), q, v, step=end / steps))(v)
        if int(run.status[-1]):
            raise RuntimeError(f"{name}: the reference motion fails with status {int(run.status[-1])}")
        return np.asarray(run.q[-1]).reshape(-1, 7)

    fine, coarse = final(REFERENCE_STEPS), final(REFERENCE_STEPS // 2)
    return {
        "poses": np.asarray(q).reshape(-1, 7).tolist(),
        "velocities": np.asarray(v).reshape(-1, 6).tolist(),
        "final": fine.tolist(),
        "difference of check": float(np.abs(fine - coarse)[:, :3].max()),
        "displacement": float(np.abs(fine - np.asarray(q).reshape(-1, 7))[:, :3].max()),
    }


def write(name: str) -> None:
    """Write the files of a mechanism."""
    import jaxmbs as mbs
    from benchmarks.loops import models

    FILES.mkdir(exist_ok=True)
    mbs.save(models.model(name), path_of(name, ".xml"))
    path_of(name, ".json").write_text(json.dumps(plan_facts(name) | motion_facts(name), indent=1) + "\n")


def main() -> None:
    """Write the files of the mechanisms on the command line, or of all."""
    import jax

    from benchmarks.loops import models

    jax.config.update("jax_enable_x64", True)
    for name in sys.argv[1:] or models.CASES:
        write(name)
        found = facts(name)
        print(
            f"{name}: check {found['difference of check']:.1e} m, displacement {found['displacement']:.2g} m",
            flush=True,
        )


if __name__ == "__main__":
    main()
