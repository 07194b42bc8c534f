"""Wrong pairings are said aloud, right ones pass in silence; decided from what defenses declare."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foltr_audit.core.declared.checks import CHAIN_CHECKS, digits, findings
from foltr_audit.core.defense_chain import parse_chain
from foltr_audit.core.plugins import Defense
from foltr_audit.privacy.gaussian_dp import gaussian_epsilon, gaussian_mu
from tests.fixtures import tiny
from tests.fixtures.declared_systems import PARAMETERS, Sum, TheirClip, TheirNoise, system_of


def said(text: str, *more: Defense, shares: int = 1000) -> list[str]:
    return warnings((*parse_chain([text]), *more), shares=shares)


def warnings(
    defenses: tuple[Defense, ...], parameters: int = PARAMETERS, shares: int = 1000, separation: int = 1
) -> list[str]:
    """What the checks of a chain find, whatever it claims."""
    system = system_of(*defenses, parameters=parameters, shares=shares, separation=separation)
    return [finding.warning.text for finding in findings(replace(system, claims=()), CHAIN_CHECKS)]


@pytest.mark.parametrize(
    "text",
    [
        "none",
        "clip:norm=1.5",
        "click-rr:eps=1",
        "top-k:k=3",
        "clip:norm=1.5,ord=1+laplace:eps=1.2,sensitivity=3",
        "laplace:eps=1.2,sensitivity=3+clip:norm=1.5,ord=1",
        "clip:norm=1.5,ord=1,of=update,at=message+laplace:eps=1.2,sensitivity=3",
        "clip:norm=1.5+gaussian:eps=1,delta=1e-5,sensitivity=3",
        "clip:norm=1.5,ord=1+gaussian:eps=1,delta=1e-5,sensitivity=3",
        "clip:norm=1+gaussian:sigma=2",
        "clip:norm=1.5,ord=1+clip:norm=9+laplace:eps=1.2,sensitivity=3",
        "clip:norm=1,of=update,at=message+gaussian:eps=1,delta=1e-5,sensitivity=2",
        "clip:norm=1+clip:norm=1,of=update+sign:scale=1+gaussian:sigma=1",
        "sign:scale=0.1+laplace:eps=1,sensitivity=9.2",
        "clip:norm=1.5,ord=1+laplace:eps=1.2,sensitivity=3+clip:norm=1.5,at=message",
    ],
)
def test_right_pairings_pass_in_silence(text: str) -> None:
    assert said(text) == []


def test_the_published_chain() -> None:
    clip, share = said("clip:norm=1.5+gamma-laplace:eps=1.2,sensitivity=3")
    # 2 R = 3 in L2 is sqrt(46) 3 = 20.35 in L1; over the scale 3 / 1.2 that is 8.14.
    assert "which over 46 coordinates is up to 20.3 in L1: for a client epsilon 8.14, not 1.2" in clip
    assert "clip at 0.22116 in L2, or clip at 1.5 in L1" in clip
    assert "each message carries only 1/1000 of the noise" in share
    (only,) = said("clip:norm=1.5+gamma-laplace:eps=1.2,sensitivity=3", Sum())
    assert only == clip
    _, few = said("clip:norm=1.5+gamma-laplace:eps=1.2,sensitivity=3", Sum(at_least=600))
    assert "only 600 of 1000 messages, and with them only 60% of the noise" in few


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


def test_too_wide_a_clip() -> None:
    (wide,) = said("clip:norm=3,ord=1+laplace:eps=1.2,sensitivity=3")
    assert "a sensitivity of 3, but two messages differ by up to 2 R = 6 in L1: for a client" in wide
    assert "epsilon 2.4, not 1.2; compute the noise from 6, or clip at 1.5 in L1" in wide
    (normal,) = said("clip:norm=3+gaussian:eps=1,delta=1e-5,sensitivity=3")
    twice = gaussian_epsilon(2.0 * gaussian_mu(1.0, 1e-5), 1e-5)
    assert f"for a client epsilon {twice:.3g} at delta 1e-05, not 1" in normal


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (
            "laplace:eps=1,sensitivity=1",
            "no defense bounds the messages before the noise: its claim holds for no",
        ),
        ("gaussian:sigma=1", "no defense bounds"),
        ("laplace:eps=1,sensitivity=2+clip:norm=1,ord=1,at=message", "clip acts too late, after the noise"),
        (
            "clip:norm=1+click-rr:debias=true,eps=1+gaussian:eps=1,delta=1e-5,sensitivity=2",
            "click-rr removes the bound of clip",
        ),
        ("clip:norm=1,ord=1+top-k:k=3+laplace:eps=1,sensitivity=2", "top-k removes the bound of clip"),
    ],
)
def test_noise_without_a_bound(text: str, part: str) -> None:
    assert part in " ".join(said(text))


def test_top_k_before_noise_and_several_noises() -> None:
    found = said("clip:norm=1,ord=1,of=update,at=message+top-k:k=3+laplace:eps=1,sensitivity=2")
    assert found == ["top-k: later noise fills the coordinates it sets to zero; put it after the noise"]
    assert not said("clip:norm=1,ord=1,of=update,at=message+laplace:eps=1,sensitivity=2+top-k:k=3")
    found = said("clip:norm=1,ord=1+laplace:eps=1,sensitivity=2+gaussian:eps=1,delta=1e-5,sensitivity=2")
    assert found == [
        "noise: several defenses add it (laplace, gaussian): each claim accounts only for its own noise; "
        "add one noise, computed for the claim"
    ]


@pytest.mark.parametrize(
    "text", ["gaussian-shares:sigma=1", "skellam:sigma=1,step=0.001", "discrete-gaussian:sigma=1,step=0.001"]
)
def test_shares_need_a_sum(text: str) -> None:
    (found,) = said(f"clip:norm=1+{text}")
    assert "carries only 1/1000 of the noise" in found
    assert not said(f"clip:norm=1+{text}", Sum())
    assert not said(f"clip:norm=1+{text}", shares=1)


def test_rounding_that_noise_allows_for_is_no_fault() -> None:
    assert not said("clip:norm=1.5+skellam:delta=1e-5,sensitivity=3,sigma=9,step=0.001", Sum())
    assert said("clip:norm=1.6+skellam:delta=1e-5,sensitivity=3,sigma=9,step=0.001", Sum())


def test_plug_ins_of_others_are_judged_by_their_events() -> None:
    (found,) = warnings((TheirClip(), TheirNoise()))
    assert found.startswith("their-noise: the noise is computed for a sensitivity of 3, but two")
    assert "up to 20.3 in L1: for a client the noise is 6.78 times too small" in found
    (found,) = warnings((TheirClip(), tiny.ToyStep(), TheirNoise()))
    assert "toy-step removes the bound of their-clip" in found
    assert warnings((TheirClip(), TheirNoise()), 1) == []
    assert warnings(()) == []


def test_shares_that_are_rounded_for_a_sum() -> None:
    for chain, rounded in (
        ("clip:norm=1.5,ord=1+gamma-laplace:eps=1.2,sensitivity=3", True),
        ("clip:norm=1.5+skellam:sigma=9,step=0.0009765625", False),
        ("clip:norm=1.5+skellam:sigma=9,step=0.001", True),  # the sum has steps of 2^-24
        ("clip:norm=1.5,ord=1+laplace:eps=1,sensitivity=3", False),
    ):
        told = " ".join(said(f"{chain}+secure-aggregation:threshold=1000"))
        assert ("each share is rounded before the sum" in told) == ("rounded" in told) == rounded, chain


def test_noise_on_sums_needs_bounded_messages_and_a_separation() -> None:
    def said(*texts: str, separation: int = 1) -> list[str]:
        return warnings(parse_chain(texts), separation=separation)

    (bare,) = said("correlated-gaussian:sigma=1")
    assert "nothing bounds the messages before the noise: it hides no client; clip each" in bare
    clip, noise = "clip:norm=1,at=message", "correlated-gaussian:bands=4,sigma=1"
    (too_long,) = said(clip, noise)
    assert "the noise of 4 rounds is correlated, but a client may take part again after 1" in too_long
    assert said(clip, noise, separation=4) == [] == said(clip, "correlated-gaussian:sigma=1", separation=9)
