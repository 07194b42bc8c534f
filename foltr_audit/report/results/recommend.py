"""The report of `recommend`: its rows, sentences, tables and short answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, TypeVar

from rich.markup import escape

from foltr_audit.auditing.verdict import FALSE
from foltr_audit.core.results import UNKNOWN, Estimate
from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.recommend.candidates import CandidateResult
from foltr_audit.experiments.recommend.recommend import Recommendation, SearchBudget
from foltr_audit.experiments.recommend.space import CandidateRejection, PrivacyLimits
from foltr_audit.judge.bootstrap import FEW
from foltr_audit.privacy.observer_views import sees, with_article
from foltr_audit.report.pictures.report_figures import recommend_figure
from foltr_audit.report.render.terminal import BriefAnswer, print_table
from foltr_audit.report.results.base import DatasetFacts, few_lists
from foltr_audit.report.results.compare import CompareReport
from foltr_audit.report.results.compare_rows import (
    CHANCE,
    AuditedView,
    ClaimRow,
    ComparedAttackRow,
    ComparedWarningRow,
    CompareRow,
    FailedCellRow,
)
from foltr_audit.report.results.plain_report import PlainReport
from foltr_audit.report.results.whole_run import RunBoundRow, run_caption
from foltr_audit.report.results.wording import counted, short_method
from foltr_audit.report.tables.columns import (
    dataset_line,
    eps_text,
    estimate_cell,
    estimate_column,
    short_column,
)
from foltr_audit.report.tables.compare import (
    BYTES,
    NONE,
    WITHOUT,
    attack_column,
    difference_cell,
    difference_column,
    known_cell,
    name_column,
)
from foltr_audit.report.tables.table import Cell, Column, Table, make_table
from foltr_audit.utils.formatting import JsonValue, epsilon, short
from foltr_audit.utils.progress import SILENT, Progress
from foltr_audit.utils.rows import ResultRow, column

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

# --- rows ------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CandidateRow(ResultRow):
    """One candidate: what is proven for it, and its results on the validation split.

    Attributes:
        candidate: its number in the search, from 1.
        name, alternative, eps, norm: the defense, what it was made for, and its clip norm.
        defense, options: the chain, and as options of the other commands; empty if it was refused.
        eps_proven, delta, how: what is proven of a message, and how.
        auc_proven: the AUC that the proof leaves to any attack on a click.
        run: what is proven of the whole run; None where it was refused.
        ndcg: mean nDCG@10; None where it was not run.
        attack, auc, queries: the attack with the largest upper end of its AUC, and how many queries with a
            click it was tried on.
        excess: by how much that exceeds the limit.
        outcome, why: what came of it, and why it was refused or failed.
    """

    candidate: int
    name: str
    alternative: str
    eps: float | None
    norm: float | None
    defense: tuple[str, ...]
    options: str
    eps_proven: float | None
    auc_proven: float | None
    delta: float | None
    how: str | None
    run: RunBoundRow | None
    ndcg: float | None = column("ndcg@10_validation")
    attack: str | None
    auc: Estimate
    queries: int | None = column("attacked_queries")
    excess: float | None
    outcome: str
    why: str


@dataclass(frozen=True, kw_only=True)
class SearchCounts(ResultRow):
    """How many candidates were run, how many were different, and what came of them."""

    candidates: int
    different: int
    kept: int
    above_auc: int
    refused: int
    failed: int
    defenses_refused: int


# --- sentences -------------------------------------------------------------------------------------


def broken_on_test(
    report: CompareReport | None, evidence: CompareRow | None, limits: PrivacyLimits
) -> list[str]:
    """What the confirmation shows against a recommended defense, in words; empty if nothing.

    Args:
        report: of the confirming cells; None where nothing was recommended.
        evidence: the row of the recommended defense; None where its cells could not be run.
        limits: the limits of the search.
    """
    if report is None:
        return []
    if evidence is None or report.failed:
        return [f"the confirmation could not be run: {report.failed[0].why if report.failed else ''}"]
    rows = [row for row in report.attacks if row.setting.name == evidence.setting.name]
    return [*_leaks(rows, limits), *_claims(evidence, limits)]


def _leaks(rows: Sequence[ComparedAttackRow], limits: PrivacyLimits) -> list[str]:
    if limits.max_auc is None:
        return []
    aucs = [(row.found.auc.ci95, row.method) for row in rows if not row.baseline]
    uppers = [(ci95[1], method) for ci95, method in aucs if ci95 is not None]
    if not uppers:
        return ["no attack could be run on the test split"]
    upper, worst = max(uppers, key=lambda pair: pair[0])
    if limits.excess(upper) <= 0:
        return []
    return [f"the 95 % interval of {worst}'s AUC ends at {short(upper)} (limit {short(limits.max_auc)})"]


def _claims(evidence: CompareRow, limits: PrivacyLimits) -> list[str]:
    audit = evidence.audits.get(limits.view)
    if audit is None:
        return ["its epsilon was not audited"]
    faults = [f"the verdict on its epsilon is: {audit.verdict}"] if audit.verdict in FALSE else []
    if not limits.proves(audit.eps_proven):
        faults.append(
            f"the audit proves epsilon {epsilon(audit.eps_proven)}, above {epsilon(limits.max_eps)}"
        )
    left = next((ceiling.auc for ceiling in evidence.ceilings if ceiling.view == limits.view), 1.0)
    if not limits.promises(left):
        faults.append(f"the proof leaves an AUC of {short(left)}, above {short(limits.max_proven_auc)}")
    return faults


def sentence(
    chosen: CandidateRow | None,
    evidence: CompareRow | None,
    broken: Sequence[str],
    candidates: Sequence[CandidateRow],
    search: SearchCounts,
    limits: PrivacyLimits,
) -> str:
    """The answer in words.

    Args:
        chosen: the row of the recommended candidate; None if none is within the limits.
        evidence: its row on the test split.
        broken: see `broken_on_test`.
        candidates: all of them.
        search: counts of candidates.
        limits: the limits of the search.
    """
    if chosen is None:
        return _none(candidates, search, limits)
    start = _choice(chosen, candidates, search)
    if evidence is None:
        return f"{start}, but {'; '.join(broken)}."
    loss, audit = evidence.ndcg_difference.value, evidence.audits.get(limits.view)
    compared = (
        "" if math.isnan(loss) else f", {short(abs(loss))} {'below' if loss < 0 else 'above'} no defense"
    )
    text = f"{start}. On the test split its nDCG@10 is {short(evidence.ndcg.value)}{compared}"
    if evidence.auc.known:
        upper = "" if evidence.auc.ci95 is None else f" (95 % interval up to {short(evidence.auc.ci95[1])})"
        text += f"; the best attack, {evidence.attack}, has an AUC of {short(evidence.auc.value)}{upper}"
    if audit is not None and math.isfinite(audit.eps_proven):
        observer = with_article(sees(limits.view))
        text += f"; epsilon {audit.eps_proven:.4g} is proven where the server sees {observer}"
    if limits.max_proven_auc is not None:
        text += (
            f"; no attack can infer a click of one interaction with an AUC above {short(chosen.auc_proven)}"
        )
    few = few_lists([evidence.lists]) if evidence.lists is not None else ""
    if broken:
        return f"{text}. Not confirmed on the test split: {'; '.join(broken)}.{few}"
    return f"{text}. It is within the limits there too.{few}"


def _choice(chosen: CandidateRow, candidates: Sequence[CandidateRow], search: SearchCounts) -> str:
    """Which candidate was chosen, and why."""
    verb = "Use no defense" if chosen.alternative == NO_DEFENSE else f"Use {chosen.name}"
    of = f"{search.kept} of {search.candidates} candidates are within the limits"
    best = max(
        (row.ndcg for row in candidates if row.outcome == "kept" and row.ndcg is not None), default=None
    )
    if best is None or chosen.ndcg is None or chosen.ndcg >= best:
        return f"{verb}: {of}, and it has the best nDCG@10 of these on the validation split"
    return (
        f"{verb}: {of}; of those with the best nDCG@10 on the validation split, up to chance, it has the "
        f"smallest proven epsilon ({short(chosen.ndcg)}; the best has {short(best)})"
    )


def describe_runner_up(runners_up: Sequence[CandidateRow]) -> str:
    """The second choice, which was made before the test split was looked at; empty where there is none."""
    if not runners_up:
        return ""
    first = runners_up[0]
    return (
        f"Runner-up: {first.name}, nDCG@10 {short(first.ndcg)} on the validation split, not tried on the "
        f"test split: {first.options}"
    )


def _none(candidates: Sequence[CandidateRow], search: SearchCounts, limits: PrivacyLimits) -> str:
    if not search.candidates:
        limited = [] if math.isinf(limits.max_eps) else [f"an epsilon of at most {epsilon(limits.max_eps)}"]
        if limits.max_proven_auc is not None:
            limited.append(f"an AUC of attacks of at most {short(limits.max_proven_auc)}")
        return (
            f"No defense is within the limits: for none is {' and '.join(limited)} "
            f"proven where the server sees {with_article(sees(limits.view))}."
        )
    start = f"No defense is within the limits: none of {search.candidates} candidates"
    known = [row for row in candidates if row.excess is not None]
    if not known:
        return f"{start}; none could be run."
    first = min(known, key=lambda row: row.excess or 0.0)
    if first.auc.ci95 is None:
        return f"{start}; attacks could not be measured on any."
    return (
        f"{start}. The nearest is {first.name}: the 95 % interval of the AUC of {first.attack} ends at "
        f"{short(first.auc.ci95[1])} (limit {short(limits.max_auc)})."
    )


# --- size of the sample ----------------------------------------------------------------------------

SPARE = 1.25
"""Times as many draws as the interval would need on average, since its width is an estimate too."""

FEWEST_QUERIES = 2 * FEW
"""With fewer queries it takes more queries, not more draws of each.

