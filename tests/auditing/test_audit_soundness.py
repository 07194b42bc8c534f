"""Audits that once said what was not so: assumptions, drop-outs, the wire, whole runs."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import pytest

from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.core.plugins import Attack, Defense, Inference, View
from foltr_audit.core.results import AuditRecord
from foltr_audit.errors import UsageError
from foltr_audit.privacy.events import NoiseAddition, OpaqueChange, PrivacyEvent
from foltr_audit.privacy.loss.composition import pure_over
from foltr_audit.privacy.noise import Gaussian
from foltr_audit.utils.arrays import Floats
from tests.conftest import SetupOf
from tests.fixtures import tiny
from tests.fixtures.audits import CLIENT, findings

GRID = "clip:norm=1.5+discrete-gaussian:sigma=6,step=0.0009765625,sensitivity=3,delta=0.00001"


def found(setup_of: SetupOf, chain: str, made: dict[str, Any] | None = None, **protocol: Any) -> AuditRecord:
    setup = setup_of(chain=parse_chain([chain]), **(made or {}))
    (only,) = findings(setup, **{"trials": 1000, **protocol})
    return only


def test_gaussian_dp_is_not_taken_where_clicks_are_randomised_too(setup_of: SetupOf) -> None:
    chain = "click-rr:eps=1+clip:norm=1.5+gaussian:sigma=0.000001"
    mixed = found(setup_of, chain, units=("click",), views=("individual",), delta=1e-5)
    assert mixed.lower.estimator == "one-run"
    assert mixed.verdict == "proven"
    alone = found(setup_of, "clip:norm=1+gaussian:eps=1,delta=0.00001,sensitivity=2", **CLIENT)
    assert alone.lower.estimator == "gaussian-dp"


def test_gaussian_dp_is_refused_where_noise_is_not_gaussian(setup_of: SetupOf) -> None:
    chain = "clip:norm=1.5,ord=1+laplace:eps=1.2,sensitivity=3"
    with pytest.raises(UsageError, match="whose only noise is normal"):
        found(setup_of, chain, **CLIENT, delta=1e-5, estimator="gaussian-dp")
    plain = found(setup_of, chain, **CLIENT, delta=1e-5)
    assert "gaussian-dp" not in {bound.estimator for bound in plain.estimates}


def test_a_secure_sum_is_proven_for_the_fewest_that_it_opens(setup_of: SetupOf) -> None:
    wire = "secure-aggregation:threshold=5"
    secure = found(setup_of, f"{GRID}+{wire}", **{**CLIENT, "views": ("aggregate",)})
    all_of_them = found(setup_of, GRID, **{**CLIENT, "views": ("aggregate",)})
    assert "in the sum of 5 messages" in secure.upper.how
    assert "in the sum of 8 messages" in all_of_them.upper.how
    assert secure.upper.epsilon > all_of_them.upper.epsilon * 1.1
    assert secure.verdict == "refuted", "trials are of the fewest, too"
    assert all_of_them.verdict == "proven"


def test_a_secure_sum_is_never_of_fewer_than_it_opens(setup_of: SetupOf) -> None:
    setup = setup_of(chain=parse_chain([f"{GRID}+secure-aggregation:threshold=7"]))
    from tests.fixtures.audits import session

    assert session(setup, drop_out=0.9).members("aggregate") == 7
    assert session(setup_of(chain=parse_chain([GRID])), drop_out=0.9).members("aggregate") == 1


def test_what_the_encoding_rounds_away_is_not_seen(setup_of: SetupOf) -> None:
    slow = {"learner": "fpdgd:learning_rate=0.0001"}
    coarse = "clip:norm=1.5+secure-aggregation:fraction=0,bits=32"
    blind = found(setup_of, coarse, slow, views=("aggregate",), claim=0.5)
    assert blind.lower.epsilon == 0.0
    fine = found(setup_of, "clip:norm=1.5+secure-aggregation", slow, views=("aggregate",), claim=0.5)
    assert fine.verdict == "refuted"


def test_the_whole_run_has_its_own_interactions(setup_of: SetupOf) -> None:
    made = {"rounds": 3, "learner": "fpdgd:interactions=4"}
    alone: dict[str, Any] = {"units": ("query",), "views": ("individual",), "interactions": 1}
    run = found(setup_of, "click-rr:eps=0.5", made, **alone)
    assert run.upper.epsilon == pytest.approx(10 * 0.5)
    assert run.whole_run.upper.delta == 1e-5
    assert run.whole_run.upper.epsilon == pytest.approx(pure_over(0.5, 3 * 4 * 10, 1e-5))
    whole = found(setup_of, "click-rr:eps=0.5", made, **(alone | {"interactions": None}))
    assert whole.interactions == 4, "as many as the learner's"
    assert whole.upper.epsilon == pytest.approx(4 * 10 * 0.5)


def test_no_noise_and_no_number_that_is_none(setup_of: SetupOf) -> None:
    for chain in ("random-k:k=2,rescale=true", "clip:norm=0.5,at=message+top-k:k=3", "none"):
        bare = found(setup_of, chain, views=("individual",), canaries=("data:no-click",), claim=1.0)
        assert bare.verdict in ("refuted", "false by exact loss")


class CentralNoise(Defense):
    """Noise that the server adds."""

    name: ClassVar[str] = "toy-central"

    def on_aggregate(self, aggregate: Floats, *given: Any) -> Floats:
        return aggregate + 1.0

    def events(self, context: Any) -> tuple[PrivacyEvent, ...]:
        return (NoiseAddition(law=Gaussian(sigma=1.0)),)


def test_noise_of_the_server_is_no_noise_of_a_client() -> None:
    chain, context = DefenseChain((CentralNoise(), *parse_chain(["clip:norm=1"]))), tiny.context([0])
    assert isinstance(chain.events(context)[-1], OpaqueChange)
    never = DefenseChain(parse_chain(["clip:norm=1"])).events(context, acts_without_pairs=False)
    assert [event.always for event in never if hasattr(event, "always")] == [False]


class Pools(Attack):
    """Scores every message of a view by the mean of all of them."""

    name: ClassVar[str] = "toy-pools"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        mean: Floats = view.updates.mean(axis=0)
        scores = np.broadcast_to(view.features[:, 0] @ mean, view.shown[:, 0].shape)[:, np.newaxis]
        return Inference(scores=scores, guess=np.zeros(view.shown.shape, dtype=np.bool_))


def test_an_attack_that_pools_trials_learns_nothing_of_single_ones(
    setup_of: SetupOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    from foltr_audit.auditing import audit, trial_scores

    for room in (trial_scores, audit):
        monkeypatch.setattr(room, "make", lambda kind, text: Pools())
    chain = "clip:norm=1.5,ord=1+laplace:eps=1.2,sensitivity=3"
    alone: dict[str, Any] = {"views": ("individual",), "interactions": 1}
    pooled = found(setup_of, chain, **alone, score="toy-pools", trials=4000)
    assert pooled.lower.epsilon < 1.2
    assert math.isfinite(pooled.lower.epsilon)
