"""Audits of observers that see lists, and of other clients that tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from foltr_audit.core.results import AuditRecord
from foltr_audit.core.settings.audit import AuditSpec
from foltr_audit.errors import UsageError
from foltr_audit.simulation.setup import Setup
from tests.conftest import SetupOf
from tests.fixtures.audits import EPS, findings, session
from tests.fixtures.tiny import FEATURES

PROVEN = ("clip:norm=1.5,ord=1", "laplace:eps=1.2,sensitivity=3")
BOTH = ("individual", "individual+lists")
GLOBAL = "fpdgd:rank_with=global"
MODEL = np.linspace(-0.3, 0.3, FEATURES)


def by_view(setup: Setup, **protocol: Any) -> dict[str, AuditRecord]:
    return {found.view: found for found in findings(setup, MODEL, **{"views": BOTH, **protocol})}


# --- deterministic lists --------------------------------------------------------------------------------


@pytest.mark.parametrize("canary", ["data:worst", "data:lists"])
def test_a_proof_for_messages_is_none_for_those_who_see_lists(canary: str, setup_of: SetupOf) -> None:
    """It was told as proven for both: the second list shows the clicks on the first one, without noise."""
    found = by_view(setup_of(defense=PROVEN), interactions=2, canaries=(canary,), claim=EPS, trials=400)
    message, lists = found["individual"], found["individual+lists"]
    assert message.verdict == "proven"
    assert message.upper.epsilon == pytest.approx(EPS)
    assert lists.upper.epsilon == np.inf
    if canary == "data:lists":
        assert lists.exact == np.inf
        assert lists.verdict == "refuted"
        assert lists.score == "lists"
        assert lists.lower.epsilon == pytest.approx(lists.lower.ceiling), "every trial is told apart"


@pytest.mark.parametrize(
    ("learner", "protocol"),
    [(GLOBAL, {"interactions": 2}), ("fpdgd", {"interactions": 1})],
    ids=["lists of the global model", "one interaction"],
)
def test_a_proof_stands_where_no_list_follows_from_clicks(
    learner: str, protocol: dict[str, Any], setup_of: SetupOf
) -> None:
    found = by_view(setup_of(defense=PROVEN, learner=learner), claim=EPS, trials=2000, **protocol)
    for each in found.values():
        assert each.verdict == "proven"
        assert each.upper.epsilon == pytest.approx(EPS)
        assert each.exact is not None
        assert each.exact <= EPS
    assert found["individual"].lower == found["individual+lists"].lower, "lists tell nothing"


def test_clicks_randomised_before_learning_are_proven_with_lists(setup_of: SetupOf) -> None:
    setup = setup_of(defense=("click-rr:eps=1", "clip:norm=1.5"))
    found = by_view(setup, units=("click",), canaries=("data:lists",), interactions=2, trials=2000)
    for each in found.values():
        assert (each.eps_claimed, each.verdict) == (1.0, "proven")
    assert found["individual+lists"].lower.epsilon > 0.3, "lists tell what is reported"


def test_different_lists_are_searched_only_where_there_can_be_any(setup_of: SetupOf) -> None:
    with pytest.raises(UsageError, match="one list per message; expected --canary-interactions 2 or more"):
        by_view(setup_of(), canaries=("data:lists",), interactions=1)
    with pytest.raises(UsageError, match="the global model ranks every list"):
        by_view(setup_of(learner=GLOBAL), canaries=("data:lists",), interactions=2)


# --- sampled lists --------------------------------------------------------------------------------------


def test_sampled_lists_refute_a_claim(setup_of: SetupOf) -> None:
    setup = setup_of(defense=PROVEN)
    protocol: dict[str, Any] = {"lists": "sampled", "interactions": 4, "canaries": ("data:lists",)}
    (found,) = findings(setup, MODEL, claim=0.5, trials=4000, views=("individual+lists",), **protocol)
    assert found.exact is None
    assert found.verdict == "refuted"
    assert found.score == "likelihood"


def test_the_likelihood_of_sampled_lists_is_a_change_of_measure(setup_of: SetupOf) -> None:
    """`E[p1 / p0]` is 1 under input 0, and `E[p0 / p1]` under input 1, by definition; nothing else is."""
    played = session(
        setup_of(learner="fpdgd:learning_rate=0.004"),
        MODEL,
        trials=20_000,
        lists="sampled",
        interactions=3,
        views=("individual+lists",),
    )
    canary = played.canary("data:lists", "interaction")
    ((zero, one),) = played.games.play(canary, np.arange(played.at_once), members=1, lists=True)
    assert zero.list_evidence is not None
    assert one.list_evidence is not None
    for ratios in (np.exp(zero.list_evidence), np.exp(-one.list_evidence)):
        error = ratios.std() / np.sqrt(ratios.size)
        assert abs(ratios.mean() - 1.0) < 5 * error
        assert ratios.std() > 20 * error, "lists do tell something"
    assert one.list_evidence.mean() > 0.05 > -0.05 > zero.list_evidence.mean()


def test_an_observer_of_sampled_lists_sees_them() -> None:
    sampled = AuditSpec(lists="sampled")
    assert sampled.views_of("interaction") == ("individual+lists", "aggregate+lists")
    with pytest.raises(ValidationError, match="expected a --view with lists"):
        AuditSpec(lists="sampled", views=("individual",))
    with pytest.raises(ValidationError, match="expected a --view without lists"):
        AuditSpec(units=("client",), views=("individual+lists",))
    assert AuditSpec(units=("client",)).views_of("client") == ("individual", "aggregate")


# --- other clients that tell ----------------------------------------------------------------------------


def test_the_more_clients_tell_the_less_noise_is_left(setup_of: SetupOf) -> None:
    setup = setup_of(defense=("clip:norm=1.5", "skellam:sigma=9,step=0.0009765625"), clients=12)
    protocol: dict[str, Any] = {
        "units": ("client",), "canaries": ("message",), "views": ("colluding",), "delta": 1e-5,
    }  # fmt: skip
    told = {
        k: findings(setup, MODEL, colluders=k, claim=30.0, trials=4000, **protocol)[0]
        for k in (0, 3, 11, None)
    }
    aggregate = findings(setup, MODEL, **{**protocol, "views": ("aggregate",)}, claim=30.0, trials=4000)[0]
    assert told[0].upper.epsilon == aggregate.upper.epsilon
    assert told[0].lower == aggregate.lower
    assert told[0].upper.epsilon < told[3].upper.epsilon < told[11].upper.epsilon
    assert told[0].lower.epsilon < told[3].lower.epsilon < told[11].lower.epsilon
    assert (told[11].upper, told[11].lower) == (told[None].upper, told[None].lower)
    assert [found.colluders for found in told.values()] == [0, 3, 11, None]
    with pytest.raises(ValidationError, match="expected --view colluding"):
        AuditSpec(colluders=3)


def test_only_several_messages_start_from_models_along_the_run() -> None:
    assert AuditSpec(units=("client",), messages=3).along == 3
    assert AuditSpec(units=("client",), messages=3, models=("first",)).along == 0
    assert AuditSpec().along == 0


@pytest.mark.parametrize(
    ("made", "warned"),
    [
        ({"defense": PROVEN}, True),
        ({"defense": PROVEN, "learner": GLOBAL}, False),
        ({"defense": PROVEN, "learner": "fpdgd:interactions=1"}, False),
        ({"defense": ("click-rr:eps=1", "clip:norm=1.5")}, False),
        ({"learner": "foltr-es", "defense": ("metric-rr:eps=1.2",)}, False),
    ],
)
def test_noise_whose_clicks_lists_tell_is_warned_of(
    made: dict[str, Any], warned: bool, setup_of: SetupOf
) -> None:
    told = [
        warning for warning in setup_of(**made).privacy.warnings() if "sees the shown lists" in warning.text
    ]
    assert len(told) == warned
    assert all(warning.text.startswith("laplace: ") for warning in told)
