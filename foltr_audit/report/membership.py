"""The reports of `study membership` and `study unlearning`: what a trained model keeps of its clients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from foltr_audit.core.settings.membership import MembershipSpec
from foltr_audit.core.settings.unlearning import UnlearningSpec
from foltr_audit.experiments.membership import CHANCE, MembershipFinding, lies_above
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.run import Run
from foltr_audit.experiments.unlearning import UnlearningFinding, UnlearningResult
from foltr_audit.judge.scoring import click_records
from foltr_audit.report.documents import Row, Section, nested
from foltr_audit.report.plan_report import PlanReport
from foltr_audit.report.settings import (
    GUESS_COLUMNS,
    GUESS_NOTES,
    GUESSES,
    SETTING,
    Setting,
    by_setting,
    each_run,
    guess_columns,
    setting_label,
    utility_table,
    warning_row,
)
from foltr_audit.report.table import (
    Cell,
    Column,
    Table,
    capitalised,
    columns_of,
    counted,
    make_table,
    percent,
    value_cell,
)
from foltr_audit.report.terminal import print_lines, print_table
from foltr_audit.rng import Streams
from foltr_audit.utils.formatting import short

if TYPE_CHECKING:
    from rich.console import Console


class _ClientReport(PlanReport):
    """A report that ends with utility and conclusions."""

    def print_end(self, console: Console, conclusions: Iterable[str]) -> None:
        print_table(utility_table(self.utility, self.config), console)
        console.print()
        print_lines(conclusions, console, "bold")


def _title(rows: Sequence[Row], every: Sequence[Row]) -> str:
    """What the setting of rows is called among all, with its whole chain."""
    setting, settings = rows[0].setting, [row.setting for row in every]
    label = setting_label(setting, settings) if len(by_setting(every)) > 1 else setting.defense
    return label if setting.defense in label else f"{label}\n{setting.defense}"


def _run_column(rows: Sequence[Row]) -> list[Column]:
    """The number of the run, where rows are of several."""
    return columns_of("run") if len({row["run"] for row in rows}) > 1 else []


def _conclusions(rows: Sequence[Row], part: str, conclude: Callable[[list[Row]], str]) -> Iterator[str]:
    """A sentence on each part of each setting."""
    settings = by_setting(rows)
    for of_setting in settings:
        label = setting_label(of_setting[0].setting, [each[0].setting for each in settings])
        for value in dict.fromkeys(row[part] for row in of_setting):
            sentence = conclude([row for row in of_setting if row[part] == value])
            yield f"{label}: {sentence}" if len(settings) > 1 else capitalised(sentence)


def _contradictions(
    judged: Sequence[tuple[Setting, Run, MembershipFinding | UnlearningFinding]],
) -> Iterator[Row]:
    for setting, _, finding in judged:
        for warning in finding.contradictions():
            yield warning_row(warning, setting.defense)


# --- membership ------------------------------------------------------------------------------------

MEMBERSHIP = Section(
    SETTING,
    "run:int view of method observed members:int candidates:int federations:int rounds:int",
    *(f"{name}:est {name}_chance:num {name}_ceiling:num|null" for name in CHANCE),
    "eps_upper:num delta:num upper_how",
)
"""An attack on one view of a run; each metric beside chance and beside the most that the proof leaves to any
attack; and what is proven of one client over all rounds."""

_HEADERS = {"auc": "AUC", "tpr_at_1": "TPR at 1 %", "tpr_at_01": "TPR at .1 %"}
_KNOWN = {
    "client": "the queries of a candidate are known",
    "log": "the queries of a candidate, and the draws behind its lists and clicks, are known",
}


@dataclass(frozen=True, kw_only=True)
class MembershipReport(_ClientReport):
    """The result of `membership`.

    Attributes:
        results: one row per setting, run, view and method.
    """

    SCHEMA = "foltr-audit/membership/1"
    NAMED_BY = ("view", "method")
    FIELDS = Section(PlanReport.SHARED, nested("results", MEMBERSHIP))

    results: tuple[Row, ...]

    @classmethod
    def of(cls, plan: Plan, runs: Sequence[Run]) -> MembershipReport:
        judged = [(setting, run, finding) for setting, run in each_run(runs) for finding in run.membership]
        return cls(
            **cls.shared(plan, runs, _contradictions(judged)),
            results=tuple(_membership_row(*each) for each in judged),
        )

    def show(self, console: Console) -> None:
        """Print the data, a table for each setting and what is proven, utility, and what it all means."""
        console.print(self.about)
        for rows in by_setting(self.results):
            print_table(_membership_table(rows, self.results), console)
            print_lines(_proofs(rows), console)
            console.print()
        self.print_end(console, _conclusions(self.results, "view", _told))


def _membership_row(setting: Setting, run: Run, finding: MembershipFinding) -> Row:
    spec, bound, limits = run.spec, finding.ceiling.bound, finding.ceiling.metrics
    metrics: dict[str, Any] = {**finding.metrics}
    for name, chance in CHANCE.items():
        metrics |= {f"{name}_chance": chance, f"{name}_ceiling": limits.get(name)}
    return MEMBERSHIP.of(
        finding,
        setting,
        run=spec.repetition,
        of=(spec.membership or MembershipSpec()).of,
        rounds=spec.train.rounds,
        **metrics,
        eps_upper=bound.epsilon,
        delta=bound.delta,
        upper_how=bound.how,
    )


def _membership_table(rows: Sequence[Row], every: Sequence[Row]) -> Table:
    first = rows[0]
    chances = [short(chance) for chance in CHANCE.values()]
    return make_table(
        f"{_title(rows, every)}\n"
        f"members among {first['candidates']} candidates, {first['members']} of them in a federation",
        [
            *columns_of("sees=observed:words"),
            *_run_column(rows),
            *columns_of("method:name"),
            *(column for name in CHANCE for column in (Column(_HEADERS[name], name), _ceiling(name))),
        ],
        rows,
        caption=f"{first['federations']} federations of {counted(first['rounds'], 'round')}, each attacked "
        f"with the others as shadows; {_KNOWN[first['of']]}. TPR: share of members named at 1 % and at .1 % "
        f"false alarms. In brackets: 95 % intervals. Chance: {', '.join(chances[:2])} and {chances[2]}. "
        "Ceiling: the most that the proof leaves to any attack; a dash where nothing is proven",
        section=lambda row: row["view"],
    )


def _ceiling(name: str) -> Column:
    def cell(row: Row) -> Cell:
        limit = row[f"{name}_ceiling"]
        return value_cell(limit)._replace(mark="bad" if lies_above(row[name], limit) else "")

    return Column("ceil-\ning", cell)


def _proofs(rows: Sequence[Row]) -> Iterator[str]:
    """What is proven for each view, once."""
    for row in {row["view"]: row for row in rows}.values():
        delta = f", delta {row['delta']:g}" if row["delta"] else ""
        proven = f"epsilon {row['eps_upper']:.3g}{delta}"
        bound = "nothing is proven" if math.isinf(row["eps_upper"]) else proven
        rounds = counted(row["rounds"], "round")
        yield f"{capitalised(row['observed'])}: {bound} of one client over {rounds}: {row['upper_how']}"


def _told(rows: Sequence[Row]) -> str:
    """What the attacks on one view show together."""
    best = max(rows, key=lambda row: row.number("auc"))
    ends, sees = best["auc"].ci95, best["observed"]
    if ends is None:
        return f"{sees}: too few federations to tell."
    if ends[0] <= CHANCE["auc"]:
        return f"{sees}: no attack tells members from others better than chance."
    return (
        f"{sees}: {best['method']} tells members from others, AUC {short(best.number('auc'))}; it names "
        f"{100 * best.number('tpr_at_1'):.3g} % of them with 1 % false alarms."
    )


# --- unlearning ------------------------------------------------------------------------------------

UNLEARNING = Section(
    SETTING,
    "run:int method clients:[int] members:int trainings:int rounds:int ndcg@10:est distance:est relative:est "
    "floor:num client_rounds:num interactions:num stored_bytes:num eps_lower:num at_most:num delta:num "
    "confidence:num evaluated:int score",
)
"""What one method reaches in a run, and what it takes: see `UnlearningFinding` and `LowerBound`."""

HISTORY = Section(SETTING, "run:int stored method baseline:bool lists:int exact:est auc:est", GUESSES)
"""What an attack, or a baseline that reads no message, finds in the stored history of a training."""

_STORED = {"individual": "every message", "aggregate": "the sum of each round"}


@dataclass(frozen=True, kw_only=True)
class UnlearningReport(_ClientReport):
    """The result of `study unlearning`.

    Attributes:
        history: one row per setting, run, kind of history, and attack on it; left out where none can be
            attacked.
        results: one row per setting, run and method.
    """

    SCHEMA = "foltr-audit/unlearn/1"
    NAMED_BY = ("method",)
    FIELDS = Section(
        PlanReport.SHARED, nested("history", HISTORY, optional=True), nested("results", UNLEARNING)
    )

    history: tuple[Row, ...] = ()
    results: tuple[Row, ...] = ()

    @classmethod
    def of(cls, plan: Plan, runs: Sequence[Run]) -> UnlearningReport:
        results = [(setting, run, run.unlearning or UnlearningResult()) for setting, run in each_run(runs)]
        games = [(setting, run, finding) for setting, run, result in results for finding in result.findings]
        return cls(
            **cls.shared(plan, runs, _contradictions(games)),
            history=tuple(row for each in results for row in _history(*each)),
            results=tuple(_unlearning_row(*each) for each in games),
        )

    def show(self, console: Console) -> None:
        """Print the data, a table for each setting, utility, and what it all means."""
        console.print(self.about)
        for rows in by_setting(self.results):
            print_table(_unlearning_table(rows, self.results), console)
            console.print()
            if history := [row for row in self.history if row.setting == rows[0].setting]:
                print_table(_history_table(history), console)
                console.print()
        conclusions = _conclusions(self.results, "run", _revealed)
        self.print_end(console, (*conclusions, *_read(self.history)))


def _unlearning_row(setting: Setting, run: Run, finding: UnlearningFinding) -> Row:
    spec, lower = run.spec, finding.game.lower
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


def _history(setting: Setting, run: Run, result: UnlearningResult) -> Iterator[Row]:
    for stored, evidence in result.leaks.items():
        for record in click_records(evidence, Streams(run.spec.seed)):
            metrics = {name: record.metric(name) for name in ("exact", "auc")}
            more = {"run": run.spec.repetition, "lists": record.counts["lists"], **metrics}
            more |= guess_columns(record)
            yield HISTORY.of(record, setting, stored=stored, **more)


def _unlearning_table(rows: Sequence[Row], every: Sequence[Row]) -> Table:
    first, leaving = rows[0], rows[0]["clients"]
    single = len(leaving) == 1
    who = f"client{'s' * (not single)} {', '.join(map(str, leaving))} of {first['members']}"

    def bound(row: Row) -> Cell:
        return Cell(f"{row['eps_lower']:.2f}", mark="bad" if row["eps_lower"] > 0 else "")

    return make_table(
        f"{_title(rows, every)}\n{who} leave{'s' * single} after {counted(first['rounds'], 'round')}",
        [
            *_run_column(rows),
            *columns_of("method:name; nDCG@10=ndcg@10; distance=relative"),
            Column("eps at least", bound),
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


def _bytes(size: float) -> str:
    if size < 1:
        return "-"
    return f"{size / 1000:,.1f} kB" if size < 1e6 else f"{size / 1e6:,.1f} MB"


def _history_table(rows: Sequence[Row]) -> Table:
    """What the stored history of a first run reveals; baselines, which are the same for both kinds, once."""
    first = rows[0]
    return make_table(
        "clicks that a reader of the stored history finds",
        [
            Column("stored", lambda row: "-" if row["baseline"] else _STORED[row["stored"]], "words"),
            *columns_of("method:name; exact lists=exact; AUC=auc"),
            *GUESS_COLUMNS,
        ],
        [
            row
            for row in rows
            if row["run"] == first["run"] and (not row["baseline"] or row["stored"] == first["stored"])
        ],
        caption=f"{first['lists']} lists of one training. Exact lists: share of which every document is "
        "right. In brackets: 95 % intervals.",
        notes=GUESS_NOTES,
        dim=lambda row: row["baseline"],
    )


def _revealed(rows: Sequence[Row]) -> str:
    """What the games of one run show."""
    apart = [
        f"{'no unlearning' if row['method'] == 'none' else row['method']} (eps >= {row['eps_lower']:.2f})"
        for row in rows
        if row["eps_lower"] > 0
    ]
    if not apart:
        return "no game can tell whether they took part."
    return f"after {', '.join(apart)}, the model still reveals that they took part."


def _read(rows: Sequence[Row]) -> Iterator[str]:
    """How much the attacks on the first history find."""
    strongest = {row["stored"]: row for row in rows[::-1] if not row["baseline"]}
    if len(strongest) == len(_STORED):
        every, total = (percent(strongest[stored].number("exact")) for stored in _STORED)
        yield (
            f"Whoever reads the stored messages finds {every} of the lists exactly, and {total} from the "
            "sums alone."
        )
