"""The report of `recommend`: the defense, its evidence on the test split, and the other candidates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from rich.markup import escape

from foltr_audit.core.results import UNKNOWN
from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.decide import MOST_LOSS
from foltr_audit.experiments.recommend.recommend import (
    Recommendation,
    SearchBudget,
    broken_on_test,
    describe_cost,
    describe_sample,
)
from foltr_audit.experiments.recommend.space import Candidate, PrivacyLimits
from foltr_audit.privacy.observer_views import sees, with_article
from foltr_audit.report.compare import ATTACK, CLAIM, FAILED, RESULT, WARNED, CompareReport
from foltr_audit.report.compare_tables import BYTES, DIFFERENCE, LOSES, NOTES
from foltr_audit.report.documents import Document, Row, Section, nested, one_of, prefixed
from foltr_audit.report.figures import recommend_figure
from foltr_audit.report.settings import (
    ABOVE,
    DATASET,
    GUESS,
    GUESS_COLUMNS,
    GUESS_NOTES,
    GUESSES,
    RUN_BOUND,
    dataset_line,
    dataset_row,
    few_lists,
    guess_columns,
    run_bound_columns,
    run_bound_text,
    run_caption,
)
from foltr_audit.report.table import (
    EMPTY,
    Column,
    Table,
    bound_text,
    claim_text,
    columns_of,
    counted,
    estimate_cell,
    make_table,
)
from foltr_audit.report.terminal import BriefAnswer, print_lines, print_table
from foltr_audit.utils.formatting import short
from foltr_audit.utils.progress import SILENT, Progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console


LIMITS = Section(
    "max_eps:num max_auc:num|null max_proven_auc:num|null",
    one_of("view", Literal["individual", "individual+lists", "aggregate", "aggregate+lists"]),
    "delta:num",
)
EFFORT = Section("candidates:int search_runs:int runs:int trials:int")
CONFIG = Section(nested("limits", LIMITS, many=False), nested("effort", EFFORT, many=False), "spec:table")
COUNTS = Section(
    "candidates:int different:int kept:int above_auc:int above_loss:int refused:int failed:int "
    "defenses_refused:int"
)
REFUSED = Section("alternative eps_proven:num auc_proven:num why")
CANDIDATE = Section(
    "candidate:int name alternative eps:num|null norm:num|null defense:[str] options eps_proven:num|null "
    "auc_proven:num|null delta:num|null how:str|null",
    nested("run", RUN_BOUND, many=False, null=True),
    "ndcg@10_validation:num|null ndcg@10_loss_upper:num|null attack:str|null auc:est",
    GUESSES,
    "attacked_queries:int|null excess:num|null outcome why",
)
"""A candidate, numbered from 1: what is proven for it, and its results on the validation split."""


@dataclass(frozen=True, kw_only=True)
class RecommendReport(Document):
    """The result of `recommend`.

    Attributes:
        recommended: the chosen candidate on the validation split; None if none stays within the limits.
        runners_up, nearest: of each other defense the best candidate within the limits; or, if none stays
            within them, the nearest of each.
        evidence, without: rows of a comparison on the test split: of the recommended defense, and of none.
        attacks, claims, failed, warnings: what that comparison says of the recommended defense.
        refused: defenses without a proof within the limits; they were not run.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/recommend/1"
    MAIN: ClassVar[str] = "candidates"
    NAMED_BY = ("name",)
    FIELDS: ClassVar[Section] = Section(
        nested("config", CONFIG, many=False),
        nested("dataset", DATASET, many=False),
        "confirmed:bool sentence runner_up sample broken:[str]",
        nested("search", COUNTS, many=False),
        nested("recommended", CANDIDATE, many=False, null=True),
        nested("evidence", RESULT, many=False, null=True),
        nested("without", RESULT, many=False, null=True),
        nested("attacks", ATTACK),
        nested("claims", CLAIM),
        nested("runners_up", CANDIDATE),
        nested("nearest", CANDIDATE),
        nested("refused", REFUSED),
        nested("candidates", CANDIDATE),
        nested("failed", FAILED),
        nested("warnings", WARNED),
    )

    base: Spec
    limits: PrivacyLimits
    effort: SearchBudget
    dataset: Row
    sample: str
    broken: Sequence[str] = ()
    search: Row
    recommended: Row | None
    evidence: Row | None
    without: Row | None
    attacks: Sequence[Row] = ()
    claims: Sequence[Row] = ()
    runners_up: Sequence[Row] = ()
    nearest: Sequence[Row] = ()
    refused: Sequence[Row] = ()
    candidates: Sequence[Row] = ()
    failed: Sequence[Row] = ()
    warnings: Sequence[Row] = ()

    @classmethod
    def of(
        cls, found: Recommendation, folder: ComparisonFolder, progress: Progress = SILENT
    ) -> RecommendReport:
        """The report on a search, whose confirmation is in a folder.

        Raises:
            TraceError: a cell of it is missing or damaged.
        """
        rows = [candidate_row(number, candidate) for number, candidate in enumerate(found.judged, start=1)]
        chosen = None if found.chosen is None else rows[found.chosen]
        compared = None if chosen is None else CompareReport.of(folder, found.lost, progress)
        worlds = compared.worlds if compared else ()
        name: str = chosen["name"] if chosen else ""
        pool = next((pool for world in worlds for pool in world.pools if pool.name == name), None)
        broken = broken_on_test(pool, found.lost, found.limits) if chosen else []

        def named(section: str, name: str = name) -> list[Row]:
            return [row for row in getattr(compared, section, ()) if row["name"] == name]

        return cls(
            base=found.base,
            limits=found.limits,
            effort=found.effort,
            dataset=dataset_row([found.data]),
            sample=describe_sample(found, pool, broken),
            broken=broken,
            search=COUNTS.row(found.counts),
            recommended=chosen,
            evidence=next(iter(named("results")), None),
            without=next(iter(named("results", NO_DEFENSE)), None),
            attacks=named("attacks"),
            claims=named("claims"),
            runners_up=[rows[number] for number in found.runners_up],
            nearest=[rows[number] for number in found.nearest],
            refused=[
                REFUSED.of(each, alternative=each.point.alternative, why=each.refused)
                for each in found.refused
            ],
            candidates=rows,
            failed=compared.failed if compared else (),
            warnings=named("warnings"),
        )

    @property
    def config(self) -> Row:
        limits, effort = LIMITS.of(self.limits), EFFORT.of(self.effort)
        return CONFIG.row({"limits": limits, "effort": effort, "spec": self.base.public.table()})

    @property
    def confirmed(self) -> bool:
        """Whether the recommended defense stays within the limits on the test split too."""
        return self.recommended is not None and not self.broken

    @property
    def sentence(self) -> str:
        """The answer in words."""
        return _none(self) if self.recommended is None else _answer(self, self.recommended)

    @property
    def runner_up(self) -> str:
        """The second choice, made before the test split was looked at, and its options; or nothing."""
        return "".join(
            f"Runner-up: {row['name']}, nDCG@10 {short(row['ndcg@10_validation'])} on the validation split, "
            f"not tried on the test split: {row['options']}"
            for row in self.runners_up[:1]
        )

    def show(self, console: Console) -> None:
        """Print the answer, the options, their evidence, and the other candidates."""
        console.print(self._data_line)
        print_lines([self._limits_line], console)
        console.print()
        print_lines([self.sentence], console, "bold" if self.confirmed else "bold red")
        options = "" if self.recommended is None else self.recommended["options"]
        for line in filter(None, (options, self.runner_up, self.sample)):
            console.print()
            console.print(escape(line), highlight=False, soft_wrap=True)
        for table in (_tested_table(self), _candidates_table(self)):
            if table.lines:
                console.print()
                print_table(table, console)
        console.print()
        print_lines(_search_lines(self), console)
        lost = [row for row in self.candidates if row["outcome"] == "failed"]
        unsearched = dict.fromkeys(f"failed: {row['alternative']}: {row['why']}" for row in lost)
        print_lines((*unsearched, *self._failed_lines), console, "red")

    def short_answer(self) -> BriefAnswer:
        """The evidence for the recommended defense, or the nearest candidates."""
        tables = [table(self, brief=True) for table in (_tested_table, _candidates_table)]
        return BriefAnswer(
            conclusion=(self.sentence, *([self.recommended["options"]] if self.recommended else [])),
            about=self._data_line,
            table=next((table for table in tables if table.lines), None),
            notes=(self._limits_line, *filter(None, (self.runner_up, self.sample)), *self._failed_lines),
            left_out=("the other candidates", "what accounting refused", "guesses and the audit"),
        )

    @property
    def _failed_lines(self) -> list[str]:
        return [f"failed: {row['defense']}: {row['why']}" for row in self.failed]

    @property
    def _data_line(self) -> str:
        """The data, learner and seed, as Rich markup."""
        trained = self.evidence or {"learner": self.base.train.learner, "pdgd": "none"}
        return dataset_line(self.dataset, self.base.public.table(), [trained])

    @property
    def _limits_line(self) -> str:
        """The setting of the search, and its limits."""
        limits, spec = self.limits, self.base
        most = "any epsilon"
        if math.isfinite(limits.max_eps):
            most = f"epsilon at most {limits.max_eps:g} (delta {limits.delta:g}) for one interaction"
        if limits.max_proven_auc is not None:
            most += f", proven AUC at most {short(limits.max_proven_auc)}"
        if limits.max_auc is not None:
            most += f", AUC of attacks at most {short(limits.max_auc)}"
        most += f", nDCG@10 at most {short(MOST_LOSS)} below no defense"
        return (
            f"{spec.train.click_model} clicks, scenario {spec.population.scenario}, "
            f"the server sees {with_article(sees(limits.view))}: {most}"
        )

    def figure(self) -> Figure:
        """Every candidate on the validation split: the AUC of the strongest attack against its nDCG@10."""
        return recommend_figure(self.candidates, self.recommended, self.limits.max_auc)


