"""Who is in a sum: played rounds never hold fewer noisy messages than `SumMembers.honest` says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.core.plugins import Defense, Poisoning, Server
from foltr_audit.core.plugins.registry import names
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import UsageError
from foltr_audit.privacy.accounting.sum_members import SumMembers
from foltr_audit.simulation.federation import Federation, RoundResult
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Bools, Ints
from tests.fixtures.intent_data import intent_collection
from tests.fixtures.tiny import ToyWire

CLIENTS, ROUNDS, SIGMA = 12, 2, 0.5
CLIP = "clip:at=message,norm=1,of=update"
DATA = intent_collection()

SHARES = (0.1, 0.5, 0.9)
SERVERS = (
    "honest",
    "saturate",
    "saturate:norm=1e6",
    "flatten",
    "manipulate",
    *(f"sybils:share={share}" for share in SHARES),
    "differencing",
    "replay",
)
SECURE = "secure-aggregation:range=1024"
WIRES = (
    "",
    "guard",
    SECURE,
    f"{SECURE},masks=false",
    f"{SECURE},drop_before=0.3",
    f"{SECURE},drop_after=0.5,threshold=2",
    f"{SECURE},masks=false,drop_after=0.6,threshold=2",
    f"{SECURE},once=false,threshold=2",
    f"{SECURE},bind=true",
    f"guard+{SECURE}",
    f"guard+{SECURE},masks=false,threshold=2",
    f"lost+{SECURE},threshold=2",
    "lost",
)
"""Wire defenses of a chain; `lost` is somebody's own one that loses the messages of clients 0 to 6."""

POPULATIONS: tuple[dict[str, Any], ...] = (
    {},
    {"cohort": 5},
    {"cohort": 4, "separation": 2},
    {"cohort": 4, "cohorts": "fixed"},
    {"scenario": "quantity-skew:batches=1/2/5"},
    {"scenario": "mixed:only=1"},
    {"scenario": "mixed:only=1+quantity-skew:batches=1/3", "cohort": 7},
    {"scenario": "intent-skew", "cohort": 1},
)


@cache
def setup_of(server: str, poisoning: str | None, wire: str, population: int, sigma: float = SIGMA) -> Setup:
    """Clients that clip, add Gaussian noise and send their messages by some wire."""
    table = {
        "seed": 1 + population,
        "data": {"source": "tiny", "normalise": "none"},
        "population": {"clients": CLIENTS, "poisoning": poisoning, **POPULATIONS[population]},
        "train": {
            "server": server,
            "learner": "fpdgd:interactions=2,normaliser=shown",
            "rounds": ROUNDS + 1,
            "click_model": "informational",
        },
        "trace": {"message": "update", "dtype": "float64"},
    }
    links = [CLIP, f"gaussian:sigma={sigma}", *(part for part in wire.split("+") if part)]
    setup = Setup(Spec.parse({**table, "defense": [link for link in links if link != "lost"]}), DATA)
    if "lost" in links:
        own: list[Defense] = []
        for link in links:
            own += [ToyWire(lost_below=7)] if link == "lost" else parse_chain([link])
        vars(setup)["chain"] = DefenseChain(tuple(own))
    return setup


def played(setup: Setup) -> list[RoundResult]:
    """Rounds that all begin with the same model, so that those of other noise and wires compare with them."""
    federation = Federation(setup)
    start = np.linspace(-0.3, 0.3, setup.ranker.n_parameters)
    return [federation.play(start, number) for number in range(ROUNDS)]


@dataclass(frozen=True, eq=False)
class SentNoise:
    """Messages of one round before the wire.

    Attributes:
        own: which of them hold the noise of their client and no other, bool (C,).
        others: which of them hold something of the noise of other clients, bool (C,).
    """

    own: Bools
    others: Bools


@cache
def sent_noise(server: str, poisoning: str | None, population: int) -> tuple[SentNoise, ...]:
    """The noise in the messages of each round, by comparing them with those of the same round without."""
    noisy, quiet = (played(setup_of(server, poisoning, "", population, sigma)) for sigma in (SIGMA, 1e-12))
    noise, found = setup_of(server, poisoning, "", population).chain, []
    for with_noise, without in zip(noisy, quiet, strict=True):
        context = with_noise.context
        moved = np.asarray(with_noise.sent.messages) - np.asarray(without.sent.messages)
        *_, (_, clipped, noised) = noise.trail(np.zeros(moved.shape), context)
        own = np.abs(moved - (noised - clipped)).max(axis=1) < 1e-6
        found.append(SentNoise(own, ~own & (np.abs(moved).max(axis=1) > 1e-6)))
    return tuple(found)


