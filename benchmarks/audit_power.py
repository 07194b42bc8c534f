"""How much of a true epsilon audits find, versus the best possible: `python -m benchmarks.audit_power`.

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

from foltr_audit.auditing.estimators import ESTIMATORS, TrialScores, nearly_normal
from foltr_audit.auditing.estimators.noncentral_t import noncentrality_bound
from foltr_audit.auditing.evaluation import split
from foltr_audit.auditing.likelihood import log_ratio
from foltr_audit.privacy.gaussian_dp import gaussian_epsilon, gaussian_mu
from foltr_audit.privacy.noise import AdditiveNoise, DiscreteGaussian, GammaShare, Gaussian, Skellam
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats

CONFIDENCE, CLIENTS = 0.95, 50
TRIALS = (400, 2_000, 10_000)
_PURE, _APPROXIMATE, _DELTA = 1.2, 1.0, 1e-5
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
        return "gaussian-dp" if normal else "clopper-pearson"

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

    def best(self, zero: Floats, one: Floats) -> float:
        """What can be shown if everything is known but epsilon: see `ratio_bound` and `z_bound`."""
        if self.delta == 0:
            event = self.eps - 1e-6 if self.share else 0.5
            return ratio_bound(int((one >= event).sum()), int((zero >= event).sum()), zero.size)
        return z_bound(zero, one, _SIGMA, (self.clients - 1) / self.clients, self.delta)


MECHANISMS = (
    Mechanism("laplace", _PURE, share=GammaShare(n=1, scale=1 / _PURE)),
    Mechanism(
        f"gamma-laplace, sum of {CLIENTS}",
        _PURE,
        share=GammaShare(n=CLIENTS, scale=1 / _PURE),
        clients=CLIENTS,
    ),
    Mechanism("click-rr", _PURE),
    Mechanism("gaussian", _APPROXIMATE, _DELTA, Gaussian(sigma=_SIGMA)),
    Mechanism(
        f"gaussian-shares, sum of {CLIENTS}", _APPROXIMATE, _DELTA, Gaussian(sigma=_SHARE), clients=CLIENTS
    ),
    Mechanism(
        f"skellam, sum of {CLIENTS}",
        _APPROXIMATE,
        _DELTA,
        Skellam(sigma=_SHARE, step=_STEP),
        clients=CLIENTS,
    ),
    Mechanism(
        f"discrete-gaussian, sum of {CLIENTS}",
        _APPROXIMATE,
        _DELTA,
        DiscreteGaussian(sigma=_SHARE, step=_STEP),
        clients=CLIENTS,
    ),
)


def ratio_bound(right: int, wrong: int, n: int) -> float:
    """Lower bound on ln(p / q) of an event known in advance, from `right` and `wrong` of n trials each.

    By the signed root of the profile likelihood ratio (Wilks 1938): right for many independent trials only,
    so a yardstick and no guarantee.
    """
    from scipy import optimize, special

    def fit(p: Floats, q: Floats) -> Floats:
        inside = special.xlogy(right, p) + special.xlogy(wrong, q)
        return np.asarray(inside + special.xlog1py(n - right, -p) + special.xlog1py(n - wrong, -q))

    p, q = right / n, wrong / n
    if not p > q > 0:
        return 0.0
    top = float(fit(np.array(p), np.array(q)))
    allowed = 0.5 * float(special.ndtri(CONFIDENCE)) ** 2
    shares = np.linspace(0.0, 1.0, 4001)[1:-1]

    def too_far(eps: float) -> float:
        return top - float(fit(shares, shares * math.exp(-eps)).max()) - allowed

    return float(optimize.brentq(too_far, 0.0, math.log(p / q))) if too_far(0.0) > 0 else 0.0


def z_bound(zero: Floats, one: Floats, sigma: float, correlation: float, delta: float) -> float:
    """The bound on eps of normal noise whose standard deviation and correlation are known."""
    from scipy import special

    error = sigma * math.sqrt(2.0 * (1.0 - correlation) / zero.size)
    gap = float(one.mean() - zero.mean()) - float(special.ndtri(CONFIDENCE)) * error
    return gaussian_epsilon(max(0.0, gap / sigma), delta)


def t_bound(zero: Floats, one: Floats, delta: float) -> float:
    """The exact bound on eps of normal noise for independent trials of both hypotheses."""
    n = zero.size
    sigma = math.sqrt(0.5 * float(zero.var(ddof=1) + one.var(ddof=1)))
    t = float(one.mean() - zero.mean()) / sigma * math.sqrt(0.5 * n)
    bound = noncentrality_bound(t, 2.0 * (n - 1), 1.0 - CONFIDENCE)
    return gaussian_epsilon(bound * math.sqrt(2.0 / n), delta)


def bounds(mechanism: Mechanism, trials: TrialScores, streams: Streams) -> Iterator[tuple[str, float]]:
    """Every lower bound of one game by its name."""
    for name, estimator in ESTIMATORS.items():
        if name != "gaussian-dp" or mechanism.default == name:
            rng = streams.generator(name)
            found = estimator(trials, delta=mechanism.delta, confidence=CONFIDENCE, rng=rng)
            yield name, found.epsilon
    if mechanism.default == "gaussian-dp":
        yield "t-bound", t_bound(trials.zero, trials.one, mechanism.delta)
    yield "best", mechanism.best(trials.zero, trials.one)


HEADS = ("mechanism", "true", "trials", *ESTIMATORS, "t-bound", "best")


def row(mechanism: Mechanism, trials: int, runs: int) -> tuple[str, ...]:
    """Means of the bounds over some runs, with the shares of those above the truth; bold: the default one."""
    found: dict[str, list[float]] = {}
    choosing = max(60, trials // 4)
    for run in range(runs):
        streams = Streams(trials, run)
        game = split(mechanism.scores(streams, choosing + trials), choosing)
        for name, bound in bounds(mechanism, game, streams):
            found.setdefault(name, []).append(bound)
    cells = []
    for name in HEADS[3:]:
        each = np.array(found.get(name, []))
        told = f"{each.mean():.2f} ({(each > mechanism.eps).mean():.3f})" if each.size else ""
        cells.append(f"**{told}**" if name == mechanism.default else told)
    return (mechanism.name, f"{mechanism.eps:g}", f"{trials:,}", *cells)


def table(runs: int, trials: Sequence[int], told: Callable[[str], object]) -> str:
    """The table as Markdown."""
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
