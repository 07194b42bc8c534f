"""A seed that drives a client's generator gives queries, clicks and the next seed away, at any epsilon."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

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


def row_of(report: Any, table: str, method: str) -> Any:
    (found,) = [row for row in report[table] if row["method"] == method]
    return found


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


def test_messages_of_one_client_form_a_chain_of_seeds(trace: Path) -> None:
    report = attacked(trace, "--method", "es-seed-link", "--choices", "8").json()
    assert row_of(report, "linkage", "es-seed-link")["accuracy"] == 1.0
    assert row_of(report, "linkage", "count")["accuracy"] == pytest.approx(1 / 8)


def test_a_chain_longer_than_the_words_that_are_tried_is_not_found(trace: Path) -> None:
    """Two lists take at least two words for queries, so the next seed is never the first one."""
    report = attacked(trace, "--method", "es-seed-link:words=1", "--choices", "8").json()
    assert row_of(report, "linkage", "es-seed-link:words=1")["accuracy"] == pytest.approx(1 / 8)


def test_the_query_of_a_message_of_one_list_is_named(tmp_path: Path) -> None:
    write_seeded(tmp_path / "one", lists=1, perturbation=GENERATOR)
    report = attacked(tmp_path / "one", "--method", "es-seed-query", "--choices", "4").json()
    assert row_of(report, "query_identification", "es-seed-query")["accuracy"] == 1.0


@pytest.mark.parametrize("stated", [None, "other", "foltr-audit"])
def test_nothing_is_replayed_without_the_fact(tmp_path: Path, stated: str | None) -> None:
    write_seeded(tmp_path / "trace", clients=5, rounds=1, perturbation=stated)
    for method in ("es-seed", "es-seed-link"):
        refused = attacked(tmp_path / "trace", "--method", method)
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