Below `FEW` of them an interval is widened, however many draws there are (`judge.bootstrap.share_interval`),
and just above it while the queries differ.
"""


class AttackSample(NamedTuple):
    """The sample behind an attack's AUC.

    Attributes:
        half_width: from the AUC to the upper end of its 95 % interval.
        queries: that were attacked.
        repeats: draws of clicks and noise for each.
    """

    half_width: float
    queries: int
    repeats: int

    def too_small(self, limit: float) -> bool:
        """Whether even an attack that only guesses is above a limit, by the width of its interval alone."""
        return CHANCE + self.half_width > limit

    def times(self, limit: float) -> float:
        """How many times as large the sample would have to be for an attack that only guesses to pass.

        The half-width of an interval falls with the square root of the number of draws. That of an attack
        at chance comes from clicks and noise, which are new in each draw, and not from which queries there
        are. Infinite where no sample is large enough.
        """
        room = limit - CHANCE
        return SPARE * (self.half_width / room) ** 2 if room > 0 else math.inf

    def describe(self, limit: float) -> str:
        """A sentence on a sample that is too small for a limit; empty where it is large enough."""
        if not self.too_small(limit):
            return ""
        start = (
            f"The sample is too small: with {self.queries} queries, {self.repeats} times each, the interval "
            f"of an attack that only guesses (AUC {short(CHANCE)}) ends at about "
            f"{short(CHANCE + self.half_width)} (limit {short(limit)})"
        )
        times = self.times(limit)
        if math.isinf(times):
            return f"{start}. No sample is large enough, since the limit is not above {short(CHANCE)}."
        if self.queries < FEWEST_QUERIES:
            queries = max(FEWEST_QUERIES, math.ceil(times * self.queries))
            return f"{start}. About {queries} queries would be enough; more draws of these few would not."
        return f"{start}. About --repeats {math.ceil(times * self.repeats)} would be enough, or more queries."


# --- the report ------------------------------------------------------------------------------------

NEXT = 5
"""How many other candidates are reported: the best one of each of that many other defenses."""


@dataclass(frozen=True, kw_only=True)
class RecommendConfig(ResultRow):
    """What was asked: limits, effort, and the experiment without a defense as a plain table."""

    limits: PrivacyLimits
    effort: SearchBudget
    spec: Mapping[str, JsonValue]

    @property
    def experiment(self) -> Spec:
        return Spec.parse(dict(self.spec), "")


@dataclass(frozen=True, kw_only=True)
class RecommendReport(PlainReport):
    """The result of `recommend`.

    Attributes:
        config: what was asked.
        dataset: source, fingerprints and sizes of the data.
        confirmed: whether the recommended defense stays within the limits on the test split too.
        sentence: the answer in words.
        runner_up: the second choice, and its options; empty where there is none.
        sample: whether the sample is too small for any candidate to pass; empty where it is large enough.
        broken: the limits that it broke there, in words.
        search: how many candidates were run, refused, failed or above a limit.
        recommended: the chosen candidate on the validation split; None if none stays within the limits.
        evidence: its row of a comparison: test split, fresh repetitions, audited; None without one.
        without: the same of no defense.
        attacks: one row per guesser on the test split, baselines first, of the recommended one.
        claims: one row per audited view of the recommended one.
        runners_up: the best candidate of each other defense within the limits, best first.
        nearest: where none does: the nearest candidate of each defense, nearest first.
        refused: defenses without a proof within the limit; they were not run.
        candidates: every candidate in the order of the search.
        failed: cells of the confirmation that could not be run, and why.
        warnings: incompatible defenses in the recommended chain.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/recommend/1"

    config: RecommendConfig
    dataset: DatasetFacts
    confirmed: bool
    sentence: str
    runner_up: str
    sample: str
    broken: Sequence[str]
    search: SearchCounts
    recommended: CandidateRow | None
    evidence: CompareRow | None
    without: CompareRow | None
    attacks: Sequence[ComparedAttackRow]
    claims: Sequence[ClaimRow]
    runners_up: Sequence[CandidateRow]
    nearest: Sequence[CandidateRow]
    refused: Sequence[CandidateRejection]
    candidates: Sequence[CandidateRow]
    failed: Sequence[FailedCellRow]
    warnings: Sequence[ComparedWarningRow]

    def rows(self) -> list[dict[str, JsonValue]]:
        """Every candidate in the order of the search, with the columns that it has in JSON."""
        return [row.plain() for row in self.candidates]

    def show(self, console: Console) -> None:
        """Print the whole report on a console of rich."""
        print_recommend(self, console)

    def short_answer(self) -> BriefAnswer:
        """The conclusion with one table."""
        return brief_recommend(self)

    def figure(self) -> Figure:
        """Every candidate: the AUC of the strongest attack against its nDCG@10."""
        return recommend_figure(self)

    @classmethod
    def of(
        cls, found: Recommendation, folder: ComparisonFolder, progress: Progress = SILENT
    ) -> RecommendReport:
        """The report on a search, whose confirmation is in a folder.

        Raises:
            TraceError: a cell of it is missing or damaged.
        """
        limits, rows = found.limits, candidate_rows(found.judged, found.limits)
        shown = None if found.chosen is None else rows[found.chosen]
        confirmation = None if shown is None else CompareReport.of(folder, found.lost, progress)
        evidence = None if shown is None else _row(confirmation, shown.name)
        broken = broken_on_test(confirmation, evidence, limits)
        search = _counts(rows, found)
        runners_up = _runners_up(rows, shown)
        nearest = [] if shown else _of_each(rows, lambda row: row.excess)
        name = "" if evidence is None else evidence.setting.name
        attacks = [row for row in (confirmation.attacks if confirmation else ()) if row.setting.name == name]
        return cls(
            config=RecommendConfig(limits=limits, effort=found.effort, spec=found.base.public.table()),
            dataset=DatasetFacts.of([found.data]),
            confirmed=shown is not None and not broken,
            sentence=sentence(shown, evidence, broken, rows, search, limits),
            runner_up=describe_runner_up(runners_up),
            sample=_describe_sample(rows, attacks, found, broken),
            broken=broken,
            search=search,
            recommended=shown,
            evidence=evidence,
            without=_row(confirmation, NO_DEFENSE),
            attacks=attacks,
            claims=_named(confirmation.claims if confirmation else (), name),
            runners_up=runners_up,
            nearest=nearest,
            refused=found.refused,
            candidates=rows,
            failed=confirmation.failed if confirmation else (),
            warnings=_named(confirmation.warnings if confirmation else (), name),
        )


