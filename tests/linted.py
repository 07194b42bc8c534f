"""Small traces for the tests of the leak lint: random updates, noise of a law, and what a test breaks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.defense_chain import Chain
from foltr_audit.core.plugins import RoundContext
from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.privacy.event_texts import event_text
from foltr_audit.privacy.noise import parse_law
from foltr_audit.rng import Streams
from foltr_audit.trace import TraceDataset, TraceHeader
from foltr_audit.trace.lint import Finding, Linted, Linter, Outcome

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
    events: list[str] | None = None,
) -> TraceHeader:
    """A header that declares a law and a chain, by default the whole Laplace noise, and no events."""
    knowledge: dict[str, Any] = {} if noise is None else {"noise": noise}
    chain = defense if defense is not None else ["laplace:eps=1,sensitivity=2.5"] if noise else None
    knowledge |= {} if chain is None else {"defense": chain}
    knowledge |= {} if events is None else {"events": events}
    return TraceHeader(
        kind=kind,
        dtype=dtype,
        parameters=parameters,
        k=3,
        dataset=DATASET,
        has_truth=False,
        knowledge=knowledge,
        spec_hash="00",
    )


def updates(round_: int, seed: int = 0, messages: int = MESSAGES, parameters: int = P) -> Floats:
    """What clients learnt, (M, P): normal, of size .05."""
    return 0.05 * np.random.default_rng([1, seed, round_]).normal(size=(messages, parameters))


def noise_of(text: str | None, round_: int, seed: int = 0, shape: tuple[int, int] = (MESSAGES, P)) -> Floats:
    """Noise of a law, (M, P); zeros without one."""
    law = None if text is None else parse_law(text)
    if law is None:
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


def done_with(header: TraceHeader, rounds: Sequence[RoundRecord]) -> Linted:
    """What every check says of some rounds, without a trace on disk."""
    checked = Linter(header)
    for record in rounds:
        checked.take(record)
    return checked.done()


def found_in(header: TraceHeader, rounds: Sequence[RoundRecord]) -> list[Finding]:
    """The findings of every check that can run, without a trace on disk."""
    return list(done_with(header, rounds).findings)


def of_chain(
    chain: Chain,
    *,
    rounds: int = ROUNDS,
    clients: int = MESSAGES,
    parameters: int = P,
    size: float = 0.05,
    seed: int = 0,
    kind: str = "model",
    dtype: str = "float64",
) -> Linted:
    """What the lint says where a chain acts on models that differ from the global one by about `size`.

    The global model is the mean of the messages before; the header has the chain's law and events.
    """
    source, rng = Streams(seed), np.random.default_rng([seed, 77])
    model, checked = rng.normal(size=parameters), None
    for round_ in range(rounds):
        context = RoundContext(
            round=round_,
            shares=clients,
            clients=np.arange(clients),
            counts=np.full(clients, 4),
            parameters=model,
            source=source,
        )
        if checked is None:
            events = [event_text(event) for event in chain.events(context)]
            noise, names = chain.noise(context), list(chain.texts)
            checked = Linter(header_of(kind, dtype, noise, names, parameters, events))
        learnt = size * rng.normal(size=(clients, parameters))
        models = chain.on_message(model + learnt, context)
        sent = (models - model if kind == "update" else models).astype(dtype)
        checked.take(record_of(checked.header, round_, models, parameters=model, messages=sent))
        model = models.mean(axis=0)
    assert checked is not None
    return checked.done()


def outcome(done: Linted, check: str) -> Outcome:
    """What became of one check."""
    return next(outcome for outcome in done.outcomes if outcome.name == check)


def leaks(findings: Sequence[Finding]) -> set[str]:
    """Names of the checks that found a leak."""
    return {finding.check for finding in findings if finding.severity == "leak"}


def only(findings: Sequence[Finding], check: str, severity: str = "leak") -> Finding:
    """The one finding of a check and severity."""
    found = [finding for finding in findings if (finding.check, finding.severity) == (check, severity)]
    assert len(found) == 1, findings
    return found[0]
