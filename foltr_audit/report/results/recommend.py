"""The report of `recommend`: the chosen defense, its evidence, and the other candidates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.recommend.candidates import CandidateResult
from foltr_audit.experiments.recommend.limits import PrivacyLimits
from foltr_audit.experiments.recommend.recommend import Recommendation
from foltr_audit.report.results.base import DatasetFacts, PlainReport, Row
from foltr_audit.report.results.compare import CompareReport
from foltr_audit.report.results.recommend_sentences import broken_on_test, sentence
from foltr_audit.utils.progress import SILENT, Progress

NEXT = 5
"""How many other candidates are reported: the best one of each of that many other defenses."""


@dataclass(frozen=True, kw_only=True)
class RecommendReport(PlainReport):
    """The result of `recommend`, as plain rows.

    Attributes:
        config: limits, effort, and the experiment without a defense as a plain table.
        dataset: source, fingerprints and sizes of the data.
        confirmed: whether the recommended defense stays within the limits on the test part too.
        sentence: the answer in words.
        broken: the limits that it broke there, in words.
        search: how many candidates were run, refused, failed or above a limit.
        recommended: the chosen candidate on the validation part; None if none stays within the limits.
        evidence: its row of a comparison: test part, fresh repetitions, audited; None without one.
        without: the same of no defense.
        attacks: one row per guesser on the test part, baselines first, of the recommended one.
        claims: one row per audited view of the recommended one.
        runners_up: the best candidate of each other defense within the limits, best first.
        nearest: where none does: the nearest candidate of each defense, nearest first.
        refused: defenses without a proof within the limit; they were not run.
        candidates: every candidate in the order of the search.
        failed: cells of the confirmation that could not be run, and why.
        warnings: incompatible defenses in the recommended chain.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/recommend/1"

    config: Row
    dataset: Row
    confirmed: bool
    sentence: str
    broken: list[str]
    search: Row
    recommended: Row | None
    evidence: Row | None
    without: Row | None
    attacks: list[Row]
    claims: list[Row]
    runners_up: list[Row]
    nearest: list[Row]
    refused: list[Row]
    candidates: list[Row]
    failed: list[Row]
    warnings: list[Row]

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
        evidence = None if shown is None else _row(confirmation, shown["name"])
        broken = broken_on_test(confirmation, evidence, limits)
        search = _counts(rows, found)
        nearest = [] if shown else _of_each([row for row in rows if row["excess"] is not None], "excess")
        return cls(
            config={"limits": asdict(limits), "effort": asdict(found.effort), "spec": found.base.table()},
            dataset=DatasetFacts.of([found.data]).plain(),
            confirmed=shown is not None and not broken,
            sentence=sentence(shown, evidence, broken, nearest, search, limits),
            broken=broken,
            search=search,
            recommended=shown,
            evidence=evidence,
            without=_row(confirmation, "none"),
            attacks=_named(confirmation.attacks if confirmation else (), evidence),
            claims=_named(confirmation.claims if confirmation else (), evidence),
            runners_up=_runners_up(rows, shown),
            nearest=nearest,
            refused=[one._asdict() for one in found.refused],
            candidates=rows,
            failed=confirmation.failed if confirmation else [],
            warnings=_named(confirmation.warnings if confirmation else (), evidence),
        )


def candidate_rows(judged: Sequence[CandidateResult], limits: PrivacyLimits) -> list[Row]:
    """One row per candidate: what is proven for it, and its results on the validation part."""
    return [_candidate_row(number, one, limits) for number, one in enumerate(judged, start=1)]


def _candidate_row(number: int, one: CandidateResult, limits: PrivacyLimits) -> Row:
    proven, leak = one.proven, one.leak
    row: Row = {
        "candidate": number,
        "name": one.point.label.text,
        "alternative": one.point.alternative,
        "eps": one.point.eps,
        "norm": one.point.norm,
        "defense": list(proven.defense) if proven else [],
        "options": options(proven.defense if proven else ()),
        "eps_proven": _eps(one),
        "delta": proven.upper.delta if proven else None,
        "how": proven.upper.how if proven else None,
        "ndcg@10_validation": None if one.score is None else one.ndcg,
        "attack": None if leak is None else leak.method,
        "auc": None if leak is None else leak.auc,
        "auc_ci95": None if leak is None or leak.interval is None else list(leak.interval),
        "excess": None if one.score is None else one.score.excess,
    }
    return row | {"outcome": _outcome(one, limits), "why": one.refused.why if one.refused else one.failed}


def _eps(one: CandidateResult) -> float | None:
    if one.proven is not None:
        return one.proven.upper.epsilon
    return None if one.refused is None else one.refused.eps_proven


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


def _counts(rows: Sequence[Row], found: Recommendation) -> Row:
    outcomes = [row["outcome"] for row in rows]
    return {
        "candidates": len(rows),
        "different": len({(row["alternative"], row["eps"], row["norm"]) for row in rows}),
        "kept": outcomes.count("kept"),
        "above_auc": outcomes.count("above --max-attack-auc") + outcomes.count("unknown attack"),
        "refused": outcomes.count("refused"),
        "failed": outcomes.count("failed"),
        "defenses_refused": len(found.refused),
    }


def _row(report: CompareReport | None, name: str) -> Row | None:
    return next((row for row in (report.results if report else ()) if row["name"] == name), None)


def _named(rows: Sequence[Row], evidence: Row | None) -> list[Row]:
    return [row for row in rows if evidence is not None and row["name"] == evidence["name"]]


def _runners_up(rows: Sequence[Row], shown: Row | None) -> list[Row]:
    if shown is None:
        return []
    kept = [row for row in rows if row["outcome"] == "kept" and row["alternative"] != shown["alternative"]]
    return _of_each(kept, "ndcg@10_validation", falling=True)


def _of_each(rows: Sequence[Row], by: str, *, falling: bool = False) -> list[Row]:
    """The first row of each defense when put in order by a column, at most `NEXT`."""

    def key(row: Row) -> Any:
        return -row[by] if falling else row[by]

    found: dict[str, Row] = {}
    for row in sorted(rows, key=key):
        found.setdefault(row["alternative"], row)
    return list(found.values())[:NEXT]