def candidate_rows(judged: Sequence[CandidateResult], limits: PrivacyLimits) -> list[CandidateRow]:
    """One row per candidate: what is proven for it, and its results on the validation split."""
    return [_candidate_row(number, result, limits) for number, result in enumerate(judged, start=1)]


def _candidate_row(number: int, result: CandidateResult, limits: PrivacyLimits) -> CandidateRow:
    proven, leak, score = result.proven, result.leak, result.score
    return CandidateRow(
        candidate=number,
        name=result.point.label.text,
        alternative=result.point.alternative,
        eps=result.point.eps,
        norm=result.point.norm,
        defense=proven.defense if proven else (),
        options=options(proven.defense if proven else ()),
        eps_proven=proven.upper.epsilon if proven else result.refused.eps_proven if result.refused else None,
        auc_proven=proven.auc if proven else result.refused.auc_proven if result.refused else None,
        delta=proven.upper.delta if proven else None,
        how=proven.upper.how if proven else None,
        run=RunBoundRow.of(proven.run) if proven else None,
        ndcg=result.ndcg if score else None,
        attack=leak.method if leak else None,
        auc=Estimate(leak.auc, leak.interval) if leak else UNKNOWN,
        queries=leak.queries if leak else None,
        excess=score.excess if score else None,
        outcome=_outcome(result, limits),
        why=result.refused.why if result.refused else result.failed,
    )


