"""How many bits the messages tell of a list's clicks: rows of a report, and their table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.mutual_information import information
from foltr_audit.report.results.attack_rows import columns, known
from foltr_audit.report.results.base import Row
from foltr_audit.report.results.settings import setting_text
from foltr_audit.report.tables.layout import beside, by_method, method_table, percent, table
from foltr_audit.utils.formatting import epsilon, short

if TYPE_CHECKING:
    from rich.table import Table


def information_rows(evidence: ClickEvidence, where: Row, resamples: QueryBootstrap) -> Iterator[Row]:
    """One row per attack that weighs click patterns, over all lists; `resamples` of their queries.

    Baselines read no message and have none. See `Information` for the columns.
    """
    for found in information(evidence, resamples):
        if found.method in evidence.baselines:
            continue
        yield {
            "method": found.method,
            "baseline": False,
            **where,
            "lists": found.lists,
            "queries": int(resamples.names.size),
            **columns("bits", found.bits),
            **columns("entropy", found.entropy),
            **columns("share", found.share),
            "exact_posterior": found.exact,
            "bias_bound": known(found.bias_bound),
            "impossible": found.impossible,
            "wrong_prior": found.wrong_prior,
        }


def information_table(rows: Sequence[Row]) -> Table:
    """What a message tells; rows of one world."""
    headings = ("told at least", "at most more", "of", "share")
    found = method_table("what the server learns, in bits per list", _caption(rows), headings)
    for mine in by_method(rows):
        for row in mine:
            found.add_row(escape(row["method"]), epsilon(row["eps_claimed"]), *_cells(row))
    return found


def _cells(row: Row) -> tuple[str, str, str, str]:
    """What is told at least (0 where the estimate is below it), what it may miss, of what, and the share."""
    nothing = row["bits"] is not None and row["bits"] < 0
    return (
        "0" if nothing else beside(row, "bits"),
        short(row["entropy"] if nothing else row["bias_bound"]),
        short(row["entropy"]),
        percent(None if row["share"] is None else max(0.0, row["share"])),
    )


def comparison_table(rows: Sequence[Row]) -> Table:
    """What the messages of several learners tell at the same claimed epsilon."""
    found = table(
        "what the server learns of a list's clicks, by learner, in bits",
        "of an interaction's own eps; a message of several composes them",
    )
    for heading in ("clicks", "eps", "learner", "told at least", "at most more", "of", "share"):
        found.add_column(
            heading, no_wrap=heading != "learner", justify="right" if heading == "eps" else "left"
        )
    ordered = sorted(rows, key=lambda row: (row["click_model"], row["eps_claimed"]))
    for row in ordered:
        found.add_row(
            escape(row["click_model"]),
            epsilon(row["eps_claimed"]),
            escape(f"{setting_text(row, 'learner', rows)} by {row['method'].partition(':')[0]}"),
            *_cells(row),
        )
    return found


def _caption(rows: Sequence[Row]) -> str:
    lines = [
        "of: the entropy of a list's clicks for who knows query, list and grades; every list counts",
        "at most more: bound on what the estimate misses, 0 where the attack's posterior is the true one",
    ]
    if any(row["bits"] is not None and row["bits"] < 0 for row in rows):
        lines.append("0: the attack errs more than who only knows grades (believes less: prior=relevance)")
    for row in rows:
        if row["impossible"]:
            lines.append(
                f"{row['method']}, eps {epsilon(row['eps_claimed'])}: it called {row['impossible']} lists' "
                "clicks impossible, which count 20 bits and more"
            )
        if row["wrong_prior"]:
            lines.append(
                f"{row['method']}: clicks that the click model calls impossible; nothing is estimated"
            )
    return escape("\n".join(lines))
