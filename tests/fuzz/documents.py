"""Readers of texts: Specs, plans, grids, limits, plug-ins and command lines."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from foltr_audit.cli.main import main
from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.core.plugins import Attack, ClickModel, Defense, Learner, Plugin
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.rankers import make_ranker
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.settings.population import canonical_scenarios
from foltr_audit.errors import UsageError
from foltr_audit.evidence.check.limits import SystemLimits
from foltr_audit.experiments.comparison.alternatives import DefenseAlternative
from foltr_audit.experiments.comparison.grid import ComparisonGrid
from foltr_audit.experiments.plan import Plan, read_tables
from foltr_audit.privacy.events import parse_event
from foltr_audit.privacy.noise import parse_law
from tests.fuzz.mutations import ODD_TEXTS, Random, changed_bytes, changed_text, changed_toml
from tests.fuzz.watch import Feed

SPEC = Spec.parse(
    {"attack": {"methods": ["olsr", "map"]}, "defense": ["clip:norm=3", "laplace:eps=1.2,sensitivity=3"]}
).toml
GRID = ComparisonGrid.parse({"sensitivity_grid": [1.0, 3.0], "attacks": ["olsr"]}).toml
PLAN = SPEC.replace("seed = 1\n", "") + "\n[[cells]]\nseed = 1\n\n[[cells]]\nseed = 2\ndata.fold = 1\n"
LIMITS = 'max_attack_auc = 0.6\nmax_proven_eps = 1.2\nmin_ndcg = 0.3\nview = "aggregate"\nuse = "value"\n'


def _of_file(text: str, read: Callable[[str, str], object]) -> Callable[[Path], Feed]:
    """A reader of a file, fed with changed ones through the same door as the command line's."""

    def made(folder: Path) -> Feed:
        from foltr_audit.cli.options import read_text

        path = folder / "given.toml"

        def feed(rng: Random) -> None:
            path.write_bytes(changed_toml(rng, text))
            read(read_text(path, "--config"), str(path))

        return feed

    return made


def _read_spec(text: str, where: str) -> None:
    spec = Spec.from_toml(text, where)
    assert Spec.from_toml(spec.toml).hash == spec.hash


def _read_plan(text: str, where: str) -> None:
    assert Plan.of(read_tables(text, where), where).toml


def _read_grid(text: str, where: str) -> None:
    grid = ComparisonGrid.from_toml(text, where)
    assert ComparisonGrid.from_toml(grid.toml, where) == grid


spec_toml = _of_file(SPEC, _read_spec)
plan_toml = _of_file(PLAN, _read_plan)
grid_toml = _of_file(GRID, _read_grid)
limits_toml = _of_file(LIMITS, lambda text, where: SystemLimits.from_toml(text, where).table())


def neighbours(folder: Path) -> Feed:
    """Inputs of an audited function, from a file of each kind and from options."""
    from foltr_audit.cli.audit import input_pair

    array = io.BytesIO()
    np.savez(array, zero=np.zeros(3), one=np.ones((2, 2)))
    made = {
        "given.npz": lambda rng: changed_bytes(rng, array.getvalue()),
        "given.json": lambda rng: changed_text(rng, '{"zero": [0, 1.5], "one": [[1, 2], [3, 4]]}'),
        "given.toml": lambda rng: changed_toml(rng, "zero = [0, 1]\none = [1.5, 2]\n"),
    }

    def feed(rng: Random) -> None:
        if rng.random() < 0.7:
            name = rng.choice(list(made))
            (folder / name).write_bytes(made[name](rng))
            input_pair(str(folder / name), None, None, "")
        text = changed_text(rng, rng.choice(("0,1,2.5", "[[1, 2], [3, 4]]"))).decode("utf-8", "replace")
        input_pair(None, text, text, "")

    return feed


