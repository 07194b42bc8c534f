"""Details of attacks on clicks, and what is proven against any attack, as tables and lines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

from foltr_audit.core.results import UNKNOWN, Estimate
from foltr_audit.judge.scoring import RANDOM
from foltr_audit.privacy.observer_views import with_article
from foltr_audit.report.results.attack_rows import (
    AnyClickRow,
    AttackMetrics,
    AttackRow,
    CalibrationRow,
    IdentifiabilityRow,
    InformationRow,
    OfAttack,
    PromiseRow,
    PublishedChangeRow,
    QueryListRow,
    RefusedRow,
)
from foltr_audit.report.results.base import setting_text
from foltr_audit.report.results.wording import counted, delta_text
from foltr_audit.report.tables.columns import (
    MetricLine,
    claimed_column,
    estimate_cell,
    estimate_column,
    estimate_text,
    first_of_settings,
    group_by_world,
    in_method_order,
    method_columns,
    metric_columns,
    percent,
)
from foltr_audit.report.tables.table import Cell, Column, Table, make_table
from foltr_audit.utils.formatting import epsilon, short

ANY_ATTACK = "any attack"
"""Name of the line with the most that is possible."""

EXPLAINED = (
    "any attack: the most that the proof allows, for an attacker who knows the grades and how users click"
)
"""The caption of a table with such a line."""


def with_ceilings(rows: Sequence[AttackRow]) -> list[AttackRow]:
    """The rows, and for each setting with a proof a line with the most that any attack can reach."""
    return [*rows, *map(_ceiling_row, first_of_settings(row for row in rows if row.ceiling.known))]


def _ceiling_row(row: AttackRow) -> AttackRow:
    unknown = {each.name: UNKNOWN for each in fields(AttackMetrics) if _is_estimate(row.found, each.name)}
    most = {each.name: Estimate(getattr(row.ceiling, each.name)) for each in fields(row.ceiling)}
    found = replace(row.found, **{**unknown, **most})  # type: ignore[arg-type]
    return replace(row, method=ANY_ATTACK, baseline=True, found=found)


def _is_estimate(found: AttackMetrics, name: str) -> bool:
    return isinstance(getattr(found, name), Estimate)


def ceiling_line(ceiling: float, eps_claimed: float, columns: int) -> list[MetricLine]:
    """The line of a table about secrets that have one accuracy, in the first of its columns; none without."""
    if math.isnan(ceiling):
        return []
    values = (Estimate(ceiling), *[UNKNOWN] * (columns - 1))
    return [MetricLine(method=ANY_ATTACK, eps_claimed=eps_claimed, values=values)]


def promise_lines(rows: Sequence[PromiseRow]) -> Iterator[str]:
    """A sentence on what is proven for one interaction, for each chain of a world."""
    found = {row.setting.defense: row for row in rows if row.unit == "interaction"}
    for defense, row in found.items():
        sentence = _sentence(row)
        yield f"{defense}: {sentence}" if len(found) > 1 else sentence[0].upper() + sentence[1:]


def _sentence(row: PromiseRow) -> str:
    if math.isinf(row.eps_proven):
        sees = with_article(row.sees)
        return f"nothing is proven for {row.about}, where the server sees {sees}: {row.how}"
    delta = f" ({delta_text(row.delta)})" if row.delta else ""
    return (
        f"proven for {row.about}: epsilon {epsilon(row.eps_proven)}{delta}, so no attack tells two "
        f"possibilities apart with an AUC above {short(row.auc)} ({row.how})"
    )


def scores_table(results: Sequence[AttackRow]) -> Table:
    """How well scores do at few false alarms, and on identifiable documents; rows of one world."""
    # Of the random guesses only the one that knows most.
    rows = [row for row in results if not row.method.startswith("random:") or row.method == RANDOM]
    columns: list[Column[AttackRow]] = [
        *method_columns(),
        estimate_column("TPR@1%", lambda row: row.found.tpr_at_1, "name", beside=True),
        estimate_column("TPR@.1%", lambda row: row.found.tpr_at_01, "name", beside=True),
        estimate_column("identifiable", lambda row: row.found.accuracy_identifiable, "name", beside=True),
    ]
    messages = any(row.found.exact_message.known for row in rows)
    if messages:
        columns.append(estimate_column("message", lambda row: row.found.exact_message, "name", beside=True))
    return make_table(
        "",
        columns,
        in_method_order(rows),
        caption=_scores_caption(rows, messages=messages),
        dim=lambda row: row.baseline,
        spare=("TPR@.1%", "message", "identifiable"),
    )


def _scores_caption(rows: Sequence[AttackRow], *, messages: bool) -> str:
    counts = sorted({row.found.unclicked_documents for row in rows})
    among = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    finest = f"; resolution {percent(1 / counts[0])}" if counts[0] else ""
    few = "; too few for an interval" if any(row.found.tpr_at_01.ci95 is None for row in rows) else ""
    message = "\nmessage: all lists of a message right" if messages else ""
    return (
        f"TPR at FPR <= 1 % and <= .1 % ({among} unclicked documents{finest}{few})\n"
        f"identifiable: accuracy on documents whose click is identifiable from the message{message}"
    )


def any_click_table(rows: Sequence[AnyClickRow]) -> Table:
    """Whether a list has any click, compared with always saying yes; rows of one world."""
    lines = [
        MetricLine(
            method="always yes",
            eps_claimed=row.eps_claimed,
            values=(Estimate(0.5) if row.auc.known else row.auc, row.base_rate),
        )
        for row in {(row.eps_claimed, row.setting.defense): row for row in rows}.values()
    ]
    lines += [MetricLine.of(row, row.auc, row.accuracy, baseline=row.baseline) for row in rows]
    return make_table(
        "any click at all? (every list counts)",
        [*method_columns(), *metric_columns(("AUC", "accuracy"))],
        in_method_order(lines),
        dim=lambda line: line.baseline,
        spare=("accuracy",),
    )


# --- information -----------------------------------------------------------------------------------


def information_table(rows: Sequence[InformationRow]) -> Table:
    """How many bits a message reveals of a list's clicks; rows of one world."""
    return make_table(
        "what the server learns, in bits per list",
        [*method_columns(), *_BITS],
        in_method_order(rows),
        caption=_information_caption(rows),
    )


