"""The privacy card of a defense: what is claimed, proven and measured of each observer, and what it costs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from foltr_audit.auditing.verdict import CONTRADICTION, FALSE
from foltr_audit.core.plugins import Learner
from foltr_audit.core.plugins.registry import make_if_known
from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.comparison.expansion import CellPlan
from foltr_audit.report.results.attack_rows import AttackMetrics
from foltr_audit.report.results.base import DatasetFacts
from foltr_audit.report.results.compare import CompareReport
from foltr_audit.report.results.compare_rows import ClaimRow, CompareRow
from foltr_audit.report.results.compare_summary import find_leaks
from foltr_audit.report.results.compare_worlds import WorldRows, worlds
from foltr_audit.utils.rows import UNKNOWN, Estimate


@dataclass(frozen=True, kw_only=True)
class CardAttack:
    """One guesser on the messages of a defense.

    Attributes:
        world: what the world is called; empty where there is only one.
        method, baseline: the attack, or a guess that needs no message.
        found: how much it reads.
    """

    world: str
    method: str
    baseline: bool
    found: AttackMetrics


@dataclass(frozen=True, kw_only=True)
class CardWorld:
    """What a defense leaks and costs in one world.

    Attributes:
        name: what the world is called; empty where there is only one.
        result: the row of the defense.
        leak: what the best attack is shown to do, of `StrongestLeak.kind`; empty without an attack.
        guesses: every guesser, attacks first, each kind with the highest AUC first.
        without: offline nDCG@10 without a defense.
    """

    name: str
    result: CompareRow
    leak: str
    guesses: tuple[CardAttack, ...]
    without: Estimate

    @property
    def best(self) -> CardAttack | None:
        """The attack with the highest AUC."""
        return next((one for one in self.guesses if not one.baseline and one.found.auc.known), None)

    @property
    def best_auc(self) -> float:
        """The AUC of the best attack; -1 where none is known."""
        return -1.0 if self.best is None else self.best.found.auc.value

    @property
    def best_guess(self) -> CardAttack | None:
        """The guess without a message with the highest AUC."""
        return next((one for one in self.guesses if one.baseline and one.found.auc.known), None)


@dataclass(frozen=True, kw_only=True)
class PrivacyCard:
    """Everything that is known of one defense of one learner.

    Attributes:
        name, alternative, eps: the defense; as given, and the epsilon that it was made for.
        learner, defense: the learner that it protects, and the chain.
        claims: of each observer and unit the worst of the audited pairs, false claims first.
        worlds: what it leaks and costs, by world.
        specs: the experiments behind it.
        refused: attacks that could not run, and why.
        failed: why cells of it could not be run; `waiting` counts those that are not done.
        data: the data; None where nothing is done.
    """

    name: str
    alternative: str
    eps: float | None
    learner: str
    defense: str
    claims: tuple[ClaimRow, ...]
    worlds: tuple[CardWorld, ...]
    specs: tuple[Spec, ...]
    refused: Mapping[str, str]
    failed: tuple[str, ...]
    waiting: int
    data: DatasetFacts | None

    @property
    def options(self) -> str:
        """The options of `report --card` that choose it."""
        eps = "" if self.eps is None else f" --eps {self.eps:g}"
        return f"--defense {shlex.quote(self.alternative)}{eps}"

    @property
    def false(self) -> list[ClaimRow]:
        """The claims that are shown to be false."""
        return [row for row in self.claims if row.verdict in FALSE]

    @property
    def contradicted(self) -> list[ClaimRow]:
        """The claims of which proof and trials cannot both be right."""
        return [row for row in self.claims if row.verdict == CONTRADICTION]


def privacy_cards(
    report: CompareReport, cells: Sequence[CellPlan], rows: Sequence[CompareRow]
) -> list[PrivacyCard]:
    """The cards of some rows of a comparison, those with false claims first.

    Args:
        report: the comparison.
        cells: its cells.
        rows: rows of `report.results`; those of one learner and name share a card.
    """
    every = worlds(report)
    keys = dict.fromkeys(row.setting.key for row in rows)
    cards = [_card(report, cells, every, key) for key in keys]
    return sorted(cards, key=lambda card: (not card.false, not card.contradicted))


def _card(
    report: CompareReport, cells: Sequence[CellPlan], every: Sequence[WorldRows], key: tuple[str, str]
) -> PrivacyCard:
    learner, name = key
    mine = [(world, row) for world in every for row in world.results if row.setting.key == key]
    first = mine[0][1].setting
    specs = [cell.spec for cell in cells if cell.label.text == name and _learns(cell.spec, learner)]
    learners = {spec.train.learner for spec in specs}
    return PrivacyCard(
        name=name,
        alternative=first.alternative,
        eps=first.eps,
        learner=learner,
        defense=first.defense,
        claims=_worst([row for row in report.claims if (row.learner, row.name) == key]),
        worlds=tuple(_world(world, row) for world, row in mine),
        specs=tuple(dict.fromkeys(specs)),
        refused={row.method: row.reason for row in report.refused if row.setting.key == key},
        failed=tuple(
            dict.fromkeys(
                row.why for row in report.failed if row.defense == first.defense and row.learner in learners
            )
        ),
        waiting=sum(
            row.cells - row.done for row in report.unfinished if row.name == name and row.learner in learners
        ),
        data=report.dataset,
    )


def _learns(spec: Spec, learner: str) -> bool:
    """Whether a Spec has the learner of a row, whose text leaves out parameters at their default."""
    found = make_if_known(Learner, learner)
    return found is None or make_if_known(Learner, spec.train.learner) == found


def _world(world: WorldRows, row: CompareRow) -> CardWorld:
    guesses = [
        CardAttack(world=world.name, method=one.method, baseline=one.baseline, found=one.found)
        for one in world.attacks_on(row)
    ]
    base = next(
        (
            one
            for one in world.results
            if (one.setting.learner, one.setting.alternative) == (row.setting.learner, NO_DEFENSE)
        ),
        None,
    )
    leak = next((one.kind for one in find_leaks(world) if one.row is row), "")
    return CardWorld(
        name=world.name,
        result=row,
        leak=leak,
        guesses=tuple(sorted(guesses, key=_place)),
        without=UNKNOWN if base is None else base.ndcg,
    )


def _place(one: CardAttack) -> tuple[bool, float]:
    auc = one.found.auc
    return one.baseline, -auc.value if auc.known else 0.0


def _worst(claims: Sequence[ClaimRow]) -> tuple[ClaimRow, ...]:
    """Of each scenario, observer and unit the worst row; false claims before all others."""
    found: dict[tuple[str, str, str], ClaimRow] = {}
    for row in claims:
        key = row.scenario, row.sees, row.unit
        found[key] = max(found.get(key, row), row, key=_badness)
    return tuple(sorted(found.values(), key=lambda row: row.verdict not in FALSE))


def _badness(row: ClaimRow) -> tuple[int, float, float]:
    place = 3 if row.verdict in FALSE else 2 if row.verdict == CONTRADICTION else row.verdict != "proven"
    return int(place), row.eps_upper, row.eps_lower
