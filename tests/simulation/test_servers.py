"""Servers that isolate a client, choose cohorts, subtract or change features, and what stops them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from foltr_audit.defenses.guard import Guard

import foltr_audit as fa
from foltr_audit.core.plugins import Server
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.records import Dataset
from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.core.records.round_context import LARGEST_SENT, Broadcast, Delivery
from foltr_audit.errors import PluginError, TraceError, UsageError
from foltr_audit.judge.round_sums import SumObserver, summed
from foltr_audit.privacy.bounds import RunBound
from foltr_audit.rng import Streams
from foltr_audit.simulation.federation import Federation, RoundResult
from foltr_audit.simulation.recorder import trace_header
from foltr_audit.simulation.setup import Setup
from foltr_audit.trace import TraceHeader
from foltr_audit.utils.arrays import Ints
from tests.fixtures import foreign_trace
from tests.fixtures.servers import CLIENTS, ROUNDS, exact, rounds, setup_of, spec
from tests.fixtures.tiny import context

ISOLATING = ("saturate", "flatten")


@pytest.mark.parametrize("server", ISOLATING)
def test_the_sum_of_a_round_is_the_update_of_its_target(server: str) -> None:
    for played in rounds(server):
        assert played.sent.broadcast is not None
        target, messages = played.sent.broadcast.target, np.asarray(played.sent.messages)
        assert target is not None
        alone = messages.sum(axis=0) - messages[target]
        # Flat lists have no pairs that differ; under the large model near documents may keep a weight.
        most = 0.0 if server == "flatten" else 0.02 * np.abs(messages[target]).max()
        assert np.abs(alone).max() <= most
        assert np.abs(messages[target]).max() > 0


def test_an_honest_server_has_no_target() -> None:
    for played in rounds("honest"):
        messages = np.asarray(played.sent.messages)
        assert played.sent.broadcast is None
        assert (np.abs(messages).max(axis=1) > 0).mean() > 0.9


@pytest.mark.parametrize("server", ISOLATING)
def test_a_target_learns_as_under_an_honest_server(server: str) -> None:
    """It receives the model, ranks, clicks and sends as it would: only the others differ."""
    honest, other = rounds("honest")[0], rounds(server)[0]
    assert other.sent.broadcast is not None
    target = other.sent.broadcast.target
    assert np.array_equal(other.sent.messages[target], honest.sent.messages[target])
    assert np.array_equal(other.sent.interactions.clicks[target], honest.sent.interactions.clicks[target])


@pytest.mark.parametrize("server", ISOLATING)
def test_lists_of_the_target_are_read_from_a_secure_sum(server: str) -> None:
    found = exact(server, "secure-aggregation")
    assert found["olsr"][0] >= 0.75
    assert found["olsr"][1] <= ROUNDS
    assert exact("honest", "secure-aggregation")["olsr"][0] <= 0.1


def test_masks_that_depend_on_the_model_stop_saturation_alone() -> None:
    assert exact("saturate", "secure-aggregation:bind=true")["olsr"][0] == 0.0
    assert exact("flatten", "secure-aggregation:bind=true")["olsr"][0] >= 0.75
    honest = exact("honest", "secure-aggregation:bind=true")
    assert honest == exact("honest", "secure-aggregation")


@pytest.mark.parametrize(
    ("server", "guard"),
    [
        ("saturate", "guard:max_norm=10,contrast=false"),
        ("flatten", "guard:max_norm=1e9"),
        ("flatten", "guard"),
    ],
)
def test_a_guard_opens_no_sum(server: str, guard: str) -> None:
    played = rounds(server, guard, "secure-aggregation")
    assert all(one.sent.wired.aborted and one.sent.wired.sum is None for one in played)
    with pytest.raises(UsageError, match="no round in which a message arrived or a sum was opened"):
        exact(server, guard, "secure-aggregation")


def test_a_guard_without_secure_aggregation_leaves_the_target_alone() -> None:
    for played in rounds("saturate", "guard"):
        assert played.sent.broadcast is not None
        assert np.flatnonzero(played.sent.wired.survivors).tolist() == [played.sent.broadcast.target]


def test_a_guard_changes_nothing_under_an_honest_server() -> None:
    plain, guarded = rounds("honest"), rounds("honest", "guard")
    assert all(np.array_equal(a.aggregate, b.aggregate) for a, b in zip(plain, guarded, strict=True))


def test_a_guard_measures_models_whose_squares_overflow() -> None:
    received = np.array([np.full(6, 1e200), np.ones(6)])
    there = replace(context([0, 1]), received=received)
    assert Guard().accepted(there).tolist() == [False, True]


def test_no_model_is_so_large_that_noise_is_lost_next_to_it() -> None:
    assert np.spacing(LARGEST_SENT) < 1e-9
    with pytest.raises(UsageError, match="norm"):
        spec("saturate:norm=1e7")
    for largest in (1e7, np.nan):
        sent = Broadcast(deliveries=(Delivery(rows=np.array([0]), parameters=np.array([1.0, -largest])),))
        with pytest.raises(UsageError, match="noise is lost"):
            sent.checked(context([0], P=2))


def test_a_broadcast_reaches_every_client_once() -> None:
    model = np.zeros(2)
    with pytest.raises(UsageError, match="one delivery for each client"):
        Broadcast(deliveries=(Delivery(rows=np.array([0, 0]), parameters=model),), target=0)
    with pytest.raises(UsageError, match="a target among them"):
        Broadcast(deliveries=(Delivery(rows=np.array([0, 1]), parameters=model),), target=2)


COHORT = 6


def few(server: str) -> Setup:
    """Six of thirty clients in a round."""
    setup = setup_of(server)
    table = {**setup.spec.table(), "population": {"clients": CLIENTS, "cohort": COHORT}}
    return replace(setup, spec=fa.Spec.parse(table))


def cohorts(server: str, count: int = 20) -> list[Ints]:
    federation = Federation(few(server))
    return [federation.setup.cohort(number) for number in range(count)]


def test_the_second_of_two_rounds_lacks_one_client() -> None:
    honest, chosen = cohorts("honest"), cohorts("differencing")
    left_out = []
    for pair in range(10):
        first, second = chosen[2 * pair], chosen[2 * pair + 1]
        assert first.tolist() == honest[2 * pair].tolist()
        (one,) = set(first.tolist()) - set(second.tolist())
        assert second.tolist() == [client for client in first.tolist() if client != one]
        left_out.append(int(np.flatnonzero(first == one)[0]))
    assert left_out == [pair % COHORT for pair in range(10)]


def test_a_cohort_of_one_client_is_not_emptied() -> None:
    server = make(Server, "differencing")
    assert server.cohort(1, lambda _: np.array([4])).tolist() == [4]


def test_no_sample_of_clients_is_counted_on() -> None:
    """A client may take part in every round: what is proven of a run is the bound for one that does."""

    def run_bound(server: str) -> RunBound:
        noise = ["clip:norm=1.5,of=update,at=message,ord=1", "laplace:eps=1.2,sensitivity=3"]
        setup = few(server)
        table = setup.spec.table() | {"defense": noise, "trace": {"message": "update"}}
        table["train"] = {"rounds": 200, "server": server}
        bound = replace(setup, spec=fa.Spec.parse(table)).privacy.proven("individual").whole_run
        assert bound is not None
        return bound

    drawn, chosen = run_bound("honest"), run_bound("differencing")
    assert drawn.upper.epsilon < drawn.always.epsilon < np.inf
    assert chosen.upper.epsilon == chosen.always.epsilon == drawn.always.epsilon


class StrangerServer(Server):
    name = "stranger"

    def cohort(self, round_: int, drawn: Callable[[int], Ints]) -> Ints:
        return np.array([3, 3])


def test_cohorts_of_strangers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = few("honest")
    monkeypatch.setattr(Setup, "server", StrangerServer())
    with pytest.raises(PluginError, match="rising ids"):
        setup.cohort(0)


TWICE = "secure-aggregation:once=false"


def recorded(server: str, *defense: str) -> tuple[TraceHeader, RoundRecord]:
    """The first round of a training."""
    record, _ = rounds(server, *defense)[0].recorded()
    return trace_header(setup_of(server, *defense), None, CLIENTS), record


def left(record: RoundRecord) -> list[int]:
    subtracted = record.facts["subtracted"]
    assert isinstance(subtracted, list)
    return sorted(set(range(CLIENTS)) - {int(place) for place in subtracted})


def test_own_clients_send_no_change_and_others_what_they_always_do() -> None:
    noise = "laplace:eps=1,sensitivity=1"
    honest, played = (rounds(server, noise)[0] for server in ("honest", "sybils:share=.9"))
    record, _ = played.recorded()
    messages, others = np.asarray(record.messages), left(record)
    assert len(others) == 3
    assert np.array_equal(messages[others], np.asarray(honest.sent.messages)[others])
    assert not np.delete(messages, others, axis=0).any()


def test_one_client_is_never_the_servers_own() -> None:
    assert all(len(left(played.recorded()[0])) == 1 for played in rounds("sybils:share=.999"))


@pytest.mark.parametrize(
    "defense", [(), ("secure-aggregation:bind=true",), ("guard", "secure-aggregation:threshold=20")]
)
def test_a_client_among_the_servers_own_is_read(defense: tuple[str, ...]) -> None:
    assert exact("sybils:share=.999", *defense)["olsr"][0] >= 0.75


@pytest.mark.parametrize(
    ("server", "defense"), [("sybils:share=.9", "secure-aggregation"), ("replay", TWICE)]
)
def test_what_is_left_of_a_sum_is_that_of_the_other_clients(server: str, defense: str) -> None:
    header, record = recorded(server, defense)
    plain = np.asarray(rounds(server)[0].sent.messages)[left(record)]
    found = summed(record, header)
    assert found.clients == len(plain)
    assert np.abs(found.messages[0] - plain.sum(axis=0)).max() <= len(plain) * 2.0**-25


@pytest.mark.parametrize(("server", "clients"), [("sybils:share=.9", 3), ("replay", 1)])
def test_only_noise_of_those_that_are_left_is_in_it(server: str, clients: int) -> None:
    noise = "gamma-laplace:eps=1,sensitivity=1"
    header, record = recorded(server, noise)
    known = SumObserver(header, None).knowledge(summed(record, header))
    honest = SumObserver(header, None).knowledge(summed(replace(record, facts={}), header))
    assert known.noise == f"gamma-share:n={CLIENTS},scale=1,count={clients}".replace(",count=1", "")
    assert honest.noise != known.noise


def test_clients_that_open_a_sum_once_stop_a_replay() -> None:
    assert exact("replay", TWICE + ",bind=true")["olsr"][0] >= 0.75
    assert exact("replay", "secure-aggregation") == exact("honest", "secure-aggregation")
    assert fa.Spec(defense=["secure-aggregation:once=true"]) == fa.Spec(defense=["secure-aggregation"])


@pytest.mark.parametrize(
    ("facts", "what"),
    [
        ({"subtracted": [str(CLIENTS)]}, "expected messages of the round"),
        ({"subtracted": "all"}, "expected messages of the round"),
        ({"subtracted": ["0"], "second_total": ["1"]}, "expected as many as a sum"),
        ({"subtracted": ["0"], "second_total": ["-1"] * 46}, "expected a sum"),
    ],
)
def test_a_record_that_cannot_be_subtracted_is_refused(facts: dict[str, object], what: str) -> None:
    header, record = recorded("honest", "secure-aggregation")
    with pytest.raises(TraceError, match=what):
        summed(replace(record, facts=facts), header)


KINDS = ("random", "blocks", "superincreasing")


def served(text: str) -> tuple[Dataset, tuple[Dataset, ...]]:
    """The documents of a training, and those on which its clients train."""
    from foltr_audit.simulation.federation import Federation

    world = Federation(setup_of(text)).clientele.world
    return world.data, world.trained


def step_by_hand(played: RoundResult, setup: Setup, client: int, *, changed: bool) -> np.ndarray:
    """The first local step of a client, pair by pair: Pham's PDGD on a linear ranker."""
    record, truth = played.recorded()
    row = np.flatnonzero(record.slot == client)[0]
    assert record.features is not None
    part = setup.collection.train
    true = part.shown_features(record.query[[row]], record.shown[[row]])[0]
    features = (record.features[row] if changed else true).astype(np.float64)
    there, scores = record.shown[row] >= 0, features @ record.parameters
    return foreign_trace.gradient(scores[there], 0.0, truth.clicks[row][there], features[there], "all")


