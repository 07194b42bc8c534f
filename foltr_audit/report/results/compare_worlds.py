"""The rows of a comparison by world, within which they may be compared, and the names of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

from foltr_audit.experiments.runs.systems import without_shared_parameters
from foltr_audit.judge.significance import bonferroni
from foltr_audit.report.results.compare import CompareReport
from foltr_audit.report.results.compare_rows import (
    ComparedAttackRow,
    ComparedGroupRow,
    ComparedSetting,
    CompareRow,
    CurveRow,
    ServedRow,
    WorldKey,
)
from foltr_audit.report.results.settings import short_scenario


class _OfSetting(Protocol):
    @property
    def setting(self) -> ComparedSetting:
        """The setting of the row."""


Row = TypeVar("Row", bound=_OfSetting)


@dataclass(frozen=True, kw_only=True)
class WorldRows:
    """Rows that share data, scenario and click model.

    Attributes:
        name: what sets it apart from other worlds; empty where it is the only one.
        results, attacks, groups, served, curves: its rows of the report.
    """

    name: str
    results: Sequence[CompareRow]
    attacks: Sequence[ComparedAttackRow]
    groups: Sequence[ComparedGroupRow]
    served: Sequence[ServedRow]
    curves: Sequence[CurveRow]

    @cached_property
    def learners(self) -> dict[str, str]:
        """Short names of its learners by their texts."""
        return without_shared_parameters(list(dict.fromkeys(row.setting.learner for row in self.results)))

    def called(self, row: CompareRow) -> str:
        """What a row is called in its world: with its learner, where there are several, and missing runs."""
        setting, asked = row.setting, row.runs_asked
        learner = f"{self.learners[setting.learner]}, " if len(self.learners) > 1 else ""
        return f"{learner}{setting.name}" + (
            f" ({setting.runs} of {asked} runs)" if setting.runs < asked else ""
        )

    def rivals(self, row: CompareRow) -> list[str]:
        """What the rows that dominate a row are called."""
        longer = {f"{learner}, ": f"{short}, " for learner, short in self.learners.items()}
        found = []
        for text in row.dominated_by:
            start = next((one for one in longer if text.startswith(one)), "")
            found.append(longer.get(start, "") + text.removeprefix(start))
        return found

    def attacks_on(self, row: CompareRow) -> list[ComparedAttackRow]:
        """The guessers of a row's setting."""
        return _like(row, self.attacks)

    def groups_of(self, row: CompareRow) -> list[ComparedGroupRow]:
        """What the best attack finds of each group of clients of a row's setting."""
        return [one for one in _like(row, self.groups) if one.method == row.attack]

    def served_under(self, row: CompareRow) -> list[ServedRow]:
        """How each group of clients is served in a row's setting."""
        return _like(row, self.served)

    def by_learner(self) -> list[list[CompareRow]]:
        """The results of each learner."""
        return [[row for row in self.results if row.setting.learner == learner] for learner in self.learners]

    @cached_property
    def corrected(self) -> dict[tuple[str, str], float]:
        """P-values of nDCG@10 against no defense by learner and name, corrected for this world's tests."""
        tested = {row.setting.key: row.ndcg_p for row in self.results if row.ndcg_p is not None}
        return dict(zip(tested, bonferroni(list(tested.values())) if tested else (), strict=True))

    def p(self, row: CompareRow) -> float | None:
        """The corrected p-value of a row."""
        return self.corrected.get(row.setting.key)


def worlds(report: CompareReport) -> list[WorldRows]:
    """The worlds of a report, in the order of its results."""
    keys = list(dict.fromkeys(row.setting.world for row in report.results))
    return [
        WorldRows(
            name=_name(key, keys),
            results=_inside(key, report.results),
            attacks=_inside(key, report.attacks),
            groups=_inside(key, report.groups),
            served=_inside(key, report.served),
            curves=_inside(key, report.curves),
        )
        for key in keys
    ]


def families(report: CompareReport) -> list[str]:
    """The defenses as given, in order; rows of several epsilons belong to one family."""
    return list(dict.fromkeys(row.setting.alternative for row in report.results))


def epsilons(rows: Sequence[CompareRow]) -> list[float]:
    """The epsilons that defenses were made for, rising."""
    return sorted({row.setting.eps for row in rows if row.setting.eps is not None})


def _inside(key: WorldKey, rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.setting.world == key]


def _like(row: CompareRow, rows: Sequence[Row]) -> list[Row]:
    return [one for one in rows if one.setting.key == row.setting.key]


def _name(key: WorldKey, keys: Sequence[WorldKey]) -> str:
    data, scenario, clicks = key
    parts = []
    if len({one[2] for one in keys}) > 1:
        parts.append(f"{clicks} clicks")
    if len({one[1] for one in keys}) > 1:
        parts.append(short_scenario(scenario, [one[1] for one in keys]))
    if len({one[0] for one in keys}) > 1:
        parts.append(data)
    return ", ".join(parts)
