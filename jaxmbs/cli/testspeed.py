"""`jaxmbs testspeed`: measure steps per second against batch size."""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
from jaxmbs.cli.options import add_integrator, add_model, integrator_of, read_model, whole_number
from jaxmbs.cli.report import FAILED, OK, Report, working

# Step of the integrator in seconds, without `--step`.
DEFAULT_STEP = 1e-3
# Timed runs of each batch size, of which the median is reported.
REPEATS = 3


def arguments(parser) -> None:
    """Add the arguments of `jaxmbs testspeed` to its parser."""
    add_model(parser)
    parser.add_argument(
        "--batch", type=whole_number(1), nargs="+", default=[1, 64, 1024], metavar="N",
        help="numbers of samples (1 64 1024)",
    )  # fmt: skip
    parser.add_argument("--steps", type=whole_number(1), default=1000, metavar="N", help="steps of each run (1000)")
    add_integrator(parser)


def run(args) -> Report:
    """Time the simulation of batches of a model and report steps per second by batch size."""
    model = read_model(args)
    options = integrator_of(args)
    options["step"] = options["step"] or DEFAULT_STEP
    with working("assembling"):
        start = mbs.assemble(model)
    rows = []
    for count in args.batch:
        with working(f"batch {count}"):
            rows.append(_measure(model, start.q, count, args.steps, options))
    device = jax.devices()[0]
    values = {
        "name": model.name or args.model.stem,
        "device": f"{device.platform} {device.device_kind}".strip(),
        "precision": str(model.dtype),
        "method": args.method,
        "formulation": args.formulation,
        "step": options["step"],
        "speed": rows,
    }
    return Report(values, OK if all(row["failed"] == 0 for row in rows) else FAILED)


def _measure(model, q, count: int, steps: int, options) -> dict:
    """Return speed and compile time of one batch size; the samples start with slightly different velocities."""
    times = jnp.array([0.0, steps * options["step"]])

    def final_state(factor):
        """Return the final q and status of the motion from the given velocities times `factor`."""
        run = mbs.simulate(model, times, q, factor * model.velocity, **options)
        return run.q[-1], run.status[-1]

    factors = jnp.linspace(0.99, 1.01, count).astype(model.dtype)
    began = time.perf_counter()
    compiled = jax.jit(jax.vmap(final_state)).lower(factors).compile()
    compilation = time.perf_counter() - began
    _, status = jax.block_until_ready(compiled(factors))
    seconds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        jax.block_until_ready(compiled(factors))
        seconds.append(time.perf_counter() - began)
    rate = count * steps / float(np.median(seconds))
    return {
        "batch": count,
        "steps per second": rate,
        "ns per step": 1e9 / rate,
        "compile seconds": compilation,
        "failed": int(np.sum(np.asarray(status) != 0)),
    }