def candidate_row(number: int, candidate: Candidate) -> Row:
    """What is proven for a candidate, and its results."""
    point, attack, score = candidate.point, candidate.attack, candidate.score
    loss, doubt = candidate.difference.loss, ""
    if candidate.outcome in ("cost not known", "costs too much"):
        doubt = describe_cost(candidate.outcome, candidate.difference, "validation")
    proof = None if candidate.refused else candidate.proof
    chain = () if candidate.refused else candidate.defense
    run = None if proof is None else proof.whole_run
    return CANDIDATE.of(
        candidate,
        candidate=number,
        name=point.label.text,
        alternative=point.alternative,
        eps=point.eps,
        norm=point.norm,
        defense=chain,
        options=f"--defense {'+'.join(chain)}",
        delta=None if proof is None else proof.upper.delta,
        how=None if proof is None else proof.upper.how,
        run=None if run is None else RUN_BOUND.row(run_bound_columns(run, "")),
        **{
            "ndcg@10_validation": None if score is None else score.utility,
            "ndcg@10_loss_upper": None if loss is None else loss.upper,
        },
        attack=None if attack is None else attack.method,
        auc=UNKNOWN if attack is None else attack.metric("auc"),
        **guess_columns(attack),
        attacked_queries=None if attack is None else attack.counts["queries"],
        excess=None if score is None else score.excess,
        why=candidate.refused or candidate.failed or doubt,
    )


