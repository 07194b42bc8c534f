"""The report of `attack`: what attacks read in the messages of clients, as rows, sentences and a picture."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from foltr_audit.core.pdgd import setting_text
from foltr_audit.core.plugins import Attack
from foltr_audit.core.plugins.registry import make_if_known
from foltr_audit.core.records.population import SEVERAL
from foltr_audit.core.results import AttackRecord, ProofRecord
from foltr_audit.core.settings.attack import refuse_unknown_queries
from foltr_audit.core.warning_kinds import coded
from foltr_audit.experiments.periods import TrainingHistory
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.run import Run
from foltr_audit.judge.bootstrap import selected
from foltr_audit.judge.doubts import AttackedClicks, doubts, shown_above, wrong_sign
from foltr_audit.judge.promises import CEILINGS
from foltr_audit.judge.protocol import TaskEvidence
from foltr_audit.judge.scoring import GROUP_METRICS, KNOWS_GRADES, identifiability, named_lists
from foltr_audit.privacy.observer_views import attacker, attacker_sees, sees
from foltr_audit.report import attack_details as details
from foltr_audit.report.attack_details import describe_world, group_by_world
from foltr_audit.report.documents import Field, Row, Section, nested
from foltr_audit.report.figures import attack_figure
from foltr_audit.report.plan_report import (
    PlanReport,
    beside_all,
    served_group_rows,
    served_groups_table,
    served_rows,
)
from foltr_audit.report.settings import (
    CLICKS,
    GUESS_COLUMNS,
    GUESS_NOTES,
    RUN_BOUND,
    SETTING,
    Setting,
    by_setting,
    data_title,
    dataset_line,
    dataset_row,
    few_lists,
    pools,
    record_values,
    run_bound_columns,
    setting_columns,
    utility_row,
    utility_table,
    warning_row,
)
from foltr_audit.report.table import (
    Table,
    columns_of,
    estimate_text,
    known_or,
    make_table,
    whole_percent,
)
from foltr_audit.report.terminal import MOST_ROWS, BriefAnswer, first_rows, print_lines, print_table
from foltr_audit.rng import Streams
from foltr_audit.trace import TraceHeader
from foltr_audit.utils.formatting import short
from foltr_audit.utils.progress import SILENT, Progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from foltr_audit.experiments.recorded_attack import TraceAttack


WHERE = Section("click_model", SETTING, "view")
"""What was attacked: how its users click, what was run, and the view, as in `AttackSpec.view`."""


def _section(*columns: str | Field | Section, **options: str) -> Section:
    return Section("method baseline:bool", WHERE, *columns, **options)


_BIN = Section("low:num high:num documents:int probability:num|null clicked:num|null")
_GROUP = _section("group place:int lists:int skipped:int queries:int", *map(beside_all, GROUP_METRICS))
SECTIONS: dict[str, Section] = {
    "any_click": _section(
        "lists:int lists_with_click:int queries:int auc:est accuracy:est base_rate:est ceiling_auc:num"
    ),
    "calibration": _section(
        "lists:int documents:int brier:est brier_base_rate:est log_loss:est log_loss_base_rate:est "
        "calibration_error:num",
        nested("reliability", _BIN),
    ),
    "counts": _section(
        "lists:int queries:int documents:int clients_min:int clients_max:int error:est rmse:est "
        "spearman:est exact:est"
    ),
    "facts": Section("click_model", details.FACTS),
    "groups": _GROUP,
    "identifiability": Section(
        WHERE,
        "lists:int all_clicked:int without_click:int documents:int not_observed:num|null not_told:num|null "
        "identifiable:num|null messages:int rank_mean:num|null rank_min:int|null unknowns_mean:num|null "
        "full_rank:num|null",
    ),
    "information": _section(
        "lists:int queries:int bits:est entropy:est share:est exact_posterior:bool bias_bound:num "
        "impossible:int wrong_prior:int"
    ),
    "intent_inference": Section(
        "method",
        WHERE,
        "intents:int messages_together:int decisions:int clients:int mixed:int left_over:int chance:num "
        "most_frequent:num shown:est shown_balanced:est accuracy:est balanced_accuracy:est probability:est "
        "bits:est ceiling_accuracy:num",
    ),
    "linkage": _section(
        "choices:int choices_asked:int messages:int clients:int chance:num chance_mrr:num accuracy:est "
        "mrr:est rank:est probability:est ceiling_accuracy:num"
    ),
    "places": _GROUP,
    "promises": Section(
        WHERE, "about unit proof_sees rounds:int eps_proven:num delta:num how ceiling_auc:num"
    ),
    "published": Section(
        WHERE, "rounds:int unchanged:int singled_out:int several:int right:int published:int"
    ),
    "proven": Section(SETTING, "view unit eps_proven:num delta:num how", RUN_BOUND.prefixed("run_")),
    "queries": Section(
        "query method:str|null baseline:bool",
        WHERE,
        "list:int|null message:int|null shown:[int] clicked:[bool] guessed:[bool] scores:[num] "
        "exact:bool|null",
    ),
    "query_identification": Section(
        "method",
        WHERE,
        "choices:int choices_asked:int messages:int messages_with_pairs:int queries:int chance:num "
        "chance_mrr:num",
        *(f"{name}:est {name}_with_pairs:est" for name in ("accuracy", "mrr", "rank", "probability")),
        "ceiling_accuracy:num",
    ),
    "refused": Section("method", WHERE, "reason"),
    "tasks": Section("method baseline:bool? task", WHERE, "..."),
    "results": _section(
        CLICKS,
        *(f"ceiling_{name}:num" for name in CEILINGS),
        intervals_last="unknown",
    ),
}
"""The columns of every kind of rows about attacks."""

_LEFT_OUT = ("facts", "groups", "places", "promises", "published", "tasks")  # where there is no such row
_KINDS = {
    "clicks": "results",
    "clicks by place": "places",
    "any click": "any_click",
    "bits": "information",
    "calibration": "calibration",
    "query": "query_identification",
    "intent": "intent_inference",
    "client": "linkage",
    "counts": "counts",
}  # of rows, by the task of a record; others are of kind `tasks`


@dataclass(frozen=True, kw_only=True)
class AttackReport(PlanReport):
    """The result of `attack`. Every row names its click model, training, claimed epsilon and view.

    Attributes:
        results: attacks on clicks, baselines first; also `any_click`, `calibration`, `information` (bits), by
            group of clients (`groups`) and by place of a list in its message, hit hardest first (`places`).
        facts: of recorded traces, whether their declared facts explain their messages.
        identifiability: what messages can reveal to any attack.
        promises, proven: what is proven for the attacked messages, and of a round and the whole run.
        published: of view `client`, whose update each change of the global model is.
        queries: attacked lists of the named queries, and what each attack says of them.
        refused: attacks that could not run, and why.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/attack/1"
    NAMED_BY = ("method", "click_model")
    FIELDS: ClassVar[Section] = Section(
        PlanReport.SHARED,
        *(nested(kind, section, optional=kind in _LEFT_OUT) for kind, section in SECTIONS.items()),
    )

    any_click: tuple[Row, ...] = ()
    calibration: tuple[Row, ...] = ()
    counts: tuple[Row, ...] = ()
    facts: tuple[Row, ...] = ()
    groups: tuple[Row, ...] = ()
    identifiability: tuple[Row, ...] = ()
    information: tuple[Row, ...] = ()
    intent_inference: tuple[Row, ...] = ()
    linkage: tuple[Row, ...] = ()
    places: tuple[Row, ...] = ()
    promises: tuple[Row, ...] = ()
    published: tuple[Row, ...] = ()
    proven: tuple[Row, ...] = ()
    queries: tuple[Row, ...] = ()
    query_identification: tuple[Row, ...] = ()
    refused: tuple[Row, ...] = ()
    tasks: tuple[Row, ...] = ()
    results: tuple[Row, ...] = ()

    @classmethod
    def of(cls, plan: Plan, runs: Sequence[Run]) -> AttackReport:
        """The report on the runs of a plan. Repetitions of one setting are pooled."""
        pooled = pools(runs)
        attacked = [
            AttackedPool(
                pool.setting,
                click_model,
                TaskEvidence.combined([run.attacks.found[click_model] for run in pool.runs]),
                Streams(pool.runs[0].spec.seed),
                () if pool.runs[0].spec.attack is None else pool.runs[0].spec.attack.queries,
            )
            for pool in pooled
            for click_model in pool.runs[0].attacks.found
        ]
        too_short = max(run.attacks.too_short for run in runs)
        fields = cls.shared(plan, runs) | {"dataset": dataset_row([run.data for run in runs], too_short)}
        proofs = [(pool.setting, pool.runs[0].proofs) for pool in pooled]
        return cls.made(attacked, proofs, **fields, utility_groups=served_group_rows(pooled))

    @classmethod
    def made(
        cls,
        attacked: Iterable[AttackedPool],
        proofs: Iterable[tuple[Setting, Sequence[ProofRecord]]] = (),
        *,
        warnings: Sequence[Row] = (),
        **fields: Any,
    ) -> AttackReport:
        """The report on what was attacked and on the proofs of each setting, and doubts about the results."""
        rows: dict[str, list[Row]] = {kind: [] for kind in SECTIONS}
        on_clicks = []
        for pool in attacked:
            records = list(pool.found.records(pool.streams))
            clicks = [each for each in records if each.task == "clicks" and each.group is None]
            on_clicks.append((pool.click_model, clicks))
            for kind, values in pool.values(records):
                rows[kind].append(pool.row(kind, values))
        rows["proven"] += [_proven_row(proof, setting) for setting, each in proofs for proof in each]
        every = (*warnings, *map(warning_row, doubts(on_clicks)))
        fields |= {kind: tuple(mine) for kind, mine in rows.items() if mine}
        return cls(warnings=every, **fields)

    @property
    def about(self) -> str:
        return dataset_line(self.dataset, self.config, self.results or self.counts)

    def show(self, console: Console) -> None:
        """Print the whole report: what it all means, data, results and their details, and utility."""
        inquiries = {kind: getattr(self, kind) for kind in details.INQUIRIES}
        for kind, rows in inquiries.items():
            _print(details.inquiry_sentences(kind, rows), console, style="bold")
        if any(not row["baseline"] for row in self.results) or not any((*inquiries.values(), self.tasks)):
            _print([describe_results(self.results)], console, style="bold")
        console.print(self.about)
        _print(self._facts_lines(), console)
        worlds = group_by_world(self.results)
        for world, rows in worlds.items():
            _print(self._of_world(world, rows), console)
            console.print()
        if len({row["learner"] for row in self.information}) > 1:
            _print([details.learners_table(self.information)], console)
        if self.utility:
            _print([utility_table(self.utility, self.config)], console)
        if self.utility_groups:
            _print([served_groups_table(self.utility_groups)], console)
        if any(math.isfinite(row["eps_proven"]) for row in self.proven):
            _print([details.proven_table(self.proven)], console)
        _print(details.named_queries(self.queries), console)
        for kind, rows in inquiries.items():
            _print((details.inquiry_table(kind, *world) for world in group_by_world(rows).items()), console)
        _print((details.task_table(*world) for world in group_by_world(self.tasks).items()), console)
        others = (row for row in self.refused if describe_world(row) not in worlds)
        _print(details.refused_lines(others), console)

    def short_answer(self) -> BriefAnswer | None:
        """The conclusion with one table; None without attacks on clicks: then the tables are short."""
        strongest = _strongest(self.results)
        if strongest is None:
            return None
        worlds, world = group_by_world(self.results), describe_world(strongest[0])
        rows, more = first_rows(_shown(worlds[world]), "rows")
        others = [[part for part in name.split(", ") if part not in world.split(", ")] for name in worlds]
        return BriefAnswer(
            conclusion=(describe_results(self.results),),
            about=self.about,
            table=_brief_table(world, rows),
            notes=(
                *details.promise_lines(_only(world, self.promises)),
                *details.published_lines(_only(world, self.published)),
                *details.refused_lines(_only(world, self.refused)),
                *details.utility_lines(self.utility),
            ),
            left_out=(*map(" and ".join, filter(None, others)), *more, "all guesses, metrics and intervals"),
        )

    def show_short(self, console: Console, *, quiet: bool = False) -> None:
        """Print the short answer; of a report that has no attack on clicks the whole report."""
        short = not quiet and self.short_answer() is not None
        _print(self._facts_lines() if short else (), console)
        super().show_short(console, quiet=quiet)
        _print(details.named_queries(self.queries) if short else (), console)

    def figure(self) -> Figure:
        """Precision, recall and AUC of each attack, and nDCG@10, against the claimed epsilon."""
        return attack_figure(self.results, self.utility, data_title(self.dataset))

    def _facts_lines(self) -> Iterator[str]:
        """The facts that were given by hand, and one line per trace; warnings repeat what matters."""
        known = self.config.get("known")
        if isinstance(known, Mapping) and known:
            yield details.given_text(known)
        for row in self.facts:
            yield _click_prefix(row, self.facts) + row["text"]

    def _of_world(self, world: str, results: Sequence[Row]) -> Iterator[Table | str]:
        """The tables and lines of one click model and view."""
        yield details.results_table(results)
        yield details.scores_table(results)
        any_click, learned = _only(world, self.any_click), _only(world, self.information)
        if any(row["auc"].known for row in any_click):
            yield details.any_click_table(any_click)
        for groups, of in ((self.groups, "clients"), (self.places, "lists")):
            if mine := _only(world, groups):
                yield details.groups_table(mine, of)
        if learned:
            yield details.information_table(learned)
        yield from details.promise_lines(_only(world, self.promises))
        yield from details.published_lines(_only(world, self.published))
        yield from details.identifiability_lines(_only(world, self.identifiability))
        yield from details.calibration_lines(_only(world, self.calibration))
        yield from details.refused_lines(_only(world, self.refused))


