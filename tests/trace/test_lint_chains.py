"""The lint on intact chains of the built-in defenses: no false leak, and honest about what it skipped."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from foltr_audit.defenses.gaussian import GaussianNoise

from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.core.plugins import RoundContext
from foltr_audit.trace.lint import LintResult
from foltr_audit.utils.arrays import Floats
from tests.fixtures import lint_traces
from tests.fixtures.lint_traces import leaks, outcome
from tests.fixtures.there import there

NOISE = {
    "laplace": "laplace:eps=1.2,sensitivity=3",
    "gaussian": "gaussian:sigma=2",
    "gaussian-shares": "gaussian-shares:sigma=8",
    "skellam": "skellam:sigma=8,step=0.5",
    "skellam, fine": "skellam:sigma=8,step=0.001",
    "discrete-gaussian": "discrete-gaussian:sigma=8,step=0.5",
}
OTHERS = {
    "alone": (),
    "top-k": ("top-k:k=30",),
    "random-k": ("random-k:k=30",),
    "quantise": ("quantise:range=6,step=0.01",),
    "clip": ("clip:norm=4,at=message",),
}
PLACES = ("before", "after")
CASES = [(noise, other, place) for noise in NOISE for other in OTHERS for place in PLACES]


def of(
    noise: str, other: str = "alone", place: str = "before", *, seed: int = 0, clients: int = 40
) -> LintResult:
    own, more = (NOISE[noise],), OTHERS[other]
    texts = more + own if place == "before" else own + more
    kind, dtype = ("model", "float32") if seed % 2 else ("update", "float64")
    chain = DefenseChain(parse_chain(texts))
    return lint_traces.of_chain(
        chain, rounds=3, clients=clients, parameters=46, seed=seed, kind=kind, dtype=dtype, size=0.1
    )


@pytest.mark.parametrize("seeds", [range(1, 3), pytest.param(range(3, 103), marks=pytest.mark.slow)])
@pytest.mark.parametrize(("noise", "other", "place"), CASES)
def test_intact_chains_leak_nothing(noise: str, other: str, place: str, seeds: range) -> None:
    """The slow suite looks at 6,000 traces."""
    for seed in seeds:
        found = of(noise, other, place, seed=seed).findings
        assert leaks(found) == set(), (seed, found)


@pytest.mark.parametrize("shares", [3, 20, 200, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("seeds", [[1], pytest.param(range(60), marks=pytest.mark.slow)])
def test_narrow_shares_as_they_are_raise_no_alarm_by_their_law(shares: int, seeds: Sequence[int]) -> None:
    """Their law alone leaves coordinates untouched; they are neither weaker than declared nor used again."""
    chain = DefenseChain(parse_chain(["gamma-laplace:eps=1.2,sensitivity=3"]))
    for seed in seeds:
        done = lint_traces.of_chain(chain, rounds=4, clients=shares, parameters=46, seed=seed, size=0.1)
        assert not leaks(done.findings) & {"weak-noise", "reused-noise"}, seed


@pytest.mark.parametrize("noise", NOISE)
def test_noise_that_is_added_last_is_looked_at(noise: str) -> None:
    for other in OTHERS:
        done = of(noise, other, "before", seed=1)
        assert outcome(done, "weak-noise").state == "clean"
        assert outcome(done, "reused-noise").state == "clean"


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("other", ["top-k", "random-k", "quantise", "clip"])
def test_what_comes_after_the_noise_is_named(noise: str, other: str) -> None:
    done = of(noise, other, "after", seed=1)
    weak, reused = outcome(done, "weak-noise"), outcome(done, "reused-noise")
    assert weak.state == reused.state == "not looked"
    assert there(weak.reason).endswith("may change a message")
    assert weak.reason in [gap.why for gap in reused.not_looked_at]
    assert not done.clean


def test_only_noise_that_nothing_changes_afterwards_is_held_against_its_law() -> None:
    """Wide noise that is clipped away and narrow noise after it: the sum is no sum of both laws."""
    chain = ("gaussian:sigma=50", "clip:norm=0.5,at=message", "gaussian:sigma=0.2")
    done = lint_traces.of_chain(DefenseChain(parse_chain(chain)), parameters=46)
    assert done.noise_declared == "gaussian:sigma=50+gaussian:sigma=0.2"
    assert leaks(done.findings) == set()
    assert outcome(done, "weak-noise").reason is None


def test_two_noises_in_a_row_are_held_against_both_laws() -> None:
    class Missing(GaussianNoise):
        """Declares noise and adds none."""

        def on_message(self, models: Floats, context: RoundContext) -> Floats:
            del context
            return models.copy()

    laplace = parse_chain(["laplace:eps=1,sensitivity=1"])
    sound = lint_traces.of_chain(DefenseChain((GaussianNoise(sigma=2.0), *laplace)), parameters=46)
    assert leaks(sound.findings) == set()
    assert outcome(sound, "weak-noise").reason is None
    missing = lint_traces.of_chain(DefenseChain((Missing(sigma=2.0), *laplace)), parameters=46)
    assert leaks(missing.findings) >= {"weak-noise"}