_TEXTS: tuple[tuple[type[Plugin] | Callable[[str], object], tuple[str, ...]], ...] = (
    (Attack, ("olsr", "map", "joint-map", "query-id", "lad")),
    (Defense, ("clip:norm=3", "gamma-laplace:eps=1.2,sensitivity=3", "top-k:k=3", "skellam:sigma=1,step=1")),
    (Learner, ("fpdgd:normaliser=shown,pairs=all", "foltr-es", "dbgd", "coltr", "pdgd")),
    (ClickModel, ("perfect", "navigational")),
    (canonical_scenarios, ("quantity-skew:batches=1/3/5", "label-skew:grades=2+intent-skew", "abrupt")),
    (lambda text: DefenseChain(parse_chain((text,))).texts, ("clip:norm=3", "laplace:eps=2,sensitivity=1")),
    (
        lambda text: DefenseAlternative(text).text,
        ("published+secure-aggregation", "proven-laplace", "clip:norm={clip}"),
    ),
    (lambda text: make_ranker(text, 5), ("neural:hidden=64,layers=2", "linear")),
    (parse_event, ("bounded:of=model,norm=1.5,ord=2", "summed:at-least=3,neighbours=4,needed=2", "opaque:x")),
    (parse_law, ("gamma-share:n=10,scale=2.5,count=3", "skellam:sigma=1e2,step=0.5")),
    (lambda text: Spec.parse({"data": {"source": text, "intents": text}}).toml, ("synthetic:5", "synthetic")),
)


def plugin_texts(folder: Path) -> Feed:
    """Texts of plug-ins, with other values, names and separators."""
    del folder

    def feed(rng: Random) -> None:
        reader, texts = rng.choice(_TEXTS)
        text = changed_text(rng, rng.choice(texts)).decode("utf-8", "surrogateescape")
        if isinstance(reader, type):
            assert make(reader, text).text
        else:
            with contextlib.suppress(ValueError):  # of what stands in a Spec, where it becomes a line
                reader(text)

    return feed


# --- command lines --------------------------------------------------------------------------------

_COMMANDS = """\
train --data synthetic:mq2007:30 --fold 1 --rounds 2 --clients 5
attack --method olsr --repeats 2 --on test --min-documents 5 --queries q1
attack --trace here --target fresh --data there
audit --defense laplace:eps=1.2,sensitivity=3 --trials 50 --delta 1e-5 --view individual
compare --runs 1 --eps 1.2,2.3 --defense none --fold all
calibrate --eps 1.2 --clients 10 --delta 1e-5
check limits.toml --config spec.toml
diff a b --json
study significance a b --metric final
report a --out -
check a.zip --sample 1 --seed 3
study show pham-2022
data info synthetic:mq2007:30
list attacks
trace validate a
recommend --max-eps 3 --candidates 2
""".splitlines()


def command_lines(folder: Path) -> Feed:
    """Commands whose words are others; none of them plays a round."""
    from foltr_audit.experiments.comparison.workers import Workers
    from foltr_audit.experiments.runner import Runner

    def stopped(*_: object, **__: object) -> None:
        raise UsageError("far enough")

    def feed(rng: Random) -> None:
        words = rng.choice(_COMMANDS).split()
        for _ in range(rng.choice([1, 1, 2, 3])):
            place = rng.randrange(1, len(words))
            odd = changed_text(rng, words[place]).decode("utf-8", "surrogateescape")
            odd = odd if rng.random() < 0.5 else rng.choice(ODD_TEXTS)
            words[place : place + rng.choice([0, 1, 1, 1, 1])] = [odd[:8000]]
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()):
            for owner, name in ((Runner, "run"), (Runner, "with_twins"), (Workers, "results")):
                patch.setattr(owner, name, stopped)
            patch.chdir(folder)
            said = io.StringIO()
            with contextlib.redirect_stderr(said):
                code = main([word for word in words if "\0" not in word])
        assert code in (0, 1, 2, 3), code
        assert code == 0 or said.getvalue().strip(), "an exit code without a word"

    return feed