def _only(world: str, rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if describe_world(row) == world]


def _print(parts: Iterable[Table | str], console: Console, style: str | None = None) -> None:
    """Print tables, each with an empty line below it, and lines."""
    for part in parts:
        if isinstance(part, Table):
            print_table(part, console)
            console.print()
        else:
            print_lines([part], console, style)


class AttackedPool(NamedTuple):
    """What was attacked, and what attacks found.

    `streams` draw the bootstrap; attacked lists of the named `queries` get a row each; reasons of refused
    attacks are `advised`.
    """

    setting: Setting
    click_model: str
    found: TaskEvidence
    streams: Streams
    queries: Sequence[str] = ()
    advised: Callable[[str], str] = str

    def row(self, kind: str, values: Mapping[str, Any]) -> Row:
        """A row in the order of its section, with what was attacked in its place."""
        where = {"click_model": self.click_model, **self.setting.columns(), "view": self.found.view}
        columns: dict[str, Any] = {}
        for field in SECTIONS[kind].fields:
            if field.name == "click_model":
                columns |= where
            elif field.name not in where:
                columns[field.name] = values.get(field.name)
        return SECTIONS[kind].row({**columns, **values} if kind == "tasks" else columns, self.setting)

    def values(self, records: Iterable[AttackRecord]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The values of all rows, each with its kind."""
        found = self.found
        for record in records:
            kind = "groups" if record.task == "clicks" and record.group else _KINDS.get(record.task, "tasks")
            other = {name: getattr(record, name) for name in ("method", "baseline", "task")}
            others = {**other, **record.counts, **record.metrics}
            yield kind, others if kind == "tasks" else record_values(record)
        if found.clicks is not None:
            yield "identifiability", identifiability(found.clicks)
            yield from (("queries", values) for values in named_lists(found.clicks, self.queries))
        for proof in () if found.promises is None else found.promises.records():
            more = {"about": proof.about, "proof_sees": sees(proof.view), "rounds": proof.rounds}
            yield "promises", {**_bound(proof), **more, "ceiling_auc": proof.auc}
        if found.singled_out is not None:
            yield "published", vars(found.singled_out)
        for method, why in found.refused.items():
            yield "refused", {"method": method, "reason": self.advised(why)}


def _bound(proof: ProofRecord) -> dict[str, Any]:
    upper = proof.upper
    return {"unit": proof.unit, "eps_proven": upper.epsilon, "delta": upper.delta, "how": upper.how}


def _proven_row(proof: ProofRecord, setting: Setting) -> Row:
    setting = replace(setting, sees=sees(proof.view))
    run = {} if proof.whole_run is None else run_bound_columns(proof.whole_run)
    return SECTIONS["proven"].row({**setting.columns(), "view": proof.view, **_bound(proof), **run}, setting)


def recorded_report(recorded: TraceAttack, progress: Progress = SILENT) -> AttackReport:
    """Check the facts against the messages, then judge the attacks; the utility is what a Run recorded.

    Raises:
        UsageError: a trace holds no truth, or a query was named that is not in its data.
    """
    from foltr_audit.experiments.recorded_attack import recorded_utility

    refuse_unknown_queries(recorded.protocol.queries, recorded.collection)
    section = SECTIONS["facts"]
    facts = [section.row({"click_model": name, **each.table()}) for name, each in recorded.facts.items()]
    protocol = recorded.protocol
    attacked = [
        AttackedPool(
            _setting(judged.header, recorded, attacker_sees(protocol.view, protocol.hide)),
            judged.click_model,
            judged.found,
            Streams(recorded.used_seed),
            protocol.queries,
            recorded.advised,
        )
        for judged in recorded.judged(progress)
    ]
    wrong = [coded("facts", _click_prefix(row, facts) + text) for row in facts for text in row["warnings"]]
    fields: dict[str, Any] = {"utility": ()}
    if (training := recorded.training()) is not None:
        header, rounds = training
        setting = _setting(header, recorded)
        groups = served_rows([TrainingHistory(recorded.population, rounds)], setting)
        utility = (utility_row([recorded_utility(rounds)], setting),)
        fields = {"utility": utility, "utility_groups": tuple(groups)}
    return AttackReport.made(
        attacked,
        [(_setting(recorded.header, recorded), recorded.proofs)],
        config=recorded.table(),
        dataset=dataset_row([recorded.data_record]),
        facts=tuple(facts),
        warnings=[warning_row(warning) for warning in (*dict.fromkeys(recorded.notes()), *wrong)],
        **fields,
    )


def _click_prefix(row: Row, rows: Sequence[Row]) -> str:
    return f"{row['click_model']} clicks: " if len(rows) > 1 else ""


def _setting(header: TraceHeader, recorded: TraceAttack, sees: str | None = None) -> Setting:
    known, spec, trained_on = header.knowledge, recorded.spec, "unknown"
    defense, eps = known.get("defense", []), known.get("eps_claimed", math.inf)
    pdgd = setting_text(str(known.get("pairs", "unknown")), str(known.get("normaliser", "unknown")))
    if spec is not None:
        trained_on = recorded.population.click_model(spec.train.click_model) or SEVERAL
    return Setting(
        trained_on=trained_on,
        eps_claimed=float(eps) if isinstance(eps, int | float) else math.inf,
        defense="+".join(defense) if isinstance(defense, list) else str(defense),
        learner=str(known.get("learner", "unknown")),
        pdgd=pdgd if header.holds_models or "pairs" in known else "none",
        sees=sees,
    )


_RECOVERS = (
    "{claim}, a {who} that sees {sees} recovers {recall} of the clicks of {clicks} users with {method}, at a "
    "precision of {precision}; its AUC is {auc}, {above} above that of the best guess without a message "
    "({guess}, {guess_auc})."
)
_NO_BETTER = " A guess that knows the grades of the documents is as good (AUC {grades_auc})."
_NOT_SHOWN = (
    "{claim}, no attack that ran ({ran}) is shown to be better than the best guess without a message "
    "({guess}, AUC {guess_auc}); the best, {method} on {clicks} clicks, has an AUC of {auc} on {lists} lists."
)
_UNTRIED = " Stronger attacks were not tried: leave out --method to run them."


def _strongest(results: Sequence[Row]) -> tuple[Row, Sequence[Row], bool] | None:
    """The strongest attack on the smallest claimed epsilon; None where no attack has an AUC.

    With the attacks that it was chosen from, and whether it is shown to beat the best guess that does not
    know the grades. The strongest of several is the luckiest too, so this is corrected for their number.
    """
    rows = [row for row in results if not row["baseline"] and row["auc"].known]
    smallest = min((row["eps_claimed"] for row in rows), default=math.inf)
    rows = [row for row in rows if row["eps_claimed"] == smallest]
    sure = [row for row in rows if shown_above(row["above_guess"], 0.0, len(rows))]

    def strength(row: Row) -> tuple[float, float]:
        """The AUC; recall and precision together tell attacks of equal AUC apart."""
        return row.number("auc"), known_or(row.number("recall") + row.number("precision"), 0.0)

    best = max(sure or rows, key=strength, default=None)
    return None if best is None else (best, rows, bool(sure))


def describe_results(results: Sequence[Row]) -> str:
    """What the strongest attack on the smallest claimed epsilon shows."""
    strongest = _strongest(results)
    if strongest is None:
        clicked = any(row["lists"] for row in results)
        kind = "clicked and unclicked documents" if clicked else "a click"
        return f"No list with {kind} was attacked, so nothing can be said."
    row, rows, sure = strongest
    eps, few = row["eps_claimed"], few_lists([row["lists"]])
    auc, above = (selected(row[name], [each[name] for each in rows]) for name in ("auc", "above_guess"))
    if auc.ci95 != row["auc"].ci95:
        intervals = "The intervals allow" if sure else "The interval allows"
        few = f" {intervals} for the choice of the best of {len(rows)}.{few}"
    words = {
        "claim": "Without a claimed epsilon" if math.isinf(eps) else f"At a claimed epsilon of {eps:g}",
        "clicks": row["click_model"],
        "method": row["method"],
        "auc": estimate_text(auc),
        "guess": row["guess"],
        **{name: short(row[name]) for name in ("guess_auc", "grades_auc")},
    }
    if not sure:
        backwards = wrong_sign(
            [AttackedClicks(each["click_model"], each["method"], each["auc"]) for each in rows]
        )
        if backwards:
            return f"{words['claim']}, {backwards}."
        ran = list(dict.fromkeys(each["method"] for each in rows))
        text = _NOT_SHOWN.format(**words, ran=", ".join(ran), lists=row["lists"])
        tried = any(attack.strongest for name in ran if (attack := make_if_known(Attack, name)))
        return text + ("" if tried else _UNTRIED) + few
    text = _RECOVERS.format(
        **words,
        who=attacker(row["view"]),
        sees=(row["sees"] or "").replace("message", "messages").replace("sum", "sums"),
        recall=whole_percent(row.number("recall")),
        precision=whole_percent(row.number("precision")),
        above=estimate_text(above),
    )
    return text + (_NO_BETTER.format(**words) if row.number("grades_auc") >= row.number("auc") else "") + few


def _shown(rows: Sequence[Row]) -> list[Row]:
    """For each setting its attacks, strongest first, the best guess and the most that any attack can reach.

    Where that is too much, only the strongest attack of each setting and the best guess.
    """
    settings = by_setting(rows)
    shown = [row for mine in settings for row in _of_setting(mine, MOST_ROWS)]
    return shown if len(shown) <= MOST_ROWS else [row for mine in settings for row in _of_setting(mine, 1)]


def _of_setting(rows: Sequence[Row], most: int) -> list[Row]:
    ranked = sorted(rows, key=lambda row: -row.number("auc") if row["auc"].known else 0.0)
    attacks = [row for row in ranked if not row["baseline"]][:most]
    knowing = [row for row in ranked if row["method"] == KNOWS_GRADES]
    guesses = [row for row in ranked if row["baseline"] and row not in knowing][:1]
    return [*attacks, *guesses, *knowing, *details.ceilings(attacks)[:1]]


def _brief_table(world: str, rows: Sequence[Row]) -> Table:
    lists = sorted({(row["lists"], row["queries"]) for row in rows})
    counts = " or ".join(f"{count} lists of {queries} queries" for count, queries in lists)
    proven = any(row["method"] == details.ANY_ATTACK for row in rows)
    return make_table(
        world,
        [
            *columns_of("method:method"),
            *setting_columns(rows, without=["trained_on"]),
            *(columns_of("claimed=eps_claimed:claim") if details.claims_vary(rows) else []),
            *columns_of("accuracy:3; precision:3; recall:3; exact\nmatch=exact:3; AUC=auc:beside"),
            *GUESS_COLUMNS,
        ],
        rows,
        caption=f"{counts}; in brackets: the 95 % interval over queries"
        + (f"\n{details.EXPLAINED}" if proven else ""),
        notes=GUESS_NOTES,
        dim=lambda row: row["baseline"],
        section=lambda row: str(row.setting),
        spare=("exact\nmatch", "accuracy", "recall", "precision"),
    )
