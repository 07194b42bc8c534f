"""A comparison on a terminal: what leaks, what it costs, which claims hold, and the short answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.core.results import Estimate
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.decide import LEAST, ComparedWorld, Decision
from foltr_audit.experiments.runs.systems import without_shared_parameters
from foltr_audit.experiments.table import best_attack
from foltr_audit.report.decision import MARKS, MOST_SENTENCES, VERDICTS, decision_sentences
from foltr_audit.report.documents import Row
from foltr_audit.report.settings import dataset_line, run_bound_text, run_caption
from foltr_audit.report.table import (
    EMPTY,
    Cell,
    Column,
    Table,
    bound_text,
    claim_text,
    counted,
    delta_text,
    estimate_cell,
    make_table,
    name_column,
    short_column,
    short_method,
    verdict_cell,
)
from foltr_audit.report.terminal import MOST_ROWS, BriefAnswer, first_rows, print_table
from foltr_audit.utils.formatting import short

if TYPE_CHECKING:
    from rich.console import Console

    from foltr_audit.report.compare import CompareReport

CHOSEN = "chosen on the lists that it is shown on, so a little high"
"""A note on the values of the best attack."""

PROMISE = (
    "the largest AUC that any attack can have, by the proof of one interaction, where all documents are "
    "equally likely clicked"
)
"""What a proof says of the attacked messages."""

FIXED = "over queries, with the trained models held fixed (repetitions are averaged first)"
"""What the intervals and p-values of offline nDCG@10 are over."""

NO_SUM = "no sum"
"""In the place of an AUC where attacks had nothing to read."""

_NO_CELL = "No cell of this comparison is done, so nothing can be said yet."
_ONLINE = "online\nnDCG@10"


# --- columns ---------------------------------------------------------------------------------------


class WorldColumns:
    """The columns of the results of one world, which depend on all of them."""

    def __init__(self, world: ComparedWorld, decision: Decision) -> None:
        self.world, self.decision = world, decision
        self.learners = without_shared_parameters(
            list(dict.fromkeys(pool.record.learner for pool in world.pools))
        )

    def called(self, row: Row) -> str:
        """What a row is called in its world: with its learner, where there are several, and missing runs."""
        learner = f"{self.learners[row['learner']]}, " if len(self.learners) > 1 else ""
        runs, asked = row["runs"], row["runs_asked"]
        return f"{learner}{row['name']}" + (f" ({runs} of {asked} runs)" if runs < asked else "")

    @property
    def name(self) -> Column:
        return name_column("defense", self.called)

    @property
    def auc(self) -> Column:
        """The AUC of the best attack: bad where it is shown to beat every guess without a message."""

        def cell(row: Row) -> Cell:
            nothing = row["runs_without_sum"] == row["runs"]
            shown = Cell(NO_SUM) if nothing else estimate_cell(row.estimate("auc"))
            leak = self.world.leaks.get((row["learner"], row["name"]))
            if leak is None or leak.kind == "unknown":
                return shown
            return shown._replace(mark="good" if leak.held else "bad" if leak.bound is None else "")

        return Column("AUC", cell)

    def p(self, row: Row) -> float | None:
        """The p-value of nDCG@10 against no defense, corrected for the tests of this world."""
        return self.world.corrected.get((row["learner"], row["name"]))

    def difference(self, *, interval: bool = True) -> Column:
        def cell(row: Row) -> Cell:
            found = difference_cell(row.estimate("ndcg@10_difference"), self.p(row))
            return found if interval else found._replace(below="")

        return Column("difference", cell)

    @property
    def verdict(self) -> Column:
        """The verdict on each defense, over all worlds."""

        def cell(row: Row) -> Cell:
            judgement = self.decision.judgement(row)
            return Cell(judgement, mark=MARKS.get(judgement, ""))

        return Column("verdict", cell, "name")

    def verdicts(self, rows: Sequence[Row]) -> str:
        """What the verdicts in some rows mean, with their thresholds."""
        shown = {self.decision.judgement(row) for row in rows}
        words = [f"{verdict}: {text}" for verdict, text in VERDICTS.items() if verdict in shown]
        return "; ".join(["verdict: the worst over all settings", *words])


def _without(row: Row) -> Cell:
    if row["baseline"] is None:
        return EMPTY
    return Cell(short(row["baseline_auc"]), short_method(row["baseline"]))


WITHOUT = Column("without", _without)
"""The best guess that reads no message."""

BYTES = Column(
    "bytes",
    lambda row: EMPTY if row["bytes_per_client"] is None else f"{row['bytes_per_client']:,.0f}",
)
"""What a client sends in a round."""


def claimed_cell(row: Row) -> Cell:
    """A claimed epsilon, and below it its delta; dim where nothing is claimed."""
    text = claim_text(row["eps_claimed"])
    return EMPTY if math.isinf(row["eps_claimed"]) else Cell(text, delta_text(row.get("delta", 0.0)))


def difference_cell(difference: Estimate, p: float | None) -> Cell:
    """A difference to no defense with its interval; bad where it is significant and below."""
    if not difference.known:
        return EMPTY
    below = "" if difference.ci95 is None else f"[{', '.join(map(_signed, difference.ci95))}]"
    bad = p is not None and p < LEAST and difference.value < 0
    return Cell(_signed(difference.value), below, "bad" if bad else "")


def _signed(value: float) -> str:
    sign = "" if short(abs(value)) == ".000" else "−" if value < 0 else "+"  # noqa: RUF001
    return sign + short(abs(value))


def p_text(p: float | None) -> str:
    """A p-value; `-` where there is none.

    >>> p_text(0.0321), p_text(1e-9), p_text(None)
    ('.032', '< .001', '-')
    """
    if p is None or math.isnan(p):
        return "-"
    return "< .001" if p < 0.001 else short(p).replace("1.000", "1")


def _of_group(header: str, name: str, value: str) -> Column:
    def cell(row: Row) -> Cell:
        return EMPTY if row[name] is None else Cell(row[name], short(row[value]))

    return Column(header, cell, "words")


# --- tables ----------------------------------------------------------------------------------------


def _where(world: ComparedWorld, report: CompareReport) -> str:
    data, scenario, click_model = world.key
    at = f" on {data}" if len(report.worlds) > 1 else ""
    return f"{click_model} clicks, scenario {scenario}{at}"


def _of_no_sum(rows: Sequence[Row], columns: WorldColumns) -> str:
    """What `no sum` means; empty where no row lacks one."""
    several = [row for row in rows if row["runs_without_sum"]]
    parts = [f"{NO_SUM}: no round opened one, so that attacks had nothing to read"]
    parts += [
        f"under {columns.called(row)} that is {row['runs_without_sum']} of {row['runs']} runs"
        for row in several
        if row["runs_without_sum"] < row["runs"]
    ]
    return "; ".join(parts) if several else ""


def leaks_table(report: CompareReport, world: ComparedWorld, columns: WorldColumns) -> Table:
    """What the best attack finds."""
    rows = report.rows_of(world)
    about = _of_no_sum(rows, columns)
    metrics = {"TPR@1%": "tpr_at_1", "accuracy": "accuracy", "precision": "precision", "recall": "recall"}
    return make_table(
        f"{_where(world, report)}: what an attack finds",
        [
            columns.name,
            Column("attack", "attack", "name", narrow=short_method),
            columns.auc,
            WITHOUT,
            short_column("promised", "ceiling_auc"),
            *(Column(header, name) for header, name in {**metrics, "F1": "f1"}.items()),
            columns.verdict,
        ],
        rows,
        caption=f"attack: the one with the highest AUC (.5: a coin flip, 1: perfect) of those that ran, "
        f"{CHOSEN}; without: highest AUC of a guess that reads no message; promised: {PROMISE}; "
        f"in brackets: 95 % intervals{f'; {about}' if about else ''}; {columns.verdicts(rows)}",
        spare=("accuracy", "F1", "TPR@1%", "promised", "attack", "without"),
    )


def costs_table(report: CompareReport, world: ComparedWorld, columns: WorldColumns) -> Table:
    """What a defense costs."""
    rows = report.rows_of(world)
    first = rows[0]
    over = ", interval over runs" if any(row.estimate("online_mean").ci95 for row in rows) else ""
    tests = counted(max(len(world.corrected), 1), "comparison")
    groups = [
        _of_group("served worst", "worst_served_group", "worst_served_online"),
        _of_group("hit hardest", "worst_attacked_group", "worst_attacked_auc"),
    ]
    return make_table(
        f"{_where(world, report)}: what it costs",
        [
            columns.name,
            Column("nDCG@10", "ndcg@10"),
            columns.difference(),
            Column("p", lambda row: p_text(columns.p(row))),
            Column(_ONLINE, "online_mean"),
            BYTES,
            *(groups if any(row["groups"] for row in rows) else ()),
        ],
        rows,
        caption=f"{counted(first['runs'], 'run')}; nDCG@10 on "
        f"{' or '.join(dict.fromkeys(row['evaluated_on'] for row in rows))}, and online (mean of "
        f"rounds{over}); difference: to no defense, with p of a paired t-test times {tests}; in brackets: "
        f"95 % intervals; interval of nDCG@10 and p: {FIXED}; ideal ranking "
        f"{short(first['ndcg@10_ceiling'])}, untrained {short(first['ndcg@10_untrained'])}; bytes: of a "
        "client in a round",
        spare=("bytes", "hit hardest", "served worst", _ONLINE, "p"),
    )


def claims_table(claims: Sequence[Row]) -> Table:
    """Every claim that was checked, from both sides; a terminal names each defense once."""
    learners = len({row["learner"] for row in claims}) > 1
    scenarios = len({row["scenario"] for row in claims}) > 1
    units = list(dict.fromkeys(row["unit"] for row in claims))
    names = [
        ", ".join([row["learner"]] * learners + [row["name"]] + [row["scenario"]] * scenarios)
        for row in claims
    ]
    name_of = {id(row): name for row, name in zip(claims, names, strict=True)}
    first = {
        id(row) for row, name, before in zip(claims, names, ["", *names], strict=False) if name != before
    }

    def number(header: str, name: str) -> Column:
        return Column(header, lambda row: EMPTY if row[name] is None else bound_text(row[name]))

    def once(row: Row) -> str:
        return name_of[id(row)] if id(row) in first else ""

    return make_table(
        f"epsilon for one {' or '.join(units)} in one message: claimed, and what holds",
        [
            replace(name_column("defense", lambda row: name_of[id(row)]), only="page"),
            replace(name_column("defense", once), only="terminal"),
            Column("server sees", "sees", "name"),
            Column("differs", "unit", "name", only=None if len(units) > 1 else "page"),
            Column("pair", "canary", "words", only="page"),
            Column("claimed", claimed_cell),
            number("proven", "eps_upper"),
            Column("run", run_bound_text),
            number("exact\nloss", "eps_exact"),
            number("lower\nbound", "eps_lower"),
            number("at most", "eps_ceiling"),
            Column(
                "verdict",
                lambda row: verdict_cell(row["eps_claimed"], row["verdict"]),
                "name",
                narrow=lambda text: text.replace("by ", "by\n"),
            ),
            Column("why", "why", "words", only="page"),
        ],
        claims,
        caption="claimed: - where nothing is; proven: an upper bound by accounting, ∞ where nothing is; "
        f"{run_caption(claims)}; exact loss: of the pair that was played, where it has a formula; lower "
        "bound: from trials with that pair, and at most: the most that so many can show, each at "
        f"{100 * claims[0]['confidence']:g} % confidence, not corrected for several claims; a claim below "
        "the exact loss or the lower bound is false",
        spare=("at most", "run", "exact\nloss", "proven", "claimed"),
    )


# --- the terminal ----------------------------------------------------------------------------------


def progress_sentences(report: CompareReport) -> list[str]:
    """What is not done and what could not be done."""
    states = {
        f"{report.done} of {report.asked} cells are done: what is said is of these and will change. "
        "compare --resume runs the others.": report.done < report.asked,
        f"Cells that could not be run and are left out (see below): {len(report.failed)}.": report.failed,
        f"Combinations that are impossible (see below): {len(report.left_out)}.": report.left_out,
    }
    return [sentence for sentence, holds in states.items() if holds]


def about_line(report: CompareReport) -> str:
    """The data, learners and seed; empty where no cell is done."""
    if report.dataset is None:
        return ""
    spec = report.config.get("spec")
    seeded = {"seed": Spec().seed, **(spec if isinstance(spec, dict) else {})}
    return dataset_line(report.dataset, seeded, [(row["learner"], row["pdgd"]) for row in report.results])


def server_lines(report: CompareReport) -> list[str]:
    """The server that cheats in all runs, if one does."""
    return [f"server {report.server}, also without a defense"] if report.server else []


def _lost_lines(report: CompareReport) -> list[str]:
    return [f"failed: {row['defense']}, {row['click_model']} clicks: {row['why']}" for row in report.failed]


def print_compare(report: CompareReport, console: Console) -> None:
    """The whole report."""

    def lines(texts: Sequence[str], style: str | None = None) -> None:
        for text in texts:
            console.print(escape(text), highlight=False, style=style)

    decision = report.decision
    said = [_NO_CELL] if decision is None else decision_sentences(decision)
    lines(said[:MOST_SENTENCES])
    if about := about_line(report):
        console.print(about)
    lines(server_lines(report))
    if decision is not None:
        for world in report.worlds:
            columns = WorldColumns(world, decision)
            for table in (leaks_table(report, world, columns), costs_table(report, world, columns)):
                console.print()
                print_table(table, console)
            beaten = [row for row in report.rows_of(world) if row["dominated_by"]]
            lines([f"  {row['name']}: dominated by {' and '.join(row['dominated_by'])}" for row in beaten])
    if report.claims:
        console.print()
        print_table(claims_table(report.claims), console)
    console.print()
    lines([*said[MOST_SENTENCES:], *progress_sentences(report)])
    lines([f"left out: {row['learner']}, {row['defense']}: {row['why']}" for row in report.left_out])
    lines(_lost_lines(report), "red")


def print_brief_compare(report: CompareReport, console: Console, *, quiet: bool = False) -> None:
    """Print the short answer; where no cell is done the whole report, which says why."""
    answer = brief_compare(report)
    if answer is None:
        print_compare(report, console)
    else:
        answer.print(console, quiet=quiet)


def brief_compare(report: CompareReport) -> BriefAnswer | None:
    """The short answer; None where no cell is done."""
    decision = report.decision
    if decision is None:
        return None
    world = max(report.worlds, key=lambda world: _auc_of(decision, world))
    every = report.rows_of(world)
    shown = _shown(every, decision)
    rows, more = first_rows(shown, "rows")
    rest, columns = len(every) - len(shown), WorldColumns(world, decision)
    about, said = _of_no_sum(every, columns), decision_sentences(decision)
    return BriefAnswer(
        conclusion=tuple(said[:MOST_SENTENCES]),
        about=about_line(report),
        table=_brief_table(report, world, rows, columns),
        notes=(
            *said[MOST_SENTENCES:],
            *progress_sentences(report),
            *server_lines(report),
            *([about] if about else []),
            *_lost_lines(report),
        ),
        left_out=(
            *(_where(other, report) for other in report.worlds if other is not world),
            *([f"{rest} rows of larger epsilons"] if rest else []),
            *more,
            "every attack metric, p-values and the checks of claims",
        ),
    )


def _auc_of(decision: Decision, world: ComparedWorld) -> float:
    """How well the best attack does in a world: on the recommended defense, or on the best one."""
    chosen = decision.best.pools[0].key if decision.best else None
    aucs = [best_attack(pool).auc for pool in world.pools if chosen in (None, pool.key)]
    return min((auc.value for auc in aucs if auc.known), default=0.0)


def _shown(rows: Sequence[Row], decision: Decision) -> list[Row]:
    """All rows, or if there are too many those of the smallest epsilon and the recommended one."""
    if len(rows) <= MOST_ROWS:
        return list(rows)
    least = min((row["eps"] for row in rows if row["eps"] is not None), default=None)
    return [row for row in rows if row["eps"] in (None, least) or decision.judgement(row) == "recommended"]


def _brief_table(
    report: CompareReport, world: ComparedWorld, rows: Sequence[Row], columns: WorldColumns
) -> Table:
    return make_table(
        _where(world, report),
        [
            columns.name,
            Column("claimed", claimed_cell),
            columns.auc,
            short_column("without", "baseline_auc"),
            short_column("nDCG@10", "ndcg@10"),
            columns.difference(interval=False),
            BYTES,
            columns.verdict,
        ],
        rows,
        caption="claimed: epsilon, - without a claim; AUC: of the best attack (.5: a coin flip, 1: perfect), "
        "with its 95 % interval; without: highest AUC of a guess that reads no message; difference: of "
        f"nDCG@10 to no defense; bytes: that a client sends in a round; {columns.verdicts(rows)}",
        spare=("bytes", "claimed", "difference", "without"),
    )
