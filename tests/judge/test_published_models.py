"""Changes of the global model: under Krum one client's update, which its lists give away."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import foltr_audit as fa
from foltr_audit.core.plugins import Defense
from foltr_audit.core.plugins.registry import make
from foltr_audit.errors import UsageError
from foltr_audit.experiments.stages import make_attacks
from foltr_audit.judge.clicks import infer_round
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.pieces import with_messages
from foltr_audit.judge.published_models import PublishedModels, SingledOut, seen_as_published
from foltr_audit.rng import Streams
from foltr_audit.simulation.recorder import MemoryRoundStore
from foltr_audit.trace import TraceHeader
from foltr_audit.utils.arrays import Floats
from tests.fixtures import foreign_trace
from tests.fixtures.command import run
from tests.fixtures.foreign_trace import System
from tests.fixtures.tiny import context

PLAIN = System(clients=8, rounds=5, shares=None, seed=5)
SEVERAL = replace(PLAIN, lists=4)
TOO_MANY = replace(PLAIN, clients=5, rounds=1, lists=6)  # more documents than parameters
NOISY = replace(PLAIN, shares=1000)
RULE = "krum:malicious=1"

Rounds = list[tuple[fa.RoundRecord, fa.RoundTruth]]


def ruled(system: System, rule: str) -> Rounds:
    """The rounds of a system after each of which the server publishes what a rule makes of the updates."""
    made = []
    for record, truth in foreign_trace.records(system):
        updates = np.asarray(record.messages, dtype=np.float64)
        here = replace(context(range(len(updates)), P=updates.shape[1]), message="update")
        weights = np.full(len(updates), 1 / len(updates))
        after = make(Defense, rule).on_aggregate(weights @ updates, updates, weights, here)
        made.append((replace(record, aggregate=record.parameters + after), truth))
    return made


def header(system: System, rule: str | None = None) -> TraceHeader:
    facts = {"aggregate": "other", "defense": None if rule is None else [rule]}
    return foreign_trace.header(system, facts=facts)


def published(
    system: System, rounds: Rounds, hidden: frozenset[str] = frozenset(), rule: str | None = None
) -> PublishedModels:
    store = MemoryRoundStore(header(system, rule))
    for record, truth in rounds:
        store.write(record, truth)
    return seen_as_published(store, Observer(store.header, None, hidden))[0]


def krum_choice(updates: Floats, malicious: int) -> int:
    """The client that Krum selects, by plain loops."""
    scores = []
    for one in updates:
        apart = sorted(float(((one - other) ** 2).sum()) for other in updates)
        scores.append(sum(apart[1 : len(updates) - malicious - 1]))  # without the distance to itself
    return int(np.argmin(scores))


@pytest.mark.parametrize("system", [PLAIN, SEVERAL])
def test_krum_publishes_the_update_of_a_client_who_is_found(system: System) -> None:
    rounds = ruled(system, RULE)
    changes = published(system, rounds)
    for found, truth, (record, everyone) in zip(changes.rounds(), changes.truths(), rounds, strict=True):
        chosen = krum_choice(everyone.updates, 1)
        np.testing.assert_allclose(found.messages[0], everyone.updates[chosen], atol=1e-12)
        assert (found.clients, found.isolated) == (1, True)
        np.testing.assert_array_equal(found.shown, record.shown[record.slot == chosen])
        np.testing.assert_array_equal(truth.clicks, everyone.clicks[record.slot == chosen])
    every = len(rounds)
    assert changes.tally == SingledOut(rounds=every, singled_out=every, right=every, published=every)


def test_the_attack_on_the_change_is_that_on_the_message() -> None:
    rounds = ruled(PLAIN, RULE)
    changes, attacks = published(PLAIN, rounds), make_attacks(["olsr", "map"])
    for found, (record, truth) in zip(changes.rounds(), rounds, strict=True):
        alone, rows = with_messages(record, np.array([krum_choice(truth.updates, 1)]))
        server = infer_round(alone, Observer(changes.header, None), attacks, Streams(1)).guessed
        client = infer_round(found, Observer(changes.header, None), attacks, Streams(1)).guessed
        for method in ("olsr", "map"):
            np.testing.assert_array_equal(client[method].guess, server[method].guess)
            np.testing.assert_array_equal(client[method].guess, truth.clicks[rows])


MIXTURES = ("median", "trimmed-mean:share=.2", "norm-bound:norm=9", "bulyan:malicious=1")


@pytest.mark.parametrize("rule", MIXTURES)
def test_a_mixture_is_nobody_s(rule: str) -> None:
    changes = published(PLAIN, ruled(PLAIN, rule))
    for found in changes.rounds():
        assert (found.clients, found.isolated) == (8, False)
        np.testing.assert_array_equal(found.origins, np.arange(8))
    assert changes.tally == SingledOut(rounds=5)


def test_the_mean_is_read_as_the_sum_of_all() -> None:
    rounds = foreign_trace.records(PLAIN)
    for found, (record, _) in zip(published(PLAIN, rounds).rounds(), rounds, strict=True):
        np.testing.assert_allclose(found.messages[0], record.messages.sum(axis=0), atol=1e-12)


@pytest.mark.slow
def test_clicks_name_a_client_whose_documents_span_everything() -> None:
    rounds = ruled(TOO_MANY, RULE)
    changes = published(TOO_MANY, rounds)
    assert all(found.isolated for found in changes.rounds())
    assert changes.tally == SingledOut(rounds=1, singled_out=1, right=1, published=1)
    linear = published(TOO_MANY, rounds, frozenset({"learning_rate"}))  # without which no clicks are searched
    assert not any(found.isolated for found in linear.rounds())
    assert linear.tally == SingledOut(rounds=1, published=1)


def test_who_knows_the_law_of_the_noise_or_the_rule_finds_the_client_under_noise() -> None:
    rounds = ruled(NOISY, RULE)
    for hidden, rule, right in (("noise", None, 0), ("intents", None, 5), ("noise", RULE, 5)):
        changes = published(NOISY, rounds, frozenset({hidden}), rule)
        assert sum(found.isolated for found in changes.rounds()) == right
        assert changes.tally == SingledOut(rounds=5, singled_out=right, right=right, published=5)


def test_a_mean_of_chosen_messages_is_read_as_their_sum() -> None:
    rule = "multi-krum:malicious=1,chosen=3"
    rounds = ruled(PLAIN, rule)
    for found, (record, _) in zip(published(PLAIN, rounds, rule=rule).rounds(), rounds, strict=True):
        np.testing.assert_allclose(found.messages[0], 3 * (record.aggregate - record.parameters))
        sums = (record.messages[list(three)].sum(axis=0) for three in combinations(range(8), 3))
        assert min(np.abs(one - found.messages[0]).max() for one in sums) < 1e-12


def test_nobody_is_named_without_lists_or_features() -> None:
    rounds = ruled(PLAIN, RULE)
    for name in ("features", "shown", "query"):
        assert not any(found.isolated for found in published(PLAIN, rounds, frozenset({name})).rounds())


def test_a_clip_does_not_hide_the_client() -> None:
    clipped = replace(PLAIN, clip=0.1)
    rounds = ruled(clipped, RULE)
    changes = published(clipped, rounds)
    for found, (record, _) in zip(changes.rounds(), rounds, strict=True):
        chosen = krum_choice(np.asarray(record.messages), 1)
        assert found.isolated
        np.testing.assert_array_equal(found.shown, record.shown[[chosen]])
    # Two clients with the same documents explain one change; their clicks tell them apart.
    assert (changes.tally.right, changes.tally.several) == (5, 1)


def test_clients_with_the_same_list_both_fit() -> None:
    (record, truth), *_ = ruled(PLAIN, RULE)
    chosen = krum_choice(truth.updates, 1)
    other = (chosen + 1) % 8
    shown, query = record.shown.copy(), record.query.copy()
    features = np.array(record.features)
    for values in (shown, query, features):
        values[other] = values[chosen]
    twins = published(PLAIN, [(replace(record, shown=shown, query=query, features=features), truth)])
    assert len(list(twins.rounds())) == 1
    assert (twins.tally.singled_out, twins.tally.several) == (1, 1)


def test_a_round_without_a_change_tells_nothing() -> None:
    (record, truth), *rest = ruled(PLAIN, RULE)
    changes = published(PLAIN, [(replace(record, aggregate=record.parameters), truth), *rest])
    assert [found.round for found in changes.rounds()] == [1, 2, 3, 4]
    assert len(list(changes.truths())) == 4
    assert (changes.tally.rounds, changes.tally.unchanged) == (4, 1)


def test_what_does_not_fit_the_view_is_refused(tmp_path: Path) -> None:
    options = ("attack", "--view", "client", "--data", "synthetic:mq2007:60")
    done, saturated = run(*options), run(*options, "--server", "saturate")
    assert (done.code, "view client: expected target training" in done.err) == (2, True)
    assert (saturated.code, "--view aggregate" in saturated.err) == (2, True)
    rounds = [(replace(record, aggregate=np.full(46, np.nan)), truth) for record, truth in ruled(PLAIN, RULE)]
    folder = foreign_trace.write(tmp_path / "t", header(PLAIN), rounds)
    with pytest.raises(UsageError, match="view client: round 0: expected models or updates, and"):
        fa.attack_trace(folder, "map", view="client")
