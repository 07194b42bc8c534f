"""The contract of a law of noise: its density, its samples, and its sums."""

from __future__ import annotations

import numpy as np

from foltr_audit.auditing.law_table import LawTable, law_table
from foltr_audit.auditing.law_tests import NoiseDraws, check_distribution, check_noise, failure
from foltr_audit.privacy.noise import AdditiveNoise
from foltr_audit.rng import ClientStreams, Streams
from foltr_audit.testing.contract import CheckList, ContractCheck, expect, law_checks_of, run_checks
from foltr_audit.utils.arrays import Floats

_CHECKS = CheckList()
_CLIENTS, _SIZE = 4096, 6
_COUNTS = (1, 2, 16)
_NEAR = 1e-2  # relative, of a variance computed from a table


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
    step = float(getattr(law, "step", 0.0))
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
    step = float(getattr(law, "step", 0.0))
    shifts = step * np.array([1.0, 5.0]) if step else law.scale * np.array([0.1, 1.0, 3.0])
    worst = law.worst_loss(shifts)
    x = step * np.arange(-30.0, 31.0) if step else law.scale * np.linspace(-20.0, 20.0, 4001)
    for shift, bound in zip(shifts, worst, strict=True):
        loss = float((law.log_density(x) - law.log_density(x - shift)).max())
        wanted = f"a loss of at most {bound:.4g} for a shift of {shift:.4g}, as worst_loss says"
        expect(loss <= bound * (1 + 1e-9) + 1e-9, wanted, f"{loss:.4g}")
