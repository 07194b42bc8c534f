"""The report of `recommend`: the chosen defense, its evidence, and the other candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.recommend.candidates import CandidateResult
from foltr_audit.experiments.recommend.limits import PrivacyLimits
from foltr_audit.experiments.recommend.recommend import Recommendation, SearchBudget
from foltr_audit.experiments.recommend.space import CandidateRejection
from foltr_audit.report.results.base import DatasetFacts
from foltr_audit.report.results.compare import CompareReport
from foltr_audit.report.results.compare_rows import (
    ClaimRow,
    ComparedAttackRow,
    ComparedWarningRow,
    CompareRow,
    FailedCellRow,
)
from foltr_audit.report.results.plain_report import PlainReport
from foltr_audit.report.results.recommend_rows import CandidateRow, SearchCounts
from foltr_audit.report.results.recommend_sentences import (
    broken_on_test,
    describe_runner_up,
    sentence,
)
from foltr_audit.report.results.sample_size import AttackSample
from foltr_audit.report.results.whole_run import RunBoundRow
from foltr_audit.utils.progress import SILENT, Progress
from foltr_audit.utils.rows import UNKNOWN, Estimate, JsonValue, ResultRow

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from foltr_audit.report.tables.brief.short_answer import BriefAnswer

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
        """The experiment."""
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
        from foltr_audit.report.tables.recommend import print_recommend

        print_recommend(self, console)

    def short_answer(self) -> BriefAnswer:
        """The conclusion with one table."""
        from foltr_audit.report.tables.brief.recommend import brief_recommend

        return brief_recommend(self)

    def figure(self) -> Figure:
        """Every candidate: the AUC of the strongest attack against its nDCG@10."""
        from foltr_audit.report.pictures.report_figures import recommend_figure

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
    return [_candidate_row(number, one, limits) for number, one in enumerate(judged, start=1)]


def _candidate_row(number: int, one: CandidateResult, limits: PrivacyLimits) -> CandidateRow:
    proven, leak, score = one.proven, one.leak, one.score
    return CandidateRow(
        candidate=number,
        name=one.point.label.text,
        alternative=one.point.alternative,
        eps=one.point.eps,
        norm=one.point.norm,
        defense=proven.defense if proven else (),
        options=options(proven.defense if proven else ()),
        eps_proven=proven.upper.epsilon if proven else one.refused.eps_proven if one.refused else None,
        auc_proven=proven.auc if proven else one.refused.auc_proven if one.refused else None,
        delta=proven.upper.delta if proven else None,
        how=proven.upper.how if proven else None,
        run=RunBoundRow.of(proven.run) if proven else None,
        ndcg=one.ndcg if score else None,
        attack=leak.method if leak else None,
        auc=Estimate(leak.auc, leak.interval) if leak else UNKNOWN,
        queries=leak.queries if leak else None,
        excess=score.excess if score else None,
        outcome=_outcome(one, limits),
        why=one.refused.why if one.refused else one.failed,
    )


def _outcome(one: CandidateResult, limits: PrivacyLimits) -> str:
    if one.refused is not None:
        return "refused"
    if one.score is None:
        return "failed"
    if one.score.feasible:
        return "kept"
    return "unknown attack" if one.leak is None or one.leak.upper is None else "above --max-attack-auc"


def options(defense: Iterable[str]) -> str:
    """A chain as options of the other commands."""
    return f"--defense {'+'.join(defense)}"


def _counts(rows: Sequence[CandidateRow], found: Recommendation) -> SearchCounts:
    outcomes = [row.outcome for row in rows]
    return SearchCounts(
        candidates=len(rows),
        different=len({(row.alternative, row.eps, row.norm) for row in rows}),
        kept=outcomes.count("kept"),
        above_auc=outcomes.count("above --max-attack-auc") + outcomes.count("unknown attack"),
        refused=outcomes.count("refused"),
        failed=outcomes.count("failed"),
        defenses_refused=len(found.refused),
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
    found: dict[str, CandidateRow] = {}
    for _, row in sorted(known, key=lambda pair: pair[0]):
        found.setdefault(row.alternative, row)
    return list(found.values())[:NEXT]