def _answer(report: RecommendReport, chosen: Row) -> str:
    """Which candidate was chosen, and what its evidence on the test split shows."""
    start, evidence = _choice(report, chosen), report.evidence
    if evidence is None:
        return f"{start}, but {'; '.join(report.broken)}."
    if report.limits.max_proven_auc is not None:
        promised = short(chosen["auc_proven"])
        start += f"; no attack can infer a click of one interaction with an AUC above {promised}"
    few = "" if evidence["lists"] is None else few_lists([evidence["lists"]])
    if report.broken:
        broken = "; ".join(report.broken)
        return f"Not confirmed on the test split: {broken}.{few} The choice was {start.removeprefix('Use ')}."
    return f"{start}. It is within the limits on the test split too.{few}"


def _choice(report: RecommendReport, chosen: Row) -> str:
    """Which candidate was chosen, and why."""
    verb = "Use no defense" if chosen["alternative"] == NO_DEFENSE else f"Use {chosen['name']}"
    of = f"{report.search['kept']} of {report.search['candidates']} candidates are within the limits"
    ndcg = chosen["ndcg@10_validation"]
    kept = [row["ndcg@10_validation"] for row in report.candidates if row["outcome"] == "kept"]
    best = max(kept, default=ndcg)
    if ndcg >= best:
        return f"{verb}: {of}, and it has the best nDCG@10 of these on the validation split"
    return (
        f"{verb}: {of}; of those with the best nDCG@10 on the validation split, up to chance, it has the "
        f"smallest proven epsilon ({short(ndcg)}; the best has {short(best)})"
    )