@pytest.mark.parametrize("kind", KINDS)
def test_lists_and_clicks_stay_and_steps_follow_the_changed_features(kind: str) -> None:
    text = f"manipulate:features={kind}"
    setup, played, honest = setup_of(text), rounds(text)[0], rounds("honest")[0]
    assert np.array_equal(played.sent.interactions.shown, honest.sent.interactions.shown)
    assert np.array_equal(played.sent.interactions.clicks, honest.sent.interactions.clicks)
    for client in range(3):
        sent = played.sent.updates[client]
        expected = step_by_hand(played, setup, client, changed=True) * 0.1
        assert np.allclose(sent, expected, rtol=1e-5, atol=1e-9)
        assert not np.allclose(sent, step_by_hand(played, setup, client, changed=False) * 0.1, rtol=1e-2)


def test_random_features_replace_a_share_of_the_columns() -> None:
    data, (changed,) = served("manipulate:features=random,alpha=.5,sd=.1")
    half = data.n_features // 2
    assert np.array_equal(changed.features[:, half:], data.features[:, half:])
    drawn = changed.features[:, :half]
    # Of a normal sample the mean and deviation are within 5 standard errors with all but 1e-6 of the seeds.
    assert abs(drawn.mean()) < 5 * 0.1 / np.sqrt(drawn.size)
    assert abs(drawn.std() - 0.1) < 5 * 0.1 / np.sqrt(2 * drawn.size)


