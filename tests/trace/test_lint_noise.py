"""Lint checks that hold messages against the declared noise law, on small traces."""

from __future__ import annotations

import numpy as np
import pytest

from foltr_audit.privacy.noise import GammaShare
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats
from tests.fixtures import lint_traces
from tests.fixtures.lint_traces import LAPLACE, MESSAGES, P, found_in, header_of, leaks, only, played

# --- what a law leaves untouched ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "dtype", "share"), [(1000, "float64", 0.92), (1000, "float32", 0.96), (100, "float64", 0.45)]
)
def test_the_share_that_gamma_shares_leave_untouched(n: int, dtype: str, share: float) -> None:
    """The share of docs/maths.md, Noise, and a comparison of un-noised and noised numbers bit for bit."""
    header = header_of(dtype=dtype, noise=f"gamma-share:n={n},scale=2.5")
    rng = np.random.default_rng(5)
    theta = rng.uniform(0.01, 1.0, size=(2000, P)) * rng.choice([-1, 1], size=(2000, P))
    law = GammaShare(n=n, scale=2.5)
    sent = (theta + law.sample(Streams(7).clients("test", 0, np.arange(2000)), P)).astype(dtype)
    equal = float(np.mean(sent == theta.astype(dtype)))
    record = lint_traces.record_of(header, 0, theta, messages=sent, parameters=np.full(P, 0.1))
    finding = next(f for f in found_in(header, [record]) if f.check == "bit-equal")
    assert finding.share == pytest.approx(equal, abs=0.015)
    assert finding.share == pytest.approx(share, abs=0.015)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["model", "update"])
def test_many_shares_are_caught_and_whole_noise_is_left_alone(kind: str, dtype: str) -> None:
    header = header_of(kind, dtype, "gamma-share:n=1000,scale=2.5", ["gamma-laplace:eps=1.2"])
    assert "bit-equal" in leaks(found_in(header, played(header)))
    header = header_of(kind, dtype, "gamma-share:n=1,scale=2.5", ["gamma-laplace:eps=1.2"])
    assert leaks(found_in(header, played(header))) == set()


# --- noise that is weaker than declared -----------------------------------------------------------


def _half(round_: int, learnt: Floats, noise: Floats) -> Floats:
    del round_
    return learnt + 0.5 * noise


def _one_bare_column(round_: int, learnt: Floats, noise: Floats) -> Floats:
    del round_
    return np.where(np.arange(P) != 7, learnt + noise, learnt)


def _one_bare_client(round_: int, learnt: Floats, noise: Floats) -> Floats:
    del round_
    return np.where(np.arange(MESSAGES)[:, np.newaxis] != 9, learnt + noise, learnt)


@pytest.mark.parametrize("text", [LAPLACE, "gamma-share:n=3,scale=2.5"])
def test_weak_and_missing_noise_is_caught(text: str) -> None:
    header = header_of(noise=text)
    assert "weak-noise" not in leaks(found_in(header, played(header)))
    halved = only(found_in(header, played(header, _half)), "weak-noise")
    assert "all in all" in halved.text
    column = only(found_in(header, played(header, _one_bare_column)), "weak-noise")
    assert "coordinates 7 " in column.text
    assert column.example == "round 0, coordinate 7"
    client = only(found_in(header, played(header, _one_bare_client)), "weak-noise")
    assert (client.messages, client.example) == (3, "round 0, message 9")


def test_what_acts_after_the_noise_is_no_weak_noise() -> None:
    header = header_of(defense=["laplace:eps=1,sensitivity=2.5", "top-k:k=5"])
    assert "weak-noise" not in leaks(found_in(header, played(header, _half)))
    assert "weak-noise" in leaks(found_in(header_of(), played(header_of(), _half)))


# --- noise that is used twice ---------------------------------------------------------------------


def _of_the_round(round_: int, learnt: Floats, noise: Floats) -> Floats:
    del round_
    return np.asarray(learnt + noise[0])


def _of_the_client(round_: int, learnt: Floats, noise: Floats) -> Floats:
    del round_, noise
    return learnt + lint_traces.noise_of(LAPLACE, 0)


def _one_for_all_coordinates(round_: int, learnt: Floats, noise: Floats) -> Floats:
    del round_
    return learnt + noise[:, :1]


def test_noise_that_is_shared_is_caught() -> None:
    header = header_of()
    assert "reused-noise" not in leaks(found_in(header, played(header)))
    by_round = only(found_in(header, played(header, _of_the_round)), "reused-noise")
    assert by_round.text.startswith("messages of one round")
    by_client = only(found_in(header, played(header, _of_the_client)), "reused-noise")
    assert by_client.text.startswith("messages of the same place in successive rounds")
    assert by_client.example == "round 1"
    within = only(found_in(header, played(header, _one_for_all_coordinates)), "reused-noise")
    assert within.text.startswith("within 120 messages")
    assert within.share == 1.0


def test_bits_that_repeat_are_caught_without_any_law() -> None:
    header = header_of("update", noise=None)
    honest = played(header_of("update"))
    assert leaks(found_in(header, honest)) == set()

    def twins(round_: int, learnt: Floats, noise: Floats) -> Floats:
        changes = lint_traces.whole(round_, learnt, noise + lint_traces.noise_of(LAPLACE, round_))
        changes[3] = changes[11]
        return changes

    def again(round_: int, learnt: Floats, noise: Floats) -> Floats:
        return lint_traces.whole(0 * round_, lint_traces.updates(0), noise + lint_traces.noise_of(LAPLACE, 0))

    def shifted(round_: int, learnt: Floats, noise: Floats) -> Floats:
        changes = lint_traces.whole(round_, learnt, noise)
        changes[5] = 2.25
        return changes

    equal = next(f for f in found_in(header, played(header, twins)) if f.check == "reused-noise")
    assert (equal.messages, equal.example) == (6, "round 0, message 3")
    repeated = only(found_in(header, played(header, again)), "reused-noise")
    assert (repeated.messages, repeated.example) == (2 * MESSAGES, "round 1, message 0")
    constant = [f for f in found_in(header, played(header, shifted)) if "one and the same number" in f.text]
    assert [f.messages for f in constant] == [3]


# --- false alarms ---------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [LAPLACE, "gaussian:sigma=2", "gamma-share:n=2,scale=2.5"])
def test_sound_noise_raises_no_alarm(text: str) -> None:
    """30 traces per law: each test allows one false alarm in a billion."""
    header = header_of(noise=text)

    def drawn(round_: int, learnt: Floats, noise: Floats) -> Floats:
        gaussian = 2 * np.random.default_rng([9, round_, seed]).normal(size=noise.shape)
        own = gaussian if text.startswith("gauss") else noise
        return np.asarray(learnt + own)

    for seed in range(30):
        assert leaks(found_in(header, played(header, drawn, seed))) == set()
