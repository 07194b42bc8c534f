"""The contract of a law of noise: its density, samples and sums, and what it states of them."""

from __future__ import annotations

import numpy as np

from foltr_audit.auditing.law_tests import (
    LawTable,
    NoiseDraws,
    check_distribution,
    check_noise,
    failure,
    law_table,
)
from foltr_audit.privacy.gaussian_dp import gaussian_delta
from foltr_audit.privacy.noise import AdditiveNoise
from foltr_audit.rng import ClientStreams, Streams
from foltr_audit.testing.contract import CheckList, ContractCheck, expect, law_checks_of, run_checks
from foltr_audit.utils.arrays import Floats

_CHECKS = CheckList()
_CLIENTS, _SIZE = 4096, 6
_COUNTS = (1, 2, 16)
_NEAR = 1e-2  # relative, of a variance computed from a table
_CLOSE = 1e-4  # of probabilities, and relative of deltas, computed from a density
_FINE = 200  # points in a standard deviation at which a density is summed
_FAR = 40  # standard deviations up to which it is summed
_SHARES = (0.9, 0.5, 0.1)


def noise_law_checks(law: AdditiveNoise) -> list[ContractCheck]:
    """The checks of a law of noise, each with its name, e.g. for `pytest.mark.parametrize`."""
    return law_checks_of(law, f"noise law {law.text}", _CHECKS)


def check_noise_law(law: AdditiveNoise) -> None:
    """Check that a law of noise is one: samples follow its density, and sums of samples the law of sums.

    Tests of samples have fixed seeds. With other seeds each test would reject a right law with a probability
    of at most one in a million.

    Raises:
        ContractError: it is not; the error says which checks failed, and why.
    """
    run_checks(noise_law_checks(law))


def _streams(first: int = 0, count: int = _CLIENTS, seed: int = 1) -> ClientStreams:
    return Streams(seed).clients("law", 0, np.arange(first, first + count))


def _table(law: AdditiveNoise) -> LawTable:
    table = law_table(law)
    expect(table is not None, "a density that integrates to 1", "one that integrates to more")
    return table or LawTable(np.zeros(1), np.ones(1), 1.0, 0.0)


def _why(noise: Floats, law: AdditiveNoise, *, whole: bool) -> str | None:
    check = check_noise if whole else check_distribution
    tests = list(check(NoiseDraws(noise, "of this law"), law, _table(law)))
    return failure(tests, len(tests))


@_CHECKS("its density")
def _density(law: AdditiveNoise) -> None:
    expect(
        law.scale > 0 and law.variance > 0, "a positive scale and variance", f"{law.scale}, {law.variance}"
    )
    x = law.scale * np.concatenate([[0.0], np.geomspace(1e-200, 1e200, 401)])
    step = law.grid
    x = np.append(x[x < 1e6 * law.scale], [1e300]) if step == 0 else step * np.arange(50.0)
    density = law.log_density(x)
    expect(np.isfinite(density).all(), "a finite log density for every finite number", "others")
    same = np.array_equal(density, law.log_density(-x))
    expect(same, "a density that is symmetric around 0", "another one for negative numbers")
    table = _table(law)
    masses = np.diff(table.within, prepend=0.0)
    middle = table.sizes - 0.5 * np.diff(table.sizes, prepend=-table.sizes[0])
    variance = float((masses * middle**2).sum())
    near = abs(variance - law.variance) <= _NEAR * law.variance
    expect(near, f"the variance of its density, {variance:.4g}", f"{law.variance:.4g}")


@_CHECKS("samples belong to clients")
def _clients(law: AdditiveNoise) -> None:
    together = law.sample(_streams(count=10), _SIZE)
    expect(together.shape == (10, _SIZE), f"samples of shape (10, {_SIZE})", f"{together.shape}")
    again = law.sample(_streams(count=10), _SIZE)
    expect(again.tobytes() == together.tobytes(), "the same samples from the same streams", "others")
    alone = law.sample(_streams(first=7, count=1), _SIZE)
    expect(alone[0].tobytes() == together[7].tobytes(), "the same samples for a client alone", "others")
    nobody = law.sample(_streams(count=0), _SIZE)
    expect(nobody.shape == (0, _SIZE), f"samples of shape (0, {_SIZE}) of nobody", f"{nobody.shape}")


@_CHECKS("samples follow its density")
def _samples(law: AdditiveNoise) -> None:
    why = _why(law.sample(_streams(), _SIZE), law, whole=True)
    expect(why is None, "samples of this law", f"that {why}")


