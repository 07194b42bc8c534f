"""Secure aggregation as a link of the chain: rounds, drop-outs, aborts, fresh clients, refusals."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from foltr_audit.defenses.secure_aggregation import SecureAggregation

from foltr_audit.core.defense_chain import DefenseChain
from foltr_audit.core.plugins import Defense, RoundContext, WireMessages
from foltr_audit.core.plugins.registry import make
from foltr_audit.errors import PluginError, UsageError
from foltr_audit.privacy.events import GridRounding, KeyShares, MessageAggregation
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.fresh_clients import FreshClients
from foltr_audit.simulation.training import weighted_mean
from foltr_audit.utils.arrays import Bools, Floats
from tests.conftest import SetupOf
from tests.fixtures.tiny import FEATURES, ToyAggregate, ToyMessage, ToyWire, context

START = np.linspace(-0.4, 0.5, FEATURES)


def averaged(chain: DefenseChain, wired: WireMessages, here: RoundContext) -> Floats:
    """The average of the messages after the aggregate stage."""
    average, weights = weighted_mean(wired, here.counts)
    return chain.on_aggregate(average, wired, weights, here)


def made(text: str) -> SecureAggregation:
    defense = make(Defense, f"secure-aggregation:{text}" if text else "secure-aggregation")
    assert isinstance(defense, SecureAggregation)
    return defense


def values(C: int, P: int = FEATURES, seed: int = 3) -> Floats:
    return np.random.default_rng(seed).normal(size=(C, P))


def everybody(C: int) -> Bools:
    return np.ones(C, dtype=np.bool_)


# --- one round ------------------------------------------------------------------------------------


def test_the_average_is_that_of_the_survivors_by_their_counts() -> None:
    defense = made("drop_before=0.1,drop_after=0.1")
    counts = np.random.default_rng(2).integers(1, 9, size=200)
    here = context(range(200), counts=counts.tolist())
    messages = values(200)
    wired = DefenseChain((defense,)).on_wire(messages, here)
    there = wired.survivors
    assert 120 < there.sum() < 195
    assert wired.messages.dtype == np.uint64
    assert not wired.messages[~there].any()
    mean = averaged(DefenseChain((defense,)), wired, here)
    expected = np.average(messages[there], axis=0, weights=counts[there])
    np.testing.assert_allclose(mean, expected, rtol=0, atol=defense.encoding.error + 1e-12)


def test_drop_outs_come_as_often_as_asked_for() -> None:
    """4,000 clients; within four standard deviations of the binomial."""
    n = 4000
    wired = made("drop_before=0.2,drop_after=0.1,masks=false,threshold=0.1,neighbours=40").on_wire(
        np.zeros((n, 1)), everybody(n), context(range(n), P=1)
    )
    there = 0.8 * 0.9
    assert abs(wired.survivors.sum() - n * there) < 4 * np.sqrt(n * there * (1 - there))
    shared = wired.costs["bytes_shares"] / (40 * 102)
    assert abs(shared - 0.8) < 4 * np.sqrt(0.8 * 0.2 / n)


def test_what_an_earlier_link_lost_is_not_in_the_sum() -> None:
    chain, here = DefenseChain((ToyWire(lost_below=2), made(""))), context(range(9))
    messages = values(9)
    wired = chain.on_wire(messages, here)
    assert wired.survivors.tolist() == [False] * 2 + [True] * 7
    np.testing.assert_allclose(averaged(chain, wired, here), messages[2:].mean(axis=0), atol=1e-7)


def test_an_aborted_round_keeps_the_global_model_and_says_why(setup_of: SetupOf) -> None:
    for message in ("model", "update"):
        setup = setup_of(chain=(ToyWire(lost_below=5), made("")), message=message, dtype="float32")
        played = Federation(setup).play(START, 0)
        record, truth = played.recorded()
        assert np.array_equal(record.aggregate, START)
        assert record.aborted == "masked: 3 of 8 clients sent a masked message, 5 needed"
        assert record.total is None
        assert not record.survivors.any()
        assert truth.metrics["aborted"] == 1
        assert truth.metrics["bytes_unmask"] == 0
        assert np.isfinite(truth.metrics["offline_ndcg@10"])


def test_messages_are_encoded_before_they_are_rounded_to_float32(setup_of: SetupOf) -> None:
    """A grid of 2^-24 around 4 does not fit into float32, and survives."""

    class OnGrid(Defense):
        name: ClassVar[str] = "toy-grid"

        def on_message(self, models: Floats, context: RoundContext) -> Floats:
            return np.asarray(4.0 + np.rint(models * 2.0**24) * 2.0**-24)

    for dtype in ("float32", "float64"):
        setup = setup_of(chain=(OnGrid(), made("")), dtype=dtype)
        played = Federation(setup).play(START, 0)
        exact = OnGrid().on_message(START + played.sent.updates, played.context)
        counts = played.context.counts
        assert played.sent.wired.sum is not None
        assert np.array_equal(played.sent.wired.sum, (exact * counts[:, None]).sum(axis=0))
        assert not np.array_equal(exact, exact.astype(np.float32))


def test_bytes_of_a_round_are_in_its_metrics(setup_of: SetupOf) -> None:
    metrics = Federation(setup_of(defense=("secure-aggregation",), clients=9)).play(START, 0).metrics
    expected = {"keys": 64, "shares": 8 * 102, "masked": 4 + FEATURES * 6, "unmask": 8 * 37}
    assert {name: metrics[f"bytes_{name}"] for name in expected} == expected
    assert metrics["bytes"] == sum(expected.values())
    assert metrics["aborted"] == 0


# --- a client alone -------------------------------------------------------------------------------


def test_fresh_clients_take_part_one_by_one(setup_of: SetupOf) -> None:
    """A client's message does not depend on the other attacked clients, and is never summed."""

    def record(on: list[str], masks: str) -> Any:
        setup = setup_of(
            defense=(f"secure-aggregation:masks={masks},drop_after=0.9",),
            attack={"on": on, "min_documents": 9},
        )
        assert setup.spec.attack is not None
        clients = FreshClients(setup, setup.spec.attack)
        return next(clients.rounds(START, "informational")).recorded()

    (both, truth), (some, _) = record(["vali", "test"], "true"), record(["test"], "true")
    assert both.survivors.all(), "drop-outs are off"
    assert both.total is None
    assert not both.aborted
    assert np.array_equal(both.messages[-some.n_messages :], some.messages)
    bare, _ = record(["vali", "test"], "false")
    encoding = made("").encoding
    np.testing.assert_allclose(encoding.decode(bare.messages), START + truth.updates, atol=2.0**-24)
    assert np.abs(encoding.decode(both.messages)).max() > 1000, "masks fill the whole modulus"


