"""The report of `audit`: its rows, tables and short answer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from rich.markup import escape

from foltr_audit.auditing.verdict import BROKEN, FALSE, is_proven, refuse_contradiction
from foltr_audit.core.results import AuditRecord, LowerBound, Verdict
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.run import Run
from foltr_audit.privacy.observer_views import sees, with_article
from foltr_audit.report.pictures.report_figures import audit_figure
from foltr_audit.report.render.terminal import STYLES, BriefAnswer, first_rows, print_table
from foltr_audit.report.results.base import DatasetFacts, Report, Setting, groups, utility_rows, warning_rows
from foltr_audit.report.results.whole_run import RunBoundRow, run_caption
from foltr_audit.report.results.wording import verdict_mark, verdict_text
from foltr_audit.report.tables.columns import chain_label, dataset_line, systems_of
from foltr_audit.report.tables.measured_bound import verdict_cell
from foltr_audit.report.tables.table import Column, Table, make_table
from foltr_audit.utils.rows import ResultRow, column

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console


@dataclass(frozen=True, kw_only=True)
class EstimateRow(ResultRow):
    """What one estimator of epsilon shows."""

    estimator: str
    eps_lower: float
    eps_ceiling: float
    confidence: float
    trials: int
    assumes: str

    @classmethod
    def of(cls, bound: LowerBound) -> EstimateRow:
        """The columns of a lower bound."""
        return cls(
            estimator=bound.estimator,
            eps_lower=bound.epsilon,
            eps_ceiling=bound.ceiling,
            confidence=bound.confidence,
            trials=bound.trials,
            assumes=bound.assumes,
        )


@dataclass(frozen=True, kw_only=True)
class FindingRow(ResultRow):
    """One finding of a run; infinities stand for what is not bounded. See `AuditRecord` and `LowerBound`.

    Attributes:
        setting: what was run; its `eps_claimed` is that of the finding.
        run: its repetition.
        whole_run: what is proven for all of its rounds together; columns begin with `run_`.
    """

    setting: Setting = column(embedded=True)
    run: int
    view: str
    sees: str
    unit: str
    canary: str
    pair: str
    model: str
    interactions: int
    messages: int
    delta: float
    eps_upper: float
    eps_exact: float | None
    eps_lower: float
    eps_ceiling: float
    confidence: float
    trials: int
    verdict: Verdict
    why: str
    declared: str
    declared_why: str
    upper_how: str
    whole_run: RunBoundRow = column("run_", embedded=True)
    estimator: str
    assumes: str
    score: str
    estimates: tuple[EstimateRow, ...]

    @property
    def defense(self) -> str:
        """The chain that claims."""
        return self.setting.defense

    @classmethod
    def of(cls, finding: AuditRecord, setting: Setting, spec: Spec) -> FindingRow:
        """The columns of a finding of a run."""
        return cls(
            setting=replace(setting, eps_claimed=finding.eps_claimed),
            run=spec.repetition,
            view=finding.view,
            sees=sees(finding.view, finding.colluders),
            unit=finding.unit,
            canary=finding.canary,
            pair=finding.pair,
            model=finding.model,
            interactions=finding.interactions,
            messages=finding.messages,
            delta=finding.delta,
            eps_upper=finding.upper.epsilon,
            eps_exact=finding.exact,
            eps_lower=finding.lower.epsilon,
            eps_ceiling=finding.lower.ceiling,
            confidence=finding.lower.confidence,
            trials=finding.lower.trials,
            verdict=finding.verdict,
            why=finding.why,
            declared=finding.declared,
            declared_why=finding.declared_why,
            upper_how=finding.upper.how,
            whole_run=RunBoundRow.of(finding.whole_run),
            estimator=finding.lower.estimator,
            assumes=finding.lower.assumes,
            score=finding.score,
            estimates=tuple(map(EstimateRow.of, finding.estimates)),
        )


@dataclass(frozen=True, kw_only=True)
class AuditReport(Report):
    """The result of `audit`.

    Attributes:
        results: one row per run, view, unit and canary.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/audit/1"

    results: tuple[FindingRow, ...]

    def show(self, console: Console) -> None:
        """Print the whole report on a console of rich."""
        print_audit(self, console)

    def short_answer(self) -> BriefAnswer:
        """The conclusion with one table."""
        return brief_audit(self)

    def figure(self) -> Figure:
        """For each finding the claimed epsilon, what is proven, and what trials show."""
        return audit_figure(self)

    @classmethod
    def of(cls, plan: Plan, cells: Sequence[Run]) -> AuditReport:
        return cls(
            config=plan.public.table(),
            dataset=DatasetFacts.of([cell.data for cell in cells]),
            utility=utility_rows(cells),
            warnings=warning_rows(cells),
            results=tuple(
                FindingRow.of(finding, group.setting, cell.spec)
                for group in groups(cells)
                for cell in group.cells
                for finding in cell.audits
            ),
        )

    def holds(self, *, require_proof: bool = False) -> bool:
        """Whether no claim is refuted or shown false, and each is proven if that is asked for.

        Raises:
            ContradictionError: a proof and what was found of the same claim cannot both be right.
        """
        refuse_contradiction(self.results)
        proven = all(is_proven(row.setting.eps_claimed, row.eps_upper) for row in self.results)
        return all(row.verdict not in FALSE for row in self.results) and (proven or not require_proof)