def test_blocks_do_not_overlap_and_cover_all_columns() -> None:
    _, blocks = served("manipulate:features=blocks,blocks=8")
    used = np.stack([one.features.any(axis=0) for one in blocks])
    assert len(blocks) == 8
    assert (used.sum(axis=0) == 1).all()


def test_any_sum_of_powers_says_which_documents_it_holds() -> None:
    data, blocks = served("manipulate:features=superincreasing,blocks=4")
    rows = slice(*data.offsets[:2])
    for block in blocks:
        column = block.features[rows][:, block.features[rows].any(axis=0)]
        for values in column.T:
            powers = np.sort(values[values > 0])
            assert powers.size <= 20
            # Each is larger than the sum of all smaller ones, exactly in float32.
            below = np.cumsum(np.append(0.0, powers[:-1].astype(np.float64)))
            assert (powers > below * (1 - 1e-12)).all()
            assert np.float32(powers.sum(dtype=np.float64)) == powers.sum(dtype=np.float64)


def test_a_guard_refuses_changed_features_only() -> None:
    for server, answered in (("manipulate:features=random", 0), ("honest", 30)):
        assert all(played.sent.wired.survivors.sum() == answered for played in rounds(server, "guard"))
    unchecked = rounds("manipulate:features=random", "guard:contrast=false")
    assert all(played.sent.wired.survivors.all() for played in unchecked)


