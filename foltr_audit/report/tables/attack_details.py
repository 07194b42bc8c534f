"""Details of an attack's results on a terminal: scores, any click, what messages tell, named queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.report.results.base import Row
from foltr_audit.report.results.settings import setting_text
from foltr_audit.report.results.wording import counted
from foltr_audit.report.tables.layout import (
    Column,
    epsilon_column,
    group_by_world,
    in_method_order,
    interval_columns,
    is_baseline,
    method_columns,
    percent,
    reference_row,
    rows_table,
    short_column,
    text_column,
    with_interval,
)
from foltr_audit.utils.formatting import epsilon, short

if TYPE_CHECKING:
    from rich.table import Table

_SCORES = {
    "tpr_at_1": "TPR@1%",
    "tpr_at_01": "TPR@.1%",
    "accuracy_identifiable": "identifiable",
    "exact_message": "message",
}
_RANDOM = "random:k=mean"  # the random guess that knows most; the tables leave the others out


LESS_OF_SCORES = ("TPR@.1%", "message", "identifiable")
LESS_OF_ANY_CLICK = ("accuracy",)
"""Columns that each table leaves out on a narrow terminal, first to last."""


def scores_table(results: Sequence[Row], narrow: bool = False) -> Table:
    """How well scores do at few false alarms, and on identifiable documents; rows of one world."""
    rows = [row for row in results if not row["method"].startswith("random:") or row["method"] == _RANDOM]
    metrics = {
        name: header
        for name, header in _SCORES.items()
        if name != "exact_message" or any(row[name] is not None for row in rows)
    }
    return _metrics_table(None, _scores_caption(rows, metrics), metrics, rows, narrow=narrow)


def _scores_caption(rows: Sequence[Row], metrics: dict[str, str]) -> str:
    counts = sorted({row["unclicked_documents"] for row in rows})
    among = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    finest = f", one of which is {percent(1 / counts[0])}" if counts[0] else ""
    few = " (no interval: too few for it)" if any(row["tpr_at_01_ci95"] is None for row in rows) else ""
    message = "\nmessage: all lists of a message right" if "exact_message" in metrics else ""
    return (
        f"TPR at a false positive rate of at most 1 % and .1 % of {among} unclicked documents{finest}{few}\n"
        f"identifiable: accuracy on documents whose click a message can reveal at all{message}"
    )


def any_click_table(rows: Sequence[Row], narrow: bool = False) -> Table:
    """Whether a list has any click, compared with always saying yes; rows of one world."""
    settings = {(row["eps_claimed"], row["defense"]): row for row in rows}
    always = [
        {
            **reference_row("always yes", eps=row["eps_claimed"], auc=None if row["auc"] is None else 0.5),
            "accuracy": row["base_rate"],
            "accuracy_ci95": row["base_rate_ci95"],
        }
        for row in settings.values()
    ]
    title = "any click at all? (every list counts)"
    return _metrics_table(
        title, None, {"auc": "AUC", "accuracy": "accuracy"}, [*always, *rows], narrow=narrow
    )


def _metrics_table(
    title: str | None, caption: str | None, metrics: dict[str, str], rows: Sequence[Row], *, narrow: bool
) -> Table:
    """One line per row, with each metric's interval beside it, or below it where it is narrow."""
    return rows_table(
        title,
        caption,
        [*method_columns(narrow=narrow), *interval_columns(metrics, "name", beside=not narrow)],
        in_method_order(rows),
        space=0 if narrow else 1,
        dim=is_baseline,
    )


# --- information ----------------------------------------------------------------------------------


def information_table(rows: Sequence[Row]) -> Table:
    """How many bits a message reveals of a list's clicks; rows of one world."""
    return rows_table(
        "what the server learns, in bits per list",
        _information_caption(rows),
        [*method_columns(), *_bit_columns()],
        in_method_order(rows),
    )


def learners_table(rows: Sequence[Row]) -> Table:
    """How many bits the messages of several learners reveal at the same claimed epsilon."""

    def learner(row: Row) -> str:
        return escape(f"{setting_text(row, 'learner', rows)} by {row['method'].partition(':')[0]}")

    return rows_table(
        "what the server learns of a list's clicks, by learner, in bits",
        "of an interaction's own eps; a message of several composes them",
        [
            text_column("clicks", "click_model", "name"),
            epsilon_column(),
            Column("learner", learner, "words"),
            *_bit_columns(),
        ],
        sorted(rows, key=lambda row: (row["click_model"], row["eps_claimed"])),
    )


def _bit_columns() -> list[Column]:
    """What is learned at least (0 for a negative estimate), what that may miss, the entropy, the share."""

    def share(row: Row) -> str:
        return percent(None if row["share"] is None else max(0.0, row["share"]))

    return [
        Column("at least", lambda row: "0" if _is_negative(row) else with_interval(row, "bits", " "), "name"),
        Column(
            "at most more", lambda row: short(row["entropy" if _is_negative(row) else "bias_bound"]), "name"
        ),
        short_column("of", "entropy")._replace(align="name"),
        Column("share", share, "name"),
    ]


