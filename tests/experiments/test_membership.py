"""Shadow federations: who is in them, what they share, and what models tell with and without noise."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.membership import (
    ClientPool,
    MembershipFinding,
    ShadowTraining,
    ceiling,
    infer_membership,
)
from foltr_audit.privacy.gaussian_dp import gaussian_delta
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.progress import NO_TICK
from tests.fixtures.there import there
from tests.fixtures.tiny import tiny_collection

ALL = ["lira", "lira-offline", "rmia", "rmia-offline"]
WEAK_NOISE = "clip:norm=1+gaussian:sigma=1"
HIDES_ALL = "clip:norm=1+gaussian:sigma=1000"


def setup_of(
    *,
    defense: str = "none",
    clients: int = 8,
    cohort: int | None = None,
    separation: int | None = None,
    rounds: int = 5,
    message: str = "model",
    **protocol: object,
) -> Setup:
    """Small federations on tiny data."""
    table = {
        "defense": [defense],
        "data": {"source": "tiny", "normalise": "none"},
        "population": {"clients": clients, "cohort": cohort, "separation": separation},
        "train": {"rounds": rounds, "click_model": "informational"},
        "trace": {"message": message},
        "membership": {"shadows": 64, "others": 40, "references": 4, "of": "log", "methods": ALL, **protocol},
    }
    return Setup(Spec.parse(table), tiny_collection())


@cache
def findings(defense: str) -> dict[tuple[str, str], MembershipFinding]:
    """What all methods find in both views."""
    return {(each.view, each.method): each for each in infer_membership(setup_of(defense=defense))}


def interval(found: MembershipFinding, metric: str = "auc") -> tuple[float, float]:
    return there(found.metrics[metric].ci95)


# --- who takes part -------------------------------------------------------------------------------


def test_a_federation_has_a_random_half_of_the_candidates() -> None:
    pool, federations = ClientPool(20, 0), 2000
    members = pool.halves(federations, np.random.default_rng(1))
    assert (members.sum(axis=1) == 20).all()
    # Each candidate is in with probability 1/2; false alarms of 40 counts together below 1e-6.
    low, high = (binom.ppf(rate, federations, 0.5) for rate in (1e-8, 1 - 1e-8))
    assert low <= members.sum(axis=0).min()
    assert members.sum(axis=0).max() <= high
    # Two candidates are in together with probability 1/2 19/39.
    both = (members[:, 0] & members[:, 1]).sum()
    assert binom.ppf(5e-7, federations, 19 / 78) <= both <= binom.ppf(1 - 5e-7, federations, 19 / 78)


def test_everybody_plays_once_in_a_partition() -> None:
    pool = ClientPool(7, 3)
    parts = pool.partition(np.random.default_rng(1))
    assert [part.size for part in parts] == [7] * 5
    assert sorted(np.concatenate(parts)) == list(range(pool.clients)) == list(range(35))
    assert set(np.concatenate(parts[:2])) == set(range(pool.candidates))


# --- what federations share -----------------------------------------------------------------------


def first_updates(of: str, *, defense: str = "none") -> list[NDArray[np.float64]]:
    """Of two federations with other members: queries and update of client 0, and the model after a round."""
    training = ShadowTraining(setup_of(defense=defense), of)
    found: list[NDArray[np.float64]] = []
    for branch, members in (("a", np.arange(8)), ("b", np.array([0, *range(8, 15)]))):
        context, sent, after = next(training._play(branch, members))
        assert context.clients[0] == 0
        found += [sent.interactions.queries[0].astype(float), sent.updates[0], after.parameters]
    return found


def test_a_client_asks_the_same_queries_in_every_federation() -> None:
    here, one, _, there, other, _ = first_updates("client")
    np.testing.assert_array_equal(here, there)
    assert (one != other).any(), "its lists and clicks are drawn anew"


def test_a_log_is_the_same_in_every_federation() -> None:
    here, one, mine, there, other, theirs = first_updates("log", defense=WEAK_NOISE)
    np.testing.assert_array_equal(here, there)
    np.testing.assert_array_equal(one, other)
    assert (mine != theirs).all(), "the others and the noise differ"


def test_noise_is_drawn_anew_in_every_federation() -> None:
    """The same members twice: without noise a log gives the same model, with noise another one."""
    members = np.tile(np.arange(16) < 8, (2, 1))
    for defense, same in (("none", True), (WEAK_NOISE, False)):
        models = ShadowTraining(setup_of(defense=defense), "log").models(members, NO_TICK)
        assert (models[0] == models[1]).all() == same


def test_expected_updates_add_up_to_the_change_of_the_model() -> None:
    """One partition, no defense: the mean update of each federation is its change."""
    setup = setup_of()
    training = ShadowTraining(setup, "log")
    members = np.arange(16) < 8
    parts = [np.flatnonzero(members), np.flatnonzero(~members)]
    updates = training.updates(16, [parts], NO_TICK)
    first = [next(training._play(f"reference/0/{n}", part)) for n, part in enumerate(parts)]
    for part, (context, _, after) in zip(parts, first, strict=True):
        change = after.parameters - context.parameters
        np.testing.assert_allclose(updates[part, 0].sum(axis=0), change, rtol=1e-5, atol=1e-7)


def test_clients_outside_of_a_cohort_add_nothing() -> None:
    training = ShadowTraining(setup_of(clients=8, cohort=2, rounds=3), "log")
    updates = training.updates(8, [[np.arange(8)]], NO_TICK)
    assert ((updates != 0).any(axis=2).sum(axis=0) <= 2).all()


# --- what leaks -----------------------------------------------------------------------------------


def test_undefended_federations_leak_their_members() -> None:
    found = findings("none")
    assert set(found) == {(view, method) for view in ("released", "client") for method in ALL}
    for method in ALL:
        assert interval(found["client", method])[0] > 0.7
        assert interval(found["released", method])[0] > 0.5
        every, last = (found[view, method].metrics["auc"].value for view in ("client", "released"))
        assert every > last, "who sees every model sees the last one"
        assert found["client", method].ceiling.metrics == {}, "nothing is proven"
    # RMIA needs more than 100 others for a false positive rate of 1 %.
    assert interval(found["client", "lira"], "tpr_at_1")[0] > 0.02


def test_two_global_models_in_a_row_tell_less_than_all() -> None:
    """And as much as the whole of a run of one round, where both views see the same two models."""
    last = infer_membership(setup_of(rounds=5, rounds_seen=1, views=["client"], methods=["lira"]))[0]
    every = findings("none")["client", "lira"].metrics["auc"].value
    assert 0.5 < last.metrics["auc"].value < every
    released, client = infer_membership(setup_of(rounds=1, rounds_seen=1, methods=["lira"]))
    assert released.metrics == client.metrics


def test_noise_that_hides_a_client_leaves_chance() -> None:
    """The ceiling itself is close to chance; the AUC of 512 members and others within five deviations."""
    for each in findings(HIDES_ALL).values():
        assert each.ceiling.metrics["auc"] < 0.51
        assert each.metrics["auc"].value == pytest.approx(0.5, abs=0.13)


@pytest.mark.parametrize("defense", [WEAK_NOISE, HIDES_ALL, "clip:norm=0.01+gaussian:sigma=0.01"])
def test_no_attack_exceeds_its_ceiling(defense: str) -> None:
    """By more than five standard deviations of as many trials as there are federations."""
    for each in findings(defense).values():
        assert set(each.ceiling.metrics) == set(each.metrics)
        for name, found in each.metrics.items():
            limit = each.ceiling.metrics[name]
            room = 5 * np.sqrt(max(limit * (1 - limit), 0.25 / each.federations) / each.federations)
            assert found.value <= limit + room


def test_the_ceiling_is_that_of_gaussian_noise_over_all_rounds() -> None:
    """Replacing a client moves a sum of 8 by 2 clips, under noise of sqrt(8), or sqrt(7) to one of them."""
    setup = setup_of(defense=WEAK_NOISE)
    for view, honest in (("released", 8), ("client", 7)):
        mu = 2 * np.sqrt(5) / np.sqrt(honest)
        found = ceiling(setup, view)  # type: ignore[arg-type]
        assert gaussian_delta(mu, found.bound.epsilon) == pytest.approx(1e-5, rel=0.01)


def test_cohorts_lower_the_ceiling_of_the_released_model_more() -> None:
    """A participant colludes as one client, for whom 8 of the other 39 are drawn: deltas are averaged."""
    chain = "clip:norm=1+gaussian:sigma=3"
    whole, part = (setup_of(defense=chain, clients=n, cohort=8) for n in (8, 40))
    assert ceiling(part, "released").bound.epsilon < ceiling(whole, "released").bound.epsilon
    eps, times = ceiling(part, "client").bound.epsilon, np.arange(6)
    deltas = [gaussian_delta(2 * np.sqrt(k) / (3 * np.sqrt(7)), eps) if k else 0.0 for k in times]
    assert binom.pmf(times, 5, 8 / 39) @ deltas == pytest.approx(1e-5, rel=0.01)
    assert ceiling(part, "released").bound.epsilon < eps < ceiling(whole, "client").bound.epsilon


def test_noise_of_the_aggregator_protects_from_participants_too() -> None:
    """Nobody who takes part knows any of it, so both ceilings are the same."""
    setup = setup_of(defense="clip:norm=1+correlated-gaussian:sigma=9", clients=8, cohort=2, separation=4)
    one, other = ceiling(setup, "released"), ceiling(setup, "client")
    assert np.isfinite(one.bound.epsilon)
    assert one.bound == other.bound
    assert infer_membership(setup)[0].ceiling.metrics == one.metrics


def test_a_participant_who_is_not_in_a_cohort_knows_that_the_others_are() -> None:
    """Of 8 clients 7 play a round: for who does not play nobody else is in doubt, so no sample is secret."""
    chain = "clip:norm=1+correlated-gaussian:sigma=9"
    part, whole = (setup_of(defense=chain, clients=8, cohort=cohort) for cohort in (7, None))
    assert ceiling(part, "client").bound.epsilon == ceiling(whole, "client").bound.epsilon
    assert ceiling(part, "released").bound.epsilon < ceiling(whole, "released").bound.epsilon


@pytest.mark.parametrize("message", ["model", "update"])
def test_the_same_seed_gives_the_same_findings(message: str) -> None:
    one, other = (
        infer_membership(setup_of(message=message, shadows=16, others=8, references=1)) for _ in range(2)
    )
    assert one == other


def test_another_method_changes_nothing_of_the_first() -> None:
    alone, both = (
        infer_membership(setup_of(methods=methods, shadows=16, others=8, references=1))
        for methods in (["lira"], ["rmia", "lira"])
    )
    assert list(alone) == [each for each in both if each.method == "lira"]


def test_without_a_protocol_nothing_is_trained() -> None:
    setup = setup_of()
    assert infer_membership(Setup(setup.spec.only_trained, setup.collection)) == ()


# --- the protocol ---------------------------------------------------------------------------------


def test_membership_assumes_few_clients_and_the_learner_of_attacks() -> None:
    spec = Spec(membership={})
    assert spec.population.clients == 50
    assert spec.train.learner == Spec(attack={}).train.learner
    assert Spec(membership={}, population={"clients": 7}).population.clients == 7
    assert Spec.from_toml(spec.toml) == spec
    assert Spec().population.clients == 1000