@_CHECKS("sums of samples follow the law of the sum")
def _sums(law: AdditiveNoise) -> None:
    for count in _COUNTS:
        summed = law.summed(count)
        wide = law.sample(_streams(seed=count + 1), count * _SIZE)
        sums = wide.reshape(_CLIENTS, count, _SIZE).sum(axis=1)
        why = _why(sums, summed, whole=False)
        expect(why is None, f"that {count} samples sum to {summed.text}", f"that {why}")


@_CHECKS("its largest loss")
def _loss(law: AdditiveNoise) -> None:
    """No point loses more than `worst_loss` says."""
    step = law.grid
    shifts = step * np.array([1.0, 5.0]) if step else law.scale * np.array([0.1, 1.0, 3.0])
    worst = law.worst_loss(shifts)
    x = step * np.arange(-30.0, 31.0) if step else law.scale * np.linspace(-20.0, 20.0, 4001)
    for shift, bound in zip(shifts, worst, strict=True):
        loss = float((law.log_density(x) - law.log_density(x - shift)).max())
        wanted = f"a loss of at most {bound:.4g} for a shift of {shift:.4g}, as worst_loss says"
        expect(loss <= bound * (1 + 1e-9) + 1e-9, wanted, f"{loss:.4g}")


@_CHECKS("its Gaussian slope")
def _slope(law: AdditiveNoise) -> None:
    """No move of one coordinate has a larger delta than a Gaussian of that mu; coordinates then compose."""
    slope = law.gaussian_slope
    if np.isinf(slope):
        return
    points, width = _points(law)
    here = np.exp(law.log_density(points))
    wide = [width * steps for steps in (2, 20, _FINE)]
    for shift in (width, *(shift for shift in wide if shift**2 <= 9.0 * law.variance)):
        there, mu = np.exp(law.log_density(points - shift)), shift * slope
        for eps in np.linspace(0.0, 3.0 * mu, 13):
            delta = width * float(np.maximum(here - np.exp(eps) * there, 0.0).sum())
            most = gaussian_delta(mu, float(eps))
            wanted = f"a delta of at most {most:.4g} at epsilon {eps:.4g} for a shift of {shift:.4g}"
            found = f"{delta:.4g}, more than its gaussian_slope of {slope:.4g} allows"
            expect(delta <= most * (1.0 + _CLOSE) + 1e-12, wanted, found)


def _points(law: AdditiveNoise) -> tuple[Floats, float]:
    """Where a density is summed, and how far apart: on its grid; else the middles of bins that part at 0."""
    deviation, step = float(np.sqrt(law.variance)), law.grid
    width = step * max(1.0, np.rint(deviation / (_FINE * step))) if step else deviation / _FINE
    most = np.ceil(_FAR * deviation / width) + _FAR
    return width * (np.arange(-most, most + 1.0) + (0.0 if step else 0.5)), float(width)


@_CHECKS("how large its draws are")
def _sizes(law: AdditiveNoise) -> None:
    table = _table(law)
    found = law.probability_within(table.sizes)
    _compare(found, table.within, table.sizes, "P[|X| <= {}]", "probability_within")
    halves, within = table.sizes, table.within
    if law.grid and np.allclose(np.diff(halves), law.grid):  # each point has a row
        # An open interval of length 2 h has at most m = ceil(2 h / step) points: most probable next to 0.
        points = np.arange(1.0, 2.0 * within.size - 1.0)
        halves = 0.5 * law.grid * (points - 0.25)
        within = np.stack([within[:-1], 0.5 * (within[:-1] + within[1:])], axis=1).ravel()
    found = law.concentration(halves)
    _compare(found, within, halves, "max P[|X - c| < {}]", "concentration")


def _compare(found: Floats | None, right: Floats, sizes: Floats, what: str, name: str) -> None:
    """Compare what a law says of sizes with its table, unless it does not know."""
    if found is None:
        return
    expect(found.shape == sizes.shape, f"{name} of shape {sizes.shape}", f"{found.shape}")
    worst = int(np.argmax(np.abs(found - right)))
    wanted = f"{what.format(f'{sizes[worst]:.4g}')} = {right[worst]:.4g} by its density"
    expect(abs(found[worst] - right[worst]) <= _CLOSE, wanted, f"{name} of {found[worst]:.4g}")


@_CHECKS("a share of its variance")
def _weaker(law: AdditiveNoise) -> None:
    """Unless a law has none, or a grid allows no narrower one."""
    for share in _SHARES:
        weaker = law.with_variance(share)
        narrowest = law.grid > 0 and weaker.with_variance(share) == weaker
        most = law.variance * (1.0 if weaker == law or narrowest else share)
        wanted = f"a variance of at most {most:.4g} from with_variance({share:g})"
        expect(weaker.variance <= most * (1.0 + 1e-9), wanted, f"{weaker.variance:.4g}")
