"""A claim is about every round: canaries are searched at several global models and played at the worst."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foltr_audit.auditing.audit import Audit
from foltr_audit.core.results import AuditRecord
from foltr_audit.core.settings.audit import AuditSpec
from foltr_audit.experiments.runs.folder import RunFolder
from foltr_audit.experiments.stages import first_model, train
from tests.conftest import SetupOf
from tests.fixtures.audits import ToyClip, ToyLaplace
from tests.fixtures.tiny import FEATURES

FLAT, STEEP = np.zeros(FEATURES), np.linspace(-5, 5, FEATURES)


def found(setup_of: SetupOf, canary: str, *names: str, steep_first: bool = False) -> AuditRecord:
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


def test_models_along_a_run_are_those_that_shorter_runs_end_with(setup_of: SetupOf, tmp_path: Path) -> None:
    ends = {rounds: train(setup_of(rounds=rounds)).parameters for rounds in (1, 3, 4)}
    longest = setup_of(rounds=4)
    expected = [first_model(longest), ends[1], ends[3], ends[4]]
    np.testing.assert_array_equal(train(longest, along=4).along, expected)
    few = setup_of(rounds=1)
    np.testing.assert_array_equal(train(few, along=3).along, [first_model(few)] * 2 + [ends[1]])
    for resume in (False, True):  # the second time its rounds are read from the folder
        folder = RunFolder.create(tmp_path / "run", longest.spec, resume=resume)
        np.testing.assert_array_equal(train(longest, folder, along=4).along, expected)


def test_each_of_several_messages_starts_from_the_model_of_its_round(setup_of: SetupOf) -> None:
    """A pair whose shift is larger at one model than at the other loses both of its losses together."""
    client: dict[str, Any] = {"units": ("query",), "views": ("individual",), "trials": 50, "min_documents": 4}
    setup = setup_of(chain=(ToyClip(norm=1e6), ToyLaplace()))
    several = Audit(setup, AuditSpec(**client, messages=2))
    (pooled,) = several.findings({"rounds": [FLAT, STEEP]})
    assert pooled.model == "rounds"
    canary = several.session([FLAT, STEEP]).canary("data:worst", "query")
    losses = []
    for model in (FLAT, STEEP):
        alone = Audit(setup, AuditSpec(**client)).session([model])
        losses.append(alone.exact(canary, "individual", 0.0))
    assert losses[0] != losses[1]
    assert pooled.exact == pytest.approx(sum(loss or 0.0 for loss in losses))
