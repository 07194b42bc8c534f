"""Subjects of a check made by hand."""

from __future__ import annotations

from typing import Any

from foltr_audit.evidence.check.limits import Limits
from foltr_audit.evidence.check.outcomes import Outcome, outcomes
from foltr_audit.evidence.check.subjects import Reading, Subject
from foltr_audit.judge.bootstrap import Interval
from foltr_audit.privacy.observers import sees


def attack(method: str, auc: float | None, interval: Interval | None) -> dict[str, Any]:
    """A row of an attack on many lists."""
    return {
        "method": method,
        "auc": auc,
        "auc_ci95": None if interval is None else list(interval),
        "lists": 100,
    }


def claim(view: str = "individual", **changes: Any) -> dict[str, Any]:
    """A row of an audited view: a claim of 1 that is proven, half of it measured."""
    row = {
        "view": view,
        "sees": sees(view),
        "defense": "toy",
        "unit": "interaction",
        "canary": "data:worst",
        "eps_claimed": 1.0,
        "delta": 0.0,
        "eps_upper": 1.0,
        "eps_exact": 0.75,
        "eps_lower": 0.5,
        "eps_ceiling": 5.0,
        "trials": 100,
        "verdict": "proven",
        "why": "proven up to 1",
        "upper_how": "by a toy",
    }
    return row | changes


def subject(**changes: Any) -> Subject:
    """A subject that a limit can be held against in every way."""
    fields: dict[str, Any] = {
        "name": "toy, perfect clicks",
        "attacks": [attack("olsr", 0.7, (0.6, 0.8))],
        "claims": [claim(), claim("aggregate")],
        "ndcg": Reading(value=0.4, interval=(0.3, 0.5)),
        "loss": Reading(value=0.1, interval=(0.05, 0.15)),
    }
    return Subject(**(fields | changes))


def judged(limit: str, value: float | bool, held: Subject, **more: Any) -> Outcome:
    """One limit held against one subject."""
    only = outcomes(Limits.parse({limit: value, **more}, ""), [held])
    assert len(only) == 1
    return only[0]
