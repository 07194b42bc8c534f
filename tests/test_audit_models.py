"""A claim is about every round: canaries are searched at several global models and played at the worst."""

from __future__ import annotations

import numpy as np
import pytest

from foltr_audit.audit_spec import AuditSpec
from foltr_audit.auditing.audit import Audit, Finding
from tests.audited import ToyClip, ToyLaplace
from tests.conftest import SetupOf
from tests.toys import FEATURES

FLAT, STEEP = np.zeros(FEATURES), np.linspace(-5, 5, FEATURES)


def found(setup_of: SetupOf, canary: str, *names: str, steep_first: bool = False) -> Finding:
    first, trained = (STEEP, FLAT) if steep_first else (FLAT, STEEP)
    protocol = AuditSpec(models=names, canaries=(canary,), trials=50, min_documents=4, views=("individual",))
    audit = Audit(setup_of(chain=(ToyClip(norm=1e6), ToyLaplace())), protocol)
    several = {"first": [first], "trained": [trained]}
    (only,) = audit.findings({name: several[name] for name in names})
    return only


@pytest.mark.parametrize("canary", ["data:worst", "data:no-click"])
@pytest.mark.parametrize("steep_first", [False, True])
def test_the_model_with_the_larger_shift_is_played(setup_of: SetupOf, canary: str, steep_first: bool) -> None:
    alone = [
        found(setup_of, canary, name, steep_first=steep_first).exact or 0.0 for name in ("first", "trained")
    ]
    both = found(setup_of, canary, "first", "trained", steep_first=steep_first)
    assert alone[0] != alone[1]
    assert both.exact == max(alone)
    assert both.model == ("first", "trained")[int(np.argmax(alone))]


def test_a_typical_pair_is_played_at_the_last_model(setup_of: SetupOf) -> None:
    assert found(setup_of, "data:typical", "first", "trained").model == "trained"
    assert found(setup_of, "data:typical", "first").model == "first"