def print_audit(report: AuditReport, console: Console) -> None:
    """The whole report: data, a table per chain, and why each verdict is what it is."""
    console.print(dataset_line(report.dataset, report.config, systems_of(report.results)))
    for chain in dict.fromkeys(row.setting.defense for row in report.results):
        rows = [row for row in report.results if row.setting.defense == chain]
        console.print()
        print_table(_chain_table(rows), console)
        for row in rows:
            console.print()
            for line in _block(row, several=len({row.run for row in rows}) > 1):
                console.print(line, highlight=False)
        console.print()
        for line in conclusions(rows):
            console.print(escape(line), style="bold", highlight=False)


def _chain_table(rows: Sequence[FindingRow]) -> Table:
    first, runs_vary = rows[0], len({row.run for row in rows}) > 1
    stopped = len({row.trials for row in rows}) > 1
    shown_by = "the trials" if stopped else f"{first.trials} trials"
    delta = f", delta {first.delta:g}" if first.delta else ""
    per = "one message" if first.messages == 1 else f"{first.messages} messages of one client, pooled"
    behind = f"of {first.interactions} interaction{'s' * (first.interactions > 1)}"

    def view(row: FindingRow) -> str:
        run = f"run {row.run}\n" if runs_vary else ""
        return f"{run}{row.sees}\n{row.unit}\n{row.canary}"

    columns: list[Column[FindingRow]] = [
        Column("server sees", view, "name"),
        Column("claimed", lambda row: bound_text(row.setting.eps_claimed)),
        Column("upper\nbound", lambda row: bound_text(row.eps_upper)),
        Column("run", lambda row: bound_text(row.whole_run.eps) + row.whole_run.of_clicks),
        Column("exact\nloss", lambda row: number_text(row.eps_exact)),
        Column("lower\nbound", lambda row: number_text(row.eps_lower)),
        Column("at most", lambda row: number_text(row.eps_ceiling)),
        *([Column[FindingRow]("trials", lambda row: str(row.trials))] if stopped else []),
        verdict_column(),
    ]
    return make_table(
        f"{chain_label(first.setting.defense)}\nepsilon of {per} {behind}{delta}",
        columns,
        rows,
        caption="upper bound: by accounting; "
        f"{run_caption(row.whole_run for row in rows)}; exact loss: of the pair that was "
        f"played; lower bound: shown by {shown_by} per hypothesis, each at "
        f"{100 * first.confidence:g} % confidence, and at most: the most that so many can show",
        space=2,
        narrow_space=1,
        spare=("at most", "exact\nloss", "claimed", "run", "upper\nbound"),
    )


def verdict_column() -> Column[FindingRow]:
    """The verdict on the claim of a row."""
    return Column(
        "verdict",
        lambda row: verdict_cell(row.setting.eps_claimed, row.verdict),
        "name",
        narrow=lambda text: text.replace("by ", "by\n"),
    )


def bound_text(value: float) -> str:
    """An epsilon that is claimed or proven; `none` where there is none."""
    return "none" if math.isinf(value) else number_text(value)


def number_text(value: float | None) -> str:
    """An epsilon with two digits; `-` where there is none."""
    if value is None:
        return "-"
    usual = value == 0 or 0.005 <= value < 1e5
    return "inf" if math.isinf(value) else f"{value:.2f}" if usual else f"{value:.3g}"


def _block(row: FindingRow, *, several: bool) -> Iterator[str]:
    """One audited row in words: verdict and reason, pair, proof, and the score that separates the inputs."""
    run = f"run {row.run}, " if several else ""
    style = STYLES[verdict_mark(row.verdict)] or "bold"
    yield (
        f"{run}{row.sees}, one {row.unit} differs, {row.canary}: "
        f"[{style}]{verdict_text(row.setting.eps_claimed, row.verdict)}[/]: {escape(row.why)}"
    )
    at = "a global model of another round each" if row.model == "rounds" else f"the {row.model} model"
    yield escape(f"  pair: {row.pair}; at {at}")
    yield escape(f"  upper bound {bound_text(row.eps_upper)}: {row.upper_how}")
    yield escape(f"  {row.whole_run.text}")
    if row.declared == "not looked":
        yield escape(f"  not checked whether links do what they declare: {row.declared_why}")
    assumed = f", which assumes {row.assumes}" if row.assumes else ""
    yield escape(f"  lower bound {number_text(row.eps_lower)}: score {row.score}, {row.estimator}{assumed}")


