"""Rows of a comparison as subjects: each with its own attacks, claims and losses."""

from __future__ import annotations

from typing import Any

import pytest
from foltr_audit.evidence.check.report import warnings_of

from foltr_audit.core.results import UNKNOWN, Estimate
from foltr_audit.errors import UsageError
from foltr_audit.evidence.check.subjects import CheckSubject, subjects_of
from foltr_audit.experiments.comparison.grid import GridExclusion
from foltr_audit.report.results.compare import CompareReport
from foltr_audit.report.results.compare_rows import CellCounts, ComparedRefusal, CompareRow
from tests.fixtures.comparisons import attack, claim, result, warning, where


def row(name: str, number: float, difference: Estimate | None = None, **place: Any) -> CompareRow:
    """A row of a comparison whose numbers tell it from others."""
    alternative, _, eps = name.partition(", eps ")
    named = {"name": name, "defense": f"chain of {name}", "learner": "fpdgd", **place}
    of = where(alternative, **named, eps=float(eps) if eps else None)
    usual = Estimate(-number, (-number - 0.2, -number + 0.1))
    return result(of, [], number, ndcg_difference=usual if difference is None else difference)


ROWS = [
    row("none", 0.5, UNKNOWN),
    row("published, eps 1", 0.1),
    row("published, eps 2", 0.2),
    row("published, eps 2", 0.25, click_model="navigational"),
    row("click-rr:eps=1", 0.3),
    row("published, eps 2", 0.4, UNKNOWN, learner="foltr-es"),
]


def report(**changes: Any) -> CompareReport:
    """A comparison in which every row has an attack and a baseline, and the rows of one learner a claim."""
    fields: dict[str, Any] = {
        "config": {"audit": True},
        "dataset": None,
        "cells": CellCounts(attack=6, audit=0),
        "results": ROWS,
        "attacks": [
            attack(one.setting, method, one.ndcg.value, baseline=method == "prior")
            for one in ROWS
            for method in ("prior", "olsr")
        ],
        "claims": [claim(one.setting, "proven") for one in ROWS if one.setting.learner == "fpdgd"],
    }
    return CompareReport(**(fields | changes))


def found(
    *, defenses: tuple[str, ...] = (), eps: tuple[float, ...] = (), **changes: Any
) -> list[CheckSubject]:
    return subjects_of(report(**changes), defenses, eps)


def test_each_row_has_what_is_its_own() -> None:
    for subject, own in zip(found(), ROWS[1:], strict=True):
        assert subject.ndcg.found == own.ndcg
        assert [(one.method, one.auc.value) for one in subject.attacks] == [("olsr", own.ndcg.value)]
        if own.setting.learner == "fpdgd":
            assert {one.name for one in subject.claims} == {own.setting.name}
        else:
            assert not subject.claims


def test_names_tell_rows_apart() -> None:
    assert [subject.name for subject in found()] == [
        "published, eps 1, perfect clicks, fpdgd",
        "published, eps 2, perfect clicks, fpdgd",
        "published, eps 2, navigational clicks, fpdgd",
        "click-rr:eps=1, perfect clicks, fpdgd",
        "published, eps 2, perfect clicks, foltr-es",
    ]
    assert found(results=[row("a\x1b[31m\n", 0.1)])[0].name == "a?[31m?, perfect clicks"


def test_a_loss_is_the_difference_turned_round() -> None:
    first = found(defenses=("published",), eps=(1,))[0].loss
    assert first.found.value == pytest.approx(0.1)
    assert first.found.ci95 == pytest.approx((0.0, 0.3))
    assert found(defenses=("none",))[0].loss.found.value == 0.0
    assert "without a defense" in found()[-1].loss.missing


def test_rows_are_chosen_by_defense_and_epsilon() -> None:
    assert len(found(eps=(1,))) == 2  # click-rr is the same for every epsilon
    assert len(found(defenses=("published",), eps=(1, 2))) == 4
    assert len(found(defenses=("none", "click-rr:eps=1"))) == 2
    with pytest.raises(UsageError, match="3 is not an epsilon of this comparison; expected one of 1, 2"):
        found(eps=(3,))
    with pytest.raises(UsageError, match="only the runs without a defense"):
        found(results=ROWS[:1])
    left = [GridExclusion(learner="fpdgd", defense="metric-rr:eps=1", why="it has no metric stage")]
    with pytest.raises(UsageError, match="left out: it has no metric stage"):
        found(defenses=("metric-rr:eps=1",), left_out=left)


def test_why_there_is_no_audit() -> None:
    assert found(config={"audit": False})[0].no_audit == "the comparison ran without audits"
    left = [GridExclusion(learner="foltr-es", defense="audit", why="it sends metrics")]
    assert found(left_out=left)[-1].no_audit == "it sends metrics"


def test_refused_attacks_go_with_their_row() -> None:
    methods, of = ("position-prior", "map"), ROWS[2].setting
    refused = [ComparedRefusal(method=name, setting=of, reason="no law") for name in methods]
    subjects = found(refused=refused)
    assert [subject.refused for subject in subjects] == [{}, {"map": "no law"}, {}, {}, {}]
    assert not any(subject.all_attacks for subject in subjects)


def test_warnings_are_of_the_judged_rows_and_of_what_was_left_out() -> None:
    warnings = [warning(one.setting.name, "odd") for one in ROWS]
    left = [GridExclusion(learner="dbgd", defense="audit", why="no")]
    told = warnings_of(report(warnings=warnings, left_out=left), ["published, eps 1"])
    expected = ["published, eps 1: odd", "left out of the comparison: dbgd, audit: no"]
    assert [one.text for one in told] == expected
