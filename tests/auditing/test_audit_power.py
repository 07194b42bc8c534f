"""The benchmark of audits: its scores are those of the mechanisms, its yardsticks those of the books."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize, stats

from benchmarks.audit_power import MECHANISMS, Mechanism, main, ratio_bound, t_bound, z_bound
from foltr_audit.auditing.estimators import ESTIMATORS
from foltr_audit.privacy.gaussian_dp import gaussian_epsilon
from foltr_audit.rng import Streams


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda each: each.name)
def test_scores_have_the_true_eps(mechanism: Mechanism) -> None:
    n = 20_000
    zero, one = mechanism.scores(Streams(1), n)
    if mechanism.delta > 0:
        sigma = math.sqrt(0.5 * (zero.var() + one.var()))
        mu = (one.mean() - zero.mean()) / sigma
        assert gaussian_epsilon(mu, mechanism.delta) == pytest.approx(mechanism.eps, rel=0.15)
        assert sigma == pytest.approx(1 / 0.268048, rel=0.03), "eps 1 at delta 1e-5"
        shared = 1 - 1 / mechanism.clients
        assert np.corrcoef(zero, one)[0, 1] == pytest.approx(shared, abs=0.03)
    else:
        told = mechanism.eps - 1e-6 if mechanism.share else 0.5
        rates = (one >= told).mean(), (zero >= told).mean()
        expected = 0.5 if mechanism.share else 1 / (1 + math.exp(-mechanism.eps))
        assert rates == pytest.approx((expected, expected * math.exp(-mechanism.eps)), abs=0.015)


@pytest.mark.parametrize(("right", "wrong", "n"), [(200, 60, 400), (1538, 462, 2000), (9, 3, 20)])
def test_the_ratio_bound_by_another_search(right: int, wrong: int, n: int) -> None:
    def fit(p: float, q: float) -> float:
        return float(stats.binom.logpmf(right, n, p) + stats.binom.logpmf(wrong, n, q))

    found = ratio_bound(right, wrong, n)
    best = optimize.minimize_scalar(
        lambda p: -fit(p, p * math.exp(-found)), bounds=(1e-6, 1 - 1e-6), method="bounded"
    )
    lost = 2 * (fit(right / n, wrong / n) + best.fun)
    assert lost == pytest.approx(stats.chi2.ppf(0.9, 1), rel=1e-3)
    assert 0 < found < math.log(right / wrong)
    assert ratio_bound(wrong, right, n) == ratio_bound(right, 0, n) == 0.0


def test_the_yardsticks_for_normal_noise() -> None:
    rng = np.random.default_rng(1)
    zero, one = rng.normal(size=(2, 500)) + np.array([[0.0], [0.8]])
    gap = one.mean() - zero.mean()
    known = stats.norm.ppf(0.05, gap, math.sqrt(2 / 500))
    assert z_bound(zero, one, 1.0, 0.0, 1e-5) == pytest.approx(gaussian_epsilon(known, 1e-5))
    assert z_bound(zero, one, 1.0, 0.98, 1e-5) > z_bound(zero, one, 1.0, 0.0, 1e-5)
    t = stats.ttest_ind(one, zero).statistic
    scaled = optimize.brentq(lambda c: stats.nct.sf(t, 998, c) - 0.05, 0.0, t)
    assert t_bound(zero, one, 1e-5) == pytest.approx(
        gaussian_epsilon(scaled * math.sqrt(2 / 500), 1e-5), rel=1e-6
    )


def test_it_runs_in_quick_mode(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new" / "power.md"
    assert main(["--quick", "--runs", "2", "--markdown", str(path)]) == 0
    heads, _, *rows = path.read_text(encoding="utf-8").splitlines()
    assert [text in heads for text in ESTIMATORS] == [True] * len(ESTIMATORS)
    assert [row.split(" | ")[0] for row in rows] == [f"| {each.name}" for each in MECHANISMS]
    assert all(row.count("**") == 2 for row in rows), "one default estimator each"
    assert "measuring click-rr" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--runs", "0"])