def noisy_messages(round_: RoundResult, sent: SentNoise) -> Iterator[tuple[int, Ints]]:
    """Messages with independent noise in each sum that the server has, and the weights of those.

    What it can take out of a sum is not in it: its own clients, and clients in a second sum.
    """
    wired, broadcast = round_.sent.wired, round_.sent.broadcast
    if wired.is_encoded and wired.sum is None:
        return
    kept = wired.survivors & (round_.context.counts > 0)
    if broadcast is not None:
        for delivery in broadcast.deliveries:
            kept[delivery.rows] &= not delivery.own
        if broadcast.reopened is not None and (wired.second_total is not None or not wired.is_encoded):
            kept &= ~broadcast.reopened
    honest = kept & sent.own
    # Messages that are made of others' take the place of these: then each is only protected by its own noise.
    count = min(1, int(honest.sum())) if (kept & sent.others).any() else int(honest.sum())
    yield count, round_.context.counts[kept]


def too_few(members: SumMembers, count: int) -> bool:
    """Whether a sum has fewer noisy messages than is said; one without any protects nobody."""
    return count < members.honest() and not count == 0 == members.honest() - 1


def sums(
    server: str, poisoning: str | None, wire: str, population: int
) -> Iterator[tuple[SumMembers, int, Ints]]:
    """What is said of each sum of a few rounds, and what is in it; none of a Spec that is refused.

    Raises:
        UsageError: the Spec does not fit together.
    """
    setup = setup_of(server, poisoning, wire, population)
    members = setup.privacy.members()
    for round_, sent in zip(played(setup), sent_noise(server, poisoning, population), strict=True):
        for count, weights in noisy_messages(round_, sent):
            yield members, count, weights


def test_every_registered_plug_in_is_here() -> None:
    assert {text.split(":")[0] for text in SERVERS} == set(names(Server))
    assert len(names(Poisoning)) >= 7


@pytest.mark.parametrize("poisoning", ["", *names(Poisoning)])
@pytest.mark.parametrize("server", SERVERS)
def test_no_sum_has_fewer_noisy_messages_than_is_said(server: str, poisoning: str) -> None:
    """Every server with every poisoning and wire; shares of malicious clients and populations take turns."""
    turn = SERVERS.index(server)
    malicious = f"{poisoning}:share={SHARES[turn % 3]}" if poisoning else None
    population = (turn + len(poisoning)) % len(POPULATIONS)
    opened = refused = 0
    for wire in WIRES:
        try:
            found = list(sums(server, malicious, wire, population))
        except UsageError:
            refused += 1
            continue
        opened += len(found)
        for members, count, weights in found:
            assert not too_few(members, count), (wire, POPULATIONS[population], members, count)
            assert weights.max(initial=0) <= members.largest_weight * weights.min(initial=99)
    choosing_alone = server == "differencing" and {"separation", "cohorts"} & set(POPULATIONS[population])
    assert choosing_alone or opened >= 2 * ROUNDS
    assert choosing_alone or refused <= 2


@pytest.mark.parametrize("population", range(5))
@pytest.mark.parametrize("wire", ["", "guard", f"{SECURE},masks=false"])
def test_all_count_where_everybody_is_honest_and_nothing_is_lost(wire: str, population: int) -> None:
    for poisoning in (None, "reversed-clicks:share=0.5"):
        cohort = setup_of("honest", poisoning, wire, population).spec.population.cohort_size
        for members, count, _ in sums("honest", poisoning, wire, population):
            assert members.honest() == count == cohort


@pytest.mark.parametrize(
    ("server", "poisoning"),
    [
        *(("honest", f"gradient-reversal:share={share}") for share in SHARES),
        *((s, None) for s in SERVERS if s != "differencing"),
    ],
)
def test_the_answer_is_reached_where_each_reason_stands_alone(server: str, poisoning: str | None) -> None:
    found = list(sums(server, poisoning, "", 0))
    assert {members.honest() for members, _, _ in found} == {min(count for _, count, _ in found)}


CASES = [
    (cohort, fewest, silent, subtracted, colluders)
    for cohort in range(1, 6)
    for fewest in range(1, cohort + 1)
    for silent, subtracted, colluders in product(range(cohort + 1), repeat=3)
    if colluders < cohort
]


@pytest.mark.parametrize("colluding", [False, True])
def test_the_fewest_that_any_choice_of_clients_leaves(colluding: bool) -> None:
    """By trying all: client 0 is to be protected, and others are lost, silent, subtracted or collude."""
    for cohort, fewest, silent, subtracted, colluders in CASES:
        others = range(1, cohort)
        gone = [silent, subtracted, colluders if colluding else 0]
        left = cohort
        for arrived in combinations(others, fewest - 1):
            kept = {0, *arrived}
            for size in gone:  # the worst choice of each kind takes those that are still there
                worst = min(
                    (kept - set(chosen) for chosen in combinations(others, min(size, cohort - 1))), key=len
                )
                kept = worst
            left = min(left, len(kept))
        members = SumMembers(
            cohort=cohort, fewest=fewest, silent=silent, subtracted=subtracted, colluders=colluders
        )
        assert members.honest(colluding=colluding) == left
        unknown = replace(members, colluders=None)
        assert unknown.honest(colluding=colluding) == (1 if colluding else left)
