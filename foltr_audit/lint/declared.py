"""The noise that a trace's header declares, and how probable small noise is under it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foltr_audit.noise_laws import GammaShare, Gaussian, NoiseLaw, parse_law
from foltr_audit.noise_laws.texts import parts
from foltr_audit.trace.header import TraceHeader

_ADD_NOISE = ("laplace", "gamma-laplace", "gaussian", "gaussian-shares")
_ADD_STEPS = ("discrete-gaussian", "skellam")  # noise that is a multiple of a step
_ROUND, _SPARSIFY = ("quantise", "sign"), ("top-k", "random-k")
_LEAVE_MESSAGES_OPEN = ("none", "clip", *_SPARSIFY)
_LARGEST_SHAPE = 8.0
_LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)
_SURE = 1e-9


@dataclass(frozen=True)
class Window:
    """Noise lies within `half` of 0 with this probability, and of any other point with no larger one."""

    half: float
    probability: float


@dataclass(frozen=True, kw_only=True)
class DeclaredNoise:
    """What a header says about the noise of one message.

    Attributes:
        text: the law as it stands there; None where none does.
        defenses: the chain of defenses as it stands there; None where it does not.
    """

    text: str | None
    defenses: tuple[str, ...] | None

    @classmethod
    def of(cls, header: TraceHeader) -> DeclaredNoise:
        """What a header declares."""
        noise, chain = header.knowledge.get("noise"), header.knowledge.get("defense")
        defenses = (chain,) if isinstance(chain, str) else tuple(chain) if isinstance(chain, list) else None
        if noise == "none" and defenses is None:
            defenses = ("none",)
        return cls(text=noise if isinstance(noise, str) and noise != "none" else None, defenses=defenses)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the defenses, without parameters."""
        return tuple(part.partition(":")[0].strip() for text in self.defenses or () for part in parts(text))

    @property
    def is_none(self) -> bool:
        """Whether it is said that nothing adds noise."""
        return self.text is None and self.defenses is not None

    @property
    def in_clear(self) -> bool:
        """Whether it is said that nothing keeps a server from reading a message as the client made it."""
        return self.is_none and all(name in _LEAVE_MESSAGES_OPEN for name in self.names)

    @property
    def is_last(self) -> bool:
        """Whether nothing is known to change a message after the noise."""
        if self.defenses is None:
            return True
        return bool(self.names) and self.names[-1] in _ADD_NOISE

    @property
    def makes_equal(self) -> str | None:
        """The first defense that makes coordinates equal by itself, so that equal ones prove nothing."""
        return next((name for name in self.names if name in _ADD_STEPS + _ROUND + _SPARSIFY), None)

    @property
    def hides_pattern(self) -> str | None:
        """The defense by which coordinates that stand still tell no more than noise lets through, if any."""
        names = self.names
        noised = [place for place, name in enumerate(names) if name in _ADD_NOISE + _ADD_STEPS]
        for place, name in enumerate(names):
            after_noise = bool(noised) and noised[0] < place and name in _ROUND + _SPARSIFY
            if name == "random-k" or name in _ADD_STEPS or after_noise:
                return name
        return None

    @cached_property
    def laws(self) -> tuple[NoiseLaw, ...]:
        """The laws whose sum it is; empty where one of them is not known here."""
        laws = [parse_law(text) for text in parts(self.text or "")]
        known = tuple(law for law in laws if law is not None and probability_within(law, 1.0) is not None)
        return known if len(known) == len(laws) else ()

    def within(self, size: ArrayLike) -> NDArray[np.float64] | None:
        """At most how probable it is that noise lies within each size of 0, or of any point.

        For any point, since a sum of symmetric unimodal laws is nowhere more probable than around 0, whatever
        is added to it.

        Source: Anderson 1955, "The integral of a symmetric unimodal function over a symmetric convex set and
        some probability inequalities".
        """
        found = [p for law in self.laws if (p := probability_within(law, size)) is not None]
        return np.min(found, axis=0) if found else None

    def surely_within(self, size: ArrayLike) -> NDArray[np.float64] | None:
        """At least how probable it is that noise lies within each size of 0; exact for a single law."""
        part = np.asarray(size, dtype=np.float64) / max(1, len(self.laws))
        found = [p for law in self.laws if (p := probability_within(law, part)) is not None]
        return np.prod(found, axis=0) if found else None

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        """Windows that hold about 10 to 90 % of the noise, none so narrow that rounding counts."""
        if not self.laws:
            return ()
        scale = min(law.scale for law in self.laws)
        halves = scale * np.geomspace(1e-3, 1e2, 501)
        probabilities = self.within(halves)
        if probabilities is None:
            return ()
        found = []
        for level in _LEVELS:
            place = int(np.searchsorted(probabilities, level))
            if place < halves.size and probabilities[place] <= 0.95:
                found.append(Window(half=float(halves[place]), probability=float(probabilities[place])))
        return tuple(dict.fromkeys(found))