def learners_table(rows: Sequence[InformationRow]) -> Table:
    """How many bits the messages of several learners reveal at the same claimed epsilon."""
    settings = [row.setting for row in rows]

    def learner(row: InformationRow) -> str:
        return f"{setting_text(row.setting, 'learner', settings)} by {row.method.partition(':')[0]}"

    columns: list[Column[InformationRow]] = [
        Column("clicks", lambda row: row.where.click_model, "name"),
        claimed_column(),
        Column("learner", learner, "words"),
        *_BITS,
    ]
    return make_table(
        "what the server learns of a list's clicks, by learner, in bits",
        columns,
        sorted(rows, key=lambda row: (row.where.click_model, row.eps_claimed)),
        caption="claimed: the eps of one interaction; a message of several composes them",
    )


def _least(row: InformationRow) -> Cell:
    return Cell("0") if row.bits.value < 0 else estimate_cell(row.bits)


def _at_most_more(row: InformationRow) -> str:
    return short(row.entropy.value if row.bits.value < 0 else row.bias_bound)


_BITS: list[Column[InformationRow]] = [
    Column("leaked at least", _least, "name", beside=True),
    Column("error at most", _at_most_more, "name"),
    Column("in total", lambda row: short(row.entropy.value), "name"),
    Column("share", lambda row: percent(max(0.0, row.share.value)) if row.share.known else "-", "name"),
]
"""What is learned at least (0 for a negative estimate), what that may miss, the entropy, the share."""


def _information_caption(rows: Sequence[InformationRow]) -> str:
    lines = [
        "leaked at least: lower bound on the mutual information between message and clicks; in total: "
        "entropy of a list's clicks given query, list and grades; every list counts",
        "error at most: what the lower bound may miss, 0 where the attack's posterior is the true one",
    ]
    if any(row.bits.value < 0 for row in rows):
        lines.append("0: the attack errs more than who only knows grades (believes less: prior=relevance)")
    for row in rows:
        if row.impossible:
            lines.append(
                f"{row.method}, claimed {epsilon(row.eps_claimed)}: it called the clicks of "
                f"{counted(row.impossible, 'list')} impossible; each counts as 20 bits or more"
            )
        if row.wrong_prior:
            lines.append(f"{row.method}: the click model calls some clicks impossible; nothing is estimated")
    return "\n".join(lines)


# --- lines -----------------------------------------------------------------------------------------


