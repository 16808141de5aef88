"""`python -m campaign --seconds 120`: random checks until the time is up.

Each round with a find is repeated in a separate process; the exit code is 1 if one of them fails again.
"""

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Folder of the repository.
ROOT = Path(__file__).parents[1]
# XLA's flag for fast compilation: most programs run for a second only.
QUICK_COMPILATION = "--xla_backend_optimization_level=1"
# The campaign uses the mechanisms of the tests.
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m campaign", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120, help="duration (120)")
    parser.add_argument("--seed", type=int, help="seed of the first rounds; by default that of the folder, or random")
    parser.add_argument("--folder", type=Path, help="folder of the tally, which is continued; by default none is kept")
    parser.add_argument("--jobs", type=int, default=1, help="processes, each with its own seeds (1)")
    parser.add_argument("--only", action="append", default=[], metavar="ORACLE", help="this oracle; may be repeated")
    parser.add_argument("--once", action="store_true", help="one round of each oracle; the exit code is 1 for any find")
    parser.add_argument("--part", action="store_true", help="do not repeat finds; the parent process does")
    parser.add_argument("--page", type=Path, help="write the tally as a page of the documentation")
    return parser.parse_args()


def chosen_seed(given: int | None, folder: Path) -> int:
    """Return the seed given, that of the tally in the folder, or a random one."""
    import json

    from campaign.tally import FILE

    if given is not None:
        return given
    if (folder / FILE).exists():
        return json.loads((folder / FILE).read_text())["seed"]
    return secrets.randbelow(10**9)


# Distance between the first seeds of parallel processes of a campaign.
SEED_DISTANCE = 10**9


def run_in_processes(args: argparse.Namespace, folder: Path, seed: int, seconds: float) -> dict[Path, int]:
    """Run a campaign in each process until all end; return their folders and seeds."""
    shares = {folder / str(k): seed + k * SEED_DISTANCE for k in range(args.jobs)}
    only = [word for name in args.only for word in ("--only", name)]
    command = [sys.executable, "-m", "campaign", "--part", "--seconds", str(seconds), *only]
    running = [
        subprocess.Popen([*command, "--seed", str(other), "--folder", str(share.resolve())], cwd=ROOT)
        for share, other in shares.items()
    ]
    for process in running:
        process.wait()
    return shares


def repeat_finds(finds: list[dict]) -> list[dict]:
    """Repeat the rounds with finds, each in a fresh process; return the finds of the rounds that fail again.

    A process that ends by a signal counts as a failure.
    """
    rounds = dict.fromkeys((find["oracle"], find["seed"]) for find in finds)
    for oracle, seed in rounds:
        words = ["--once", "--seed", str(seed), "--only", oracle]
        rounds[oracle, seed] = subprocess.run([sys.executable, "-m", "campaign", *words], cwd=ROOT).returncode
        outcome = "repeats" if rounds[oracle, seed] else "does not repeat"
        print(f"The find of {oracle} with seed {seed} {outcome}.", flush=True)
    return [find for find in finds if rounds[find["oracle"], find["seed"]]]


def main() -> int:
    """Run the command line: a campaign, or one round of each oracle; return 1 if there are finds, else 0."""
    began, args = time.monotonic(), arguments()
    os.environ["XLA_FLAGS"] = f"{QUICK_COMPILATION} {os.environ.get('XLA_FLAGS', '')}"
    import jax

    jax.config.update("jax_enable_x64", True)
    with tempfile.TemporaryDirectory() as empty:
        # Commands of the campaign must not touch the user's cache.
        os.environ["JAXMBS_CACHE"] = str(Path(empty) / "cache")
        folder = args.folder or Path(empty)
        seed = chosen_seed(args.seed, folder)
        print(f"seed {seed}", flush=True)
        from campaign.list import ORACLES
        from campaign.schedule import once, run
        from campaign.tally import Tally, page, table

        unknown = set(args.only) - {one.name for one in ORACLES}
        if unknown:
            known_names = ", ".join(oracle.name for oracle in ORACLES)
            raise SystemExit(f"no oracle is called {', '.join(unknown)}; the oracles are {known_names}")
        oracles = [one for one in ORACLES if not args.only or one.name in args.only]
        # Begin with another oracle for each seed, in case the time does not suffice for all.
        first = seed % len(oracles)
        oracles = oracles[first:] + oracles[:first]
        tally = Tally(folder, seed)
        known = list(tally.finds)
        left = args.seconds - (time.monotonic() - began)
        if args.once:
            once(oracles, tally, lambda text: print(text, flush=True))
        elif args.jobs > 1:
            shares = run_in_processes(args, folder, seed, left)
            tally.set_sum([Tally(share, other) for share, other in shares.items()])
        else:
            run(oracles, tally, left, lambda text: print(text, flush=True))
        print(table(tally.lines))
        if args.page:
            args.page.write_text(page(tally, {one.name: one.about for one in ORACLES}))
        print(", ".join(f"{number:,} {unit}" for unit, number in tally.total().items()), f"in all; seed {seed}")
        new = [find for find in tally.finds if find not in known]
        if args.once or args.part:
            return int(bool(new))
        return int(bool(repeat_finds(new)))


if __name__ == "__main__":
    sys.exit(main())
