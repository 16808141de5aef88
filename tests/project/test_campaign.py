"""The campaign's oracles: they accept the results of jaxmbs, find wrong ones, and a tally can be continued."""

import dataclasses
import itertools
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import jaxmbs as mbs
from campaign import __main__ as program
from campaign import (
    assemblies,
    closed_forms,
    commands,
    equilibria,
    files,
    invariance,
    linkages,
    motions,
    precision,
    schedule,
)
from campaign.list import ORACLES
from campaign.mechanisms import BatchState, Reference
from campaign.oracle import Account, Oracle
from campaign.schedule import WALL, Hangs, account_of, alarm, once, run
from campaign.tally import Tally, page, table
from random_mechanisms import random_tree
from random_placements import placed_in_plane


def worse(x):
    """Numbers that are a little wrong."""
    x = np.asarray(x)
    return x + 1e-3 * (1 + np.abs(x)) if x.dtype.kind == "f" else x + 1


def verdict(oracle, question, answer) -> list[str]:
    account = Account()
    oracle.judge(account, question, answer)
    assert account.comparisons > 0
    return account.finds


FORMS = [one for one in ORACLES if isinstance(one, closed_forms.ClosedForm)]


@pytest.mark.variant
def test_four_bars_are_right_and_wrong_ones_are_found(monkeypatch):
    oracle = linkages.FourBar()
    monkeypatch.setattr(linkages.FourBar, "lanes", 300)
    question = oracle.question(1)
    answer = oracle.answer(question)
    assert verdict(oracle, question, answer) == []
    for k, word in enumerate(("q", "v", "a", "status")):
        changed = [worse(x) if j == k else x for j, x in enumerate(answer)]
        # A status that is wrong hides its numbers.
        assert verdict(oracle, question, changed)[0].startswith(word)
    assert set(np.unique(answer[3])) == {0, 1, 3}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("oracle", FORMS, ids=lambda one: one.name)
def test_closed_forms_tell_wrong_from_right(oracle, monkeypatch):
    """Values of the formula pass; slightly wrong ones do not."""
    monkeypatch.setattr(type(oracle), "lanes", 40)
    b, angles = question = oracle.question(2)
    low, high = (f(angles[:, :1], angles) for f in (np.minimum, np.maximum))
    possible = oracle.margin(b, low, high)[0] > 0
    status = np.where(possible, 0, np.where(possible[:, :1], 3, 1))
    states = [np.nan_to_num(np.asarray(x)) for x in closed_forms._evaluate(oracle, b, angles)[0]]
    assert verdict(oracle, question, [*states, status]) == []
    for k in range(3):
        assert verdict(oracle, question, [*(worse(x) if j == k else x for j, x in enumerate(states)), status])
    assert verdict(oracle, question, [*states, status + 1])


def made_up():
    """Something like a bench, and something like a motion of it: six samples of a body of the plane."""
    rng = np.random.default_rng(0)
    q, v = rng.normal(size=(2, 6, 3))
    start = BatchState(q, v, np.ones(6), np.zeros(6), np.zeros(6, int))
    state = BatchState(q + 0.1, v, np.zeros(6), np.ones(6), np.zeros(6, int), start)
    mech = random_tree(rng, 1, dimension=2)[0]
    batch = jax.tree.map(lambda x: np.stack([x] * 6), mech), q, v
    reference = Reference(batch, 1.0, state, state, np.ones((6, 1)), np.full((6, 6), 1e-10), np.full((6, 1), 1e-12))
    bench = type(
        "Bench", (), {"steps": lambda self: 1, "structure": type("S", (), {"dimension": 2, "bodies": "a"})()}
    )()
    return bench, reference


def spoilt(state):
    return dataclasses.replace(state, q=worse(state.q))


def off(state):
    """Another last bit."""
    return dataclasses.replace(state, q=np.nextafter(state.q, 9))


