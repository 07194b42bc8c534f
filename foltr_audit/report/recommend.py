"""The report of `recommend`: the defense, its evidence on the test split, and the other candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

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
from foltr_audit.report.documents import Document, Field, Row, Section, nested
from foltr_audit.report.picture_style import COLOURS
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
    known_cell,
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


LIMITS = Section("max_eps:num max_auc:num|null max_proven_auc:num|null view delta:num")
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
    "ndcg@10_validation:num|null attack:str|null auc:est attacked_queries:int|null excess:num|null outcome why",
)
"""A candidate in the search, numbered from 1: what is proven for it, and its results on the validation split."""


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
    broken: Sequence[str]
    search: Row
    recommended: Row | None
    evidence: Row | None
    without: Row | None
    attacks: Sequence[Row]
    claims: Sequence[Row]
    runners_up: Sequence[Row]
    nearest: Sequence[Row]
    refused: Sequence[Row]
    candidates: Sequence[Row]
    failed: Sequence[Row]
    warnings: Sequence[Row]

    @classmethod
    def of(
        cls, found: Recommendation, folder: ComparisonFolder, progress: Progress = SILENT
    ) -> RecommendReport:
        """The report on a search, whose confirmation is in a folder.

        Raises:
            TraceError: a cell of it is missing or damaged.
        """
        limits, search = found.limits, COUNTS.row(found.counts)
        rows = [_candidate_row(number, candidate) for number, candidate in enumerate(found.judged, start=1)]
        chosen = None if found.chosen is None else rows[found.chosen]
        runners_up = [rows[number] for number in found.runners_up]
        compared = None if chosen is None else CompareReport.of(folder, found.lost, progress)
        name = "" if chosen is None else chosen["name"]
        results = {row["name"]: row for row in compared.results} if compared else {}
        pools = {pool.name: pool for world in compared.worlds for pool in world.pools} if compared else {}
        evidence = results.get(name)
        broken = broken_on_test(pools.get(name), found.lost, limits) if compared else []
        claims = [row for row in (compared.claims if compared else ()) if row["name"] == name]
        return cls(
            base=found.base,
            limits=limits,
            effort=found.effort,
            dataset=dataset_row([found.data]),
            confirmed=chosen is not None and not broken,
            sentence=_sentence(chosen, evidence, broken, rows, search, limits),
            runner_up=_runner_up(runners_up),
            sample=describe_sample(found, pools.get(name), broken),
            broken=broken,
            search=search,
            recommended=chosen,
            evidence=evidence,
            without=results.get(NO_DEFENSE),
            attacks=[row for row in (compared.attacks if compared else ()) if row["name"] == name],
            claims=claims if evidence is not None else [],
            runners_up=runners_up,
            nearest=[rows[number] for number in found.nearest],
            refused=[_refused_row(candidate) for candidate in found.refused],
            candidates=rows,
            failed=compared.failed if compared else [],
            warnings=[row for row in (compared.warnings if compared else ()) if row["name"] == name],
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
        console.print(_data_line(self))
        console.print(escape(_limits_line(self)), highlight=False)
        console.print()
        style = "bold" if self.confirmed else "bold red"
        console.print(escape(self.sentence), highlight=False, style=style)
        for line in _answer_lines(self):
            console.print()
            console.print(escape(line), highlight=False, soft_wrap=True)
        candidates = [self.recommended, *self.runners_up] if self.recommended else self.nearest
        for rows, table in ((self._tested, _tested_table), (candidates, _candidates_table)):
            if rows:
                console.print()
                print_table(table(rows, self), console)
        console.print()
        for line in _search_lines(self):
            console.print(escape(line), highlight=False)
        for line in _failed_lines(self):
            console.print(escape(line), style="red", highlight=False)

    def short_answer(self) -> BriefAnswer:
        """The evidence for the recommended defense, or the nearest candidates."""
        others = self.runners_up if self.recommended else self.nearest
        table = _nearest_table(others) if others else None
        return BriefAnswer(
            conclusion=(self.sentence, *_answer_lines(self)),
            about=_data_line(self),
            table=_brief_table(self._tested, self.limits.view) if self._tested else table,
            notes=(_limits_line(self), *(f"failed: {row['defense']}: {row['why']}" for row in self.failed)),
            left_out=("the other candidates", "what accounting refused", "p-values and baselines"),
        )

    @property
    def _tested(self) -> list[Row]:
        """The recommended defense on the test split, and no defense, once each."""
        if self.evidence is None:
            return []
        rows = [row for row in (self.evidence, self.without) if row is not None]
        return list({row["name"]: row for row in rows}.values())

    def figure(self) -> Figure:
        """Every candidate on the validation split: the AUC of the strongest attack against its nDCG@10."""
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        figure = Figure(figsize=(4.6, 4.0), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))
        axis = figure.subplots()
        groups = {"candidate": (self.candidates, COLOURS[0], 6.0)}
        if (chosen := self.recommended) is not None:
            groups[f"chosen: {chosen['name']}"] = ([chosen], COLOURS[1], 10.0)
        for label, (rows, colour, size) in groups.items():
            shown = [row for row in rows if row["auc"].known and row["ndcg@10_validation"] is not None]
            aucs, ndcgs = [row.number("auc") for row in shown], [row["ndcg@10_validation"] for row in shown]
            axis.plot(aucs, ndcgs, linestyle="none", marker="o", markersize=size, color=colour, label=label)
        if self.limits.max_auc is not None:
            axis.axvline(
                self.limits.max_auc, color=COLOURS[6], linestyle="dashed", linewidth=0.9, label="limit"
            )
        axis.set_xlabel("AUC of the strongest attack (left is private)")
        axis.set_ylabel("nDCG@10 on the validation split")
        figure.legend(loc="outside lower center", ncols=3, handlelength=1.2)
        return figure


def _candidate_row(number: int, candidate: Candidate) -> Row:
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


def _refused_row(candidate: Candidate) -> Row:
    return REFUSED.of(candidate, alternative=candidate.point.alternative, why=candidate.refused)


# --- sentences -------------------------------------------------------------------------------------


def _sentence(
    chosen: Row | None,
    evidence: Row | None,
    broken: Sequence[str],
    candidates: Sequence[Row],
    search: Row,
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
    loss, auc = evidence.number("ndcg@10_difference"), evidence.estimate("auc")
    compared = (
        "" if math.isnan(loss) else f", {short(abs(loss))} {'below' if loss < 0 else 'above'} no defense"
    )
    text = f"{start}. On the test split its nDCG@10 is {short(evidence.number('ndcg@10'))}{compared}"
    if auc.known:
        upper = "" if auc.ci95 is None else f" (95 % interval up to {short(auc.ci95[1])})"
        text += f"; the best attack, {evidence['attack']}, has an AUC of {short(auc.value)}{upper}"
    proven = evidence.number(f"eps_proven_{limits.view}")
    if math.isfinite(proven):
        observer = with_article(sees(limits.view))
        text += f"; epsilon {proven:.4g} is proven where the server sees {observer}"
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


def _runner_up(runners_up: Sequence[Row]) -> str:
    """The second choice, which was made before the test split was looked at; empty where there is none."""
    if not runners_up:
        return ""
    first = runners_up[0]
    return (
        f"Runner-up: {first['name']}, nDCG@10 {short(first['ndcg@10_validation'])} on the validation split, "
        f"not tried on the test split: {first['options']}"
    )


def _none(candidates: Sequence[Row], search: Row, limits: PrivacyLimits) -> str:
    if not search["candidates"]:
        limited = [] if math.isinf(limits.max_eps) else [f"an epsilon of at most {limits.max_eps:g}"]
        if limits.max_proven_auc is not None:
            limited.append(f"an AUC of attacks of at most {short(limits.max_proven_auc)}")
        return (
            f"No defense is within the limits: for none is {' and '.join(limited)} "
            f"proven where the server sees {with_article(sees(limits.view))}."
        )
    start = f"No defense is within the limits: none of {search['candidates']} candidates"
    known = [row for row in candidates if row["excess"] is not None]
    if not known:
        return f"{start}; none could be run."
    first = min(known, key=lambda row: row["excess"])
    if first["auc"].ci95 is None:
        return f"{start}; attacks could not be measured on any."
    return (
        f"{start}. The nearest is {first['name']}: the 95 % interval of the AUC of {first['attack']} ends at "
        f"{short(first['auc'].ci95[1])} (limit {short(limits.max_auc)})."
    )


def _answer_lines(report: RecommendReport) -> list[str]:
    """What follows the answer: the options, the runner-up, and whether the sample is too small."""
    options = "" if report.recommended is None else report.recommended["options"]
    return [line for line in (options, report.runner_up, report.sample) if line]


def _data_line(report: RecommendReport) -> str:
    """The data, learner and seed, as Rich markup."""
    evidence = report.evidence
    trained = (
        (report.base.train.learner, "none") if evidence is None else (evidence["learner"], evidence["pdgd"])
    )
    return dataset_line(report.dataset, report.base.public.table(), [trained])


def _limits_line(report: RecommendReport) -> str:
    """The setting of the search, and its limits."""
    limits, spec = report.limits, report.base
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


def _search_lines(report: RecommendReport) -> Iterator[str]:
    """How many candidates there were, and what accounting refused before the search."""
    search = report.search
    parts = [f"{search['kept']} kept to the limits", f"{search['above_auc']} above --max-attack-auc"]
    parts += [f"{search['refused']} refused by accounting", f"{search['failed']} failed"]
    repeated = search["candidates"] - search["different"]
    again = f" ({repeated} of them again)" if repeated else ""
    count = search["defenses_refused"]
    before = f"; {counted(count, 'defense')} refused before any was run:" if count else ""
    yield f"{counted(search['candidates'], 'candidate')}{again}: {', '.join(parts)}{before}"
    for row in report.refused:
        proven = "nothing" if math.isinf(row["eps_proven"]) else f"epsilon {row['eps_proven']:g}"
        yield f"refused: {row['alternative']}: {proven} is proven: {row['why']}"


def _failed_lines(report: RecommendReport) -> Iterator[str]:
    why = {row["alternative"]: row["why"] for row in report.candidates if row["outcome"] == "failed"}
    for name, reason in [*why.items(), *((row["defense"], row["why"]) for row in report.failed)]:
        yield f"failed: {name}: {reason}"


# --- tables ----------------------------------------------------------------------------------------

_AUC = "AUC of the best attack (.5: a coin flip, 1: perfect)"
_ATTACKED = "a candidate keeps to --max-attack-auc if the interval of every attack ends below it"
_PROMISED = "AUC promised: the most that any attack on a click can reach, by the proof of one interaction"


def _audited(header: str, name: str, view: str, text: Callable[[Any], str] = bound_text) -> Column:
    """An epsilon of the audited view; dim where it was not audited."""

    def cell(row: Row) -> Cell:
        value = row.get(f"{name}_{view}")
        return EMPTY if value is None else Cell(text(value))

    return Column(header, cell)


def _run_of(row: Row, view: str) -> Row | None:
    """What is proven of the whole run, from the columns of the audited view; None where it was not audited."""
    names = [each.name for each in RUN_BOUND.fields]
    if f"run_eps_{view}" not in row:
        return None
    return RUN_BOUND.row({name: row[f"run_{name}_{view}"] for name in names})


def _run_column(of: Callable[[Row], Row | None]) -> Column:
    def cell(row: Row) -> Cell:
        run = of(row)
        return EMPTY if run is None else Cell(run_bound_text(run, ""))

    return Column("run", cell)


def _run_notes(runs: Sequence[Row | None]) -> list[str]:
    """What the column `run` assumes."""
    known = [run for run in runs if run is not None]
    return [run_caption(known, "")] if known else []


def _difference(row: Row) -> Cell:
    return difference_cell(row.estimate("ndcg@10_difference"), row["ndcg@10_p"])


def _tested_table(rows: Sequence[Row], report: RecommendReport) -> Table:
    """What the recommended defense does on the test split, next to no defense."""
    view, effort = report.limits.view, report.effort
    return make_table(
        f"on the test split, {counted(effort.runs, 'fresh repetition')}: nothing here was used to choose",
        [
            name_column("defense", "name"),
            Column("nDCG@10", "ndcg@10"),
            Column("difference", _difference),
            Column("attack", "attack", "name", narrow=short_method),
            Column("AUC", lambda row: known_cell(row.estimate("auc"))),
            WITHOUT,
            _audited("claimed", "eps_claimed", view, claim_text),
            _audited("proven", "eps_proven", view),
            _run_column(lambda row: _run_of(row, view)),
            _audited("measured", "eps_measured", view),
            BYTES,
        ],
        rows,
        caption="; ".join(
            [
                "in brackets: 95 % intervals over queries",
                "difference: to no defense",
                _AUC,
                "without: highest AUC of a guess that reads no message",
                "claimed, proven, measured: epsilon for one interaction; proven: at most, by accounting",
                *_run_notes([_run_of(row, view) for row in rows]),
                f"measured: at least, by {effort.trials} trials",
                "bytes: of a client in a round",
            ]
        ),
        spare=("bytes", "claimed", "without", "attack", "measured", "run"),
    )


def _candidates_table(rows: Sequence[Row], report: RecommendReport) -> Table:
    """The best candidates on the validation split."""
    limited, promised = report.limits.max_auc is not None, report.limits.max_proven_auc is not None
    title = "the best candidate of each defense" if report.recommended else "the nearest candidates"
    columns = [
        name_column("defense", "name"),
        Column("clip", lambda row: "-" if row["norm"] is None else f"{row['norm']:g}"),
        _PROVEN,
        *([short_column("AUC\npromised", "auc_proven")] if promised else []),
        _run_column(lambda row: row["run"]),
        short_column("nDCG@10", "ndcg@10_validation"),
    ]
    if limited:
        columns += [Column("attack", "attack", "name", narrow=short_method), Column("AUC", "auc")]
    notes = ["proven: epsilon for one interaction", *_run_notes([row["run"] for row in rows])]
    return make_table(
        f"{title}, on the validation split, which chose",
        columns,
        rows,
        caption="; ".join([*notes, *[_PROMISED] * promised, *[f"{_AUC}: {_ATTACKED}"] * limited]),
        spare=("attack", "clip", "run"),
    )


_PROVEN = Column("proven", lambda row: bound_text(row["eps_proven"]))


def _brief_table(rows: Sequence[Row], view: str) -> Table:
    return make_table(
        "on the test split, in new repetitions",
        [
            name_column("defense", "name"),
            _audited("proven", "eps_proven", view),
            Column("AUC", lambda row: known_cell(row.estimate("auc"))),
            short_column("nDCG@10", "ndcg@10"),
            Column("difference", _difference),
            BYTES,
        ],
        rows,
        caption=f"proven: epsilon for one interaction; {_AUC}; in brackets: 95 % intervals; difference of "
        "nDCG@10 to no defense; bytes that a client sends in a round",
        spare=("bytes", "difference"),
    )


def _nearest_table(rows: Sequence[Row]) -> Table:
    return make_table(
        "the nearest candidates, on the validation split",
        [
            name_column("defense", "name"),
            _PROVEN,
            Column("AUC", lambda row: known_cell(row["auc"])),
            short_column("nDCG@10", "ndcg@10_validation"),
        ],
        rows,
        caption=f"proven: epsilon for one interaction; {_AUC}, and its 95 % interval",
    )
