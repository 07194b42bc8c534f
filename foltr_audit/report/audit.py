"""The documents of `audit`: of a chain of defenses, of a function, and with --no-trials of declarations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from foltr_audit.auditing.verdict import BROKEN, CONTRADICTION, FALSE, is_proven, refuse_contradiction
from foltr_audit.core.declared.checks import FindingSeverity, findings, why_not
from foltr_audit.core.declared.declared_system import TOLERANCE, DeclaredSystem, proven
from foltr_audit.core.results import AuditRecord, FunctionRecord, LowerBound, Verdict
from foltr_audit.core.settings.audit import FunctionAuditSpec
from foltr_audit.core.warning_kinds import CodedWarning
from foltr_audit.experiments.lint_subjects import LintSubject, SubjectKind
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.run import Run
from foltr_audit.privacy.events import PrivacyClaim
from foltr_audit.privacy.observer_views import sees, with_article
from foltr_audit.report.documents import Document, Row, Section, nested, one_of
from foltr_audit.report.figures import audit_figure
from foltr_audit.report.plan_report import PlanReport
from foltr_audit.report.settings import (
    RUN_BOUND,
    SETTING,
    WARNING,
    Setting,
    chain_label,
    each_run,
    protected,
    run_bound_columns,
    run_bound_text,
    run_caption,
    warning_row,
)
from foltr_audit.report.table import (
    Cell,
    Column,
    Mark,
    Table,
    bound_text,
    columns_of,
    counted,
    delta_text,
    make_table,
    verdict_cell,
)
from foltr_audit.report.terminal import STYLES, BriefAnswer, first_rows, print_lines, print_table
from foltr_audit.utils.formatting import JsonValue, join_names

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

ESTIMATE = Section("estimator eps_lower:num eps_ceiling:num confidence:num trials:int assumes")
"""What one estimator of epsilon shows."""

THRESHOLDS: Mapping[str, str] = {
    "proven": "the upper bound is at most the claim",
    "refuted": "the lower bound is above the claim",
    "false by exact loss": "the exact loss is above the claim",
    "not refuted": "neither bound decides",
    BROKEN: "a link does less than it declares",
    CONTRADICTION: "what is proven and what was found cannot both be right",
}
"""What each verdict means."""

_AT_MOST = "; at most: the most that so many can show"
_NO_CLAIM = "Nothing is claimed", "; --claim E (and --delta D) states a claim to check."


def _estimate(bound: LowerBound) -> Row:
    return ESTIMATE.of(bound, eps_lower=bound.epsilon, eps_ceiling=bound.ceiling)


def _verdict(row: Row) -> Cell:
    return verdict_cell(row["eps_claimed"], row["verdict"])


def _bounds_table(title: str, columns: Sequence[Column], rows: Sequence[Row], caption: str) -> Table:
    """Bounds and verdicts; the caption says what these verdicts mean."""
    verdicts = {row["verdict"] for row in rows if math.isfinite(row["eps_claimed"])}
    meanings = "".join(f"; {name}: {meaning}" for name, meaning in THRESHOLDS.items() if name in verdicts)
    return make_table(
        title,
        [*columns, Column("verdict", _verdict, "name", narrow=lambda text: text.replace("by ", "by\n"))],
        rows,
        caption=caption + meanings,
        space=2,
        narrow_space=1,
        spare=("at most", "canary", "claimed", "unit", "run", "upper\nbound"),
    )


def _verdict_line(row: Row) -> str:
    """The verdict on a row and its reason, marked up for a terminal."""
    cell = _verdict(row)
    verdict, why = f"[{STYLES[cell.mark] or 'bold'}]{cell.text}[/]", row["why"]
    if why.startswith(cell.text):
        return verdict + escape(why.removeprefix(cell.text))
    unclaimed = math.isinf(row["eps_claimed"]) and row["verdict"] == "not refuted"
    return verdict if unclaimed else f"{verdict}: {escape(why)}"


def _lower_line(row: Row) -> str:
    assumed = f", which assumes {row['assumes']}" if row["assumes"] else ""
    lower = bound_text(row["eps_lower"])
    return escape(f"lower bound {lower}: score {row['score']}, {row['estimator']}{assumed}")


_OF_RECORD = Section(
    "run:int view sees unit canary pair model interactions:int messages:int delta:num eps_upper:num "
    "eps_exact:num|null eps_lower:num eps_ceiling:num confidence:num trials:int",
    one_of("verdict", Verdict),
    "why declared declared_why upper_how",
    RUN_BOUND.prefixed("run_"),
    "estimator assumes score",
    nested("estimates", ESTIMATE),
)
FINDING = Section(SETTING, _OF_RECORD)
"""One finding of a run: one view, unit and canary. `run` is its repetition; `eps_claimed` is its own."""


def audit_columns(record: AuditRecord) -> dict[str, Any]:
    """What both sides found of a claim, by the names of columns."""
    return {
        "sees": sees(record.view, record.colluders),
        "eps_upper": record.upper.epsilon,
        "upper_how": record.upper.how,
        "eps_exact": record.exact,
        **_estimate(record.lower),
        **run_bound_columns(record.whole_run),
    }


def finding_row(record: AuditRecord, setting: Setting, repetition: int) -> Row:
    setting = replace(setting, eps_claimed=record.eps_claimed)
    columns = _OF_RECORD.of(
        record, run=repetition, estimates=tuple(map(_estimate, record.estimates)), **audit_columns(record)
    )
    named = setting.columns()
    del named["sees"]  # the observer of attacks
    return FINDING.row(named | columns, setting)


@dataclass(frozen=True, kw_only=True)
class AuditReport(PlanReport):
    """The result of `audit`: one row per run, view, unit and canary."""

    SCHEMA = "foltr-audit/audit/1"
    NAMED_BY = ("view", "unit", "canary")
    FIELDS = Section(PlanReport.SHARED, nested("results", FINDING))

    results: tuple[Row, ...]

    @classmethod
    def of(cls, plan: Plan, runs: Sequence[Run]) -> AuditReport:
        return cls(
            **cls.shared(plan, runs),
            results=tuple(
                finding_row(record, setting, run.spec.repetition)
                for setting, run in each_run(runs)
                for record in run.audits
            ),
        )

    def holds(self, *, require_proof: bool = False) -> bool:
        """Whether no claim is refuted or shown false, and each is proven if that is asked for.

        Raises:
            ContradictionError: a proof and what was found of the same claim cannot both be right.
        """
        refuse_contradiction(self.results)
        proven = all(is_proven(row["eps_claimed"], row["eps_upper"]) for row in self.results)
        return all(row["verdict"] not in FALSE for row in self.results) and (proven or not require_proof)

    def show(self, console: Console) -> None:
        console.print(self.about)
        for rows in self._chains.values():
            console.print()
            print_lines(conclusions(rows), console, "bold")
            console.print()
            print_table(_table(rows, whole=True), console)
            for row in rows:
                console.print()
                for line in _reasons(row, several=len({row["run"] for row in rows}) > 1):
                    console.print(line, highlight=False)

    def short_answer(self) -> BriefAnswer:
        rows, more = first_rows(self.results, "rows")
        return BriefAnswer(
            conclusion=tuple(
                f"{chain_label(chain)}: {line}" if len(self._chains) > 1 else line
                for chain, mine in self._chains.items()
                for line in conclusions(mine)
            ),
            about=self.about,
            table=_table(rows),
            left_out=(*more, "the pair that each row was tested with, every proof and its reasons"),
        )

    def figure(self) -> Figure:
        return audit_figure(self.results)

    @property
    def _chains(self) -> dict[str, list[Row]]:
        chains = dict.fromkeys(row["defense"] for row in self.results)
        return {chain: [row for row in self.results if row["defense"] == chain] for chain in chains}


def _table(rows: Sequence[Row], *, whole: bool = False) -> Table:
    """The bounds of some rows, with the columns that tell them apart; of the whole report more of them."""
    first = rows[0]
    varied = {name for name in first if len({str(row[name]) for row in rows}) > 1}
    trials = "the trials" if "trials" in varied else f"{first['trials']} trials"
    return _bounds_table(
        (f"{chain_label(first['defense'])}\n" if whole else "") + _epsilon_of(first, varied),
        [
            *(column for name, column in _TOLD_APART.items() if name in {*varied, "sees"}),
            *(column for column in _BOUNDS if whole or column.header not in ("run", "at most")),
            *(columns_of("trials") if whole and "trials" in varied else []),
        ],
        rows,
        "upper bound: by accounting, ∞ where nothing is proven; "
        f"{f'{run_caption(rows)}; ' if whole else ''}exact loss: of the pair that was played; lower bound: "
        f"shown by {trials} per hypothesis, each at {100 * first['confidence']:g} % confidence"
        f"{_AT_MOST if whole else ''}",
    )


_TOLD_APART = {
    "defense": Column("defense", lambda row: chain_label(row["defense"]), "fold"),
    **{
        str(column.of): column
        for column in columns_of("repetition=run; server sees=sees:name; unit:name; canary:name")
    },
}
_BOUNDS = [
    *columns_of("claimed=eps_claimed:claim; upper\nbound=eps_upper:eps"),
    Column("run", run_bound_text),
    *columns_of("exact\nloss=eps_exact:eps; lower\nbound=eps_lower:eps; at most=eps_ceiling:eps"),
]


def _epsilon_of(row: Row, varied: set[str]) -> str:
    """What the epsilons of a table are of, but for what differs between its rows."""
    count = row["messages"]
    messages = "one message" if count == 1 else f"{count} messages of one client, pooled,"
    messages = "messages" if "messages" in varied else messages
    behind = "" if "interactions" in varied else f" of {counted(row['interactions'], 'interaction')}"
    unit = "" if "unit" in varied else f", for one {row['unit']}"
    delta = "" if "delta" in varied or not row["delta"] else f", {delta_text(row['delta'])}"
    return f"epsilon of {messages}{behind}{unit}{delta}"


def _reasons(row: Row, *, several: bool) -> Iterator[str]:
    """One finding in words: verdict and reason, pair, proofs, and the score that separates the inputs."""
    run = f"run {row['run']}, " if several else ""
    yield f"{run}{row['sees']}, one {row['unit']} differs, {row['canary']}: {_verdict_line(row)}"
    model = (
        "a global model of another round each" if row["model"] == "rounds" else f"the {row['model']} model"
    )
    yield escape(f"  pair: {row['pair']}; at {model}")
    upper, run_eps, whom = row["eps_upper"], row["run_eps"], protected(row["run_unit"])
    what = "nothing is proven" if math.isinf(upper) else f"upper bound {bound_text(upper)}"
    yield escape(f"  {what}: {row['upper_how']}")
    what, more = f"nothing is proven for {whom}", ""
    if math.isfinite(run_eps):
        rounds = ", ".join(filter(None, (counted(row["run_rounds"], "round"), delta_text(row["run_delta"]))))
        what = f"{bound_text(run_eps)} for {whom} over {rounds}"
        if row["run_sampled"] < 1:
            more = f"; {bound_text(row['run_eps_always'])} for a client in all of them"
    yield escape(f"  run: {what}: {row['run_how']}{more}")
    if row["declared"] == "not looked":
        yield escape(f"  not checked whether links do what they declare: {row['declared_why']}")
    yield f"  {_lower_line(row)}"


def conclusions(rows: Sequence[Row]) -> list[str]:
    """What the rows of one chain show: of each claim one sentence; the worst row of an observer counts."""
    claims: dict[tuple[float, str], dict[str, Row]] = {}
    for row in sorted(rows, key=_severity, reverse=True):
        claims.setdefault((row["eps_claimed"], row["unit"]), {}).setdefault(row["sees"], row)
    return [line for claim in sorted(claims) for line in _of_claim(*claim, claims[claim].values())]


def _severity(row: Row) -> tuple[bool, float, int]:
    return row["verdict"] in FALSE, _lost(row), [*THRESHOLDS].index(row["verdict"])


def _lost(row: Row) -> float:
    """What is lost at least, by the trials that refute a claim or by the exact loss; 0 where it may hold."""
    trials, exact = row["eps_lower"], row["eps_exact"] or 0.0
    return float({"refuted": max(trials, exact), "false by exact loss": exact}.get(row["verdict"], 0.0))


def _of_claim(claim: float, unit: str, worst: Iterable[Row]) -> Iterator[str]:
    observers: dict[tuple[str, str], list[str]] = {}
    for row in worst:
        observers.setdefault(_judged(row), []).append(with_article(row["sees"]))
    lines = [
        f"{before} where the server sees {join_names(names, 'or')}{after}"
        for (before, after), names in observers.items()
    ]
    judged = [line for line in lines if not line.endswith(".")]
    if judged:
        yield f"The claim of {claim:g} for one {unit} is {'; '.join(judged)}."
    yield from (line for line in lines if line.endswith("."))


def _judged(row: Row) -> tuple[str, str]:
    """What is said of a finding, before and after its observer; a dot ends what is a sentence of its own."""
    verdict, lost = row["verdict"], _lost(row)
    if verdict in (BROKEN, CONTRADICTION):
        return "Not proven" if verdict == BROKEN else "No verdict", f": {row['why']}."
    if verdict == "not refuted":
        return _NO_CLAIM if math.isinf(row["eps_claimed"]) else ("neither proven nor refuted", "")
    if verdict not in FALSE:
        return verdict, ""
    shown = "no finite epsilon holds" if math.isinf(lost) else f"at least {lost:.3g} is lost"
    return "false", f" ({shown}, by the {'exact loss' if lost == row['eps_exact'] else 'lower bound'})"


FUNCTION_FINDING = Section(
    "function eps_claimed:num delta:num eps_lower:num eps_ceiling:num confidence:num trials:int",
    one_of("verdict", Verdict),
    "why repeats:str|null estimator assumes score",
    nested("estimates", ESTIMATE),
)


@dataclass(frozen=True, kw_only=True)
class FunctionAuditReport(Document):
    """The result of `audit FILE.py:FUNCTION`: one row."""

    SCHEMA = "foltr-audit/audit-function/2"
    FIELDS = Section("config:table", nested("warnings", WARNING), nested("results", FUNCTION_FINDING))

    config: Mapping[str, JsonValue]
    warnings: tuple[Row, ...]
    results: tuple[Row, ...]

    @classmethod
    def of(cls, record: FunctionRecord, spec: FunctionAuditSpec) -> FunctionAuditReport:
        row = FUNCTION_FINDING.of(
            record,
            **_estimate(record.lower),
            repeats=record.repeats or None,
            estimates=tuple(map(_estimate, record.estimates)),
        )
        config = spec.model_dump(mode="json", exclude_none=True)
        return cls(config=config, warnings=tuple(map(warning_row, record.warnings)), results=(row,))

    @property
    def holds(self) -> bool:
        """Whether no claim is refuted, and no noise repeats."""
        return all(row["verdict"] not in FALSE and row["repeats"] is None for row in self.results)

    def show(self, console: Console) -> None:
        (row,) = self.results
        title = ", ".join(filter(None, ("epsilon of one output", delta_text(row["delta"]))))
        table = _bounds_table(
            f"{row['function']}\n{title}",
            columns_of("claimed=eps_claimed:claim; lower bound=eps_lower:eps; at most=eps_ceiling:eps"),
            self.results,
            f"lower bound: shown by {row['trials']} trials with each input, at "
            f"{100 * row['confidence']:g} % confidence{_AT_MOST}",
        )
        print_table(table, console)
        console.print()
        if row["repeats"] is not None:
            console.print(f"[{STYLES['bad']}]noise repeats[/]: {escape(row['repeats'])}", highlight=False)
        console.print(_verdict_line(row), highlight=False)
        console.print(_lower_line(row), highlight=False)


CLAIM = Section(
    "claimed_by epsilon:num delta:num unit:str|null relation:str|null view:str|null covers "
    "proven:num|null how"
)
"""A claim next to what accounting proves: infinite where nothing is, null where too little is declared."""

DECLARATION = Section(
    "check code", one_of("severity", FindingSeverity), "field declared follows right:num|null mend"
)
SYSTEM = Section(
    "name", one_of("kind", SubjectKind), nested("claims", CLAIM), nested("findings", DECLARATION)
)


def _claim_row(system: DeclaredSystem, claim: PrivacyClaim) -> Row:
    bound = proven(system, claim)
    return CLAIM.of(
        claim,
        claimed_by=claim.mechanism,
        **{name: getattr(claim, name) or None for name in ("unit", "relation", "view")},
        covers="round",
        proven=None if bound is None else bound.epsilon,
        how=f"not declared: {why_not(system, claim)}" if bound is None else bound.how,
    )


@dataclass(frozen=True, kw_only=True)
class SystemLintReport(Document):
    """The report of `audit --no-trials`: the systems, and the number of findings of either severity."""

    SCHEMA = "foltr-audit/lint/1"
    FIELDS = Section("errors:int warnings:int", nested("systems", SYSTEM))

    errors: int
    warnings: int
    systems: tuple[Row, ...]

    @classmethod
    def of(cls, subjects: Iterable[LintSubject]) -> SystemLintReport:
        rows = tuple(
            SYSTEM.of(
                subject,
                claims=tuple(_claim_row(subject.system, claim) for claim in subject.system.claims),
                findings=tuple(map(DECLARATION.of, findings(subject.system))),
            )
            for subject in subjects
        )
        severities = [finding["severity"] for row in rows for finding in row["findings"]]
        return cls(errors=severities.count("error"), warnings=severities.count("warning"), systems=rows)

    @property
    def coded_warnings(self) -> list[CodedWarning]:
        """None apart from the findings."""
        return []

    def show(self, console: Console) -> None:
        for system in self.systems:
            name, claims = system["name"], _alike(system["claims"])
            if claims:
                print_table(make_table(f"{name}: declared and proven", _CLAIMS, claims, space=2), console)
            if system["findings"]:
                print_table(make_table(f"{name}: findings", _FINDINGS, system["findings"], space=2), console)
            else:
                console.print(escape(f"{name}: nothing found"))
            console.print()
        console.print(f"{counted(self.errors, 'error')}, {counted(self.warnings, 'warning')}")


def _alike(claims: Iterable[Row]) -> list[Row]:
    """The claims; those that differ in their view only share a row."""
    alike: dict[tuple[object, ...], list[Row]] = {}
    for row in claims:
        key = tuple(row[name] for name in ("claimed_by", "epsilon", "delta", "unit", "relation", "proven"))
        alike.setdefault(key, []).append(row)
    return [
        rows[0].with_values(view=", ".join(row["view"] or "?" for row in rows)) for rows in alike.values()
    ]


def _proven_cell(row: Row) -> Cell:
    bound = row["proven"]
    mark: Mark = "" if bound is None else "good" if bound <= row["epsilon"] * (1.0 + TOLERANCE) else "bad"
    return Cell(bound_text(bound), mark=mark)


_MARKS: Mapping[str, Mark] = {"error": "bad", "warning": "warn"}
_CLAIMS = [
    *columns_of("claimed by=claimed_by:name"),
    Column("for one", lambda row: row["unit"] or "?", "name"),
    *columns_of("in a=covers:name; view:words"),
    Column("delta", lambda row: f"{row['delta']:g}"),
    *columns_of("declared=epsilon:eps"),
    Column("proven", _proven_cell),
]
_FINDINGS = [
    Column("", lambda row: Cell(row["severity"], mark=_MARKS[row["severity"]]), "name"),
    *columns_of("code:name; check:words"),
    Column("what follows", lambda row: f"{row['field']}: {row['follows']}", "words"),
    *columns_of("how to mend it=mend:words"),
]
