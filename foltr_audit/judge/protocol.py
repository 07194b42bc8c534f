"""Attacks with other tasks than finding clicks: queries, intents, clients, and counts from sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from foltr_audit.core.plugins import Attack, IntentAttack, LinkAttack
from foltr_audit.core.spec.attack import AttackSpec
from foltr_audit.judge.counts import CountEvidence, judge_counts
from foltr_audit.judge.intents import IntentEvidence, judge_intents
from foltr_audit.judge.linkage import LinkEvidence, judge_links
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.pieces import find_refusals, join_pieces
from foltr_audit.judge.queries import QueryEvidence, judge_queries
from foltr_audit.rng import Streams
from foltr_audit.simulation.recorder import RoundStore
from foltr_audit.utils.progress import SILENT, Progress

TASKS = ("queries", "counts", "intents", "links")
"""Fields of `TaskEvidence` that hold evidence."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskEvidence:
    """What attacks with other tasks than clicks found.

    Attributes:
        queries: of attacks that identify queries; None where there was none.
        counts: of a view of sums; None for another view.
        intents: of attacks that infer intents; None where there was none.
        links: of attacks that link clients; None where there was none.
        not_here: why an attack does not fit the view, by label.
        view: the view, as in `AttackSpec.view`.
    """

    queries: QueryEvidence | None = None
    counts: CountEvidence | None = None
    intents: IntentEvidence | None = None
    links: LinkEvidence | None = None
    not_here: dict[str, str] = field(default_factory=dict)
    view: str = "individual"

    @property
    def refused(self) -> dict[str, str]:
        """Why an attack could not run, by label."""
        found = [getattr(self, name) for name in TASKS]
        return {**self.not_here, **find_refusals(evidence for evidence in found if evidence is not None)}


def combine_tasks(pieces: Sequence[TaskEvidence]) -> TaskEvidence:
    """What several repetitions found, as one."""
    found: dict[str, Any] = {}
    for name in TASKS:
        given = [getattr(piece, name) for piece in pieces]
        found[name] = [evidence for evidence in given if evidence is not None]
    return TaskEvidence(
        **{name: join_pieces(evidence) for name, evidence in found.items() if evidence},
        not_here={label: why for piece in pieces for label, why in piece.not_here.items()},
        view=pieces[0].view,
    )


def attacks_for_task(attacks: Sequence[Attack], what: str) -> list[Attack]:
    """The attacks whose task is `clicks`, `query`, `counts`, `intent` or `client`."""
    return [attack for attack in attacks if attack.asks == what]


def not_for_clicks(attacks: Sequence[Attack]) -> dict[str, str]:
    """Why attacks cannot write guesses of clicks, by label."""
    return {
        attack.label: f"guesses are of clicks, and it finds the {attack.asks}"
        for attack in attacks
        if attack.asks != "clicks"
    }


def judge_tasks(
    recording: RoundStore,
    observer: Observer,
    attacks: Sequence[Attack],
    protocol: AttackSpec,
    streams: Streams,
    progress: Progress = SILENT,
    name: str = "",
) -> TaskEvidence:
    """Judge the attacks of a protocol that do not ask for the clicks behind single messages.

    Attacks that count clicks read a view of sums; it refuses all others but baselines.

    Args:
        recording: observed rounds with their truth.
        observer: who sees them.
        attacks: every attack of the protocol, with different labels.
        protocol: the view, and the number of choices.
        streams: named random streams.
        progress: receives every round.
        name: of the recording, for the progress display.

    Raises:
        UsageError: sums without truth, of no message, or of lists that are not deterministic.
    """
    if protocol.sums:
        readers = [attack for attack in attacks if not attack.baseline]
        with progress.task(f"count {name}".strip(), recording.n_rounds) as tick:
            counts = judge_counts(recording, observer, readers, streams, tick)
            return TaskEvidence(counts=counts, view=protocol.view)
    not_here = {
        attack.label: "it counts the clicks in sums of messages; expected --view aggregate or pooled"
        for attack in attacks_for_task(attacks, "counts")
    }
    queries, intents, links = None, None, None
    if askers := attacks_for_task(attacks, "query"):
        with progress.task(f"identify queries {name}".strip(), recording.n_rounds) as tick:
            queries = judge_queries(recording, observer, askers, protocol.choices, streams, tick)
    if tellers := [attack for attack in attacks if isinstance(attack, IntentAttack)]:
        with progress.task(f"infer intents {name}".strip(), recording.n_rounds) as tick:
            intents = judge_intents(recording, observer, tellers, streams, tick)
    if linkers := [attack for attack in attacks if isinstance(attack, LinkAttack)]:
        with progress.task(f"link clients {name}".strip(), recording.n_rounds) as tick:
            links = judge_links(recording, observer, linkers, protocol.choices, streams, tick)
    return TaskEvidence(queries=queries, intents=intents, links=links, not_here=not_here)
