"""One report of each kind, for tests of what all of them can do."""

from __future__ import annotations

from typing import Any

import pytest

import foltr_audit as fa
from foltr_audit.core.results import Estimate
from tests.fixtures.comparisons import several
from tests.fixtures.made_reports import (
    abrupt,
    attack_report,
    check_report,
    judged_lists,
    membership_report,
    odd_findings,
    recommendation,
    train_report,
    unlearning_report,
)


@pytest.fixture(scope="module")
def reports() -> dict[str, Any]:
    return {
        "attack": attack_report({1.2: judged_lists()}),
        "train": train_report(abrupt()),
        "audit": next(odd_findings()),
        "compare": several(),
        "calibrate": fa.calibrate(1.2, parameters=46),
        "list": fa.list_defenses(),
        "recommend": recommendation(),
        "check": check_report(),
        "membership": membership_report(Estimate(0.6, (0.5, 0.7)), ceiling=0.7),
        "unlearn": unlearning_report(none=2.0),
        "function": fa.audit_mechanism(lambda x, rng: x + rng.laplace(), (0.0, 1.0), eps=1.0, trials=400),
    }