def _outcome(result: CandidateResult, limits: PrivacyLimits) -> str:
    if result.refused is not None:
        return "refused"
    if result.score is None:
        return "failed"
    if result.score.feasible:
        return "kept"
    return "unknown attack" if result.leak is None or result.leak.upper is None else "above --max-attack-auc"


def options(defense: Iterable[str]) -> str:
    """A chain as options of the other commands."""
    return f"--defense {'+'.join(defense)}"


def _counts(rows: Sequence[CandidateRow], recommendation: Recommendation) -> SearchCounts:
    outcomes = [row.outcome for row in rows]
    return SearchCounts(
        candidates=len(rows),
        different=len({(row.alternative, row.eps, row.norm) for row in rows}),
        kept=outcomes.count("kept"),
        above_auc=outcomes.count("above --max-attack-auc") + outcomes.count("unknown attack"),
        refused=outcomes.count("refused"),
        failed=outcomes.count("failed"),
        defenses_refused=len(recommendation.refused),
    )


def _describe_sample(
    rows: Sequence[CandidateRow],
    attacks: Sequence[ComparedAttackRow],
    found: Recommendation,
    broken: Sequence[str],
) -> str:
    """Whether the sample is too small for a candidate to pass; empty where one did, or it is large enough.

    It is the one of the candidate with the narrowest interval, or if one was chosen that of the test split.
    """
    limit, attack = found.limits.max_auc, found.base.attack
    if limit is None or attack is None or (attacks and not broken):
        return ""
    tried = [(row.found.auc, row.found.queries) for row in attacks if not row.baseline]
    tried = tried or [(row.auc, row.queries or 0) for row in rows]
    samples = [
        AttackSample(max(0.0, auc.ci95[1] - auc.value), queries, attack.repeats)
        for auc, queries in tried
        if auc.ci95 is not None
    ]
    return min(samples).describe(limit) if samples else ""