def _is_negative(row: Row) -> bool:
    return row["bits"] is not None and row["bits"] < 0


def _information_caption(rows: Sequence[Row]) -> str:
    lines = [
        "of: the entropy of a list's clicks for who knows query, list and grades; every list counts",
        "at most more: bound on what the estimate misses, 0 where the attack's posterior is the true one",
    ]
    if any(map(_is_negative, rows)):
        lines.append("0: the attack errs more than who only knows grades (believes less: prior=relevance)")
    for row in rows:
        if row["impossible"]:
            lines.append(
                f"{row['method']}, eps {epsilon(row['eps_claimed'])}: it called the clicks of "
                f"{counted(row['impossible'], 'list')} impossible; each counts as 20 bits or more"
            )
        if row["wrong_prior"]:
            lines.append(
                f"{row['method']}: the click model calls some clicks impossible; nothing is estimated"
            )
    return escape("\n".join(lines))


# --- lines ----------------------------------------------------------------------------------------


def identifiability_lines(rows: Sequence[Row]) -> Iterator[str]:
    """One line per setting of a world: what its messages can reveal at all."""
    for row in rows:
        if not row["lists"]:
            continue
        lost = row["not_told"]
        yield escape(
            f"{_epsilon_prefix(row, rows)}identifiable: {percent(row['identifiable'])} of documents; "
            f"rank {row['rank_mean']:.1f} of {row['unknowns_mean']:.1f} unknowns, "
            f"{row['rank_min']} at least; "
            f"{row['all_clicked']} lists all clicked, {row['without_click']} without a click; "
            f"{percent(row['not_observed'])} of documents not observed"
            + (f", {percent(lost)} combinations of others, too faint, or not in a metric" if lost else "")
        )


def calibration_lines(rows: Sequence[Row]) -> Iterator[str]:
    """One line per attack with probabilities and setting of a world."""
    for row in rows:
        yield escape(
            f"{row['method']}: {_epsilon_prefix(row, rows)}Brier score {with_interval(row, 'brier', ' ')} "
            f"(base rate {with_interval(row, 'brier_base_rate', ' ')}), log loss {short(row['log_loss'])}, "
            f"calibration error {short(row['calibration_error'])}"
        )


def _epsilon_prefix(row: Row, rows: Sequence[Row]) -> str:
    """`eps 1.2: ` where rows differ in the claimed epsilon, else nothing."""
    several = len({other["eps_claimed"] for other in rows}) > 1
    return f"eps {epsilon(row['eps_claimed'])}: " if several else ""


def refused_lines(rows: Sequence[Row]) -> Iterator[str]:
    """One line per attack of a world that could not run, and why."""
    yield from dict.fromkeys(escape(f"{row['method']}: cannot run: {row['reason']}") for row in rows)


# --- named queries ---------------------------------------------------------------------------------


def query_tables(rows: Sequence[Row]) -> Iterator[Table]:
    """The attacked lists of the named queries, one table per world: what was clicked, what was named."""
    attacked = [row for row in rows if row["method"] is not None]
    for name, mine in group_by_world(attacked).items():
        yield _query_table(name, mine)


def _query_table(name: str, rows: Sequence[Row]) -> Table:
    lists: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        key = (row["query"], row["eps_claimed"], row["defense"], row["list"])
        lists.setdefault(key, []).append(row)
    lines: list[Row] = []
    for number, attacks in enumerate(lists.values()):
        first, every = attacks[0], [True] * len(attacks[0]["shown"])
        names = {"query": first["query"], "eps_claimed": first["eps_claimed"]}
        lines.append(
            {"list": number, **names, "who": "shown", "documents": _documents(first, every), "exact": ""}
        )
        lines += [
            {
                "list": number,
                "query": "",
                "eps_claimed": None,
                "baseline": row["baseline"],
                "who": row["method"],
                "documents": _documents(row, row["guessed"]),
                "exact": "yes" if row["exact"] else "no",
            }
            for row in attacks
        ]
    return rows_table(
        f"named queries, {name}",
        "documents by their place in the query's data, from 0, in the order shown; * clicked",
        [
            text_column("query", "query"),
            epsilon_column(),
            text_column("who", "who"),
            text_column("documents", "documents"),
            text_column("exact", "exact", "name"),
        ],
        lines,
        dim=is_baseline,
        section=lambda line: line["list"],
    )


def _documents(row: Row, which: Sequence[bool]) -> str:
    named = zip(row["shown"], row["clicked"], which, strict=True)
    return " ".join(f"{document}{'*' if clicked else ''}" for document, clicked, here in named if here) or "-"


def not_attacked_lines(rows: Sequence[Row]) -> Iterator[str]:
    """One line per named query without an attacked list anywhere."""
    attacked = {row["query"] for row in rows if row["method"] is not None}
    for name in dict.fromkeys(row["query"] for row in rows):
        if name not in attacked:
            yield escape(f"query {name}: not attacked")
