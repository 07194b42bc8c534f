"""Sums of rounds: they are what secure aggregation would reveal, and what colluders leave of them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest

import foltr_audit as fa
from foltr_audit.core.plugins import Defense
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.fields import AttackFields
from foltr_audit.errors import UsageError
from foltr_audit.inference.replay import Replay
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.protocol import without_colluders
from foltr_audit.judge.published_models import PublishedModels, SingledOut
from foltr_audit.judge.round_sums import RoundSums, SumObserver, summed
from foltr_audit.privacy.secure_aggregation.fixed_point import FixedPoint
from foltr_audit.report.attack import AttackReport
from foltr_audit.rng import Streams
from foltr_audit.simulation.recorder import MemoryRoundStore
from foltr_audit.trace import Trace, TraceHeader
from foltr_audit.utils.arrays import Floats
from tests.conftest import SetupOf
from tests.fixtures import foreign_trace
from tests.fixtures.client_recordings import DATA, recorded
from tests.fixtures.command import run
from tests.fixtures.foreign_trace import System
from tests.fixtures.rounds import with_lists
from tests.fixtures.tiny import context

PLAIN = System(clients=4, rounds=3, shares=None, seed=5)
SEVERAL = System(clients=2, rounds=3, shares=None, seed=5, lists=2)


@cache
def rounds(system: System) -> list[tuple[RoundRecord, RoundTruth]]:
    return foreign_trace.records(system)


def store(system: System) -> MemoryRoundStore:
    made = MemoryRoundStore(foreign_trace.header(system))
    for record, truth in rounds(system):
        made.write(record, truth)
    return made


def exact(folder: Path, *methods: str) -> dict[str, float]:
    """Share of lists that each attack reads from the sums without an error."""
    report = fa.attack_trace(folder, methods or None, view="aggregate")
    return {row["method"]: row.number("exact") for row in report.results}


def test_a_sum_adds_what_arrived_and_keeps_its_lists() -> None:
    record, truth = rounds(PLAIN)[0]
    lost = replace(record, survivors=np.array([True, False, True, True]))
    found = summed(lost, foreign_trace.header(PLAIN))
    by_hand = sum((record.messages[i] for i in (0, 2, 3)), np.zeros(foreign_trace.FEATURES))
    np.testing.assert_allclose(found.messages[0], by_hand, rtol=1e-12)
    assert found.clients == 3
    assert found.origins.tolist() == [0, 1, 2]
    assert np.array_equal(found.shown, record.shown[[0, 2, 3]])
    models = replace(lost, messages=record.parameters + record.messages)
    change = summed(models, foreign_trace.header(PLAIN, kind="model")).messages[0] - record.parameters
    np.testing.assert_allclose(change, by_hand, atol=1e-12)
    one = replace(store(PLAIN), records=[lost], truth=[truth], rows=[{}])
    (its_truth,) = RoundSums(one).truths()
    assert np.array_equal(its_truth.clicks, truth.clicks[[0, 2, 3]])


def test_a_replay_of_a_sum_starts_every_client_again() -> None:
    recorded = store(SEVERAL)
    sums = RoundSums(recorded)
    record, (_, truth) = next(sums.rounds()), rounds(SEVERAL)[0]
    alone = next(Observer(recorded.header, None).views(rounds(SEVERAL)[0][0])).full
    together = next(SumObserver(sums.header, None).views(record)).full
    assert together.observer == "aggregate"
    clicks = truth.clicks.reshape(2, 2, -1)
    singly: Floats = Replay(alone).paths(np.arange(2), clicks)[-1] - alone.parameters
    added = Replay(together).paths(np.zeros(1, dtype=np.int64), clicks.reshape(1, 4, -1))[-1]
    np.testing.assert_allclose(added - together.parameters, singly.sum(axis=0, keepdims=True), atol=1e-12)
    np.testing.assert_allclose(added, together.models, atol=1e-9)


@pytest.mark.parametrize(
    ("clients", "observer", "noise"),
    [
        (4, "aggregate", "gamma-share:n=1000,scale=2.5,count=4"),
        (1, "individual", "gamma-share:n=1000,scale=2.5"),
    ],
)
def test_a_sum_has_the_noise_of_its_messages_and_of_one_is_that_message(
    clients: int, observer: str, noise: str
) -> None:
    system = replace(PLAIN, clients=clients, shares=1000)
    sums = RoundSums(store(system))
    seen = next(SumObserver(sums.header, None).views(next(sums.rounds()))).full
    assert (seen.observer, seen.knowledge.noise) == (observer, noise)
    np.testing.assert_allclose(seen.messages[0], rounds(system)[0][0].messages.sum(axis=0), rtol=1e-12)


@pytest.mark.parametrize(
    ("system", "least", "most"), [(PLAIN, 0.9, 1), (SEVERAL, 0.9, 1), (replace(PLAIN, shares=4), 0, 0.3)]
)
def test_clicks_are_read_out_of_sums_unless_noise_of_a_whole_cohort_hides_them(
    system: System, least: float, most: float, tmp_path: Path
) -> None:
    found = exact(foreign_trace.write(tmp_path / "t", foreign_trace.header(system), rounds(system)))
    assert least <= found["joint-map"] <= most
    assert least <= found["olsr"] <= most
    assert found["first-position"] < 0.5


def test_masked_messages_are_attacked_by_their_sum_alone(tmp_path: Path) -> None:
    facts = {"of": "update", "bits": 48, "fraction": 36, "range": 50.0}
    header = foreign_trace.header(PLAIN, kind="masked", dtype="uint64", facts=facts)
    encoding = header.encoding
    assert isinstance(encoding, FixedPoint)
    rng, masked = np.random.default_rng(1), []
    for record, truth in rounds(PLAIN):
        words = encoding.encode(record.messages, record.counts)
        total = encoding.reduced(words.sum(axis=0, dtype=np.uint64))
        noise = encoding.reduced(rng.integers(2**63, size=words.shape, dtype=np.uint64))
        masked.append((replace(record, messages=noise, total=total), truth))
    folder = foreign_trace.write(tmp_path / "t", header, masked)
    assert exact(folder, "olsr", "lad", "joint-map")["joint-map"] > 0.9
    alone = {row["method"]: row.number("exact") for row in fa.attack_trace(folder, "olsr").results}
    assert alone["olsr"] < 0.1


def test_one_list_for_all_is_counted(tmp_path: Path) -> None:
    made, four = [], np.zeros(4, dtype=np.int64)
    for record, truth in rounds(PLAIN):
        messages, after = record.messages[four], record.parameters + record.messages[0]
        same = with_lists(record, four, slot=record.slot, messages=messages, aggregate=after)
        made.append((same, replace(truth, clicks=truth.clicks[four])))
    folder = foreign_trace.write(tmp_path / "t", foreign_trace.header(PLAIN), made)
    report = fa.attack_trace(folder, "aggregate", view="aggregate")
    errors = {row["method"]: row["error"] for row in (one.plain() for one in report.counts)}
    assert set(errors) == {"constant", "aggregate"}  # the prior of positions needs the data set
    different = foreign_trace.write(tmp_path / "u", foreign_trace.header(PLAIN), rounds(PLAIN))
    refused = fa.attack_trace(different, ["aggregate", "olsr"], view="aggregate").refused
    assert {one["method"]: one["reason"] for one in refused}["aggregate"].startswith(
        "the clients of round 0 saw"
    )


def test_clients_without_recorded_lists_are_noise(tmp_path: Path) -> None:
    made = []
    for record, truth in rounds(PLAIN):
        kept = record.slot < 3
        told = replace(truth, clicks=truth.clicks[kept], clipped=truth.clipped[kept])
        made.append((with_lists(record, kept), told))
    sums = RoundSums(replace(store(PLAIN), records=[record for record, _ in made]))
    record = next(sums.rounds())
    assert (record.clients, record.unlisted) == (4, 1)
    assert SumObserver(sums.header, None).knowledge(record).noise is None
    facts = {"lists_known": "auditor"}
    folder = foreign_trace.write(tmp_path / "t", foreign_trace.header(PLAIN, facts=facts), made)
    warnings = [row["warning"] for row in fa.attack_trace(folder, "olsr", view="aggregate").warnings]
    assert any("3 messages in the sums have no recorded list" in text for text in warnings)
    assert any("given the shown lists, which this server does not have" in text for text in warnings)


def test_says_what_a_sum_lacks(tmp_path: Path) -> None:
    record, truth = rounds(PLAIN)[0]
    empty = replace(truth, clicks=truth.clicks[:0], clipped=truth.clipped[:0])
    bare = [(with_lists(record, slice(0)), empty)]
    folder = foreign_trace.write(tmp_path / "t", foreign_trace.header(PLAIN), bare)
    with pytest.raises(UsageError, match="no shown list is recorded"):
        fa.attack_trace(folder, view="aggregate")
    assert Trace.open(folder).n_interactions == 0


# --- clients that tell the server what they sent --------------------------------------------------


CLIENTS = 6


def test_a_sum_less_all_other_messages_is_the_message(setup_of: SetupOf) -> None:
    recording = recorded(setup_of, rounds=2, intents=[0, 1] * 3)
    left = without_colluders(recording, CLIENTS - 1, Streams(4))
    sums = RoundSums(left)
    observer = SumObserver(sums.header, DATA)
    target = {int(truth.members[0]) for truth in sums.truths()}
    assert len(target) == 1, "the same client in every round"
    (place,) = target
    for one, record in zip(sums.rounds(), recording.records, strict=True):
        everybody = record.messages.sum(axis=0)
        others = np.delete(record.messages, place, axis=0).sum(axis=0)
        np.testing.assert_allclose(one.messages[0], record.messages[place], rtol=1e-12)
        np.testing.assert_allclose(one.messages[0], everybody - others, atol=1e-12)
        (seen,) = observer.views(one)
        assert seen.view.observer == "individual"
        alone = next(Observer(recording.header, DATA).views(record)).view
        assert seen.view.knowledge.noise == alone.knowledge.noise, "the noise of one client"


def test_more_colluders_are_the_same_ones_and_others(setup_of: SetupOf) -> None:
    recording = recorded(setup_of, rounds=1, intents=[0, 1] * 3)
    stores = [without_colluders(recording, number, Streams(4)) for number in range(1, CLIENTS)]
    left = [set(np.flatnonzero(next(store.rounds()).survivors)) for store in stores]
    assert [len(some) for some in left] == [5, 4, 3, 2, 1]
    assert all(fewer < more for more, fewer in pairwise(left))
    assert without_colluders(recording, None, Streams(4)) is recording


def test_who_cannot_collude(setup_of: SetupOf) -> None:
    recording = recorded(setup_of, rounds=1, intents=[0, 1] * 3)
    with pytest.raises(UsageError, match=r"--colluders: 6 of 6 clients that send; expected at most 5"):
        without_colluders(recording, CLIENTS, Streams(4))
    with pytest.raises(ValueError, match="expected target training and view aggregate"):
        AttackSpec(colluders=1)
    assert AttackSpec(target="training", view="aggregate", colluders=0).colluders is None


def attacked(colluders: int, *defense: str) -> AttackReport:
    learner = "fpdgd:interactions=1,pairs=all,normaliser=shown"
    attack: AttackFields = {
        "methods": ["olsr"],
        "target": "training",
        "view": "aggregate",
        "colluders": colluders,
    }
    spec = fa.Spec(
        data={"source": "synthetic:mq2007:60"},
        population={"clients": 12},
        train={"rounds": 3, "learner": learner},
        defense=list(defense) or ["none"],
        trace={"message": "update", "dtype": "float64"},
        attack=attack,
    )
    return fa.attack(spec)


def test_lists_of_the_last_honest_client_are_read() -> None:
    exact = {}
    for colluders in (0, 11):
        (row,) = (row for row in attacked(colluders).results if row["method"] == "olsr")
        exact[colluders] = row.number("exact")
        assert row["lists"] <= 3 * (12 - colluders)
    assert exact[11] == 1.0
    assert exact[0] < 0.5
    with pytest.raises(UsageError, match="colluders: messages are masked"):
        attacked(11, "secure-aggregation")


SMALL = System(clients=8, rounds=5, shares=None, seed=5)
SEVERAL_ROUNDS = replace(SMALL, lists=4)
NOISY = replace(SMALL, shares=1000)
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
    return PublishedModels(store, Observer(store.header, None, hidden))


def krum_choice(updates: Floats, malicious: int) -> int:
    """The client that Krum selects, by plain loops."""
    scores = []
    for one in updates:
        apart = sorted(float(((one - other) ** 2).sum()) for other in updates)
        scores.append(sum(apart[1 : len(updates) - malicious - 1]))  # without the distance to itself
    return int(np.argmin(scores))


@pytest.mark.parametrize(
    ("system", "several"), [(SMALL, 0), (SEVERAL_ROUNDS, 0), (replace(SMALL, clip=0.1), 1)]
)
def test_krum_publishes_the_update_of_a_client_who_is_found(system: System, several: int) -> None:
    """Behind a clip two clients with the same documents explain one change; their clicks tell them apart."""
    rounds = ruled(system, RULE)
    changes = published(system, rounds)
    for found, truth, (record, everyone) in zip(changes.rounds(), changes.truths(), rounds, strict=True):
        chosen = krum_choice(np.asarray(record.messages), 1)
        np.testing.assert_allclose(found.messages[0], record.messages[chosen], atol=1e-12)
        assert (found.clients, found.isolated) == (1, True)
        np.testing.assert_array_equal(found.shown, record.shown[record.slot == chosen])
        np.testing.assert_array_equal(truth.clicks, everyone.clicks[record.slot == chosen])
    every = len(rounds)
    assert changes.tally == SingledOut(
        rounds=every, singled_out=every, several=several, right=every, published=every
    )


MIXTURES = ("median", "trimmed-mean:share=.2", "norm-bound:norm=9", "bulyan:malicious=1")


@pytest.mark.parametrize("rule", MIXTURES)
def test_a_mixture_is_nobody_s(rule: str) -> None:
    changes = published(SMALL, ruled(SMALL, rule))
    for found in changes.rounds():
        assert (found.clients, found.isolated) == (8, False)
        np.testing.assert_array_equal(found.origins, np.arange(8))
    assert changes.tally == SingledOut(rounds=5)


def test_who_knows_the_law_of_the_noise_or_the_rule_finds_the_client_under_noise() -> None:
    rounds = ruled(NOISY, RULE)
    for hidden, rule, right in (("noise", None, 0), ("intents", None, 5), ("noise", RULE, 5)):
        changes = published(NOISY, rounds, frozenset({hidden}), rule)
        assert sum(found.isolated for found in changes.rounds()) == right
        assert changes.tally == SingledOut(rounds=5, singled_out=right, right=right, published=5)


@pytest.mark.parametrize(("rule", "chosen"), [(None, 8), ("multi-krum:malicious=1,chosen=3", 3)])
def test_a_mean_of_messages_is_read_as_their_sum(rule: str | None, chosen: int) -> None:
    rounds = foreign_trace.records(SMALL) if rule is None else ruled(SMALL, rule)
    for found, (record, _) in zip(published(SMALL, rounds, rule=rule).rounds(), rounds, strict=True):
        np.testing.assert_allclose(found.messages[0], chosen * (record.aggregate - record.parameters))
        sums = (record.messages[list(some)].sum(axis=0) for some in combinations(range(8), chosen))
        assert min(np.abs(one - found.messages[0]).max() for one in sums) < 1e-12


def test_nobody_is_named_without_lists_or_features() -> None:
    rounds = ruled(SMALL, RULE)
    for name in ("features", "shown", "query"):
        assert not any(found.isolated for found in published(SMALL, rounds, frozenset({name})).rounds())


def test_a_round_without_a_change_tells_nothing() -> None:
    (record, truth), *rest = ruled(SMALL, RULE)
    changes = published(SMALL, [(replace(record, aggregate=record.parameters), truth), *rest])
    assert [found.round for found in changes.rounds()] == [1, 2, 3, 4]
    assert len(list(changes.truths())) == 4
    assert (changes.tally.rounds, changes.tally.unchanged) == (4, 1)


def test_what_does_not_fit_the_view_is_refused(tmp_path: Path) -> None:
    options = ("attack", "--view", "client", "--data", "synthetic:mq2007:60")
    done, saturated = run(*options), run(*options, "--server", "saturate")
    assert (done.code, "view client: expected target training" in done.err) == (2, True)
    assert (saturated.code, "--view aggregate" in saturated.err) == (2, True)
    rounds = [(replace(record, aggregate=np.full(46, np.nan)), truth) for record, truth in ruled(SMALL, RULE)]
    folder = foreign_trace.write(tmp_path / "t", header(SMALL), rounds)
    with pytest.raises(UsageError, match="view client: round 0: expected models or updates, and"):
        fa.attack_trace(folder, "map", view="client")
