"""The tables of a comparison's document: rows as entries with their intervals, warnings and marks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Never

from foltr_audit.auditing.verdict import CONTRADICTION, FALSE
from foltr_audit.privacy.observer_views import VIEWS, sees
from foltr_audit.report.results.base import Row
from foltr_audit.report.results.compare import CompareReport
from foltr_audit.report.results.compare_summary import LEAST, StrongestLeak, find_leaks, p_text, p_value
from foltr_audit.report.results.compare_worlds import WorldRows
from foltr_audit.report.results.wording import (
    CHOSEN,
    FIXED,
    FRONT,
    claimed_delta,
    evaluated_part,
    measured,
    short_method,
    verdict_text,
    verdicts_on,
)
from foltr_audit.report.tables.table import Cell, Column, Line, Mark, Table
from foltr_audit.utils.formatting import short

BEST = {
    "accuracy": "accuracy",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "auc": "AUC",
    "tpr_at_1": "TPR at 1 % FPR",
}
"""The metrics that are shown of the best attack."""

NONE = Cell("-", mark="dim")


def at_a_glance(world: WorldRows, *, marked: bool = True) -> Table:
    """One row per defense: its claim, what the best attack reads, and the quality of the ranker.

    Args:
        world: the world of the defenses.
        marked: whether marks are shown as colours.
    """
    reading = {(leak.row["learner"], leak.row["name"]): leak for leak in find_leaks(world)}
    corrected = world.corrected()
    rows = [
        [
            _name(world, row),
            _claim(row),
            _auc(row, reading.get((row["learner"], row["name"]))),
            with_interval(row, "ndcg@10"),
            _difference(row, "ndcg@10", corrected.get((row["learner"], row["name"]))),
            _bytes(row),
            _front(world, row),
        ]
        for row in world.results
    ]
    headings = [
        _heading("defense", numeric=False),
        _heading("its claim", numeric=False),
        _heading("best attack, AUC"),
        _heading("nDCG@10"),
        _heading("against no defense"),
        _heading("bytes per client"),
        _heading("front", numeric=False),
    ]
    notes = (
        "Below a claim: where it is false or proven, by what the server sees. "
        "Below a value or in brackets: 95 % intervals, and p-values of a paired t-test, Bonferroni-corrected "
        f"for the tests of this table. nDCG@10 is of {evaluated_part(world.results)}; its intervals and p "
        f"are {FIXED}. The best attack is {CHOSEN}. On the front of AUC and nDCG@10: {FRONT}."
    )
    if marked:
        notes += (
            " An AUC is red where the attack is shown to beat every guess without a message, green where it "
            "is not shown to beat one by position or at random."
        )
    return plain_table(
        caption=_caption("Defenses at a glance", world), headings=headings, rows=rows, notes=notes
    )


def everything(world: WorldRows) -> Table:
    """All columns of the results of a world."""
    views = [view for view in VIEWS if any(f"verdict_{view}" in row for row in world.results)]
    corrected, grouped = world.corrected(), any(row["groups"] for row in world.results)
    headings = [_heading("defense", numeric=False), _heading("claimed", "epsilon")]
    for view in views:
        headings += [_heading(what, f"epsilon, {sees(view)}") for what in ("proven", "measured")]
    headings += [_heading("method", "best attack", numeric=False)]
    headings += [_heading(label, "best attack") for label in BEST.values()]
    for which in ("offline", "online"):
        headings += [_heading(what, f"{which} nDCG@10") for what in ("mean", "difference", "p")]
    headings += [_heading("bytes", "a client")]
    headings += [_heading("worst group", "a client", numeric=False)] if grouped else []
    headings += [_heading("runs", "this row"), _heading("front", "this row", numeric=False)]
    rows = []
    for row in world.results:
        entries = [_name(world, row), _claimed(row)]
        for view in views:
            entries += [_eps(row, "proven", view), _eps(row, "measured", view)]
        entries += [Cell(short_method(row["attack"])) if row["attack"] else NONE]
        entries += [with_interval(row, name) for name in BEST]
        entries += [with_interval(row, "ndcg@10"), _plain_difference(row, "ndcg@10")]
        entries += [_p(corrected.get((row["learner"], row["name"])))]
        entries += [with_interval(row, "online_mean"), _plain_difference(row, "online_mean")]
        entries += [_p(row["online_mean_p"])]
        entries += [_bytes(row)]
        entries += [_worst_group(row)] if grouped else []
        rows.append([*entries, Cell(str(row["runs"])), _front(world, row, every=True)])
    notes = (
        "Below or in brackets: 95 % intervals; of attacks and offline nDCG@10 by bootstrap over queries, of "
        f"online nDCG@10 over runs. The best attack is {CHOSEN}. An epsilon is of what the server sees. "
        "Measured: with the ceiling that this number of trials could show. Each holds on its own, not "
        "corrected for several. "
        "Differences are to no defense. Offline nDCG@10 is of "
        f"{evaluated_part(world.results)}; its intervals and p (paired t-test, Bonferroni-corrected for the "
        f"tests of this table) are {FIXED}; online p: over runs, not corrected."
    )
    return plain_table(caption=_caption("All columns", world), headings=headings, rows=rows, notes=notes)


def claims(report: CompareReport) -> Table:
    """Every claim that was checked, from both sides."""
    several = len({row["learner"] for row in report.claims}) > 1
    worlds = len({row["scenario"] for row in report.claims}) > 1
    headings = [_heading("defense", numeric=False), _heading("the server sees", numeric=False)]
    headings += [_heading(what) for what in ("claimed", "proven", "exact loss", "measured", "ceiling")]
    headings += [_heading("verdict", numeric=False), _heading("why", numeric=False)]
    rows = []
    for row in report.claims:
        parts = [row["learner"] if several else "", row["name"], row["scenario"] if worlds else ""]
        bad = row["verdict"] in (*FALSE, CONTRADICTION)
        mark: Mark = "bad" if bad else "good" if row["verdict"] == "proven" else ""
        rows.append(
            [
                Cell(", ".join(part for part in parts if part)),
                Cell(row["sees"], f"one {row['unit']} differs, {row['canary']}"),
                _claimed(row),
                Cell(eps_text(row["eps_upper"])),
                NONE if row["eps_exact"] is None else Cell(eps_text(row["eps_exact"])),
                Cell(eps_text(row["eps_lower"])),
                Cell(eps_text(row["eps_ceiling"])),
                Cell(verdict_text(row["eps_claimed"], row["verdict"]), mark=mark),
                Cell(row["why"]),
            ]
        )
    notes = (
        "Proven: an upper bound by accounting. Exact: the loss of the pair that was played, where it has a "
        "formula. Measured: a lower bound from trials with that pair, which can show the ceiling at most, "
        f"{measured(report.claims[0]['confidence'])}. A claim below the exact or the measured loss is false."
    )
    return plain_table(caption="Claims, from above and from below", headings=headings, rows=rows, notes=notes)


def attacks(world: WorldRows) -> Table:
    """Every guesser on every defense of a world."""
    headings = [_heading("defense", numeric=False), _heading("method", numeric=False)]
    headings += [_heading(label) for label in BEST.values()] + [
        _heading("exact lists"),
        _heading("lists"),
    ]
    rows = []
    for row in world.results:
        for one in world.attacks_on(row):
            mark: Mark = "dim" if one["baseline"] else ""
            values = [with_interval(one, name) for name in (*BEST, "exact")]
            name = Cell(one["method"], "needs no message" if one["baseline"] else "", mark)
            rows.append([_name(world, row), name, *values, Cell(str(one["lists"]))])
    return plain_table(caption=_caption("Every attack", world), headings=headings, rows=rows)


def groups(world: WorldRows) -> Table | None:
    """How groups of clients are served and attacked; None where clients do not differ."""
    rows = []
    for row in world.results:
        hit = {one["group"]: one for one in world.groups_of(row, row["attack"])}
        served = {one["group"]: one for one in world.served_under(row)}
        for name in dict.fromkeys((*served, *hit)):
            online = short(served[name]["online_mean"]) if name in served else "-"
            auc = with_interval(hit[name], "auc") if name in hit else NONE
            rows.append([_name(world, row), Cell(str(name)), Cell(online), auc])
    headings = [_heading("defense", numeric=False), _heading("group", numeric=False)]
    headings += [_heading("online nDCG@10"), _heading("AUC of the best attack")]
    if not rows:
        return None
    return plain_table(
        caption=_caption("Groups of clients, served worst first", world), headings=headings, rows=rows
    )


def with_interval(row: Row, name: str) -> Cell:
    """A value with its interval below."""
    value = row[name]
    if value is None or math.isnan(value):
        return NONE
    ends = row[f"{name}_ci95"]
    return Cell(short(value), "" if ends is None else "–".join(short(end) for end in ends))  # noqa: RUF001


def eps_text(value: float) -> str:
    """An epsilon with three digits; infinity as its sign.

    >>> eps_text(1.2), eps_text(float("inf"))
    ('1.2', '∞')
    """
    return "∞" if math.isinf(value) else f"{value:.3g}"


def _caption(text: str, world: WorldRows) -> str:
    return f"{text}: {world.name}" if world.name else text


def _name(world: WorldRows, row: Row) -> Cell:
    return Cell(world.called(row))


def _claimed(row: Row) -> Cell:
    value = row["eps_claimed"]
    return Cell("none", mark="dim") if math.isinf(value) else Cell(eps_text(value), claimed_delta(row))


def _claim(row: Row) -> Cell:
    if math.isinf(row["eps_claimed"]):
        return Cell("none", mark="dim")
    delta, verdicts = claimed_delta(row), verdicts_on(row)
    claimed = f"epsilon {eps_text(row['eps_claimed'])}" + (f" ({delta})" if delta else "")
    if not verdicts:
        return Cell(claimed, "not checked")
    bad = [sees(view) for view, verdict in verdicts.items() if verdict in (*FALSE, CONTRADICTION)]
    if bad:
        return Cell(claimed, f"false: {'; '.join(bad)}", "bad")
    if all(verdict == "proven" for verdict in verdicts.values()):
        return Cell(claimed, f"proven: {'; '.join(map(sees, verdicts))}", "good")
    return Cell(claimed, "not refuted, not proven")


def _auc(row: Row, leak: StrongestLeak | None) -> Cell:
    found = with_interval(row, "auc")
    if leak is None or not leak.known:
        return found
    if leak.bound is None:
        return found._replace(mark="bad")
    return found._replace(mark="good" if leak.held else "")


def _difference(row: Row, name: str, p: float | None) -> Cell:
    found = _plain_difference(row, name)
    if found == NONE or p is None:
        return found
    return Cell(found.text, p_text(p), "bad" if p < LEAST and row[f"{name}_difference"] < 0 else "")


def _plain_difference(row: Row, name: str) -> Cell:
    value = row[f"{name}_difference"]
    if value is None or math.isnan(value):
        return NONE
    ends = row[f"{name}_difference_ci95"]
    return Cell(_signed(value), "" if ends is None else " to ".join(_signed(end) for end in ends))


def _signed(value: float) -> str:
    sign = "" if short(abs(value)) == ".000" else "−" if value < 0 else "+"  # noqa: RUF001
    return sign + short(abs(value))


def _p(p: float | None) -> Cell:
    return NONE if p is None or math.isnan(p) else Cell(p_value(p))


def _bytes(row: Row) -> Cell:
    value = row["bytes_per_client"]
    return NONE if value is None else Cell(f"{value:,.0f}")


def _worst_group(row: Row) -> Cell:
    if row["worst_served_group"] is None:
        return NONE
    hit = row["worst_attacked_group"]
    below = f"online nDCG@10 {short(row['worst_served_online'])}"
    more = "" if hit is None else f"; hit hardest: {hit}, AUC {short(row['worst_attacked_auc'])}"
    return Cell(str(row["worst_served_group"]), below + more)


def _front(world: WorldRows, row: Row, *, every: bool = False) -> Cell:
    if row["pareto"] is None:
        return NONE
    if row["pareto"]:
        return Cell("on the front")
    if not row["dominated_by"]:
        return Cell("not on the front", "claim refuted", "bad")
    first, *others = world.rivals(row)
    names = [first, f"{len(others)} more"] if others and not every else [first, *others]
    return Cell("dominated", f"by {'; '.join(names) if every else ' and '.join(names)}", "dim")


def _eps(row: Row, what: str, view: str) -> Cell:
    if f"verdict_{view}" not in row:
        return NONE
    value, ceiling = row[f"eps_{what}_{view}"], row[f"eps_ceiling_{view}"]
    bad = what == "measured" and row[f"verdict_{view}"] == "refuted"
    return Cell(
        eps_text(value), f"of {eps_text(ceiling)}" if what == "measured" else "", "bad" if bad else ""
    )


def _heading(text: str, group: str = "", *, numeric: bool = True) -> Column[Never]:
    return Column(text, lambda row: "", "number" if numeric else "words", group)


def plain_table(
    *,
    caption: str,
    headings: Sequence[Column[Never]],
    rows: Sequence[Sequence[Cell]],
    notes: str = "",
) -> Table:
    """A table of cells that were made before."""
    lines = [Line(tuple(row)) for row in rows]
    return Table(title=caption, columns=headings, lines=lines, caption=notes)


_WHERE = {"defense": "defense", "learner": "learner"}
_CELLS = {"name": "defense", "kind": "kind", "click_model": "clicks", "scenario": "scenario"}
_NOTES = {
    "Warnings": ("warnings", {"name": "defense", "warning": "warning"}),
    "Left out": ("left_out", {**_WHERE, "why": "why it cannot be"}),
    "Failed": ("failed", {**_WHERE, "click_model": "clicks", "run": "run", "why": "why"}),
    "Not done yet": ("unfinished", {**_CELLS, "done": "done", "cells": "of"}),
}
"""Tables of what went wrong or is missing: the rows of a report, and the headings of their columns."""


def notes_of(report: CompareReport) -> list[Table]:
    """What went wrong or was left out; only what there is."""
    return [
        plain_table(
            caption=title,
            headings=[_heading(text, numeric=False) for text in columns.values()],
            rows=[[Cell(str(row[name])) for name in columns] for row in rows],
        )
        for title, (kind, columns) in _NOTES.items()
        if (rows := getattr(report, kind))
    ]