def _row(report: CompareReport | None, name: str) -> CompareRow | None:
    return next((row for row in (report.results if report else ()) if row.setting.name == name), None)


class _RowWithName(Protocol):
    @property
    def name(self) -> str:
        """The name of its defense."""


N = TypeVar("N", bound=_RowWithName)


def _named(rows: Sequence[N], name: str) -> list[N]:
    return [row for row in rows if row.name == name]


def _runners_up(rows: Sequence[CandidateRow], shown: CandidateRow | None) -> list[CandidateRow]:
    if shown is None:
        return []
    kept = [row for row in rows if row.outcome == "kept" and row.alternative != shown.alternative]
    return _of_each(kept, lambda row: None if row.ndcg is None else -row.ndcg)


def _of_each(rows: Sequence[CandidateRow], by: Callable[[CandidateRow], float | None]) -> list[CandidateRow]:
    """The row of each defense with the smallest value, if it has one, smallest first; at most `NEXT`."""
    known = [(value, row) for row in rows if (value := by(row)) is not None]
    rows_of: dict[str, CandidateRow] = {}
    for _, row in sorted(known, key=lambda pair: pair[0]):
        rows_of.setdefault(row.alternative, row)
    return list(rows_of.values())[:NEXT]


# --- tables and the short answer -------------------------------------------------------------------