def sample(state, k):
    return dataclasses.replace(state, q=state.q[k : k + 1], v=state.v[k : k + 1], status=state.status[k : k + 1])


def gradient(state, error):
    """A slope, the same beside it, and states along a straight line with a slope of 1."""
    steps = precision.Gradients.STEP * np.array([-2, -1, -0.5, -precision.FINE_STEP, precision.FINE_STEP, 0.5, 1, 2])
    slopes = [error * np.ones((6, 6))] * (1 + len(precision.SLOPE_OFFSETS))
    return slopes, [dataclasses.replace(state, q=state.q + h, v=state.v + h) for h in steps]


def in_single_precision(state):
    return dataclasses.replace(state, q=state.q.astype(np.float32), v=state.v.astype(np.float32))


def cases():
    """Oracle, question, a right answer and a wrong one."""
    bench, ref = made_up()
    state, rng = ref.state, np.random.default_rng(0)
    back = dataclasses.replace(state, q=state.start.q, v=-state.start.v)
    place = placed_in_plane(rng)
    turn = lambda x: np.einsum("ij,...j->...i", place.a, x)
    q, v = invariance._move_bodies(bench, place, state.q, state.v, turn)
    moved = dataclasses.replace(state, q=q, v=v)
    poisoned = dataclasses.replace(state, status=np.array([0, 0, 0, 0, 0, int(mbs.Status.NON_FINITE)]))
    poisons = np.array(["", "", "", "", "", "nan"])
    faster = dataclasses.replace(state, kinetic=worse(state.kinetic))
    single = in_single_precision(state)
    values = {"mass matrix": np.eye(3)}
    stacked = {"mass matrix": np.stack([np.eye(3)] * 6)}
    question = (0, ref.batch[0], None, None, None)
    rows = len(ref.batch[0].layout.row_owners)
    closed, open_ = ((state.q, state.status, gap * np.ones((6, rows)), np.ones((6, rows, 3))) for gap in (0.0, 1e-3))
    slope = [np.ones((6, 3))] * 3
    yield assemblies.RoughGuesses(), question, (closed, *slope, state.q), (open_, *slope, state.q)
    yield assemblies.RoughGuesses(), question, (closed, *slope, state.q), (closed, 1.1 * slope[0], *slope[1:], state.q)
    found = state.q, state.status
    yield assemblies.JointUnknowns(), (0, None, None), (found, found), (found, (state.q + 1e-6, state.status))
    yield assemblies.JointUnknowns(), (0, None, None), (found, found), (found, (state.q, np.arange(6) // 5))
    balanced, pulled = ((state.q, state.status, force * np.ones((6, 3)), np.ones((6, 3))) for force in (0.0, 1e-6))
    yield equilibria.OnSprings(), None, (balanced, *slope, state.q), (pulled, *slope, state.q)
    yield equilibria.OnSprings(), None, (balanced, *slope, state.q), (balanced, 1.1 * slope[0], *slope[1:], state.q)
    yield motions.Formulations(), (bench, ref, None), ref, dataclasses.replace(ref, state=spoilt(state))
    yield motions.Energy(), (bench, ref), (state.start, state, state), (state.start, faster, faster)
    yield motions.Reversal(), (bench, ref), (state.start, back), (state.start, spoilt(back))
    yield motions.Momentum(), (bench, ref), (q, q, q), (q, worse(q), worse(q))
    yield invariance.Moved(), (bench, ref, place), moved, spoilt(moved)
    yield invariance.Units(), (bench, ref), (state, state), (off(state), state)
    yield invariance.Units(), (bench, ref), (state, state), (state, spoilt(state))
    yield invariance.Permuted(), (bench, ref), state, spoilt(state)
    yield invariance.Batches(), (bench, ref, 2), sample(state, 2), off(sample(state, 2))
    yield invariance.Neighbours(), (bench, ref, poisons, rng), poisoned, off(poisoned)
    yield invariance.Neighbours(), (bench, ref, poisons, rng), poisoned, state
    yield precision.Gradients(), (bench, ref, None), gradient(state, 1.0), gradient(state, 1.01)
    yield precision.SinglePrecision(), (bench, ref), single, spoilt(single)
    yield precision.SinglePrecision(), (bench, ref), single, state
    yield (
        precision.Eager(),
        (bench, ref, [2]),
        (stacked, stacked, [values]),
        (jax.tree.map(worse, stacked), stacked, [values]),
    )


def test_judges_of_motions_tell_wrong_from_right():
    seen = set()
    for oracle, question, right, wrong in cases():
        assert verdict(oracle, question, right) == [], oracle.name
        assert verdict(oracle, question, wrong) != [], oracle.name
        seen.add(oracle.name)
    with_files = {one.name for one in ORACLES if isinstance(one, (files.RoundTrip, files.Mutilated, commands.Commands))}
    assert seen | with_files | {one.name for one in FORMS} == {one.name for one in ORACLES}


def test_files_there_and_back():
    oracle = files.RoundTrip()
    question = oracle.question(4)
    model, *rest = answer = oracle.answer(question)
    assert verdict(oracle, question, answer) == []
    assert verdict(oracle, question, [jax.tree.map(worse, model), *rest])
    assert verdict(oracle, question, [*answer[:-1], "another text"])


@pytest.mark.parametrize("oracle", [one for one in ORACLES if isinstance(one, files.Mutilated)], ids=lambda x: x.name)
def test_mutilated_files(oracle, monkeypatch):
    if oracle.suffix == ".xml":
        pytest.importorskip("mujoco")
    monkeypatch.setattr(files, "BATCH", 20)
    question = oracle.question(3)
    answer = oracle.answer(question)
    assert verdict(oracle, question, answer) == []
    assert sum(error is not None for error in answer) > 0
    for wrong in (KeyError("x"), Hangs(), mbs.ModelError("model.json: two\nlines"), mbs.ModelError("no file is named")):
        assert len(verdict(oracle, question, [wrong, *answer[1:]])) == 1


def test_mutilated_commands(monkeypatch):
    monkeypatch.setattr(commands, "VALID_COMMANDS", (("schema",), ("convert", "slider_crank.json", "copy.json")))
    monkeypatch.setattr(commands, "BATCH", 8)
    oracle = commands.Commands()
    question = oracle.question(2)
    answer = oracle.answer(question)
    assert verdict(oracle, question, answer) == []
    assert {outcome[0] for outcome in answer} >= {2}
    complaint = "jaxmbs: no\n"
    for wrong in (KeyError("x"), (3, "", complaint), (2, "", ""), (2, "", 2 * complaint), (1, "", "Traceback")):
        assert len(verdict(oracle, question, [wrong, *answer[1:]])) == 1


class Looking(Oracle):
    """Says what its seed says."""

    name, about, seconds = "looking", "odd seeds are wrong", 0.01

    def question(self, seed):
        return seed

    def answer(self, question):
        if question == 4:
            raise KeyError("unexpected")
        return question % 2

    def judge(self, account, question, answer):
        account.count("poses", 10)
        account.within("parity", float(answer), 0.0, 0.5, 1.0)


def test_rounds_have_the_seeds_that_reproduce_them(tmp_path, monkeypatch):
    tally, said = Tally(tmp_path, 2), []
    for _ in range(3):
        tally = Tally(tmp_path, 2)
        seed = tally.seed + (tally.lines["looking"].rounds if tally.lines else 0)
        tally.begin("looking", seed)
        tally.add("looking", seed, account_of(Looking(), seed), 0.0)
    assert [(find["seed"], find["oracle"]) for find in tally.finds] == [(3, "looking"), (4, "looking")]
    assert "KeyError" in tally.finds[1]["what"]
    assert "parity" in tally.finds[0]["what"]
    (line,) = tally.lines.values()
    assert (line.rounds, line.counts, line.finds) == (3, {"poses": 20}, 2)
    clock = itertools.count(0.0, 0.05)
    monkeypatch.setattr(schedule.time, "monotonic", lambda: next(clock))
    run([Looking()], Tally(tmp_path, 2), 1.0, said.append)
    assert said[0].startswith("FIND  make campaign SEED=5 ONLY=looking: parity")


def test_finds_are_asked_again_by_their_seeds(monkeypatch, capfd):
    """Each round with a find runs once more in a fresh process; it repeats if there is a find, or the process dies."""
    finds = [
        {"oracle": "looking", "seed": seed, "what": what} for seed, what in ((3, "a"), (3, "b"), (4, "a"), (5, "a"))
    ]
    asked, codes = [], {"3": 0, "4": 1, "5": -11}

    def again(command, cwd):
        asked.append(command[3:])
        return subprocess.CompletedProcess(command, codes[command[5]])

    monkeypatch.setattr(program.subprocess, "run", again)
    assert [find["seed"] for find in program.repeat_finds(finds)] == [4, 5]
    assert asked == [["--once", "--seed", seed, "--only", "looking"] for seed in codes]
    assert "looking with seed 3 does not repeat.\n" in capfd.readouterr().out


@pytest.mark.parametrize(("seed", "code"), [(2, 0), (3, 1)])
def test_a_round_that_is_asked_again_fails_if_it_finds_something(seed, code, monkeypatch):
    monkeypatch.setattr("campaign.list.ORACLES", (Looking(),))
    for name in ("JAXMBS_CACHE", "XLA_FLAGS"):  # which it sets
        monkeypatch.setenv(name, os.environ.get(name, ""))
    monkeypatch.setattr(sys, "argv", ["campaign", "--once", "--seed", str(seed), "--only", "looking"])
    assert program.main() == code


def test_once_runs_each_oracle_once(tmp_path):
    tally, said = Tally(tmp_path, 3), []
    once([Looking(), Looking()], tally, said.append)
    assert tally.lines["looking"].rounds == 2
    assert [find["seed"] for find in tally.finds] == [3, 4]
    assert tally.running is None


def test_a_round_that_ends_the_process_is_a_find(tmp_path):
    Tally(tmp_path, 7).begin("looking", 9)
    (find,) = Tally(tmp_path, 7).finds
    assert (find["oracle"], find["seed"]) == ("looking", 9)
    with pytest.raises(ValueError, match="seed 7"):
        Tally(tmp_path, 8)


def test_processes_are_summed(tmp_path):
    """The tally of a campaign in several processes is that of all of their rounds, whichever process ran them."""
    one, parts = Tally(tmp_path / "one", 2), [Tally(tmp_path / str(k), 2) for k in range(2)]
    for seed in range(2, 6):
        for tally in (one, parts[seed % 2]):
            tally.add("looking", seed, account_of(Looking(), seed), 1.5)
    whole = Tally(tmp_path, 2)
    whole.set_sum(parts)
    assert Tally(tmp_path, 2).lines == one.lines
    assert sorted(find["seed"] for find in whole.finds) == [find["seed"] for find in one.finds] == [3, 4, 5]


def test_what_hangs_ends():
    def hang():
        with alarm(5, WALL), alarm(0.05):
            while True:
                pass

    with pytest.raises(Hangs):
        hang()


def test_tables(tmp_path):
    tally = Tally(tmp_path, 0)
    tally.add("looking", 0, Looking().round(0), 1.0)
    assert "10 poses" in table(tally.lines)
    text = page(Tally(tmp_path, 0), {"looking": Looking.about})
    assert "with the seed 0, took 0 minutes.\nIt covered 10 poses.\nIt made 1 comparisons" in text
    assert text.splitlines()[-1].startswith("| looking | odd seeds are wrong | 1 | 10 poses | 1 | 0 |")


def test_names_are_unique():
    assert len({one.name for one in ORACLES}) == len(ORACLES)
