"""The report of `study unlearning`: its rows, tables and conclusions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.settings.unlearning import UnlearningSpec
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.run import Run
from foltr_audit.experiments.unlearning.experiment import UnlearningFinding, UnlearningResult
from foltr_audit.judge.scoring import click_records
from foltr_audit.report.documents import Row, Section, nested
from foltr_audit.report.plan_report import PlanReport
from foltr_audit.report.settings import (
    SETTING,
    Setting,
    by_setting,
    each_run,
    no_relevant,
    setting_label,
    setting_title,
    utility_table,
    warning_row,
)
from foltr_audit.report.table import Cell, Column, Mark, Table, counted, make_table, percent
from foltr_audit.report.terminal import print_table
from foltr_audit.rng import Streams

if TYPE_CHECKING:
    from rich.console import Console

UNLEARNING = Section(
    SETTING,
    "run:int method clients:[int] members:int trainings:int rounds:int ndcg@10:est distance:est relative:est "
    "floor:num client_rounds:num interactions:num stored_bytes:num eps_lower:num at_most:num delta:num "
    "confidence:num evaluated:int score",
)
"""What one method reaches in a run, and what it takes: see `UnlearningFinding` and `LowerBound`."""

HISTORY = Section(SETTING, "run:int stored method baseline:bool lists:int exact:est auc:est")
"""What an attack, or a baseline that reads no message, finds in the stored history of a training."""

_STORED = {"individual": "every message", "aggregate": "the sum of each round"}


@dataclass(frozen=True, kw_only=True)
class UnlearningReport(PlanReport):
    """The result of `study unlearning`.

    Attributes:
        history: one row per setting, run, kind of history, and attack on it; left out where none can be
            attacked.
        results: one row per setting, run and method.
    """

    SCHEMA = "foltr-audit/unlearn/1"
    FIELDS = Section(
        PlanReport.SHARED, nested("history", HISTORY, optional=True), nested("results", UNLEARNING)
    )

    history: tuple[Row, ...] = ()
    results: tuple[Row, ...] = ()

    @classmethod
    def of(cls, plan: Plan, runs: Sequence[Run]) -> UnlearningReport:
        findings = [
            (setting, run.spec, finding)
            for setting, run in each_run(runs)
            for finding in (run.unlearning or UnlearningResult()).findings
        ]
        shared = cls.shared(plan, runs)
        shared["warnings"] += tuple(
            warning_row(finding.contradiction, setting.defense)
            for setting, _, finding in findings
            if finding.contradiction is not None
        )
        return cls(**shared, history=tuple(_history(runs)), results=tuple(_row(*each) for each in findings))

    def show(self, console: Console) -> None:
        """Print the data, a table for each setting, utility, and what it all means."""
        console.print(self.about)
        histories = {str(rows[0].setting): rows for rows in by_setting(self.history)}
        for rows in by_setting(self.results):
            print_table(_table(rows, self.results), console)
            console.print()
            if history := histories.get(str(rows[0].setting)):
                print_table(_history_table(history), console)
                console.print()
        print_table(utility_table(self.utility, no_relevant(self.config)), console)
        console.print()
        for line in (*_conclusions(self.results), *_read(self.history)):
            console.print(escape(line), style="bold", highlight=False)


def _row(setting: Setting, spec: Spec, finding: UnlearningFinding) -> Row:
    lower = finding.game.lower
    return UNLEARNING.of(
        finding,
        setting,
        run=spec.repetition,
        clients=(spec.unlearning or UnlearningSpec()).clients,
        members=spec.population.clients,
        rounds=spec.train.rounds,
        eps_lower=lower.epsilon,
        at_most=lower.ceiling,
        delta=lower.delta,
        confidence=lower.confidence,
        evaluated=lower.trials,
        score=finding.game.score,
        **{"ndcg@10": finding.ndcg},
    )


def _history(runs: Sequence[Run]) -> Iterator[Row]:
    for setting, run in each_run(runs):
        leaks = {} if run.unlearning is None else run.unlearning.leaks
        own = {"run": run.spec.repetition}
        for stored, evidence in leaks.items():
            for record in click_records(evidence, Streams(run.spec.seed)):
                metrics = {name: record.metric(name) for name in ("exact", "auc")}
                lists = record.counts["lists"]
                yield HISTORY.of(record, setting, **own, stored=stored, lists=lists, **metrics)


# --- tables ----------------------------------------------------------------------------------------


def _table(rows: Sequence[Row], every: Sequence[Row]) -> Table:
    """A line for each method and run of a setting."""
    first, leaving = rows[0], rows[0]["clients"]
    single, rounds = len(leaving) == 1, counted(first["rounds"], "round")
    who = f"client{'s' * (not single)} {', '.join(map(str, leaving))} of {first['members']}"
    return make_table(
        f"{setting_title(first.setting, [row.setting for row in every])}\n"
        f"{who} leave{'s' * single} after {rounds}",
        [
            *([Column("run", "run")] if len({row["run"] for row in rows}) > 1 else []),
            Column("method", "method", "name"),
            Column("nDCG@10", "ndcg@10"),
            Column("distance", "relative"),
            Column("eps at least", lambda row: Cell(f"{row['eps_lower']:.2f}", mark=_mark(row))),
            Column("client rounds", lambda row: f"{row['client_rounds']:,.0f}"),
            Column("interactions", lambda row: f"{row['interactions']:,.0f}"),
            Column("stored", lambda row: _bytes(row["stored_bytes"])),
        ],
        rows,
        caption=f"Means over {first['trainings']} trainings; in brackets: 95 % intervals. Distance: to the "
        "retrained model, as a share of that of the trained one; between two retrainings it is "
        f"{first['floor']:.2f}. Eps at least: lower bound at delta {first['delta']:g} with confidence "
        f"{first['confidence']:g}, from {first['evaluated']} models of federations that they left and as "
        f"many of others; at most {first['at_most']:.2f} can show. Client rounds: how often a client "
        "computes a message. Stored: what the server must keep of the training.",
        section=lambda row: row["run"],
    )


def _mark(row: Row) -> Mark:
    return "bad" if row["eps_lower"] > 0 else ""


def _bytes(size: float) -> str:
    if size < 1:
        return "-"
    return f"{size / 1000:,.1f} kB" if size < 1e6 else f"{size / 1e6:,.1f} MB"


def _history_table(rows: Sequence[Row]) -> Table:
    """What the stored history of a setting reveals; baselines, which are the same for both kinds, once."""
    first = rows[0]
    return make_table(
        "clicks that a reader of the stored history finds",
        [
            Column("stored", lambda row: "-" if row["baseline"] else _STORED[row["stored"]], "words"),
            Column("method", "method", "name"),
            Column("exact lists", "exact"),
            Column("AUC", "auc"),
        ],
        [
            row
            for row in rows
            if row["run"] == first["run"] and (not row["baseline"] or row["stored"] == first["stored"])
        ],
        caption=f"{first['lists']} lists of one training. Exact lists: share of which every document is "
        "right. In brackets: 95 % intervals.",
        dim=lambda row: row["baseline"],
    )


# --- conclusions -----------------------------------------------------------------------------------


def _conclusions(rows: Sequence[Row]) -> Iterator[str]:
    """What the games show: a sentence for each setting and run."""
    settings = by_setting(rows)
    for of_setting in settings:
        label = setting_label(of_setting[0].setting, [row.setting for row in rows])
        where = f"{label}: " if len(settings) > 1 else ""
        for run in dict.fromkeys(row["run"] for row in of_setting):
            apart = [
                f"{_after(row['method'])} (eps >= {row['eps_lower']:.2f})"
                for row in of_setting
                if row["run"] == run and row["eps_lower"] > 0
            ]
            if apart:
                yield f"{where}after {', '.join(apart)}, the model still reveals that they took part."
            else:
                yield f"{where}no game can tell whether they took part."


def _after(method: str) -> str:
    return "no unlearning" if method == "none" else method


def _read(rows: Sequence[Row]) -> Iterator[str]:
    """How much the attacks on the first history find."""
    strongest = {row["stored"]: row for row in rows[::-1] if not row["baseline"]}
    if len(strongest) == len(_STORED):
        every, total = (percent(strongest[stored].number("exact")) for stored in _STORED)
        yield (
            f"Whoever reads the stored messages finds {every} of the lists exactly, and {total} from the "
            "sums alone."
        )