def _none(report: RecommendReport) -> str:
    """Why no defense is recommended."""
    limits, count = report.limits, report.search["candidates"]
    if not count:
        limited = [] if math.isinf(limits.max_eps) else [f"an epsilon of at most {limits.max_eps:g}"]
        if limits.max_proven_auc is not None:
            limited.append(f"an AUC of attacks of at most {short(limits.max_proven_auc)}")
        return (
            f"No defense is within the limits: for none is {' and '.join(limited)} "
            f"proven where the server sees {with_article(sees(limits.view))}."
        )
    start = f"No defense is within the limits: none of {count} candidates"
    if not report.nearest:
        return f"{start}; none could be run."
    first = report.nearest[0]
    ends, reasons = first["auc"].bounds, [first["why"]] if first["why"] else []
    if limits.max_auc is not None and ends is None:
        return f"{start}; attacks could not be measured on any."
    if limits.max_auc is not None and ends[1] > limits.max_auc:
        reasons.append(
            f"the AUC of {first['attack']} is at 95 % confidence at most {short(ends[1])} "
            f"(limit {short(limits.max_auc)}); the best guess without a message has "
            f"{short(first['guess_auc'])}"
        )
    return f"{start}. The nearest is {first['name']}: {'; '.join(reasons)}."


def _search_lines(report: RecommendReport) -> Iterator[str]:
    """How many candidates there were, and what accounting refused before the search."""
    search = report.search
    parts = [f"{search['kept']} kept to the limits", f"{search['above_auc']} above --max-attack-auc"]
    parts += [f"{search['above_loss']} not shown to cost so little"]
    parts += [f"{search['refused']} refused by accounting", f"{search['failed']} failed"]
    repeated, count = search["candidates"] - search["different"], search["defenses_refused"]
    again = f" ({repeated} of them again)" if repeated else ""
    before = f"; {counted(count, 'defense')} refused before any was run:" if count else ""
    yield f"{counted(search['candidates'], 'candidate')}{again}: {', '.join(parts)}{before}"
    for row in report.refused:
        proven = "nothing" if math.isinf(row["eps_proven"]) else f"epsilon {row['eps_proven']:g}"
        yield f"refused: {row['alternative']}: {proven} is proven: {row['why']}"


def _epsilon(header: str, name: str) -> Column:
    """An epsilon; dim in rows without it, e.g. of a defense that was not audited."""
    return Column(header, lambda row: EMPTY if row.get(name) is None else bound_text(row[name]))


