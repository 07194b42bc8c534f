"""A seed that drives a client's generator gives its clicks away, at any epsilon."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from foltr_audit.inference.seeded_clients import SeededClients
from foltr_audit.judge.observer import Observer
from foltr_audit.trace import Trace
from tests.fixtures.command import Done, run
from tests.fixtures.seeded_searchers import SOURCE, write_seeded

GENERATOR = "numpy-randomstate"


def attacked(trace: Path, *options: str) -> Done:
    return run("attack", "--trace", trace, "--data", SOURCE, "--json", *options)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seeded") / "trace"
    write_seeded(folder, perturbation=GENERATOR)
    return folder


@pytest.mark.parametrize("hidden", [(), ("--hide", "order")])
def test_every_click_is_read_though_the_metric_is_noise(trace: Path, hidden: tuple[str, ...]) -> None:
    """The fixture plays clients by their rule; it shares only the order of equal scores with the attack."""
    report = attacked(trace, "--method", "es-seed", "--method", "es-first-click", *hidden).json()
    rows = {row["method"]: row for row in report["results"] if row["lists"] == 120}
    assert rows["es-seed"]["exact"] == rows["es-seed"]["auc"] == 1.0
    assert rows["es-first-click"]["exact"] < 0.5


@pytest.mark.parametrize("stated", [None, "other", "foltr-audit"])
def test_nothing_is_replayed_without_the_fact(tmp_path: Path, stated: str | None) -> None:
    write_seeded(tmp_path / "trace", clients=5, rounds=1, perturbation=stated)
    refused = attacked(tmp_path / "trace", "--method", "es-seed")
    assert refused.code == 2
    assert "seeds drive NumPy's RandomState (fact perturbation)" in refused.one_error()


def test_seeds_that_explain_no_query_are_left_unread(tmp_path: Path) -> None:
    """Clients of the same data whose queries do not follow from their seeds: nothing is named."""
    data = write_seeded(tmp_path / "trace", perturbation=GENERATOR)
    opened = Trace.open(tmp_path / "trace")
    (seen,) = Observer(opened.header, data).views(next(iter(opened.rounds())))
    clicks, explained = SeededClients(seen.view).replayed()
    assert explained.all()
    assert clicks.any()
    candidates = seen.view.candidates
    assert candidates is not None
    moved = np.roll(candidates.query, 1, axis=0)
    different = moved[:, 0] != candidates.query[:, 0]
    other = replace(seen.view, candidates=replace(candidates, query=moved))
    clicks, explained = SeededClients(other).replayed()
    assert not explained[different].any()
    assert not clicks[different].any()
