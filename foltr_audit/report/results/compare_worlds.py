"""The rows of a comparison by world, within which they may be compared, and the names of rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from foltr_audit.experiments.runs.systems import without_shared_parameters
from foltr_audit.judge.significance import bonferroni
from foltr_audit.report.results.base import Row
from foltr_audit.report.results.compare import WORLD, CompareReport
from foltr_audit.report.results.settings import short_scenario


@dataclass(frozen=True, kw_only=True)
class WorldRows:
    """Rows that share data, scenario and click model.

    Attributes:
        name: what sets it apart from other worlds; empty where it is the only one.
        results, attacks, groups, served, curves: its rows of the report.
        learners: short names of its learners by their texts.
    """

    name: str
    results: list[Row]
    attacks: list[Row]
    groups: list[Row]
    served: list[Row]
    curves: list[Row]
    learners: dict[str, str]

    def called(self, row: Row) -> str:
        """What a row is called in its world: with its learner, where there are several, and missing runs."""
        learner = f"{self.learners[row['learner']]}, " if len(self.learners) > 1 else ""
        asked, done = row["runs_asked"], row["runs"]
        return f"{learner}{row['name']}" + (f" ({done} of {asked} runs)" if done < asked else "")

    def rivals(self, row: Row) -> list[str]:
        """What the rows that dominate a row are called."""
        longer = {f"{learner}, ": f"{short}, " for learner, short in self.learners.items()}
        found = []
        for text in row["dominated_by"]:
            start = next((one for one in longer if text.startswith(one)), "")
            found.append(longer.get(start, "") + text.removeprefix(start))
        return found

    def attacks_on(self, row: Row) -> list[Row]:
        """The guessers of a row's setting."""
        return _like(row, self.attacks)

    def groups_of(self, row: Row, method: str | None) -> list[Row]:
        """What an attack finds of each group of clients of a row's setting."""
        return [one for one in _like(row, self.groups) if one["method"] == method]

    def served_under(self, row: Row) -> list[Row]:
        """How each group of clients is served in a row's setting."""
        return _like(row, self.served)

    def by_learner(self) -> list[list[Row]]:
        """The results of each learner."""
        return [[row for row in self.results if row["learner"] == learner] for learner in self.learners]

    def corrected(self) -> dict[tuple[str, str], float]:
        """P-values of nDCG@10 against no defense by learner and name, corrected for this world's tests."""
        tested = [row for row in self.results if row["ndcg@10_p"] is not None]
        p = bonferroni([row["ndcg@10_p"] for row in tested]) if tested else []
        return {(row["learner"], row["name"]): value for row, value in zip(tested, p, strict=True)}


def worlds(report: CompareReport) -> list[WorldRows]:
    """The worlds of a report, in the order of its results."""
    keys = list(dict.fromkeys(_key(row) for row in report.results))
    return [
        WorldRows(
            name=_name(key, keys),
            results=[row for row in report.results if _key(row) == key],
            attacks=[row for row in report.attacks if _key(row) == key],
            groups=[row for row in report.groups if _key(row) == key],
            served=[row for row in report.served if _key(row) == key],
            curves=[row for row in report.curves if _key(row) == key],
            learners=_learners(row for row in report.results if _key(row) == key),
        )
        for key in keys
    ]


def families(report: CompareReport) -> list[str]:
    """The defenses as given, in order; rows of several epsilons belong to one family."""
    return list(dict.fromkeys(row["alternative"] for row in report.results))


def _key(row: Row) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in WORLD)


def _name(key: tuple[str, ...], keys: Sequence[tuple[str, ...]]) -> str:
    data, scenario, clicks = key
    parts = []
    if len({one[2] for one in keys}) > 1:
        parts.append(f"{clicks} clicks")
    if len({one[1] for one in keys}) > 1:
        parts.append(short_scenario(scenario, [one[1] for one in keys]))
    if len({one[0] for one in keys}) > 1:
        parts.append(data)
    return ", ".join(parts)


def _learners(rows: Iterable[Row]) -> dict[str, str]:
    return without_shared_parameters(list(dict.fromkeys(row["learner"] for row in rows)))


def _like(row: Row, rows: Sequence[Row]) -> list[Row]:
    return [one for one in rows if (one["learner"], one["name"]) == (row["learner"], row["name"])]
