"""Reports of unlearning: a bound where none can be, what the games and the history show in words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from foltr_audit.auditing.estimators import LowerBound
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.settings.unlearning import UnlearningMethod
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.unlearning.experiment import UnlearningFinding, UnlearningGame, UnlearningResult
from foltr_audit.report.results.unlearning import UnlearningReport, conclusions, unlearning_table
from foltr_audit.utils.rows import Estimate
from tests.fixtures.run_results import run_of

ROUND = {"offline_ndcg@10": 0.5, "online_ndcg@10": 0.5, "maxrr": 0.5, "clipped": 0.0}


def finding(method: UnlearningMethod, epsilon: float) -> UnlearningFinding:
    """What a method reaches, with a bound."""
    lower = LowerBound(
        estimator="clopper-pearson", epsilon=epsilon, ceiling=3.3, confidence=0.95, delta=0.0, trials=100
    )
    some = Estimate(0.5, (0.4, 0.6))
    return UnlearningFinding(
        method=method,
        trainings=210,
        ndcg=some,
        distance=some,
        relative=some,
        floor=1.2,
        client_rounds=5.0,
        interactions=20.0,
        stored_bytes=2_500_000.0 if method == "fed-remove" else 0.0,
        game=UnlearningGame(lower=lower, score="projection"),
    )


def report(*findings: UnlearningFinding) -> UnlearningReport:
    """A report on these findings."""
    spec = Spec(unlearning={"clients": [3, 1]}, train={"rounds": 1})
    cell = replace(run_of(spec, [ROUND]), unlearning=UnlearningResult(findings=findings))
    return UnlearningReport.of(Plan((spec,)), [cell])


def test_a_bound_on_exact_unlearning_is_a_warning() -> None:
    (warning,) = report(finding("retrain", 0.4), finding("none", 2.0)).warnings
    assert warning.warning.startswith("retrain: eps >= 0.4, where 0 is true: one run in 20")
    assert not report(finding("retrain", 0.0), finding("none", 2.0)).warnings


def test_conclusions_name_the_methods_that_tell() -> None:
    rows = report(finding("none", 2.0), finding("fed-remove", 1.5), finding("retrain", 0.0)).results
    (told,) = conclusions(rows)
    assert told == "the model tells that they were there after none (eps >= 2.00), fed-remove (eps >= 1.50)."
    assert list(conclusions(rows[2:])) == ["no game tells whether they were there."]


def test_the_table_says_who_leaves_and_what_is_stored() -> None:
    found = report(finding("none", 2.0), finding("fed-remove", 0.0))
    table = unlearning_table(found.results, found.results)
    assert "clients 1, 3 of 20 leave after 1 round" in table.title
    cells = np.array([[cell.text for cell in line.cells] for line in table.lines])
    assert cells[:, -1].tolist() == ["-", "2.5 MB"]
    assert cells[:, 3].tolist() == ["2.00", "0.00"]
    assert [line.cells[3].mark for line in table.lines] == ["bad", ""]
