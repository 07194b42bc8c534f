"""Small traces for the tests of the leak lint: random updates, noise of a law, and what a test breaks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foltr_audit.lint import CHECKS, DeclaredNoise, Finding, Seen
from foltr_audit.noise_laws import GammaShare, parse_law
from foltr_audit.records.rounds import RoundRecord
from foltr_audit.rng import Streams
from foltr_audit.trace import TraceDataset, TraceHeader

Floats = NDArray[np.float64]
LAPLACE = "laplace:scale=2.5"
MESSAGES, P, ROUNDS = 40, 20, 3
DATASET = TraceDataset(source="tiny", fold=0, fingerprint="", normalised="none", parts=("live",))


def header_of(
    kind: str = "model",
    dtype: str = "float64",
    noise: str | None = LAPLACE,
    defense: list[str] | None = None,
    parameters: int = P,
) -> TraceHeader:
    """A header that declares a law and a chain, by default the whole Laplace noise."""
    knowledge: dict[str, Any] = {} if noise is None else {"noise": noise}
    chain = defense if defense is not None else ["laplace:eps=1,sensitivity=2.5"] if noise else None
    knowledge |= {} if chain is None else {"defense": chain}
    return TraceHeader(
        kind=kind,
        dtype=dtype,
        parameters=parameters,
        k=3,
        dataset=DATASET,
        has_truth=False,
        knowledge=knowledge,
    )


def updates(round_: int, seed: int = 0, messages: int = MESSAGES, parameters: int = P) -> Floats:
    """What clients learnt, (M, P): normal, of size .05."""
    return 0.05 * np.random.default_rng([1, seed, round_]).normal(size=(messages, parameters))


def noise_of(text: str | None, round_: int, seed: int = 0, shape: tuple[int, int] = (MESSAGES, P)) -> Floats:
    """Noise of a law, (M, P); zeros without one."""
    law = None if text is None else parse_law(text)
    if not isinstance(law, GammaShare):
        return np.zeros(shape)
    return law.sample(Streams(seed + 1).clients("test", round_, np.arange(shape[0])), shape[1])


def record_of(header: TraceHeader, round_: int, changes: Floats, **fields: Any) -> RoundRecord:
    """A round of these changes (M, P) of a random global model."""
    count, width = changes.shape
    parameters = np.random.default_rng([2, round_]).normal(size=width)
    sent = (changes if header.kind == "update" else parameters + changes).astype(header.dtype)
    empty = np.empty(0, dtype=np.int64)
    given: dict[str, Any] = {
        "round": round_,
        "parameters": parameters,
        "aggregate": parameters + 0.5 * changes.max(axis=0),
        "shares": count,
        "survivors": np.ones(count, dtype=np.bool_),
        "counts": np.full(count, 4),
        "messages": sent,
        **dict.fromkeys(("slot", "step", "part", "query"), empty),
        "shown": np.empty((0, header.k), dtype=np.int64),
    }
    return RoundRecord(**{**given, **fields})


Change = Callable[[int, Floats, Floats], Floats]
"""From round, updates (M, P) and noise (M, P) to the changes that are sent."""


def whole(round_: int, learnt: Floats, noise: Floats) -> Floats:
    """Noise of its own on every coordinate of every client in every round."""
    del round_
    return learnt + noise


def played(header: TraceHeader, change: Change = whole, seed: int = 0, **fields: Any) -> list[RoundRecord]:
    """Rounds of a trace whose noise is that of the header, changed by a test."""
    text = header.knowledge.get("noise")
    shape = (MESSAGES, header.parameters)
    return [
        record_of(
            header,
            round_,
            change(
                round_,
                updates(round_, seed, *shape),
                noise_of(text if isinstance(text, str) else None, round_, seed, shape),
            ),
            **fields,
        )
        for round_ in range(ROUNDS)
    ]


def found_in(header: TraceHeader, rounds: Sequence[RoundRecord | Seen]) -> list[Finding]:
    """The findings of every check that can run, without a trace on disk."""
    declared = DeclaredNoise.of(header)
    checks = [check(header, declared) for check in CHECKS]
    running = [
        check
        for check in checks
        if check.why_not() is None and (header.kind in ("model", "update") or check.of_integers)
    ]
    for entry in rounds:
        seen = entry if isinstance(entry, Seen) else Seen.of(entry, header.kind)
        for check in running:
            check.look(seen)
    return [finding for check in running for finding in check.findings()]


def leaks(findings: Sequence[Finding]) -> set[str]:
    """Names of the checks that found a leak."""
    return {finding.check for finding in findings if finding.severity == "leak"}


def only(findings: Sequence[Finding], check: str, severity: str = "leak") -> Finding:
    """The one finding of a check and severity."""
    found = [finding for finding in findings if (finding.check, finding.severity) == (check, severity)]
    assert len(found) == 1, findings
    return found[0]