_NAME, _NDCG, _ATTACK = columns_of("defense=name:defense; nDCG@10=ndcg@10; attack:attack")
_AUC = Column("AUC", lambda row: estimate_cell(row.estimate("auc")))
_CLAIMED = Column(
    "claimed", lambda row: EMPTY if math.isinf(row["eps_claimed"]) else claim_text(row["eps_claimed"])
)
_PROVEN = _epsilon("proven", "eps_proven")
_RUN = Column("run", lambda row: run_bound_text(row) if "run_eps" in row else EMPTY)
_MEASURED = _epsilon("measured", "eps_measured")
_CLIP = Column("clip", lambda row: "-" if row["norm"] is None else f"{row['norm']:g}")
_PROMISED, _VALIDATION = columns_of("AUC\npromised=auc_proven:3; nDCG@10=ndcg@10_validation:3")
_BRIEF = (_NAME, _PROVEN, _AUC, GUESS, ABOVE, _NDCG, _VALIDATION, DIFFERENCE, LOSES, BYTES)
"""The columns of a short answer."""

_SPARE = ("bytes", LOSES.header, "claimed", "grades", "attack", "clip", "measured", "run")
_NOTES = {
    **{column.header: NOTES[column.header] for column in (DIFFERENCE, LOSES)},
    "AUC": "AUC: of the best attack (1: perfect); in brackets: 95 % intervals",
    **GUESS_NOTES,
    "proven": "proven: epsilon for one interaction, at most, by accounting",
    "AUC\npromised": "AUC promised: the most that any attack on a click can reach, by the proof of one "
    "interaction",
    "bytes": "bytes: that a client sends in a round",
}
"""What columns mean, by header."""


def _tested_table(report: RecommendReport, *, brief: bool = False) -> Table:
    """What the recommended defense does on the test split, next to no defense."""
    suffix = f"_{report.limits.view}"
    tested = (report.evidence, report.without) if report.evidence is not None else ()
    rows = {row["name"]: row for row in tested if row is not None}
    of_view = [
        row.with_values(
            guess_auc=row["baseline_auc"],
            **{name.removesuffix(suffix): row[name] for name in row if name.endswith(suffix)},
        )
        for row in rows.values()
    ]
    return _table(
        f"on the test split, {counted(report.effort.runs, 'fresh repetition')}: nothing here was used to "
        "choose",
        [
            _NAME,
            _NDCG,
            DIFFERENCE,
            LOSES,
            _ATTACK,
            _AUC,
            *GUESS_COLUMNS,
            _CLAIMED,
            _PROVEN,
            _RUN,
            _MEASURED,
            BYTES,
        ],
        of_view,
        brief=brief,
        measured=f"measured: at least, by {report.effort.trials} trials",
    )


def _candidates_table(report: RecommendReport, *, brief: bool = False) -> Table:
    """The best candidates on the validation split, or those nearest to the limits."""
    chosen, limits = report.recommended, report.limits
    rows = report.nearest if chosen is None else [chosen, *report.runners_up]
    promised = [] if limits.max_proven_auc is None else [_PROMISED]
    attacked = [] if limits.max_auc is None else [_ATTACK, _AUC, *GUESS_COLUMNS]
    kept = "a candidate keeps to --max-attack-auc if the interval of every attack ends below it"
    title = "the nearest candidates" if chosen is None else "the best candidate of each defense"
    return _table(
        f"{title}, on the validation split, which chose",
        [_NAME, _CLIP, _PROVEN, *promised, _RUN, _VALIDATION, LOSES, *attacked],
        [row.with_values(**prefixed("run_", row["run"] or {})) for row in rows],
        brief=brief,
        AUC=f"{_NOTES['AUC']}; {kept}",
    )


def _table(title: str, columns: Sequence[Column], rows: Sequence[Row], *, brief: bool, **notes: str) -> Table:
    """A table with what its columns mean below it; a short answer shows some of them."""
    shown = [column for column in columns if not brief or column in _BRIEF]
    bounds = [row for row in rows if "run_eps" in row]
    meanings = {**_NOTES, "run": run_caption(bounds) if bounds else "", **notes}
    told = {column.header: text for column in shown if (text := meanings.get(column.header))}
    return make_table(title, shown, rows, notes=told, spare=_SPARE)
