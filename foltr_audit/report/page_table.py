"""The table of the page of a comparison, for every choice of its reader.

A line is made of parts, each of which depends on one thing: on what one observer can do, or on the ranking.
Of several settings each part is that of its own worst case. The script of the page picks parts of other
settings by the same rule, so it formats no number of the table.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, get_args

from foltr_audit.core.defense_chain import parse_chain
from foltr_audit.core.results import Estimate
from foltr_audit.errors import PluginError
from foltr_audit.experiments.decide import Judgement
from foltr_audit.privacy.observer_views import SEES, sees_lists
from foltr_audit.report.compare_tables import above_mark, auc_cell, byte_count, difference_cell, guess_cell
from foltr_audit.report.decision import MARKS
from foltr_audit.report.documents import Row
from foltr_audit.report.settings import GRADES
from foltr_audit.report.table import (
    EMPTY,
    Cell,
    Column,
    Line,
    Mark,
    Table,
    bound_text,
    estimate_cell,
    known_or,
)
from foltr_audit.utils.formatting import short

SIGNS: Mapping[Mark, str] = {"good": "✔ ", "warn": "! ", "bad": "✖ "}
"""What stands before a verdict, by its mark."""

WORST = "worst"
"""The choice of the worst case of all."""

CHOICES = {"click_model": "Clicks", "scenario": "Clients", "data": "Data", "learner": "Learner"}
"""Labels of choices by the column that they are about."""


class Part(NamedTuple):
    """Neighbouring cells of a line; of several settings the part with the largest `badness` is shown.

    `drawn` is what the chart and its tips need of it.
    """

    badness: float
    cells: tuple[Cell, ...]
    drawn: Mapping[str, Any] = {}


class PageRow(NamedTuple):
    """The parts of a result by name, and the place that it has in each choice; None fits every choice."""

    defense: str
    places: Mapping[str, str | None]
    parts: Mapping[str, Part]


def page_row(row: Row, audited: Sequence[str], observers: Sequence[str]) -> PageRow:
    """The parts of a result, for views that were audited and for observers."""
    attacked = {each["view"]: each for each in row["attacked"]}
    ceilings = {each["view"]: each["auc"] for each in row["ceilings"]}
    where = {"where": clicks_of(row)}
    proven = {view: row.get(f"eps_proven_{view}") for view in audited}
    parts = {
        "name": Part(0.0, (Cell(short_name(row), plain_words(row)),)),
        **{name: _verdict(row[name]) for name in ("verdict", "verdict_lists")},
        **{
            f"proven {view}": Part(min(known_or(eps, -1.0), 1e9), (Cell(bound_text(eps)),))
            for view, eps in proven.items()
        },
        **{f"attack {view}": _attack(attacked.get(view), ceilings.get(view), where) for view in observers},
        "quality": _quality(row, where),
        "bytes": Part(known_or(row["bytes_per_client"], -1.0), (Cell(byte_count(row)),)),
    }
    places = {name: row[name] for name in CHOICES} | {
        "eps": None if row["eps"] is None else f"{row['eps']:g}"
    }
    return PageRow(row["alternative"], places, parts)


def part_names(audited: Sequence[str], view: str) -> list[str]:
    """The parts of a line, for one observer: its verdict, its attack, and what is proven of each."""
    verdict = "verdict_lists" if sees_lists(view) else "verdict"
    return ["name", verdict, *(f"proven {each}" for each in audited), f"attack {view}", "quality", "bytes"]


def fits(row: PageRow, chosen: Mapping[str, str]) -> bool:
    return all(
        place is None or chosen.get(name, WORST) in (WORST, place) for name, place in row.places.items()
    )


def clicks_of(row: Row) -> str:
    return f"{row['click_model']} clicks"


def short_name(row: Row) -> str:
    """The name of a defense without its epsilon, of which the page shows one at a time."""
    name = row["name"] if row["eps"] is None else row["name"].removesuffix(f", eps {row['eps']:g}")
    return str(name).replace("+", " + ")


def plain_words(row: Row) -> str:
    """What the defenses of a chain do, by their docstrings; empty where one is not installed here.

    Of several, those that only prepare messages for others are left out.
    """
    try:
        links = parse_chain([row["defense"]])
    except PluginError:
        return ""
    several = [link for link in links if "step" not in link.possible_stages()] or links
    lines = [(inspect.getdoc(type(link)) or "").split("\n")[0].replace("`", "") for link in several]
    clauses = [re.split(r"[;:]|\.$", line)[0] for line in lines if line]
    return "; ".join([*clauses[:1], *(clause[:1].lower() + clause[1:] for clause in clauses[1:])])


def _verdict(verdict: Judgement) -> Part:
    mark = MARKS[verdict]
    return Part(get_args(Judgement).index(verdict), (Cell(SIGNS.get(mark, "") + verdict, mark=mark),))


def _attack(found: Row | None, ceiling: float | None, where: Mapping[str, str]) -> Part:
    """What the best attack of one observer finds, and the ceiling of the same observer."""
    if found is None:
        return Part(-3.0, (Cell("-", "not attacked"), EMPTY, EMPTY, EMPTY))
    above = difference_cell(found.estimate("above_guess"))._replace(mark=above_mark(found))
    cells = auc_cell(found), guess_cell(found), above, GRADES.cell(found)
    proof = (
        "not computed" if ceiling is None else "nothing" if ceiling >= 1 else f"AUC at most {short(ceiling)}"
    )
    drawn = {
        "auc": _drawn(found.estimate("auc")),
        "guess": found["baseline_auc"],
        "cap": ceiling,
        "by": found["attack"],
        "proof": proof,
    }
    return Part(known_or(found.number("above_guess"), -2.0), cells, {**where, **drawn})


def _quality(row: Row, where: Mapping[str, str]) -> Part:
    ndcg, difference = row.estimate("ndcg@10"), row.estimate("ndcg@10_difference")
    return Part(
        loss_of(row), (estimate_cell(ndcg), difference_cell(difference)), {**where, "ndcg": _drawn(ndcg)}
    )


def loss_of(row: Row) -> float:
    """How much nDCG@10 is lost to no defense; or how low it is, where that is not known."""
    difference = row.estimate("ndcg@10_difference")
    return known_or(-(difference if difference.known else row.estimate("ndcg@10")).value, -9.0)


def _drawn(estimate: Estimate) -> list[float] | None:
    """A value and the ends of its interval, in the digits that a picture needs."""
    if not estimate.known:
        return None
    return [round(value, 4) for value in (estimate.value, *(estimate.ci95 or (estimate.value,) * 2))]


def defense_table(rows: Sequence[PageRow], audited: Sequence[str], view: str) -> Table:
    """Each defense in the worst case of some settings, for one observer."""
    of_defense: dict[str, list[PageRow]] = {}
    for row in rows:
        of_defense.setdefault(row.defense, []).append(row)
    lines = []
    for same in of_defense.values():
        each = [[row.parts[name] for row in same] for name in part_names(audited, view)]
        worst = [max(parts, key=attrgetter("badness")) for parts in each]
        lines.append(Line(tuple(cell for part in worst for cell in part.cells)))
    return Table(
        "",
        [Column(head, "", align="number" if at > 1 else "name") for at, head in enumerate(heads(audited))],
        lines,
    )


def head_groups(audited: Sequence[str]) -> list[tuple[str, list[str]]]:
    """The headers of the table in two levels; a column that stands alone has no second one."""
    groups = [
        ("defense", [""]),
        ("verdict", [""]),
        ("proven ε of one search, if the server sees", [SEES[view] for view in audited]),
        ("AUC", ["best attack", "guess without message", "attack adds", "who knows grades"]),
        ("nDCG@10", ["value", "to no defense"]),
        ("bytes a client and round", [""]),
    ]
    return [(group, columns) for group, columns in groups if columns]


def heads(audited: Sequence[str]) -> list[str]:
    """The headers in one level."""
    return [
        f"{group}: {text}" if text else group for group, columns in head_groups(audited) for text in columns
    ]


def framed_column(audited: Sequence[str], view: str) -> int:
    """The column with what is proven of an observer; -1 if it was not audited."""
    return 2 + audited.index(view) if view in audited else -1
