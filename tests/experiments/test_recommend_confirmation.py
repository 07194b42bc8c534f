"""What the test split can show against a defense that `recommend` chose, and what counts as within limits."""

from __future__ import annotations

import math
from typing import Any

import pytest

from foltr_audit.core.results import GapRecord, ProofRecord
from foltr_audit.experiments.recommend.recommend import broken_on_test
from foltr_audit.experiments.recommend.space import PrivacyLimits
from foltr_audit.experiments.table import NOT_TESTED
from foltr_audit.privacy.bounds import UpperBound
from tests.fixtures.comparisons import checked, lost, setting

PROOF = ProofRecord(
    of="all rounds", view="individual", unit="interaction", rounds=1, auc=0.65,
    upper=UpperBound(epsilon=1.2, delta=0.0, how="noise"),
)  # fmt: skip


def broken(limits: dict[str, float], auc: float | None = 0.55, **pool: Any) -> list[str]:
    """What is broken by a pool whose best attack has an AUC with an interval of .04."""
    fields = {**checked("proven"), "proofs": (PROOF,), **pool}
    return broken_on_test(setting("a", 1.2, auc=auc, **fields), [], PrivacyLimits(**limits))  # type: ignore[arg-type]


def test_within_all_limits_nothing_is_broken() -> None:
    assert broken({"max_eps": 1.2, "max_auc": 0.6, "max_proven_auc": 0.65}) == []


@pytest.mark.parametrize(
    ("limits", "pool", "words"),
    [
        (
            {"max_eps": 2.0, "max_auc": 0.56},
            {},
            "at most .570 (limit .560); the best guess without a message has .600",
        ),
        ({"max_eps": 2.0, "max_auc": 0.6}, {"auc": None}, "no attack could be run on the test split"),
        ({"max_eps": 1.0}, {}, "the audit proves epsilon 1.2, above 1"),
        ({"max_eps": 2.0}, checked("not refuted"), "the audit proves no epsilon"),
        ({"max_eps": 2.0}, checked("refuted", proven=1.2), "the verdict on its epsilon is: refuted"),
        ({"max_eps": 2.0}, {"audits": ()}, "its epsilon was not audited"),
        ({"max_proven_auc": 0.6}, {}, "the proof leaves an AUC of .650, above .600"),
        (
            {"max_eps": 2.0},
            {"difference": lost(0.045)},
            "cost not known: .045 of nDCG@10 lost, at 95 % confidence up to .055 (limit .050); about 400 "
            "test queries would settle it, instead of 100",
        ),
        (
            {"max_eps": 2.0},
            {"difference": lost(0.07)},
            "costs too much: .070 of nDCG@10 lost, at 95 % confidence at least .060 (limit .050)",
        ),
        ({"max_eps": 2.0}, {"difference": NOT_TESTED}, "there is no run without a defense to compare with"),
        ({"max_proven_auc": 0.6}, {"proofs": ()}, "the proof leaves an AUC of 1.000, above .600"),
        (
            {"max_proven_auc": 0.7},
            checked("proven", declared="broken", declared_why="half the noise"),
            "the proof leaves an AUC of 1.000, above .700",
        ),
    ],
)
def test_a_broken_limit_is_named(limits: dict[str, float], pool: dict[str, Any], words: str) -> None:
    (fault,) = broken(limits, **pool)
    assert fault.endswith(words)


def test_no_defense_costs_nothing() -> None:
    alone = setting("none", auc=0.55, proofs=(PROOF,), **checked("proven"))
    assert broken_on_test(alone, [], PrivacyLimits(max_eps=math.inf)) == []


def test_what_could_not_be_run_confirms_nothing() -> None:
    lost = [GapRecord(what="failed", why="no disk")]
    for pool in (None, setting("a", 1.2, **checked("proven"))):
        assert broken_on_test(pool, lost, PrivacyLimits(max_eps=math.inf)) == [
            "the confirmation could not be run: no disk"
        ]
