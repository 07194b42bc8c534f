"""Every fault of a declared system is found, with the right number; its mended twin passes in silence.

The right numbers come from closed forms, next to each fault."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foltr_audit.core.declared.checks import CHAIN_CHECKS, FindingSeverity, digits, findings
from foltr_audit.core.declared.declared_system import (
    AccountingBasis,
    DeclaredStep,
    DeclaredSystem,
    Restatement,
    proven,
)
from foltr_audit.core.defense_chain import parse_chain
from foltr_audit.core.plugins import Defense
from foltr_audit.privacy.events import NormBound, PrivacyClaim, RevealedDraws
from foltr_audit.privacy.gaussian_dp import gaussian_mu
from tests.fixtures import tiny
from tests.fixtures.declared_systems import PARAMETERS, Sum, TheirClip, TheirNoise, system_of

SIGMA = 3.0 / gaussian_mu(1.0, 1e-5)
"""The deviation at which an L2 distance of 3 gives (1, 1e-5)."""

L1_CLIP = "clip:norm=1.5,ord=1"
SHARES = TheirNoise(noise="laplace:scale=2.5", parted=True, epsilon=1.2, view="aggregate")
NORMAL = "clip:norm=1.5+gaussian:eps=1,delta=1e-5,sensitivity=3"
LAPLACE_SHARES = system_of(L1_CLIP, SHARES, Sum())
GAUSSIAN = system_of(NORMAL)


def header(
    basis: AccountingBasis,
    clip: float | None = None,
    *,
    unit: str = "client",
    relation: str = "replace-one",
) -> DeclaredSystem:
    """What the header of a trace declares of noise whose law it does not name."""
    bound = NormBound(norm=clip or 1.0, ord=2, of="update")
    claim = PrivacyClaim(
        mechanism="knowledge.local_dp_eps", epsilon=basis.epsilon or 1.2, delta=basis.delta or 0.0,
        unit=unit, relation=relation, view="individual",
    )  # fmt: skip
    steps = () if clip is None else (DeclaredStep(name="knowledge.local_dp_clip", event=bound),)
    return DeclaredSystem(
        steps=steps, claims=(claim,), basis=basis, complete=False, parameters=46, cohort=1000
    )


def classical(epsilon: float) -> DeclaredSystem:
    """A header with noise of the classical formula over a sensitivity of 1."""
    return header(AccountingBasis(sensitivity=1.0, epsilon=epsilon, delta=1e-5))


class Fault(NamedTuple):
    """A system that is faulty.

    Attributes:
        system: the system.
        check: the check that finds the fault.
        right: the number that would hold; None where none would.
        twin: the system without the fault.
        severity: of the finding.
    """

    system: DeclaredSystem
    check: str
    right: float | None
    twin: DeclaredSystem
    severity: FindingSeverity = "error"


def their(noise: str, epsilon: float, delta: float = 0.0) -> TheirNoise:
    """Noise of somebody else for a sensitivity of 3."""
    return TheirNoise(noise=noise, epsilon=epsilon, delta=delta)


def unstated(order: int) -> DeclaredSystem:
    """Noise whose sensitivity is not declared, after a clip in L1 or L2."""
    noise = TheirNoise(noise="laplace:scale=2.5", sensitivity=None, epsilon=1.2)
    return system_of(f"clip:norm=1.5,ord={order}", noise)


def removed(interactions: int) -> DeclaredSystem:
    """A claim for the removal of an interaction."""
    noise = TheirNoise(
        noise="laplace:scale=1.25", sensitivity=1.5, epsilon=1.2, unit="interaction", relation="add-remove"
    )
    return system_of(L1_CLIP, noise, interactions=interactions)


def seeded(system: DeclaredSystem) -> DeclaredSystem:
    """The same system with clients who send the seed of their draws."""
    draws = DeclaredStep(name="foltr-es", event=RevealedDraws(by="foltr-es"))
    return replace(system, steps=(*system.steps, draws))


METRICS = system_of("metric-rr:eps=1.2", interactions=1)


def with_lists(*, follow: bool) -> DeclaredSystem:
    """A claim against whoever sees the lists, which follow from clicks or do not."""
    noise = TheirNoise(noise="laplace:scale=2.5", epsilon=1.2, unit="interaction", view="individual+lists")
    return system_of(L1_CLIP, noise, interactions=4, lists_follow_clicks=follow)


def correlated(clip: str, separation: int = 4) -> DeclaredSystem:
    """Noise of an aggregator on sums, in 4 bands."""
    return system_of(clip, "correlated-gaussian:bands=4,sigma=1", separation=separation)


FAULTS = {
    # An L2 distance of 3 is sqrt(46) times as long in L1.
    "order": Fault(
        system_of("clip:norm=1.5", SHARES, Sum()), "sensitivity", 3 * math.sqrt(46),
        system_of(f"clip:norm={1.5 / math.sqrt(46)!r}", SHARES, Sum()),
    ),
    "clip too wide": Fault(
        system_of("clip:norm=3,ord=1", SHARES, Sum()), "sensitivity", 6.0,
        system_of(
            "clip:norm=3,ord=1",
            TheirNoise(noise="laplace:scale=5", parted=True, sensitivity=6.0, epsilon=1.2, view="aggregate"),
            Sum(),
        ),
    ),
    "order without a sensitivity": Fault(unstated(2), "sensitivity", 1.2 * math.sqrt(46), unstated(1)),
    # A client of which one of several interactions is removed sends another message, and not zeros.
    "interaction removed": Fault(removed(4), "sensitivity", 3.0, removed(1)),
    "clip too late": Fault(
        system_of(SHARES, f"{L1_CLIP},at=message", Sum()), "sensitivity", None, LAPLACE_SHARES
    ),
    "clip for normal noise": Fault(
        system_of("clip:norm=4.5+gaussian:eps=1,delta=1e-5,sensitivity=3"), "sensitivity", 9.0, GAUSSIAN
    ),
    "sensitivity without a law": Fault(
        header(AccountingBasis(sensitivity=3.0), clip=3.0), "sensitivity", 6.0,
        header(AccountingBasis(sensitivity=6.0), clip=3.0),
    ),
    # Laplace noise of scale 3 / 1.2.
    "scale": Fault(
        system_of(L1_CLIP, their("laplace:scale=1", 1.2)), "noise scale", 2.5,
        system_of(L1_CLIP, their("laplace:scale=2.5", 1.2)),
    ),
    "sigma": Fault(
        system_of("clip:norm=1.5", their("gaussian:sigma=1", 1.0, 1e-5)), "noise scale", SIGMA,
        system_of("clip:norm=1.5", their(f"gaussian:sigma={SIGMA * (1 + 1e-9)!r}", 1.0, 1e-5)),
    ),
    "no delta": Fault(
        system_of("clip:norm=1.5", their("gaussian:sigma=99", 1.0)), "noise scale", None,
        system_of("clip:norm=1.5", their("gaussian:sigma=99", 1.0, 1e-5)),
    ),
    "classical": Fault(classical(20.0), "noise scale", 1.0 / gaussian_mu(20.0, 1e-5), classical(1.0)),
    "classical, enough": Fault(
        classical(1.2), "noise scale", 1.0 / gaussian_mu(1.2, 1e-5), classical(1.0), "warning"
    ),
    "shares of another n": Fault(
        system_of(L1_CLIP, SHARES, Sum(at_least=600), cohort=600), "noise shares", 600.0,
        system_of(L1_CLIP, SHARES, Sum(at_least=600), shares=600),
    ),
    "threshold": Fault(system_of(L1_CLIP, SHARES, Sum(at_least=501)), "noise shares", 501.0, LAPLACE_SHARES),
    "more clients": Fault(
        system_of(L1_CLIP, SHARES, Sum(at_least=2000), cohort=2000), "noise shares", 2000.0,
        system_of(L1_CLIP, SHARES, Sum(at_least=2000), shares=2000), "warning",
    ),
    "shares in the clear": Fault(
        system_of(L1_CLIP, SHARES), "noise shares", None, system_of(L1_CLIP, "laplace:eps=1.2,sensitivity=3")
    ),
    "threshold above n": Fault(
        system_of(L1_CLIP, SHARES, Sum(at_least=1001)), "noise shares", 1000.0, LAPLACE_SHARES
    ),
    "rounded shares": Fault(
        system_of(L1_CLIP, SHARES, "secure-aggregation:threshold=1000"), "noise shares", None,
        system_of(
            "clip:norm=1.5+skellam:sigma=9,step=0.0009765625,sensitivity=3,delta=1e-5"
            "+secure-aggregation:threshold=1000"
        ),
    ),
    "several noises": Fault(
        system_of(f"{L1_CLIP}+laplace:eps=1.2,sensitivity=3+gaussian:eps=1,delta=1e-5,sensitivity=3"),
        "several noises", None, GAUSSIAN, "warning",
    ),
    "sparse messages": Fault(
        system_of("clip:norm=1,ord=1,of=update,at=message+top-k:k=3+laplace:eps=1,sensitivity=2"),
        "sparse messages", None,
        system_of("clip:norm=1,ord=1,of=update,at=message+laplace:eps=1,sensitivity=2+top-k:k=3"),
        "warning",
    ),
    # Where nothing is claimed, no claim is wrong.
    "unbounded sums": Fault(
        correlated("none"), "sum noise", None, correlated("clip:norm=1,at=message"), "warning"
    ),
    "correlated for too long": Fault(
        correlated("clip:norm=1,at=message", 1), "sum noise", 1.0, correlated("clip:norm=1,at=message"),
        "warning",
    ),
    # One of four answers that are each true with epsilon 1.2: pure epsilons add up.
    "batch": Fault(
        system_of("metric-rr:eps=1.2", interactions=4), "batch", 4.8,
        METRICS, "warning",
    ),
    "lists": Fault(with_lists(follow=True), "lists", None, with_lists(follow=False)),
    "seed of the draws": Fault(seeded(METRICS), "revealed draws", None, METRICS),
    "last bits": Fault(system_of(NORMAL, number_format="float64"), "last bits", None, GAUSSIAN),
    "weights": Fault(system_of(NORMAL, alike_in_number=False), "weights", None, GAUSSIAN, "warning"),
    "delta": Fault(
        system_of("clip:norm=1.5+gaussian:eps=1,delta=0.001,sensitivity=3"), "delta", 1 / 5000, GAUSSIAN,
        "warning",
    ),
    "claim without a unit": Fault(
        header(AccountingBasis(), unit=""), "statement", None, header(AccountingBasis()), "warning"
    ),
    "relation that no proof knows": Fault(
        header(AccountingBasis(), relation="swap"), "statement", None, header(AccountingBasis()), "warning"
    ),
    "said twice": Fault(
        system_of(NORMAL, restated=(Restatement(field="knowledge.noise", said="none", elsewhere="it is"),)),
        "restated", None, GAUSSIAN,
    ),
    # What is proven: 1.2 sqrt(46).
    "proof": Fault(system_of("clip:norm=1.5", SHARES, Sum()), "proof", 1.2 * math.sqrt(46), LAPLACE_SHARES),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_with_the_right_number(name: str) -> None:
    fault = FAULTS[name]
    by_check = {finding.check: finding for finding in reversed(findings(fault.system))}
    assert fault.check in by_check
    finding = by_check[fault.check]
    assert finding.severity == fault.severity
    assert finding.right == (None if fault.right is None else pytest.approx(fault.right, rel=1e-5))


@pytest.mark.parametrize("name", FAULTS)
def test_the_mended_twin_passes_in_silence(name: str) -> None:
    assert findings(FAULTS[name].twin) == ()


def test_the_sentence_has_the_figures() -> None:
    (finding, *_) = findings(system_of("clip:norm=3", SHARES, Sum()))
    assert finding.follows == (
        "the noise is computed for a sensitivity of 3, but two messages differ by up to 2 R = 6 in L2, "
        "which over 46 coordinates is up to 40.7 in L1: for a client epsilon 16.3, not 1.2"
    )


@pytest.mark.parametrize(("unit", "halved"), [("client", True), ("interaction", False), ("click", False)])
@pytest.mark.parametrize(("relation", "factor"), [("add-remove", 0.5), ("replace-one", 1.0)])
def test_only_a_whole_message_that_is_removed_halves_the_distance(
    relation: str, factor: float, unit: str, *, halved: bool
) -> None:
    noise = TheirNoise(noise="laplace:scale=2.5", epsilon=1.2, unit=unit, relation=relation)
    for interactions in (1, 4):
        system = system_of(L1_CLIP, noise, interactions=interactions)
        bound = proven(system, system.claims[0])
        alone = interactions == 1 and unit != "click"
        assert bound is not None
        assert bound.epsilon == pytest.approx(1.2 * factor if halved or alone else 1.2)


def said(text: str, *more: Defense, shares: int = 1000) -> list[str]:
    return warnings((*parse_chain([text]), *more), shares=shares)


def warnings(
    defenses: tuple[Defense, ...], parameters: int = PARAMETERS, shares: int = 1000, separation: int = 1
) -> list[str]:
    """What the checks of a chain find, whatever it claims."""
    system = system_of(*defenses, parameters=parameters, shares=shares, separation=separation)
    return [finding.warning.text for finding in findings(replace(system, claims=()), CHAIN_CHECKS)]


@settings(max_examples=60, derandomize=True)
@given(norm=st.floats(0.01, 100.0), sensitivity=st.floats(0.01, 100.0), order=st.sampled_from([1, 2]))
def test_what_is_said_is_how_much_is_missing(norm: float, sensitivity: float, order: int) -> None:
    """The factor is that of the worst pair of models: by brute force over corners of the ball."""
    text = f"clip:norm={norm},ord={order}+laplace:eps=1,sensitivity={sensitivity}"
    poles = [np.eye(PARAMETERS)[0], np.ones(PARAMETERS)]
    worst = max(2 * norm * np.abs(pole / np.linalg.norm(pole, order)).sum() for pole in poles) / sensitivity
    found = said(text)
    assert bool(found) == bool(worst > 1 + 1e-9)
    if found:
        assert f"for a client epsilon {digits(worst)}, not 1" in found[0]


def test_plug_ins_of_others_are_judged_by_their_events() -> None:
    (found,) = warnings((TheirClip(), TheirNoise()))
    assert found.startswith("their-noise: the noise is computed for a sensitivity of 3, but two")
    assert "up to 20.3 in L1: for a client the noise is 6.78 times too small" in found
    (found,) = warnings((TheirClip(), tiny.ToyStep(), TheirNoise()))
    assert "toy-step removes the bound of their-clip" in found
    assert warnings((TheirClip(), TheirNoise()), 1) == []
    assert warnings(()) == []