def probability_within(law: NoiseLaw, size: ArrayLike) -> NDArray[np.float64] | None:
    """P[|X| <= size] at each size >= 0; None for a law that this is not known for.

    For Gamma shares of shape a, with z = size / scale, v = a - 1/2, and L the modified Struve function, it is
    `z (K_v(z) L_(v-1)(z) + K_(v-1)(z) L_v(z))`.

    Source: Olver et al. 2010, "NIST handbook of mathematical functions", 10.43.2.
    """
    from scipy.special import erf, kv, modstruve

    z = np.abs(np.asarray(size, dtype=np.float64)) / law.scale
    if isinstance(law, Gaussian):
        return np.asarray(erf(z / np.sqrt(2.0)))
    if not isinstance(law, GammaShare) or law.shape > _LARGEST_SHAPE:
        return None
    order = law.shape - 0.5
    least = 1e-150 if law.shape <= 1.0 else 1e-15  # Bessel functions of higher order overflow earlier
    y = np.clip(z, least, 500.0)
    found = y * (kv(order, y) * modstruve(order - 1, y) + kv(order - 1, y) * modstruve(order, y))
    return np.where(z > 0, np.clip(found, 0.0, 1.0), 0.0)


class Crowding:
    """Counts noise inside windows, against the most that the declared law allows.

    Each look adds independent trials of at most the window's probability, so that the sum is at most
    binomial.
    """

    def __init__(self, windows: Sequence[Window], size: int = 1) -> None:
        self.windows = tuple(windows)
        self.hits = np.zeros((len(self.windows), size), dtype=np.int64)
        self.trials = np.zeros(size, dtype=np.int64)

    def add(self, hits: NDArray[np.int64], trials: int) -> None:
        """Add hits (windows, size) of so many trials each."""
        self.hits += hits
        self.trials += trials

    @property
    def too_many(self) -> NDArray[np.bool_]:
        """Where some window holds more than one trace in a billion would, (size,)."""
        return too_many(self.windows, self.hits, self.trials)


def too_many(
    windows: Sequence[Window], hits: NDArray[np.int64], trials: NDArray[np.int64] | int
) -> NDArray[np.bool_]:
    """Where more of some trials lie in a window than chance explains, (windows, size) -> (size,)."""
    from scipy.special import bdtrc

    if not windows:
        return np.zeros(hits.shape[1:], dtype=np.bool_)
    most = np.array([window.probability for window in windows])[:, np.newaxis]
    whole = np.broadcast_to(np.asarray(trials, dtype=np.int64), hits.shape)
    rare = np.where(hits > 0, bdtrc(np.maximum(hits - 1, 0), np.maximum(whole, 1), most), 1.0)
    return np.asarray((rare < _SURE).any(axis=0))


def inside(windows: Sequence[Window], values: NDArray[np.float64], axis: int | None) -> NDArray[np.int64]:
    """How many values lie inside each window, along an axis, (windows, size)."""
    size = np.abs(values)
    counts = [np.atleast_1d((size <= window.half).sum(axis=axis)) for window in windows]
    return np.array(counts, dtype=np.int64).reshape(len(windows), -1)
