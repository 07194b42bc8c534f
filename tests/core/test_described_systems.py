"""Every fault of a described system is found, with the right number; its mended twin passes in silence.

The right numbers come from closed forms, next to each fault.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest
from scipy import optimize, stats

from foltr_audit.core.declared.figures import proven
from foltr_audit.privacy.gaussian_dp import gaussian_delta, gaussian_epsilon, gaussian_mu
from tests.fixtures.described_systems import NUMBERS_ONLY, SHARED_LAPLACE, Tables, changed, declared, found_in


def over_cohorts(mu: float, rounds: int, share: float, delta: float) -> float:
    """Epsilon of a run whose delta is the mean over the numbers of rounds of a client."""
    chances = [(float(stats.binom.pmf(k, rounds, share)), mu * math.sqrt(k)) for k in range(rounds + 1)]

    def over(eps: float) -> float:
        return math.fsum(chance * gaussian_delta(one, eps) for chance, one in chances) - delta

    return float(optimize.brentq(over, 0.0, 100.0, xtol=1e-9))


SIGMA = 3.0 / gaussian_mu(1.0, 1e-5)
"""The deviation at which an L2 distance of 3 gives (1, 1e-5)."""

GAUSSIAN = changed(
    SHARED_LAPLACE,
    secure_aggregation=None,
    clip__order=2,
    noise__law=f"gaussian:sigma={SIGMA * (1 + 1e-9)!r}",
    noise__added="client",
    accounting__epsilon=1.0,
    accounting__delta=1e-5,
    claim__epsilon=1.0,
    claim__delta=1e-5,
    claim__view="individual",
)
HONEST = {"Laplace shares": SHARED_LAPLACE, "numbers only": NUMBERS_ONLY, "Gaussian": GAUSSIAN}


class Fault(NamedTuple):
    """A change that makes a system faulty.

    Attributes:
        system: name of the honest system.
        change: the fault.
        check: the check that finds it.
        right: the number that would hold; None where none would.
        mended: a further change with which nothing is found; None if the honest system itself is the twin.
        severity: of the finding.
    """

    system: str
    change: dict[str, object]
    check: str
    right: float | None
    mended: dict[str, object] | None = None
    severity: str = "error"


L, N, G = HONEST
FAULTS = {
    # An L2 distance of 3 is sqrt(46) times as long in L1.
    "order": Fault(
        L, {"clip__order": 2}, "sensitivity", 3 * math.sqrt(46), {"clip__norm": 1.5 / math.sqrt(46)}
    ),
    "clip too wide": Fault(
        L,
        {"clip__norm": 3},
        "sensitivity",
        6.0,
        {"accounting__sensitivity": 6, "noise__law": "laplace:scale=5"},
    ),
    "order without a sensitivity": Fault(
        L,
        {"clip__order": 2, "accounting__sensitivity": None},
        "sensitivity",
        1.2 * math.sqrt(46),
        {"clip__order": 1},
    ),
    # A client of which one of several interactions is removed sends another message, and not zeros.
    "interaction removed": Fault(
        L,
        {
            "accounting__sensitivity": 1.5,
            "accounting__unit": "interaction",
            "noise__law": "laplace:scale=1.25",
            "claim__relation": "add-remove",
            "claim__unit": "interaction",
        },
        "sensitivity",
        3.0,
        {"clients__interactions": 1},
    ),
    "clip too late": Fault(L, {"clip__when": "after noise"}, "sensitivity", None),
    "clip for normal noise": Fault(G, {"clip__norm": 4.5}, "sensitivity", 9.0),
    "no P": Fault(
        L,
        {"clip__order": 2, "message__parameters": None, "clip__norm": 1},
        "sensitivity",
        None,
        {"clip__order": 1},
        "warning",
    ),
    "sensitivity without a law": Fault(
        N, {"clip__norm": 3, "accounting__sensitivity": 3}, "sensitivity", 6.0, {"accounting__sensitivity": 6}
    ),
    # Laplace noise of scale 3 / 1.2.
    "scale": Fault(L, {"noise__law": "laplace:scale=1"}, "noise scale", 2.5),
    "sigma": Fault(G, {"noise__law": "gaussian:sigma=1"}, "noise scale", SIGMA),
    "no delta": Fault(G, {"claim__delta": 0.0, "accounting__delta": 0.0}, "noise scale", None),
    "classical": Fault(
        N,
        {
            "accounting__formula": "classical",
            "accounting__epsilon": 20.0,
            "accounting__delta": 1e-5,
            "accounting__sensitivity": 1.0,
            "claim__epsilon": 20.0,
            "claim__delta": 1e-5,
        },
        "noise scale",
        1.0 / gaussian_mu(20.0, 1e-5),
        {"accounting__formula": "analytic"},
    ),
    "classical, enough": Fault(
        N,
        {
            "accounting__formula": "classical",
            "accounting__delta": 1e-5,
            "claim__delta": 1e-5,
            "accounting__sensitivity": 1.0,
        },
        "noise scale",
        1.0 / gaussian_mu(1.2, 1e-5),
        {"accounting__formula": "analytic"},
        "warning",
    ),
    "shares of another n": Fault(
        L,
        {"clients__per_round": 600, "secure_aggregation__threshold": 600},
        "noise shares",
        600.0,
        {"accounting__clients": 600},
    ),
    "threshold": Fault(L, {"secure_aggregation__threshold": 501}, "noise shares", 501.0),
    "more clients": Fault(
        L,
        {"clients__per_round": 2000, "secure_aggregation__threshold": 2000},
        "noise shares",
        2000.0,
        {"accounting__clients": 2000},
        "warning",
    ),
    "shares in the clear": Fault(
        L,
        {"secure_aggregation": None, "claim__view": "individual"},
        "noise shares",
        None,
        {"noise__added": "client"},
    ),
    "threshold above n": Fault(L, {"secure_aggregation__threshold": 1001}, "noise shares", 1000.0),
    # Of 4 interactions, one was counted.
    "batch": Fault(N, {"accounting__interactions": 1}, "batch", 4.8),
    "mean": Fault(
        N,
        {
            "accounting__interactions": 100,
            "accounting__unit": "interaction",
            "claim__unit": "interaction",
        },
        "batch",
        1.2 * 100 / 4,
        {"accounting__interactions": 4},
    ),
    "unit": Fault(N, {"accounting__unit": "interaction"}, "unit", 4.8, {"claim__unit": "interaction"}),
    "unit of clicks": Fault(
        N, {"accounting__unit": "click", "claim__unit": "query"}, "unit", 48.0, {"claim__unit": "click"}
    ),
    "unit without a bound": Fault(N, {"accounting__unit": "query"}, "unit", None, {"claim__unit": "query"}),
    "relation": Fault(
        N, {"accounting__relation": "add-remove"}, "relation", 2.4, {"claim__relation": "add-remove"}
    ),
    "delta": Fault(N, {"claim__delta": 0.001}, "delta", 1 / 5000, {"claim__delta": 1e-6}, "warning"),
    "run": Fault(N, {"claim__covers": "run"}, "rounds", 120.0, {"accounting__rounds": 100}),
    "run of Laplace noise": Fault(L, {"claim__covers": "run"}, "rounds", 120.0, {"run__rounds": 1}),
    # k rounds of mu are one of sqrt(k) mu, and a client takes part in a fifth of 100 rounds.
    "run of normal noise": Fault(
        G,
        {"claim__covers": "run"},
        "rounds",
        over_cohorts(3.0 / SIGMA, 100, 0.2, 1e-5),
        {"claim__epsilon": 6.0},
    ),
    # A thousand of 5,000 clients in each of 100 rounds: with a separation of 5 everybody takes part in 20.
    "run of turns": Fault(
        G,
        {"claim__covers": "run", "run__separation": 5},
        "rounds",
        gaussian_epsilon(3.0 / SIGMA * math.sqrt(20), 1e-5),
        {"claim__epsilon": 6.0},
    ),
    "turns": Fault(
        N,
        {"claim__covers": "run", "run__separation": 10, "accounting__rounds": 9},
        "rounds",
        1.2 * 10 / 9,
        {"accounting__rounds": 10},
    ),
    # ln(1 + q (e^eps - 1)) is the epsilon of a secret sample of a share q.
    "sample": Fault(
        N,
        {"accounting__sampled": 0.1, "run__sampled": 0.5, "run__secret_sample": True},
        "sampling",
        math.log(1 + 5 * (math.exp(1.2) - 1)),
        {"run__sampled": 0.1},
    ),
    "known sample": Fault(
        N,
        {"accounting__sampled": 0.1, "run__sampled": 0.1},
        "sampling",
        math.log(1 + 10 * (math.exp(1.2) - 1)),
        {"run__secret_sample": True},
    ),
    "sample of who sees sums": Fault(
        N,
        {"accounting__sampled": 0.1, "run__sampled": 0.1, "claim__view": "aggregate"},
        "sampling",
        math.log(1 + 10 * (math.exp(1.2) - 1)),
        {"claim__view": "published"},
    ),
    # Of the clients whose turn it is, half take part.
    "sample of a turn": Fault(
        N,
        {
            "accounting__sampled": 0.1,
            "run__sampled": 0.1,
            "run__secret_sample": True,
            "run__separation": 5,
        },
        "sampling",
        math.log(1 + 5 * (math.exp(1.2) - 1)),
        {"accounting__sampled": 0.5},
    ),
    "lists": Fault(
        G,
        {"message__lists": "shown", "message__ranked_with": "local"},
        "lists",
        None,
        {"message__ranked_with": "global"},
    ),
    "last bits": Fault(G, {"message__number_format": "float64"}, "last bits", None),
    "weights": Fault(
        L, {"clients__weights": "by interactions"}, "weights", None, {"clients__weights": "equal"}, "warning"
    ),
    "server noise": Fault(
        G,
        {"noise__added": "server", "claim__view": "aggregate", "secure_aggregation__threshold": 1000},
        "server noise",
        None,
        {"claim__view": "published"},
    ),
    "claim without a unit": Fault(N, {"claim__unit": None}, "statement", None, None, "warning"),
    # What is proven: 1.2 sqrt(46).
    "proof": Fault(L, {"clip__order": 2}, "proof", 1.2 * math.sqrt(46)),
}


def tables(fault: Fault) -> Tables:
    return changed(HONEST[fault.system], **fault.change)


@pytest.mark.parametrize("name", HONEST)
def test_nothing_is_found_in_an_honest_system(name: str) -> None:
    assert found_in(HONEST[name]) == ()


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_with_the_right_number(name: str) -> None:
    fault = FAULTS[name]
    found = [one for one in found_in(tables(fault)) if one.check == fault.check]
    assert found, [one.check for one in found_in(tables(fault))]
    assert found[0].severity == fault.severity
    if fault.right is None:
        assert found[0].right is None
    else:
        assert found[0].right == pytest.approx(fault.right, rel=1e-5)


@pytest.mark.parametrize("name", FAULTS)
def test_the_mended_twin_passes_in_silence(name: str) -> None:
    fault = FAULTS[name]
    twin = HONEST[fault.system] if fault.mended is None else changed(tables(fault), **fault.mended)
    assert found_in(twin) == ()


def test_the_sentence_has_the_figures() -> None:
    (found, *_) = found_in(changed(SHARED_LAPLACE, clip__norm=3, clip__order=2))
    assert found.follows == (
        "the noise is computed for a sensitivity of 3, but two messages differ by up to 2 R = 6 in L2, "
        "which over 46 coordinates is up to 40.7 in L1: for a client epsilon 16.3, not 1.2"
    )


def test_a_proven_claim_is_not_doubted() -> None:
    """Noise that is computed from twice the sensitivity holds for a replaced unit too."""
    assert not found_in(changed(SHARED_LAPLACE, accounting__relation="add-remove"))
    half = changed(SHARED_LAPLACE, accounting__relation="add-remove", accounting__sensitivity=1.5)
    half = changed(half, noise__law="laplace:scale=1.25")
    (doubled, proof) = found_in(half)
    assert [doubled.check, proof.check] == ["relation", "proof"]
    assert [doubled.right, proof.right] == pytest.approx([2.4, 2.4])
    assert not found_in(changed(half, claim__relation="add-remove"))


def test_an_epsilon_of_a_sample_is_not_that_of_the_noise() -> None:
    """Noise of epsilon 1 at delta 1e-5, and ln(1 + q (e - 1)) at q 1e-5 for who sees global models only."""
    sampled = changed(
        GAUSSIAN,
        noise__added="server",
        accounting__epsilon=None,
        accounting__delta=None,
        accounting__sampled=0.2,
        claim__view="published",
        claim__epsilon=math.log(1 + 0.2 * (math.e - 1)),
    )
    assert not found_in(sampled)
    assert {one.check for one in found_in(changed(sampled, claim__view="aggregate"))} >= {"sampling", "proof"}
    assert found_in(changed(sampled, accounting__sampled=None))


def test_nothing_is_proven_of_a_sum_with_unknown_weights() -> None:
    """The heaviest message may move the sum by any multiple of what an equal one does; one alone does not."""
    for tables_, known in ((SHARED_LAPLACE, False), (GAUSSIAN, True)):
        system = declared(changed(tables_, clients__weights="by interactions"))
        assert (proven(system, system.claims[0]) is not None) == known


@pytest.mark.parametrize(("unit", "halved"), [("client", True), ("interaction", False), ("click", False)])
def test_only_a_whole_message_that_is_removed_halves_the_distance(unit: str, *, halved: bool) -> None:
    for interactions in (1, 4):
        system = declared(
            changed(
                SHARED_LAPLACE,
                clients__interactions=interactions,
                claim__relation="add-remove",
                claim__unit=unit,
            )
        )
        bound = proven(system, system.claims[0])
        alone = interactions == 1 and unit != "click"
        assert bound is not None
        assert bound.epsilon == pytest.approx(0.6 if halved or alone else 1.2)


def test_a_field_that_is_not_declared_is_not_judged() -> None:
    for table, fields in SHARED_LAPLACE.items():
        for name in fields:
            left = found_in(changed(SHARED_LAPLACE, **{f"{table}__{name}": None}))
            told = {one.check for one in left if one.severity == "error"}
            assert not told, (table, name, left)


def test_the_more_than_needed_noise_of_a_wrong_sensitivity_is_only_a_warning() -> None:
    (found,) = found_in(changed(SHARED_LAPLACE, accounting__sensitivity=2.9))
    assert (found.check, found.severity) == ("sensitivity", "warning")
    assert "the noise is enough all the same" in found.follows
