"""The report of `recommend`: the defense, its evidence on the test split, and the other candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rich.markup import escape

from foltr_audit.core.results import UNKNOWN
from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.recommend.recommend import (
    Recommendation,
    SearchBudget,
    broken_on_test,
    describe_sample,
)
from foltr_audit.experiments.recommend.space import Candidate, PrivacyLimits
from foltr_audit.privacy.observer_views import sees, with_article
from foltr_audit.report.compare import ATTACK, CLAIM, FAILED, RESULT, WARNED, CompareReport
from foltr_audit.report.compare_tables import BYTES, WITHOUT, difference_cell
from foltr_audit.report.documents import Document, Field, Row, Section, nested, one_of
from foltr_audit.report.figures import recommend_figure
from foltr_audit.report.settings import (
    DATASET,
    RUN_BOUND,
    dataset_line,
    dataset_row,
    few_lists,
    run_bound_columns,
    run_bound_text,
    run_caption,
)
from foltr_audit.report.table import (
    EMPTY,
    Cell,
    Column,
    Table,
    bound_text,
    claim_text,
    counted,
    estimate_cell,
    make_table,
    name_column,
    short_column,
    short_method,
)
from foltr_audit.report.terminal import BriefAnswer, print_table
from foltr_audit.utils.formatting import JsonValue, short
from foltr_audit.utils.progress import SILENT, Progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

# --- the document ----------------------------------------------------------------------------------


def _or_null(name: str, section: Section) -> Field:
    return Field(name, {"anyOf": [section.schema(), {"type": "null"}]})


LIMITS = Section(
    "max_eps:num max_auc:num|null max_proven_auc:num|null",
    one_of("view", Literal["individual", "individual+lists", "aggregate", "aggregate+lists"]),
    "delta:num",
)
EFFORT = Section("candidates:int search_runs:int runs:int trials:int")
CONFIG = Section(nested("limits", LIMITS, many=False), nested("effort", EFFORT, many=False), "spec:table")
COUNTS = Section(
    "candidates:int different:int kept:int above_auc:int refused:int failed:int defenses_refused:int"
)
REFUSED = Section("alternative eps_proven:num auc_proven:num why")
CANDIDATE = Section(
    "candidate:int name alternative eps:num|null norm:num|null defense:[str] options eps_proven:num|null "
    "auc_proven:num|null delta:num|null how:str|null",
    _or_null("run", RUN_BOUND),
    "ndcg@10_validation:num|null attack:str|null auc:est attacked_queries:int|null excess:num|null outcome "
    "why",
)
"""A candidate, numbered from 1: what is proven for it, and its results on the validation split."""


@dataclass(frozen=True, kw_only=True)
class RecommendReport(Document):
    """The result of `recommend`.

    Attributes:
        base, limits, effort: what was asked: the experiment without a defense, limits, and how much is run.
        dataset: source, fingerprints and sizes of the data.
        confirmed: whether the recommended defense stays within the limits on the test split too.
        sentence: the answer in words.
        runner_up: the second choice, and its options; empty where there is none.
        sample: whether the sample is too small for any candidate to pass; empty where it is large enough.
        broken: the limits that it broke there, in words.
        search: how many candidates were run, refused, failed or above a limit.
        recommended: the chosen candidate on the validation split; None if none stays within the limits.
        evidence, without: its row of a comparison, and that of no defense: test split, fresh repetitions,
            audited; None without one.
        attacks, claims: one row per guesser on the test split, and per audited view, of the recommended one.
        runners_up: the best candidate of each other defense within the limits, best first.
        nearest: where none does: the nearest candidate of each defense, nearest first.
        refused: defenses without a proof within the limit; they were not run.
        candidates: every candidate in the order of the search.
        failed: cells of the confirmation that could not be run, and why.
        warnings: incompatible defenses in the recommended chain.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/recommend/1"
    FIELDS: ClassVar[Section] = Section(
        nested("config", CONFIG, many=False),
        nested("dataset", DATASET, many=False),
        "confirmed:bool sentence runner_up sample broken:[str]",
        nested("search", COUNTS, many=False),
        _or_null("recommended", CANDIDATE),
        _or_null("evidence", RESULT),
        _or_null("without", RESULT),
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
    confirmed: bool
    sentence: str
    runner_up: str
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
        limits, search = found.limits, COUNTS.row(found.counts)
        rows = [candidate_row(number, candidate) for number, candidate in enumerate(found.judged, start=1)]
        runners_up = [rows[number] for number in found.runners_up]
        chosen, compared, pools = None, None, {}
        if found.chosen is not None:
            chosen = rows[found.chosen]
            compared = CompareReport.of(folder, found.lost, progress)
            pools = {pool.name: pool for world in compared.worlds for pool in world.pools}
        name: str = "" if chosen is None else chosen["name"]
        broken = [] if chosen is None else broken_on_test(pools.get(name), found.lost, limits)

        def named(section: str, name: str = name) -> list[Row]:
            return [row for row in getattr(compared, section, ()) if row["name"] == name]

        evidence = next(iter(named("results")), None)
        return cls(
            base=found.base,
            limits=limits,
            effort=found.effort,
            dataset=dataset_row([found.data]),
            confirmed=chosen is not None and not broken,
            sentence=_answer(chosen, evidence, broken, rows, search, limits),
            runner_up=_runner_up(runners_up[0]) if runners_up else "",
            sample=describe_sample(found, pools.get(name), broken),
            broken=broken,
            search=search,
            recommended=chosen,
            evidence=evidence,
            without=next(iter(named("results", NO_DEFENSE)), None),
            attacks=named("attacks"),
            claims=named("claims"),
            runners_up=runners_up,
            nearest=[rows[number] for number in found.nearest],
            refused=[
                REFUSED.of(one, alternative=one.point.alternative, why=one.refused) for one in found.refused
            ],
            candidates=rows,
            failed=compared.failed if compared else (),
            warnings=named("warnings"),
        )

    @property
    def config(self) -> Row:
        limits, effort = LIMITS.of(self.limits), EFFORT.of(self.effort)
        return CONFIG.row({"limits": limits, "effort": effort, "spec": self.base.public.table()})

    def rows(self) -> list[dict[str, JsonValue]]:
        """Every candidate in the order of the search, with the columns that it has in JSON."""
        return [row.plain() for row in self.candidates]

    def show(self, console: Console) -> None:
        """Print the answer, the options, their evidence, and the other candidates."""
        console.print(self._data_line)
        console.print(escape(self._limits_line), highlight=False)
        console.print()
        style = "bold" if self.confirmed else "bold red"
        console.print(escape(self.sentence), highlight=False, style=style)
        for line in self._answer_lines:
            console.print()
            console.print(escape(line), highlight=False, soft_wrap=True)
        for table in (_tested_table(self), _candidates_table(self)):
            if table.lines:
                console.print()
                print_table(table, console)
        console.print()
        for line in _search_lines(self):
            console.print(escape(line), highlight=False)
        lost = {row["alternative"]: row["why"] for row in self.candidates if row["outcome"] == "failed"}
        for line in (*(f"failed: {name}: {why}" for name, why in lost.items()), *self._failed_lines):
            console.print(escape(line), style="red", highlight=False)

    def short_answer(self) -> BriefAnswer:
        """The evidence for the recommended defense, or the nearest candidates."""
        tested, others = _tested_table(self, brief=True), _candidates_table(self, brief=True)
        return BriefAnswer(
            conclusion=(self.sentence, *self._answer_lines),
            about=self._data_line,
            table=tested if tested.lines else others if others.lines else None,
            notes=(self._limits_line, *self._failed_lines),
            left_out=("the other candidates", "what accounting refused", "p-values and baselines"),
        )

    @property
    def _answer_lines(self) -> list[str]:
        """What follows the answer: the options, the runner-up, and whether the sample is too small."""
        options = "" if self.recommended is None else self.recommended["options"]
        return [line for line in (options, self.runner_up, self.sample) if line]

    @property
    def _failed_lines(self) -> list[str]:
        return [f"failed: {row['defense']}: {row['why']}" for row in self.failed]

    @property
    def _data_line(self) -> str:
        """The data, learner and seed, as Rich markup."""
        trained = (self.base.train.learner, "none")
        if self.evidence is not None:
            trained = (self.evidence["learner"], self.evidence["pdgd"])
        return dataset_line(self.dataset, self.base.public.table(), [trained])

    @property
    def _limits_line(self) -> str:
        """The setting of the search, and its limits."""
        limits, spec = self.limits, self.base
        most = f"epsilon at most {limits.max_eps:g} (delta {limits.delta:g}) for one interaction"
        most = "any epsilon" if math.isinf(limits.max_eps) else most
        if limits.max_proven_auc is not None:
            most += f", proven AUC at most {short(limits.max_proven_auc)}"
        if limits.max_auc is not None:
            most += f", AUC of attacks at most {short(limits.max_auc)}"
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
    proof = None if candidate.refused else candidate.proof
    upper, run = (None, None) if proof is None else (proof.upper, proof.whole_run)
    chain = () if candidate.refused else candidate.defense
    return CANDIDATE.row(
        {
            "candidate": number,
            "name": point.label.text,
            "alternative": point.alternative,
            "eps": point.eps,
            "norm": point.norm,
            "defense": chain,
            "options": f"--defense {'+'.join(chain)}",
            "eps_proven": candidate.eps_proven,
            "auc_proven": candidate.auc_proven,
            "delta": None if upper is None else upper.delta,
            "how": None if upper is None else upper.how,
            "run": None if run is None else RUN_BOUND.row(run_bound_columns(run, "")),
            "ndcg@10_validation": None if score is None else score.utility,
            "attack": None if attack is None else attack.method,
            "auc": UNKNOWN if attack is None else attack.metric("auc"),
            "attacked_queries": None if attack is None else attack.counts["queries"],
            "excess": None if score is None else score.excess,
            "outcome": candidate.outcome,
            "why": candidate.refused or candidate.failed,
        }
    )


# --- sentences -------------------------------------------------------------------------------------


def _answer(
    chosen: Row | None,
    evidence: Row | None,
    broken: Sequence[str],
    candidates: Sequence[Row],
    search: Row,
    limits: PrivacyLimits,
) -> str:
    """Which candidate was chosen, and what its `evidence` on the test split shows."""
    if chosen is None:
        return _none(candidates, search, limits)
    start = _choice(chosen, candidates, search)
    if evidence is None:
        return f"{start}, but {'; '.join(broken)}."
    loss, auc = evidence.number("ndcg@10_difference"), evidence.estimate("auc")
    compared = f", {short(abs(loss))} {'below' if loss < 0 else 'above'} no defense"
    text = f"{start}. On the test split its nDCG@10 is {short(evidence.number('ndcg@10'))}"
    text += "" if math.isnan(loss) else compared
    if auc.known:
        upper = "" if auc.ci95 is None else f" (95 % interval up to {short(auc.ci95[1])})"
        text += f"; the best attack, {evidence['attack']}, has an AUC of {short(auc.value)}{upper}"
    proven = evidence.number(f"eps_proven_{limits.view}")
    if math.isfinite(proven):
        text += f"; epsilon {proven:.4g} is proven where the server sees {with_article(sees(limits.view))}"
    if limits.max_proven_auc is not None:
        promised = short(chosen["auc_proven"])
        text += f"; no attack can infer a click of one interaction with an AUC above {promised}"
    few = few_lists([evidence["lists"]]) if evidence["lists"] is not None else ""
    if broken:
        return f"{text}. Not confirmed on the test split: {'; '.join(broken)}.{few}"
    return f"{text}. It is within the limits there too.{few}"


def _choice(chosen: Row, candidates: Sequence[Row], search: Row) -> str:
    """Which candidate was chosen, and why."""
    verb = "Use no defense" if chosen["alternative"] == NO_DEFENSE else f"Use {chosen['name']}"
    of = f"{search['kept']} of {search['candidates']} candidates are within the limits"
    ndcg = chosen["ndcg@10_validation"]
    best = max((row["ndcg@10_validation"] for row in candidates if row["outcome"] == "kept"), default=ndcg)
    if ndcg >= best:
        return f"{verb}: {of}, and it has the best nDCG@10 of these on the validation split"
    return (
        f"{verb}: {of}; of those with the best nDCG@10 on the validation split, up to chance, it has the "
        f"smallest proven epsilon ({short(ndcg)}; the best has {short(best)})"
    )


def _runner_up(row: Row) -> str:
    """The second choice, which was made before the test split was looked at."""
    return (
        f"Runner-up: {row['name']}, nDCG@10 {short(row['ndcg@10_validation'])} on the validation split, not "
        f"tried on the test split: {row['options']}"
    )


def _none(candidates: Sequence[Row], search: Row, limits: PrivacyLimits) -> str:
    """Why no defense is recommended."""
    if not search["candidates"]:
        limited = [] if math.isinf(limits.max_eps) else [f"an epsilon of at most {limits.max_eps:g}"]
        if limits.max_proven_auc is not None:
            limited.append(f"an AUC of attacks of at most {short(limits.max_proven_auc)}")
        return (
            f"No defense is within the limits: for none is {' and '.join(limited)} "
            f"proven where the server sees {with_article(sees(limits.view))}."
        )
    start = f"No defense is within the limits: none of {search['candidates']} candidates"
    first = min(
        (row for row in candidates if row["excess"] is not None), key=itemgetter("excess"), default=None
    )
    if first is None:
        return f"{start}; none could be run."
    if first["auc"].ci95 is None:
        return f"{start}; attacks could not be measured on any."
    return (
        f"{start}. The nearest is {first['name']}: the 95 % interval of the AUC of {first['attack']} ends at "
        f"{short(first['auc'].ci95[1])} (limit {short(limits.max_auc)})."
    )


def _search_lines(report: RecommendReport) -> Iterator[str]:
    """How many candidates there were, and what accounting refused before the search."""
    search = report.search
    parts = [f"{search['kept']} kept to the limits", f"{search['above_auc']} above --max-attack-auc"]
    parts += [f"{search['refused']} refused by accounting", f"{search['failed']} failed"]
    repeated, count = search["candidates"] - search["different"], search["defenses_refused"]
    again = f" ({repeated} of them again)" if repeated else ""
    before = f"; {counted(count, 'defense')} refused before any was run:" if count else ""
    yield f"{counted(search['candidates'], 'candidate')}{again}: {', '.join(parts)}{before}"
    for row in report.refused:
        proven = "nothing" if math.isinf(row["eps_proven"]) else f"epsilon {row['eps_proven']:g}"
        yield f"refused: {row['alternative']}: {proven} is proven: {row['why']}"


# --- tables ----------------------------------------------------------------------------------------

_BRIEF = ("defense", "proven", "AUC", "nDCG@10", "difference", "bytes")
"""Headers of the columns of a short answer."""

_INTERVALS = "in brackets: 95 % intervals"
_PROVEN = "proven: epsilon for one interaction, at most, by accounting"
_BEST = "AUC: of the best attack (.5: a coin flip, 1: perfect)"
_NAME = name_column("defense", "name")
_ATTACK = Column("attack", "attack", "name", narrow=short_method)
_AUC = Column("AUC", lambda row: estimate_cell(row.estimate("auc")))


def _tested_table(report: RecommendReport, *, brief: bool = False) -> Table:
    """What the recommended defense does on the test split, next to no defense."""
    view, effort, tested = report.limits.view, report.effort, report.evidence is not None
    rows = {row["name"]: row for row in (report.evidence, report.without) if tested and row is not None}
    columns = {
        _NAME: "",
        Column("nDCG@10", "ndcg@10"): "",
        Column("difference", _difference): "difference: of nDCG@10 to no defense",
        _ATTACK: "",
        _AUC: f"{_BEST}; {_INTERVALS}",
        WITHOUT: "without: highest AUC of a guess that reads no message",
        _audited("claimed", f"eps_claimed_{view}", claim_text): "",
        _audited("proven", f"eps_proven_{view}"): _PROVEN,
        _run_column(lambda row: _run_in(row, view)): _run_note(_run_in(row, view) for row in rows.values()),
        _audited("measured", f"eps_measured_{view}"): f"measured: at least, by {effort.trials} trials",
        BYTES: "bytes: that a client sends in a round",
    }
    return _table(
        f"on the test split, {counted(effort.runs, 'fresh repetition')}: nothing here was used to choose",
        columns,
        list(rows.values()),
        ("bytes", "claimed", "without", "attack", "measured", "run"),
        brief=brief,
    )


def _candidates_table(report: RecommendReport, *, brief: bool = False) -> Table:
    """The best candidates on the validation split, or those nearest to the limits."""
    chosen, limits = report.recommended, report.limits
    rows = report.nearest if chosen is None else [chosen, *report.runners_up]
    columns = {
        _NAME: "",
        Column("clip", lambda row: "-" if row["norm"] is None else f"{row['norm']:g}"): "",
        Column("proven", lambda row: bound_text(row["eps_proven"])): _PROVEN,
    }
    if limits.max_proven_auc is not None:
        columns[short_column("AUC\npromised", "auc_proven")] = _PROMISED
    columns[_run_column(itemgetter("run"))] = _run_note(row["run"] for row in rows)
    columns[short_column("nDCG@10", "ndcg@10_validation")] = ""
    if limits.max_auc is not None:
        columns |= {_ATTACK: "", _AUC: f"{_BEST}; {_INTERVALS}; {_ATTACKED}"}
    title = "the nearest candidates" if chosen is None else "the best candidate of each defense"
    spare = ("attack", "clip", "run")
    return _table(f"{title}, on the validation split, which chose", columns, rows, spare, brief=brief)


_ATTACKED = "a candidate keeps to --max-attack-auc if the interval of every attack ends below it"
_PROMISED = "AUC promised: the most that any attack on a click can reach, by the proof of one interaction"


def _table(
    title: str, columns: Mapping[Column, str], rows: Sequence[Row], spare: Sequence[str], *, brief: bool
) -> Table:
    """A table with what its columns mean below it; a short answer shows some of them."""
    shown = {column: note for column, note in columns.items() if not brief or column.header in _BRIEF}
    return make_table(title, [*shown], rows, caption="; ".join(filter(None, shown.values())), spare=spare)


def _difference(row: Row) -> Cell:
    return difference_cell(row.estimate("ndcg@10_difference"), row["ndcg@10_p"])


def _audited(header: str, column: str, text: Callable[[Any], str] = bound_text) -> Column:
    """An epsilon of the audited view; dim where it was not audited."""
    return Column(header, lambda row: Cell(text(row[column])) if column in row else EMPTY)


def _run_in(row: Row, view: str) -> Row | None:
    """What the columns of the audited view say of the whole run; None where it was not audited."""
    if f"run_eps_{view}" not in row:
        return None
    return RUN_BOUND.row({each.name: row[f"run_{each.name}_{view}"] for each in RUN_BOUND.fields})


def _run_column(run_of: Callable[[Row], Row | None]) -> Column:
    return Column("run", lambda row: EMPTY if (run := run_of(row)) is None else Cell(run_bound_text(run, "")))


def _run_note(runs: Iterable[Row | None]) -> str:
    known = [run for run in runs if run is not None]
    return run_caption(known, "") if known else ""
