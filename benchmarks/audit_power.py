"""How much of a true epsilon audits find, versus the most possible: `python -m benchmarks.audit_power`.

The table does not depend on the machine, so it is separate from `python -m benchmarks`, which measures speed.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.audit_optimum import laplace_losses, normal_optimum, pure_optimum, response_losses
from foltr_audit.auditing.estimators import ESTIMATORS, FOR_NORMAL, TrialScores, nearly_normal
from foltr_audit.auditing.evaluation import split
from foltr_audit.auditing.trial_scores import log_ratio
from foltr_audit.privacy.gaussian_dp import gaussian_mu
from foltr_audit.privacy.noise import AdditiveNoise, DiscreteGaussian, GammaShare, Gaussian, Skellam
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats

CONFIDENCE, CLIENTS = 0.95, 50
TRIALS = (200, 1_000, 5_000)
_PURE, _LARGE, _APPROXIMATE, _DELTA = 1.2, 3.0, 1.0, 1e-5
_STEP = 2.0**-10
_SIGMA = 1.0 / gaussian_mu(_APPROXIMATE, _DELTA)
_SHARE = _SIGMA / math.sqrt(CLIENTS)


@dataclass(frozen=True)
class Mechanism:
    """A built-in mechanism that hides a shift of 1 in one coordinate, or one click.

    Attributes:
        name: what it is called in the table.
        eps: its true epsilon.
        delta: at this delta.
        share: the noise of one client; None for a click that is randomised.
        clients: messages in the sum that is seen.
    """

    name: str
    eps: float
    delta: float = 0.0
    share: AdditiveNoise | None = None
    clients: int = 1

    @property
    def default(self) -> str:
        """The estimator that an audit uses by default."""
        normal = self.delta > 0 and nearly_normal(self.share and self.share.summed(self.clients))
        return "gaussian-dp" if normal else "one-run"

    def scores(self, streams: Streams, count: int) -> tuple[Floats, Floats]:
        """Scores of `count` trials under both hypotheses (count,); the other clients' noise is shared."""
        ids = np.arange(2 * count)
        if self.share is None:
            keep = 1.0 / (1.0 + math.exp(-self.eps))
            lies = streams.clients("click", 0, ids).uniform(1)[:, 0] > keep
            return np.where(lies[:count], 1.0, 0.0), np.where(lies[count:], 0.0, 1.0)
        seen = self.share.sample(streams.clients("own", 0, ids), 1)
        if self.clients > 1:
            others = self.share.summed(self.clients - 1)
            seen += np.tile(others.sample(streams.clients("others", 0, ids[:count]), 1), (2, 1))
        seen[count:] += 1.0
        if self.delta == 0:  # the most telling score; of normal noise the message itself is as good
            means = np.array([[0.0], [1.0]])
            seen = log_ratio(self.share.summed(self.clients), seen, means)[:, np.newaxis].round(9)
        return seen[:count, 0], seen[count:, 0]

    def optimum(self, trials: int) -> float | None:
        """The largest median that a bound can have; None where trials share noise that is not normal."""
        if self.delta > 0:
            correlation = (self.clients - 1) / self.clients
            return normal_optimum(self.eps, self.delta, trials, correlation, CONFIDENCE)
        if self.clients > 1:
            return None
        law = laplace_losses(self.eps) if self.share else response_losses(self.eps)
        return pure_optimum(law, trials, CONFIDENCE)


MECHANISMS = (
    Mechanism("laplace", _PURE, share=GammaShare(n=1, scale=1 / _PURE)),
    Mechanism("laplace", _LARGE, share=GammaShare(n=1, scale=1 / _LARGE)),
    Mechanism(
        f"gamma-laplace, sum of {CLIENTS}",
        _PURE,
        share=GammaShare(n=CLIENTS, scale=1 / _PURE),
        clients=CLIENTS,
    ),
    Mechanism("click-rr", _PURE),
    Mechanism("click-rr", _LARGE),
    Mechanism("gaussian", _APPROXIMATE, _DELTA, Gaussian(sigma=_SIGMA)),
    Mechanism("skellam", _APPROXIMATE, _DELTA, Skellam(sigma=_SIGMA, step=_STEP)),
    Mechanism(
        f"gaussian-shares, sum of {CLIENTS}", _APPROXIMATE, _DELTA, Gaussian(sigma=_SHARE), clients=CLIENTS
    ),
    Mechanism(
        f"skellam, sum of {CLIENTS}", _APPROXIMATE, _DELTA, Skellam(sigma=_SHARE, step=_STEP), clients=CLIENTS
    ),
    Mechanism(
        f"discrete-gaussian, sum of {CLIENTS}",
        _APPROXIMATE,
        _DELTA,
        DiscreteGaussian(sigma=_SHARE, step=_STEP),
        clients=CLIENTS,
    ),
)


def bounds(mechanism: Mechanism, trials: TrialScores, streams: Streams) -> Iterator[tuple[str, float]]:
    """Every lower bound of one game by its name."""
    for name, estimator in ESTIMATORS.items():
        if name not in FOR_NORMAL or mechanism.default in FOR_NORMAL:
            rng = streams.generator(name)
            found = estimator(trials, delta=mechanism.delta, confidence=CONFIDENCE, rng=rng)
            yield name, found.epsilon


HEADS = ("mechanism", "true", "trials", *ESTIMATORS, "optimum")


def row(mechanism: Mechanism, trials: int, runs: int) -> tuple[str, ...]:
    """Medians of the bounds over some runs, and the shares of those above the truth; bold: the default."""
    found: dict[str, list[float]] = {}
    choosing = max(60, trials // 4)
    for run in range(runs):
        streams = Streams(trials, run)
        game = split(
            np.stack(mechanism.scores(streams, choosing + trials)),
            choosing,
            independent=mechanism.clients == 1,
        )
        for name, bound in bounds(mechanism, game, streams):
            found.setdefault(name, []).append(bound)
    cells = []
    for name in ESTIMATORS:
        each = np.array(found.get(name, []))
        told = f"{np.median(each):.2f} ({(each > mechanism.eps).mean():.3f})" if each.size else ""
        cells.append(f"**{told}**" if name == mechanism.default else told)
    optimum = mechanism.optimum(trials)
    cells.append("" if optimum is None else f"{optimum:.2f}")
    return (mechanism.name, f"{mechanism.eps:g}", f"{trials:,}", *cells)


def table(runs: int, trials: Sequence[int], told: Callable[[str], object]) -> str:
    lines = [f"| {' | '.join(HEADS)} |", f"| --- |{' ---: |' * (len(HEADS) - 1)}"]
    for mechanism in MECHANISMS:
        told(f"measuring {mechanism.name} ...")
        lines += [f"| {' | '.join(row(mechanism, each, runs))} |" for each in trials]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit_power", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few trials: shows only that everything runs")
    parser.add_argument("--runs", type=int, default=200, metavar="N", help="games of each row")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there, not to stdout")
    given = parser.parse_args(arguments)
    if given.runs < 1:
        parser.error(f"--runs: {given.runs}; expected 1 or more")
    trials = (100,) if given.quick else TRIALS
    text = table(given.runs, trials, lambda line: print(line, file=sys.stderr))
    if given.markdown:
        given.markdown.parent.mkdir(parents=True, exist_ok=True)
        given.markdown.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