def fresh(server: str) -> float:
    """Share of lists of fresh clients that are read."""
    table = {"data": {"source": "synthetic:mq2007:60"}, "population": {"clients": 5}}
    attack = {"methods": ["map"], "click_models": ["informational"]}
    made = {**table, "train": {"rounds": 2, "server": server}, "attack": attack}
    (found,) = (row.number("exact") for row in fa.attack(made).results if row["method"] == "map")
    return found


def test_attacks_know_the_changed_features() -> None:
    for kind in ("honest", *(f"manipulate:features={kind}" for kind in KINDS)):
        assert fresh(kind) >= 0.9
    # Sums of rounds are attacked as they are, too.
    assert exact("manipulate:features=random")["olsr"][1] == exact("honest")["olsr"][1]


def test_features_follow_from_the_document_and_the_seed() -> None:
    first, again = (served("manipulate:features=random")[1][0].features for _ in range(2))
    assert np.array_equal(first, again)
    setup = setup_of("manipulate:features=random")
    data = setup.collection.train
    few = data.select(np.arange(3))
    streams = Streams(setup.spec.seed, setup.spec.repetition)
    draws = streams.clients("server/features", 0, np.arange(few.n_documents))
    alone = setup.server.training_features(few, draws)[0]
    assert np.array_equal(alone.astype(np.float32), first[: few.n_documents])