def conclusions(results: Sequence[FindingRow]) -> list[str]:
    """What all rows of one chain show together: one sentence per kind of verdict."""
    broken = [row for row in results if row.verdict == BROKEN]
    refuted = [row for row in results if row.verdict in ("refuted", "false by exact loss")]
    proven = [row for row in results if row.verdict == "proven"]
    # What claims nothing is last, whatever the order of the rows
    open_ = [row for row in results if row.verdict == "not refuted"]
    open_.sort(key=lambda row: math.isinf(row.setting.eps_claimed))
    verdicts: dict[str, list[str]] = {}
    for row in (*refuted, *proven, *open_):
        verdicts.setdefault(_conclusion(row), []).append(_place(row))
    return [
        *dict.fromkeys(f"Not proven where the server sees {_place(row)}: {row.why}." for row in broken),
        *(text.format("; ".join(dict.fromkeys(places))) for text, places in verdicts.items()),
    ]


def _conclusion(row: FindingRow) -> str:
    """A sentence with room for what the server sees."""
    if row.verdict == "proven":
        return "Proven where the server sees {}."
    if row.verdict == "not refuted":
        if math.isinf(row.setting.eps_claimed):
            what = "--claim E (and --delta D) states a claim to check"
            return f"Nothing is claimed where the server sees {{}}; {what}."
        return "Neither proven nor refuted where the server sees {}."
    worst = max(row.eps_lower if row.verdict == "refuted" else 0.0, row.eps_exact or 0.0)
    shown = "no finite epsilon holds" if math.isinf(worst) else f"at least {worst:.3g} is lost"
    return f"The claim of {row.setting.eps_claimed:g} is false: {shown} where the server sees {{}}."


def _place(row: FindingRow) -> str:
    return f"{with_article(row.sees)}, for one {row.unit}"


def print_brief_audit(report: AuditReport, console: Console, *, quiet: bool = False) -> None:
    """Print the short answer."""
    brief_audit(report).print(console, quiet=quiet)


def brief_audit(report: AuditReport) -> BriefAnswer:
    rows, more = first_rows(report.results, "rows")
    chains = list(dict.fromkeys(row.setting.defense for row in report.results))
    sentences = [
        f"{chain_label(chain)}: {line}" if len(chains) > 1 else line
        for chain in chains
        for line in conclusions([row for row in report.results if row.setting.defense == chain])
    ]
    return BriefAnswer(
        conclusion=tuple(sentences),
        about=dataset_line(report.dataset, report.config, systems_of(report.results)),
        table=_brief_table(rows, chains),
        left_out=(*more, "the pair that each row was tested with, every proof and its reasons"),
    )


def _brief_table(rows: Sequence[FindingRow], chains: Sequence[str]) -> Table:
    first = rows[0]
    units, canaries, runs = ({getattr(row, name) for row in rows} for name in ("unit", "canary", "run"))
    delta = f", delta {first.delta:g}" if first.delta else ""
    columns: list[Column[FindingRow]] = [
        *(
            [Column[FindingRow]("defense", lambda row: chain_label(row.setting.defense), "fold")]
            if len(chains) > 1
            else []
        ),
        *([Column[FindingRow]("repetition", lambda row: str(row.run))] if len(runs) > 1 else []),
        Column("server sees", lambda row: row.sees, "name"),
        *([Column[FindingRow]("unit", lambda row: row.unit, "name")] if len(units) > 1 else []),
        *([Column[FindingRow]("canary", lambda row: row.canary, "name")] if len(canaries) > 1 else []),
        Column("claimed", lambda row: bound_text(row.setting.eps_claimed)),
        Column("upper\nbound", lambda row: bound_text(row.eps_upper)),
        Column("lower\nbound", lambda row: number_text(row.eps_lower)),
        verdict_column(),
    ]
    unit = f" for one {first.unit}" if len(units) == 1 else ""
    return make_table(
        f"epsilon of one message{unit}{delta}" if first.messages == 1 else f"epsilon{unit}{delta}",
        columns,
        rows,
        caption="upper bound: by accounting, none where nothing is proven; lower bound: shown by "
        f"{first.trials} trials, at {100 * first.confidence:g} % confidence",
        space=2,
        spare=("canary", "claimed", "unit"),
    )