def identifiability_lines(rows: Sequence[IdentifiabilityRow]) -> Iterator[str]:
    """One line per setting of a world: what its messages can reveal at all."""
    for row in rows:
        if not row.lists:
            continue
        lost = row.not_told
        yield (
            f"{_epsilon_prefix(row, rows)}identifiable: {percent(row.identifiable)} of documents; "
            f"rank {row.rank_mean:.1f} of {row.unknowns_mean:.1f} unknowns, {row.rank_min} at least; "
            f"{row.all_clicked} lists all clicked, {row.without_click} without a click; "
            f"{percent(row.not_observed)} of documents not observed"
            + (f", {percent(lost)} combinations of others, too faint, or not in a metric" if lost else "")
        )


def published_lines(rows: Sequence[PublishedChangeRow]) -> Iterator[str]:
    """One line per setting of a world: how often a change of the global model is one client's update."""
    for row in rows:
        prefix = f"{row.setting.defense}: " if len(rows) > 1 else ""
        yield prefix + (row.text if prefix else row.text[0].upper() + row.text[1:])


def calibration_lines(rows: Sequence[CalibrationRow]) -> Iterator[str]:
    """One line per attack with probabilities and setting of a world."""
    for row in rows:
        yield (
            f"{row.method}: {_epsilon_prefix(row, rows)}Brier score {estimate_text(row.found.brier)} "
            f"(base rate {estimate_text(row.found.brier_base_rate)}), "
            f"log loss {short(row.found.log_loss.value)}, "
            f"calibration error {short(row.found.error)}"
        )


def _epsilon_prefix(row: OfAttack, rows: Sequence[OfAttack]) -> str:
    """`eps 1.2: ` where rows differ in the claimed epsilon, else nothing."""
    several = len({other.eps_claimed for other in rows}) > 1
    return f"claimed {epsilon(row.eps_claimed)}: " if several else ""


def refused_lines(rows: Sequence[RefusedRow]) -> Iterator[str]:
    """One line per attack of a world that could not run, and why."""
    yield from dict.fromkeys(f"{row.method}: cannot run: {row.reason}" for row in rows)


# --- named queries ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _QueryLine:
    """A line about one attacked list: what was shown, or what an attack named."""

    number: int
    query: str = ""
    eps: str = ""
    who: str
    documents: str
    exact: str = ""
    baseline: bool = False


_QUERY_COLUMNS: list[Column[_QueryLine]] = [
    Column("query", lambda line: line.query, "fold"),
    Column("claimed", lambda line: line.eps),
    Column("who", lambda line: line.who, "fold"),
    Column("documents", lambda line: line.documents, "fold"),
    Column("exact", lambda line: line.exact, "name"),
]


def query_tables(rows: Sequence[QueryListRow]) -> Iterator[Table]:
    """The attacked lists of the named queries, one table per world: what was clicked, what was named."""
    attacked = [row for row in rows if row.method is not None]
    for name, mine in group_by_world(attacked).items():
        yield make_table(
            f"named queries, {name}",
            _QUERY_COLUMNS,
            _query_lines(mine),
            caption="documents by their place in the query's data, from 0, in the order shown; * clicked",
            dim=lambda line: line.baseline,
            section=lambda line: line.number,
        )


def _query_lines(rows: Sequence[QueryListRow]) -> Iterator[_QueryLine]:
    lists: dict[tuple[object, ...], list[QueryListRow]] = {}
    for row in rows:
        lists.setdefault((row.query, row.eps_claimed, row.setting.defense, row.list), []).append(row)
    for number, attacks in enumerate(lists.values()):
        first = attacks[0]
        yield _QueryLine(
            number=number,
            query=first.query,
            eps=epsilon(first.eps_claimed),
            who="shown",
            documents=_documents(first, [True] * len(first.shown)),
        )
        for row in attacks:
            yield _QueryLine(
                number=number,
                who=row.method or "",
                documents=_documents(row, row.guessed),
                exact="yes" if row.exact else "no",
                baseline=row.baseline,
            )


def _documents(row: QueryListRow, which: Sequence[bool]) -> str:
    named = zip(row.shown, row.clicked, which, strict=True)
    return " ".join(f"{document}{'*' if clicked else ''}" for document, clicked, here in named if here) or "-"


def not_attacked_lines(rows: Sequence[QueryListRow]) -> Iterator[str]:
    """One line per named query without an attacked list anywhere."""
    attacked = {row.query for row in rows if row.method is not None}
    for name in dict.fromkeys(row.query for row in rows):
        if name not in attacked:
            yield f"query {name}: not attacked"