def test_a_message_alone_is_one_mask_of_its_own_and_half_of_its_pairs_each_way() -> None:
    """Its masks are those of a client with so many neighbours: taking them off by hand leaves the message."""
    from foltr_audit.privacy.secure_aggregation.keys import expand, private_key

    defense, here, messages = made("neighbours=4"), context([3, 8], counts=[2, 5], shares=50), values(2)
    wired = defense.alone(messages, here)
    streams = here.streams("secure-aggregation")
    for row, client in enumerate((3, 8)):
        names = ("pair", *(f"other/{j}" for j in range(4)))
        own, *others = (private_key(streams.secret(name, client), "none", streams.key) for name in names)
        pairs = expand([own.seed(other.public) for other in others], FEATURES)
        mine = expand([streams.secret("self", client)], FEATURES)[0]
        left = wired.messages[row].astype(np.uint64) - mine - pairs[0] + pairs[1] - pairs[2] + pairs[3]
        value = defense.encoding.decode(left) / here.counts[row]
        np.testing.assert_allclose(value, messages[row], rtol=0, atol=2.0**-25)


def test_a_cohort_of_one_sends_nothing() -> None:
    wired = made("").alone(values(3), context([1, 2, 3], shares=1))
    assert not wired.messages.any()
    assert not wired.survivors.any()
    assert wired.aborted == "shares: a cohort of 1 clients, 2 needed"


