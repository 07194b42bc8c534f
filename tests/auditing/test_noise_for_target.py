"""The noise that meets a target: against closed forms, and as the smallest that does."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foltr_audit.auditing.noise_for_target import NoiseCalibration, calibrate, calibrations
from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.core.plugins import PrivacyEvent
from foltr_audit.privacy.accounting import AccountingContext, upper_bound
from foltr_audit.privacy.events import NoiseAddition
from foltr_audit.privacy.gaussian_dp import gaussian_mu
from tests.fixtures.tiny import accounting, context

N, P = 1000, 46


def at(**values: Any) -> AccountingContext:
    return accounting(**{"view": "aggregate", "unit": "client", "parameters": P, "shares": N, **values})


def events(texts: tuple[str, ...], there: AccountingContext) -> tuple[PrivacyEvent, ...]:
    assert there.members is not None
    here = context([0], P=there.parameters, shares=there.members.cohort)
    return DefenseChain(parse_chain(texts)).events(here)


def deviation(found: NoiseCalibration, there: AccountingContext) -> float:
    """The standard deviation of the noise in the sum of all messages."""
    laws = [event.law for event in events(found.defense, there) if isinstance(event, NoiseAddition)]
    assert there.members is not None
    return math.sqrt(sum(law.variance for law in laws) * there.members.messages())


def test_every_mechanism_is_there() -> None:
    noises = "laplace gamma-laplace gaussian gaussian-shares discrete-gaussian skellam correlated-gaussian"
    assert set(calibrations()) == {*noises.split(), "click-rr"}


# --- closed forms -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounds", [1, 8])
def test_laplace_noise(rounds: int) -> None:
    found = calibrate("laplace", 1.2, at(rounds=rounds), norm=1.5)
    assert found.defense == ("clip:norm=1.5,ord=1", f"laplace:eps={1.2 / rounds:g},sensitivity=3")
    assert found.upper.epsilon == pytest.approx(1.2)
    assert found.average_sd == pytest.approx(math.sqrt(2 * N) * 2.5 * rounds / N)


def test_no_gamma_shares_hide_a_client_in_a_sum_of_floats() -> None:
    found = calibrate("gamma-laplace", 1.2, at(), norm=1.5)
    assert found.why_not is not None
    assert "float32" in found.why_not


def test_laplace_noise_on_an_l2_ball_states_the_l1_distance() -> None:
    found = calibrate("laplace", 1.2, at(), norm=1.5, order=2)
    clip, noise = found.defense
    assert clip == "clip:norm=1.5"
    assert noise.startswith("laplace:eps=1.2")
    assert float(noise.rpartition("=")[2]) == pytest.approx(3 * math.sqrt(P), rel=1e-4)


@pytest.mark.parametrize(
    ("name", "view", "clients"), [("gaussian", "individual", 1), ("gaussian-shares", "aggregate", N)]
)
@pytest.mark.parametrize("rounds", [1, 50])
def test_gaussian_noise(name: str, view: str, clients: int, rounds: int) -> None:
    there = at(view=view, rounds=rounds, delta=1e-5)
    found = calibrate(name, 2.0, there)
    expected = 3.0 * math.sqrt(rounds) / gaussian_mu(2.0, 1e-5)
    assert expected <= deviation(found, there) / math.sqrt(N / clients) <= expected * 1.0001


def test_gaussian_noise_of_those_who_arrive() -> None:
    all_, some = (calibrate("gaussian-shares", 2.0, at(delta=1e-5, arriving=m)) for m in (1000, 250))
    wide, narrow = (float(one.defense[1].rpartition("=")[2]) for one in (some, all_))
    assert wide == pytest.approx(2 * narrow, rel=1e-4)


@pytest.mark.parametrize(("unit", "clicks"), [("click", 1), ("interaction", 10), ("query", 30)])
def test_randomised_clicks(unit: str, clicks: int) -> None:
    found = calibrate("click-rr", 1.5, at(unit=unit, interactions=3))
    assert found.defense == (f"click-rr:eps={1.5 / clicks:g}",)
    assert found.average_sd is None


@pytest.mark.parametrize("name", ["discrete-gaussian", "skellam"])
def test_noise_on_a_grid_is_about_as_wide_as_gaussian_noise(name: str) -> None:
    there = at(delta=1e-5)
    fine, smooth = (deviation(calibrate(one, 1.2, there), there) for one in (name, "gaussian-shares"))
    assert smooth < fine < 1.01 * smooth, "as private as Gaussian noise, but for rounding to the grid"


@pytest.mark.parametrize("rounds", [1, 20])
def test_a_sum_of_laplace_draws_is_nearly_gaussian(rounds: int) -> None:
    """Whole draws on each of 1,000 messages hide a client in their sum as well as Gaussian ones would."""
    there = at(delta=1e-5, rounds=rounds)
    laplace, smooth = (deviation(calibrate(name, 1.0, there), there) for name in ("laplace", "gaussian"))
    assert smooth < laplace < 1.001 * smooth
    pure = calibrate("laplace", 1.0, replace(there, delta=0.0))
    assert deviation(pure, there) == pytest.approx(math.sqrt(2 * N) * 3.0 * rounds), "no delta: L1 over scale"


# --- it is the smallest, and it is proven -----------------------------------------------------------------


@st.composite
def situations(draw: st.DrawFn) -> AccountingContext:
    shares = draw(st.integers(1, 500))
    return at(
        unit=draw(st.sampled_from(["click", "interaction", "query", "client"])),
        view=draw(st.sampled_from(["individual", "aggregate", "colluding"])),
        rounds=draw(st.integers(1, 20)),
        shares=shares,
        arriving=max(1, round(shares * draw(st.floats(0.4, 1.0)))),
        delta=draw(st.sampled_from([0.0, 1e-6])),
    )


ORDERS: list[int | None] = [None, 1, 2]


@settings(max_examples=25)
@given(
    st.sampled_from(tuple(calibrations())),
    st.floats(0.05, 20.0),
    situations(),
    st.floats(0.01, 100.0),
    st.sampled_from(ORDERS),
)
def test_a_chain_meets_its_target_and_hardly_more(
    name: str, target: float, there: AccountingContext, norm: float, order: int | None
) -> None:
    there = replace(there, delta=0.0) if "laplace" in name else there
    found = calibrate(name, target, there, norm=norm, order=order)
    if found.why_not is not None:
        assert found.defense == ()
        assert "\n" not in found.why_not
        return
    again = upper_bound(events(found.defense, there), there)
    assert again == found.upper
    assert 0.999 * target <= again.epsilon <= target * (1 + 1e-9)


@pytest.mark.parametrize(
    ("name", "there", "why"),
    [
        ("click-rr", {}, "not which queries"),
        ("gaussian", {}, "no epsilon at delta 0"),
        ("gaussian-shares", {"view": "individual"}, "no epsilon at delta 0"),
        ("skellam", {}, "no epsilon at delta 0"),
        ("gamma-laplace", {"view": "individual"}, "1 of 1000 Gamma shares"),
        ("gamma-laplace", {"view": "colluding", "delta": 1e-5}, "1 of 1000 Gamma shares"),
        ("gamma-laplace", {"arriving": 1}, "1 of 1000 Gamma shares"),
    ],
)
def test_what_no_noise_can_do(name: str, there: dict[str, Any], why: str) -> None:
    found = calibrate(name, 1.2, at(**there))
    assert found.why_not is not None
    assert why in found.why_not
    assert found.upper.epsilon == math.inf
    assert found.defense == ()