def print_recommend(report: RecommendReport, console: Console) -> None:
    """The answer, the options, their evidence, and the other candidates."""
    console.print(data_line(report))
    console.print(escape(limits_line(report)), highlight=False)
    console.print()
    style = "bold" if report.confirmed else "bold red"
    console.print(escape(report.sentence), highlight=False, style=style)
    for line in answer_lines(report):
        console.print()
        console.print(escape(line), highlight=False, soft_wrap=True)
    if report.evidence is not None:
        console.print()
        print_table(evidence_table(report, report.evidence), console)
    rows = [report.recommended, *report.runners_up] if report.recommended else report.nearest
    if rows:
        console.print()
        print_table(candidates_table(rows, report), console)
    console.print()
    console.print(_search_line(report.search), highlight=False)
    for refused in report.refused:
        line = f"refused: {refused.alternative}: proven {epsilon(refused.eps_proven)}: {refused.why}"
        console.print(escape(line), highlight=False)
    failures = {row.alternative: row.why for row in report.candidates if row.outcome == "failed"}
    for name, why in [*failures.items(), *((row.defense, row.why) for row in report.failed)]:
        console.print(escape(f"failed: {name}: {why}"), style="red", highlight=False)


def data_line(report: RecommendReport) -> str:
    """The data, learner and seed, as Rich markup."""
    train = report.config.experiment.train
    evidence = report.evidence
    trained = (evidence.setting.learner, evidence.setting.pdgd) if evidence else (train.learner, "none")
    return dataset_line(report.dataset, report.config.spec, [trained])


def answer_lines(report: RecommendReport) -> list[str]:
    """What follows the answer: the options, the runner-up, and whether the sample is too small."""
    options = "" if report.recommended is None else report.recommended.options
    return [line for line in (options, report.runner_up, report.sample) if line]


def limits_line(report: RecommendReport) -> str:
    """The setting of the search, and its limits."""
    limits = report.config.limits
    auc = "" if limits.max_auc is None else f", AUC of attacks at most {short(limits.max_auc)}"
    most = f"epsilon at most {limits.max_eps:g} (delta {limits.delta:g}) for one interaction"
    most = "any epsilon" if math.isinf(limits.max_eps) else most
    if limits.max_proven_auc is not None:
        most += f", proven AUC at most {short(limits.max_proven_auc)}"
    spec = report.config.experiment
    return (
        f"{spec.train.click_model} clicks, scenario {spec.population.scenario}, "
        f"the server sees {with_article(sees(limits.view))}: {most}{auc}"
    )


def evidence_table(report: RecommendReport, row: CompareRow) -> Table:
    """What the recommended defense does on the test split, next to no defense."""
    without = report.without
    others = [without] if without is not None and without.setting.name != row.setting.name else []
    effort = report.config.effort
    return make_table(
        f"on the test split, {counted(effort.runs, 'fresh repetition')}: nothing here was used to choose",
        [
            name_column("defense", lambda row: row.setting.name),
            estimate_column("nDCG@10", lambda row: row.ndcg),
            difference_column(),
            attack_column(),
            estimate_column("AUC", lambda row: row.auc),
            WITHOUT,
            audited_column("claimed", report, lambda audit: eps_text(audit.eps_claimed)),
            audited_column("proven", report, lambda audit: eps_text(audit.eps_proven)),
            audited_column("run", report, lambda audit: eps_text(audit.run.eps) + audit.run.of_clicks),
            audited_column("measured", report, lambda audit: eps_text(audit.eps_measured)),
            BYTES,
        ],
        [row, *others],
        caption="below each value: its 95 % interval over queries; difference: to no defense; without: "
        "highest AUC of a guess that reads no message; proven: an upper bound by accounting; "
        f"{_of_runs(report, [row, *others])}measured: what "
        f"{effort.trials} trials show at least; bytes: of a client in a round",
        spare=("bytes", "claimed", "without", "attack", "measured", "run"),
    )


def audited_column(
    header: str, report: RecommendReport, text: Callable[[AuditedView], str]
) -> Column[CompareRow]:
    """An epsilon of the view of the limits."""

    def cell(row: CompareRow) -> Cell:
        audit = row.audits.get(report.config.limits.view)
        return NONE if audit is None else Cell(text(audit))

    return Column(header, cell)


_ATTACKED = "a candidate keeps to --max-attack-auc if the interval of every attack ends below it"
_PROMISED = "AUC promised: the most that any attack on a click can reach, by the proof of one interaction"