# --- the chain ------------------------------------------------------------------------------------


class OnSums(ToyAggregate):
    """Shifts the average, and asks for no single message."""

    name: ClassVar[str] = "toy-on-sums"
    works_on_sums: ClassVar[bool] = True


def test_the_aggregate_stage_gets_the_sum_or_refuses() -> None:
    here, messages = context(range(4)), values(4)
    defense = made("")
    wired = DefenseChain((defense,)).on_wire(messages, here)
    with pytest.raises(PluginError, match="toy-aggregate: it needs single messages"):
        averaged(DefenseChain((defense, ToyAggregate())), wired, here)
    shifted = averaged(DefenseChain((defense, OnSums(shift=1.0))), wired, here)
    np.testing.assert_allclose(shifted, messages.mean(axis=0) + 1, atol=1e-7)


def test_nothing_acts_on_masked_messages() -> None:
    for behind in (ToyWire(), made("")):
        with pytest.raises(
            PluginError, match=f"defense {behind.name}: it follows a defense that encodes messages"
        ):
            DefenseChain((made(""), behind)).on_wire(values(4), context(range(4)))


def test_events_say_what_it_does() -> None:
    here = context(range(5), shares=100)
    shares = KeyShares(neighbours=24, needed=13)
    assert made("").events(here) == (
        GridRounding(step=2.0**-24, nearest=True),
        MessageAggregation(at_least=51, key_shares=shares),
    )
    assert made("threshold=7,fraction=10,neighbours=all").events(here) == (
        GridRounding(step=2.0**-10, nearest=True),
        MessageAggregation(at_least=7, key_shares=KeyShares(neighbours=99, needed=6)),
    )
    assert made("masks=false").events(here) == (GridRounding(step=2.0**-24, nearest=True),), (
        "the server sees each message"
    )
    assert made("").claims(here) == ()


# --- refusals -------------------------------------------------------------------------------------


def test_a_value_outside_the_range_ends_the_run_with_its_client(setup_of: SetupOf) -> None:
    setup = setup_of(chain=(ToyMessage(factor=0.0, shift=70.0), made("")))
    with pytest.raises(UsageError, match=r"client 0, coordinate 0: 70; expected a value within \+-64"):
        Federation(setup).play(START, 0)


@pytest.mark.parametrize("alone", [False, True])
def test_a_sum_that_may_overflow_is_refused(alone: bool) -> None:
    defense, here = made("bits=40"), context(range(1024), counts=[1] * 1024, shares=1024)
    messages = np.zeros((1024, 1))
    with pytest.raises(UsageError, match="expected bits=42"):
        defense.alone(messages, here) if alone else defense.on_wire(messages, everybody(1024), here)
    made("bits=42").on_wire(messages, everybody(1024), here)


@pytest.mark.parametrize("options", ["", "drop_after=0.4", "bind=true", "threshold=0.99,drop_after=0.2"])
def test_a_training_whose_messages_nobody_keeps_is_the_same(setup_of: SetupOf, options: str) -> None:
    setup = setup_of(
        defense=("clip:norm=1", f"secure-aggregation:{options}" if options else "secure-aggregation"),
        clients=12,
        rounds=3,
    )
    start = np.zeros(setup.ranker.n_parameters)
    kept, short = (list(Federation(setup, sums_only=only).rounds(start)) for only in (False, True))
    assert any(one.sent.messages.any() for one in kept)
    for one, two in zip(kept, short, strict=True):
        assert not two.sent.messages.any()
        assert one.after.parameters.tobytes() == two.after.parameters.tobytes()
        assert one.metrics == two.metrics
        assert one.sent.wired.aborted == two.sent.wired.aborted
