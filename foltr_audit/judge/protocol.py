"""Attacks that ask for something else than clicks: queries, intents, clients, counts from sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from foltr_audit.core.plugins import Attack, IntentAttack, LinkAttack
from foltr_audit.core.spec.attack import AttackSpec
from foltr_audit.judge.counts import CountEvidence, combined_counts, judge_counts
from foltr_audit.judge.intents import IntentEvidence, combined_intents, judge_intents
from foltr_audit.judge.linkage import LinkEvidence, combined_links, judge_links
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.queries import QueryEvidence, combined_queries, judge_queries
from foltr_audit.rng import Streams
from foltr_audit.simulation.recorder import RoundStore
from foltr_audit.utils.progress import SILENT, Progress


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskEvidence:
    """What attacks found that do not ask for clicks.

    Attributes:
        queries: of attacks that ask for a query; None where there was none.
        counts: of a view of sums; None where the view is another.
        intents: of attacks that ask for an intent; None where there was none.
        links: of attacks that ask for a client; None where there was none.
        not_here: why an attack does not fit into the view, by label.
        view: whose view it was, of `AttackSpec.view`.
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
        found = (self.queries, self.counts, self.intents, self.links)
        why = dict(self.not_here)
        for evidence in found:
            why |= {} if evidence is None else evidence.refused
        return why


def combined_inquiries(pieces: Sequence[TaskEvidence]) -> TaskEvidence:
    """What several repetitions found, as one."""
    queries = [piece.queries for piece in pieces if piece.queries is not None]
    counts = [piece.counts for piece in pieces if piece.counts is not None]
    intents = [piece.intents for piece in pieces if piece.intents is not None]
    links = [piece.links for piece in pieces if piece.links is not None]
    return TaskEvidence(
        queries=combined_queries(queries) if queries else None,
        counts=combined_counts(counts) if counts else None,
        intents=combined_intents(intents) if intents else None,
        links=combined_links(links) if links else None,
        not_here={label: why for piece in pieces for label, why in piece.not_here.items()},
        view=pieces[0].view,
    )


def asking(attacks: Sequence[Attack], what: str) -> list[Attack]:
    """The attacks that ask for `clicks`, `query`, `counts`, `intent` or `client`."""
    return [attack for attack in attacks if attack.asks == what]


def not_for_clicks(attacks: Sequence[Attack]) -> dict[str, str]:
    """Why attacks have no clicks to tell, by label."""
    return {
        attack.label: f"guesses are of clicks, and it tells the {attack.asks}"
        for attack in attacks
        if attack.asks != "clicks"
    }


def inquire(
    recording: RoundStore,
    observer: Observer,
    attacks: Sequence[Attack],
    protocol: AttackSpec,
    streams: Streams,
    progress: Progress = SILENT,
    name: str = "",
) -> TaskEvidence:
    """Judge the attacks of a protocol that do not ask for the clicks behind single messages.

    A view of sums is read by attacks that ask for counts; all others but baselines are refused there.

    Args:
        recording: observed rounds with their truth.
        observer: who sees them.
        attacks: every attack of the protocol, with different labels.
        protocol: the view, and the number of choices.
        streams: named random streams.
        progress: told of every round.
        name: what the recording is called there.

    Raises:
        UsageError: sums without truth, of no message, or of lists that are not deterministic.
    """
    if protocol.sums:
        readers = [attack for attack in attacks if not attack.baseline]
        with progress.task(f"count {name}".strip(), recording.n_rounds) as tick:
            counts = judge_counts(recording, observer, readers, streams, tick)
            return TaskEvidence(counts=counts, view=protocol.view)
    alone = {
        attack.label: "it counts the clicks in sums of messages: expected --view aggregate or pooled"
        for attack in asking(attacks, "counts")
    }
    queries, intents, links = None, None, None
    if askers := asking(attacks, "query"):
        with progress.task(f"tell queries {name}".strip(), recording.n_rounds) as tick:
            queries = judge_queries(recording, observer, askers, protocol.choices, streams, tick)
    if tellers := [attack for attack in attacks if isinstance(attack, IntentAttack)]:
        with progress.task(f"tell intents {name}".strip(), recording.n_rounds) as tick:
            intents = judge_intents(recording, observer, tellers, streams, tick)
    if linkers := [attack for attack in attacks if isinstance(attack, LinkAttack)]:
        with progress.task(f"link clients {name}".strip(), recording.n_rounds) as tick:
            links = judge_links(recording, observer, linkers, protocol.choices, streams, tick)
    return TaskEvidence(queries=queries, intents=intents, links=links, not_here=alone)