def candidates_table(rows: Sequence[CandidateRow], report: RecommendReport) -> Table:
    """The best candidates on the validation split."""
    limited = report.config.limits.max_auc is not None
    title = "the best candidate of each defense" if report.recommended else "the nearest candidates"
    columns: list[Column[CandidateRow]] = [
        name_column("defense", lambda row: row.name),
        Column("clip", lambda row: "-" if row.norm is None else f"{row.norm:g}"),
        Column("proven", lambda row: NONE if row.eps_proven is None else Cell(eps_text(row.eps_proven))),
        Column(
            "run", lambda row: NONE if row.run is None else Cell(eps_text(row.run.eps) + row.run.of_clicks)
        ),
        short_column("nDCG@10", lambda row: row.ndcg),
    ]
    promised = report.config.limits.max_proven_auc is not None
    if promised:
        columns.insert(3, short_column("AUC\npromised", lambda row: row.auc_proven))
    if limited:
        columns += [
            Column("attack", lambda row: row.attack or "-", "name", narrow=short_method),
            estimate_column("AUC", lambda row: row.auc),
        ]
    return make_table(
        f"{title}, on the validation split, which chose",
        columns,
        rows,
        caption="; ".join([*_of_candidates(rows), *[_PROMISED] * promised, *[_ATTACKED] * limited]),
        spare=("attack", "clip", "run"),
    )


def _of_runs(report: RecommendReport, rows: Sequence[CompareRow]) -> str:
    """What the column `run` of audited rows assumes."""
    audits = [row.audits.get(report.config.limits.view) for row in rows]
    runs = [audit.run for audit in audits if audit is not None]
    return f"{run_caption(runs)}; " if runs else ""


def _of_candidates(rows: Sequence[CandidateRow]) -> list[str]:
    """What the column `run` of candidates assumes."""
    runs = [row.run for row in rows if row.run is not None]
    return [run_caption(runs)] if runs else []


def _search_line(search: SearchCounts) -> str:
    parts = [f"{search.kept} kept to the limits", f"{search.above_auc} above --max-attack-auc"]
    parts += [f"{search.refused} refused by accounting", f"{search.failed} failed"]
    repeated = search.candidates - search.different
    again = f" ({repeated} of them again)" if repeated else ""
    count = search.defenses_refused
    before = f"; {counted(count, 'defense')} refused before any was run:" if count else ""
    return f"{counted(search.candidates, 'candidate')}{again}: {', '.join(parts)}{before}"


def print_brief_recommend(report: RecommendReport, console: Console, *, quiet: bool = False) -> None:
    """Print the short answer."""
    brief_recommend(report).print(console, quiet=quiet)


def brief_recommend(report: RecommendReport) -> BriefAnswer:
    """The short answer: the evidence for the recommended defense, or the nearest candidates."""
    failed = [f"failed: {row.defense}: {row.why}" for row in report.failed]
    others = report.runners_up if report.recommended else report.nearest
    return BriefAnswer(
        conclusion=(report.sentence, *answer_lines(report)),
        about=data_line(report),
        table=_evidence(report) if report.evidence is not None else _nearest(others),
        notes=(limits_line(report), *failed),
        left_out=("the other candidates", "what accounting refused", "p-values and baselines"),
    )


def _evidence(report: RecommendReport) -> Table:
    evidence = [row for row in (report.evidence, report.without) if row is not None]
    rows = list({row.setting.name: row for row in evidence}.values())

    return make_table(
        "on the test split, in new repetitions",
        [
            name_column("defense", lambda row: row.setting.name),
            audited_column("proven", report, lambda audit: eps_text(audit.eps_proven)),
            Column("AUC", lambda row: known_cell(row.auc)),
            Column("nDCG@10", lambda row: estimate_cell(row.ndcg)._replace(below="")),
            Column("difference", lambda row: difference_cell(row.ndcg_difference, row.ndcg_p)),
            BYTES,
        ],
        rows,
        caption="proven: epsilon, for one interaction; AUC of the best attack; below a value: its 95 % "
        "interval; difference of nDCG@10 to no defense; bytes that a client sends in a round",
        spare=("bytes", "difference"),
    )


def _nearest(rows: Sequence[CandidateRow]) -> Table | None:
    if not rows:
        return None
    return make_table(
        "the nearest candidates, on the validation split",
        [
            name_column("defense", lambda row: row.name),
            Column("proven", lambda row: NONE if row.eps_proven is None else Cell(eps_text(row.eps_proven))),
            Column("AUC", lambda row: known_cell(row.auc)),
            short_column("nDCG@10", lambda row: row.ndcg),
        ],
        rows,
        caption="proven: epsilon, for one interaction; AUC of the best attack, and its 95 % interval",
    )
