"""The report of `attack`: what attacks read in the messages of clients, as rows, sentences and a picture."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from rich.markup import escape

from foltr_audit.core.client_steps import StepFunction, as_client_step
from foltr_audit.core.pdgd import setting_text
from foltr_audit.core.plugins import Attack, ClientStep
from foltr_audit.core.plugins.registry import Attacks, make_if_known, texts_of
from foltr_audit.core.records.population import SEVERAL
from foltr_audit.core.results import AttackRecord, ProofRecord
from foltr_audit.core.settings.attack import refuse_unknown_queries
from foltr_audit.core.warning_kinds import coded
from foltr_audit.experiments.periods import TrainingHistory
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.recorded_attack import TraceAttack, recorded_utility
from foltr_audit.experiments.run import Run
from foltr_audit.judge.doubts import AttackedClicks, beats_guessing, doubts, wrong_sign
from foltr_audit.judge.promises import CEILINGS
from foltr_audit.judge.protocol import TaskEvidence
from foltr_audit.judge.scoring import GROUP_METRICS, METRICS, identifiability, named_lists
from foltr_audit.privacy.observer_views import attacker, attacker_sees, sees
from foltr_audit.report import attack_details as details
from foltr_audit.report.attack_details import (
    ANY_ATTACK,
    EXPLAINED,
    FACTS,
    YARDSTICK,
    describe_world,
    group_by_world,
    with_ceilings,
)
from foltr_audit.report.documents import Field, Row, Section, nested, prefixed
from foltr_audit.report.figures import attack_figure
from foltr_audit.report.groups import beside_all, served_group_rows, served_groups_table, served_rows
from foltr_audit.report.plan_report import PlanReport
from foltr_audit.report.settings import (
    RUN_BOUND,
    SETTING,
    Setting,
    dataset_line,
    dataset_row,
    few_lists,
    pools,
    run_bound_columns,
    setting_columns,
    utility_row,
    utility_table,
    warning_row,
)
from foltr_audit.report.table import (
    Table,
    beside_column,
    interval_text,
    make_table,
    method_column,
    short_column,
    whole_percent,
)
from foltr_audit.report.terminal import MOST_ROWS, BriefAnswer, first_rows, print_table
from foltr_audit.rng import Streams
from foltr_audit.trace import TraceHeader
from foltr_audit.utils.argument_names import names_arguments
from foltr_audit.utils.formatting import short
from foltr_audit.utils.progress import SILENT, Progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

# --- the document ----------------------------------------------------------------------------------

WHERE = Section("click_model", SETTING, "view")
"""What was attacked: how its users click, what was run, and the view, as in `AttackSpec.view`."""


def _section(
    columns: str, *more: str | Field, first: str = "method baseline:bool", **options: str
) -> Section:
    return Section(first, WHERE, columns, *more, **options)


_BIN = Section("low:num high:num documents:int probability:num|null clicked:num|null")
_GROUP = _section("group place:int lists:int skipped:int queries:int", *map(beside_all, GROUP_METRICS))
_TASKS = _section("...", first="method baseline:bool? task")
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
    "facts": Section("click_model", FACTS),
    "groups": _GROUP,
    "identifiability": _section(
        "lists:int all_clicked:int without_click:int documents:int not_observed:num|null not_told:num|null "
        "identifiable:num|null messages:int rank_mean:num|null rank_min:int|null unknowns_mean:num|null "
        "full_rank:num|null",
        first="",
    ),
    "information": _section(
        "lists:int queries:int bits:est entropy:est share:est exact_posterior:bool bias_bound:num "
        "impossible:int wrong_prior:int"
    ),
    "intent_inference": _section(
        "intents:int messages_together:int decisions:int clients:int mixed:int left_over:int chance:num "
        "most_frequent:num shown:est shown_balanced:est accuracy:est balanced_accuracy:est probability:est "
        "bits:est ceiling_accuracy:num",
        first="method",
    ),
    "linkage": _section(
        "choices:int choices_asked:int messages:int clients:int chance:num chance_mrr:num accuracy:est "
        "mrr:est rank:est probability:est ceiling_accuracy:num"
    ),
    "places": _GROUP,
    "promises": _section(
        "about unit proof_sees rounds:int eps_proven:num delta:num how ceiling_auc:num", first=""
    ),
    "published": _section(
        "rounds:int unchanged:int singled_out:int several:int right:int published:int", first=""
    ),
    "proven": Section(SETTING, "view unit eps_proven:num delta:num how", RUN_BOUND.prefixed("run_")),
    "queries": _section(
        "list:int|null message:int|null shown:[int] clicked:[bool] guessed:[bool] scores:[num] "
        "exact:bool|null",
        first="query method:str|null baseline:bool",
    ),
    "query_identification": _section(
        "choices:int choices_asked:int messages:int messages_with_pairs:int queries:int chance:num "
        "chance_mrr:num",
        *(f"{name}:est {name}_with_pairs:est" for name in ("accuracy", "mrr", "rank", "probability")),
        "ceiling_accuracy:num",
        first="method",
    ),
    "refused": _section("reason", first="method"),
    "tasks": _TASKS,
    "results": _section(
        "lists:int skipped:int all_clicked:int queries:int unclicked_documents:int finest_fpr:num|null "
        "clipped:num",
        *(f"{name}:est" for name in METRICS),
        "precision_undefined:int unknown:int",
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
        any_click: whether a list has any click, over all lists.
        calibration: attacks whose scores are probabilities.
        counts: attacks on sums over clients, estimates without a message first.
        facts: of recorded traces, whether their declared facts explain their messages.
        groups, places: attacks by group of clients, and by place of a list in its message, hit hardest first.
        identifiability: what messages can reveal to any attack.
        information: bits of a list's clicks in its message, of attacks that weigh click patterns.
        intent_inference, linkage, query_identification: attacks that name the intent of a client, its next
            message, and the query of a message.
        promises: what is proven for the attacked messages, for each unit.
        published: of view `client`, whose update each change of the global model is.
        proven: for each observer, what is proven of a round, and of the whole run.
        queries: attacked lists of the named queries, and what each attack says of them.
        refused: attacks that could not run, and why.
        tasks: attacks with another task, such as `participant` or one of another package.
        results: attacks on clicks, baselines first.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/attack/1"
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
        advised: Callable[[str], str] = str,
        **fields: Any,
    ) -> AttackReport:
        """The report on what was attacked and on the proofs of each setting, with the other fields.

        Doubts about the results are added to the warnings, and advice to the reasons of refused attacks.
        """
        rows: dict[str, list[Row]] = {kind: [] for kind in SECTIONS}
        on_clicks = []
        for pool in attacked:
            records = list(pool.found.records(pool.streams))
            clicks = [each for each in records if each.task == "clicks" and each.group is None]
            on_clicks.append((pool.click_model, clicks))
            for kind, row in _rows(pool, records, advised):
                rows[kind].append(row)
        rows["proven"] += [_proven_row(proof, setting) for setting, each in proofs for proof in each]
        every = (*warnings, *map(warning_row, doubts(on_clicks)))
        fields |= {kind: tuple(mine) for kind, mine in rows.items() if mine}
        return cls(warnings=every, **fields)

    def show(self, console: Console) -> None:
        """Print the whole report: data, results and their details, utility, and what it all means."""
        inquiries = (
            (self.query_identification, details.query_table),
            (self.counts, details.count_table),
            (self.intent_inference, details.intent_table),
            (self.linkage, details.link_table),
            (self.tasks, details.task_table),
        )
        console.print(dataset_line(self.dataset, self.config, self.results or self.counts))
        self._show_facts(console)
        worlds = group_by_world(self.results)
        for name, rows in worlds.items():
            self._show_world(name, with_ceilings(rows), console)
        tables = []
        if len({row["learner"] for row in self.information}) > 1:
            tables.append(details.learners_table(self.information))
        if self.utility:
            tables.append(utility_table(self.utility, self.config))
        if self.utility_groups:
            tables.append(served_groups_table(self.utility_groups))
        if any(math.isfinite(row["eps_proven"]) for row in self.proven):
            tables.append(details.proven_table(self.proven))
        _print_tables(tables, console)
        self._show_queries(console)
        for asked, table in inquiries:
            _print_tables((table(*world) for world in group_by_world(asked).items()), console)
        others = [row for row in self.refused if describe_world(row) not in worlds]
        _print_lines(details.refused_lines(others), console)
        conclusions = [*details.inquiry_sentences(*(rows for rows, _ in inquiries[:4]))]
        if any(not row["baseline"] for row in self.results) or not any(rows for rows, _ in inquiries):
            conclusions.append(describe_results(self.results))
        _print_lines(conclusions, console, style="bold")

    def short_answer(self) -> BriefAnswer | None:
        """The conclusion with one table; None without attacks on clicks: then the tables are short."""
        strongest = _strongest(self.results)
        if strongest is None:
            return None
        worlds, world = group_by_world(self.results), describe_world(strongest.row)
        rows, more = first_rows(_shown(worlds[world]), "rows")
        parts = world.split(", ")
        others = (
            [part for part in name.split(", ") if part not in parts] for name in worlds if name != world
        )
        return BriefAnswer(
            conclusion=(describe_results(self.results),),
            about=dataset_line(self.dataset, self.config, self.results),
            table=_brief_table(world, rows),
            notes=(
                *details.promise_lines(_of_world(self.promises, world)),
                *details.published_lines(_of_world(self.published, world)),
                *details.refused_lines(_of_world(self.refused, world)),
                *details.utility_lines(self.utility),
            ),
            left_out=(*map(" and ".join, others), *more, "all guesses, metrics and intervals"),
        )

    def show_short(self, console: Console, *, quiet: bool = False) -> None:
        """Print the short answer; of a report that has no attack on clicks the whole report."""
        answer = self.short_answer()
        if answer is None:
            self.show(console)
            return
        if not quiet:
            self._show_facts(console)
        answer.print(console, quiet=quiet)
        if not quiet:
            self._show_queries(console)

    def figure(self) -> Figure:
        """The AUC of every attack and guess with its interval, a panel for each world."""
        return attack_figure(self.results)

    def _show_facts(self, console: Console) -> None:
        """The facts that were given by hand, and one line per trace; warnings repeat what matters."""
        known = self.config.get("known")
        lines = [details.given_text(known)] if isinstance(known, Mapping) and known else []
        lines += [_click_prefix(row, self.facts) + row["text"] for row in self.facts]
        _print_lines(lines, console)

    def _show_world(self, name: str, results: Sequence[Row], console: Console) -> None:
        """The tables and lines of one click model and view."""
        any_click, learned = _of_world(self.any_click, name), _of_world(self.information, name)
        tables = [details.results_table(results), details.scores_table(results)]
        if any(row["auc"].known for row in any_click):
            tables.append(details.any_click_table(any_click))
        for rows, of in ((self.groups, "clients"), (self.places, "lists")):
            mine = _of_world(rows, name)
            tables += [details.groups_table(mine, of)] if mine else []
        tables += [details.information_table(learned)] if learned else []
        _print_tables(tables, console)
        for rows, lines in (
            (self.promises, details.promise_lines),
            (self.published, details.published_lines),
            (self.identifiability, details.identifiability_lines),
            (self.calibration, details.calibration_lines),
            (self.refused, details.refused_lines),
        ):
            _print_lines(lines(_of_world(rows, name)), console)
        console.print()

    def _show_queries(self, console: Console) -> None:
        """What was found in the lists of the queries that --queries names."""
        _print_tables(details.named_query_tables(self.queries), console)
        _print_lines(details.not_attacked_lines(self.queries), console)


def _of_world(rows: Sequence[Row], name: str) -> Sequence[Row]:
    return group_by_world(rows).get(name, [])


def _print_tables(tables: Iterable[Table], console: Console) -> None:
    for table in tables:
        print_table(table, console)
        console.print()


def _print_lines(lines: Iterable[str], console: Console, style: str | None = None) -> None:
    for line in lines:
        console.print(escape(line), style=style, highlight=False)


# --- from records to rows --------------------------------------------------------------------------


class AttackedPool(NamedTuple):
    """What was attacked, and what attacks found.

    `streams` draw the bootstrap; attacked lists of the named `queries` get a row each.
    """

    setting: Setting
    click_model: str
    found: TaskEvidence
    streams: Streams
    queries: Sequence[str] = ()


def _rows(
    pool: AttackedPool, records: Iterable[AttackRecord], advised: Callable[[str], str]
) -> Iterator[tuple[str, Row]]:
    """Rows about what was attacked, each with its kind."""
    columns = {"click_model": pool.click_model, **pool.setting.columns(), "view": pool.found.view}
    where, found = WHERE.row(columns, pool.setting), pool.found

    def row(kind: str, values: Mapping[str, Any]) -> tuple[str, Row]:
        return kind, _row(SECTIONS[kind], where, values)

    for record in records:
        kind = "groups" if record.task == "clicks" and record.group else _KINDS.get(record.task, "tasks")
        yield row(kind, _values(record))
    if found.clicks is not None:
        yield row("identifiability", identifiability(found.clicks))
        for values in named_lists(found.clicks, pool.queries):
            yield row("queries", values)
    for proof in () if found.promises is None else found.promises.records():
        more = {"about": proof.about, "proof_sees": sees(proof.view), "rounds": proof.rounds}
        yield row("promises", _bound(proof) | more | {"ceiling_auc": proof.auc})
    if found.singled_out is not None:
        yield row("published", vars(found.singled_out))
    for method, why in found.refused.items():
        yield row("refused", {"method": method, "reason": advised(why)})


def _row(section: Section, where: Row, values: Mapping[str, Any]) -> Row:
    """A row in the order of its section, with the columns of `where` in their place."""
    columns: dict[str, Any] = {}
    for field in section.fields:
        if field.name == "click_model":
            columns |= where
        elif field.name not in where:
            columns[field.name] = values.get(field.name)
    more = {name: value for name, value in values.items() if section is _TASKS and name not in columns}
    return section.row(columns | more, where.setting)


def _values(record: AttackRecord) -> dict[str, Any]:
    """A record by the names of columns."""
    values = {"method": record.method, "baseline": record.baseline, **record.counts, **record.metrics}
    if record.task not in _KINDS:
        return values | {"task": record.task}
    return {
        **values,
        **record.more,
        **prefixed("ceiling_", record.ceiling),
        "group": record.group,
        "place": record.place,
        **{f"{name}_all": value for name, value in record.everybody.items()},
        **{f"{name}_difference": value for name, value in record.differences.items()},
    }


def _bound(proof: ProofRecord) -> dict[str, Any]:
    upper = proof.upper
    return {"unit": proof.unit, "eps_proven": upper.epsilon, "delta": upper.delta, "how": upper.how}


def _proven_row(proof: ProofRecord, setting: Setting) -> Row:
    setting = replace(setting, sees=sees(proof.view))
    run = {} if proof.whole_run is None else run_bound_columns(proof.whole_run)
    return SECTIONS["proven"].row({**setting.columns(), "view": proof.view, **_bound(proof), **run}, setting)


# --- recorded messages -----------------------------------------------------------------------------


@names_arguments
def attack_trace(
    path: str | Path,
    methods: Attacks | None = None,
    *,
    target: str | None = None,
    data: str | None = None,
    view: str | None = None,
    step: ClientStep | StepFunction | None = None,
    know: Mapping[str, object] | None = None,
) -> AttackReport:
    """Attack a recorded Run or trace that holds its truth, with one attack or several.

    Args:
        path: the folder of a Run or a trace.
        methods: attacks: texts, objects or classes; None for those of its Spec, or the strong ones that fit
            its messages.
        target: of a Run: `fresh` clients or `training` rounds.
        data: path of the data set, if features are not embedded and it has moved.
        view: what the observer sees: `individual` messages; `aggregate`, the sum of each round; `client`, the
            global models before and after it, and the lists of its clients.
        step: what the clients compute from a list and its clicks, if it is not PDGD: a client step such as
            `torch_step` makes, or a function `step(model, features, clicks)` as of `numpy_step`.
        know: facts over those of its header, e.g. `{"learning_rate": 0.1}`.

    Returns:
        A report with one row per attack.

    Raises:
        UsageError: it holds no truth, its data set is missing, or a fact does not exist.
        TraceError: it is damaged, or was recorded on other data.
        PluginError: the step fails, or does not fit the trace.

    Example:
        >>> import foltr_audit as fa
        >>> fa.attack_trace("run", "lad").summary()  # doctest: +SKIP
    """
    chosen = None if methods is None else texts_of(Attack, methods)
    own = None if step is None else as_client_step(step)
    changes = {"methods": chosen, "view": view}
    recorded = TraceAttack.open(
        Path(path), target=target, data=data, changes=changes, know=know, client_step=own
    )
    return recorded_report(recorded)


def recorded_report(recorded: TraceAttack, progress: Progress = SILENT) -> AttackReport:
    """Check the facts against the messages, then judge the attacks; the utility is what a Run recorded.

    Raises:
        UsageError: a trace holds no truth, or a query was named that is not in its data.
    """
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
        )
        for judged in recorded.judged(progress)
    ]
    wrong = [coded("facts", _click_prefix(row, facts) + text) for row in facts for text in row["warnings"]]
    return AttackReport.made(
        attacked,
        [(_setting(recorded.header, recorded), recorded.proofs)],
        advised=recorded.advised,
        config=recorded.table(),
        dataset=dataset_row([recorded.data_record]),
        facts=tuple(facts),
        warnings=[warning_row(warning) for warning in (*dict.fromkeys(recorded.notes()), *wrong)],
        **_utility(recorded),
    )


def _click_prefix(row: Row, rows: Sequence[Row]) -> str:
    return f"{row['click_model']} clicks: " if len(rows) > 1 else ""


def _utility(recorded: TraceAttack) -> dict[str, tuple[Row, ...]]:
    """What a Run's training rounds recorded of its utility, and by group; nothing for a bare trace."""
    training = recorded.training()
    if training is None:
        return {"utility": ()}
    header, rounds = training
    setting = _setting(header, recorded)
    groups = served_rows([TrainingHistory(recorded.population, rounds)], setting)
    return {"utility": (utility_row([recorded_utility(rounds)], setting),), "utility_groups": tuple(groups)}


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


# --- what it means ---------------------------------------------------------------------------------

_RECOVERS = (
    "{claim}, a {who} that sees {sees} recovers {recall} of the {clicks} users' clicks with {method}, at a "
    "precision of {precision} (three random guesses recover {random_recall}, at a precision of "
    "{random_precision})."
)
_BETTER_GUESS = (
    " A guess that reads no message, {guess}, orders the documents better: its AUC is {best}, that of "
    "{method} {auc}."
)
_NOT_SHOWN = (
    "{claim}, no attack that ran ({ran}) is shown to be better than guessing; the best, {method} on {clicks} "
    "clicks, has an AUC of {auc} on {lists} lists."
)
_UNTRIED = " Stronger attacks were not tried: leave out --method to run them."


class _StrongestAttack(NamedTuple):
    """The strongest attack on the smallest claimed epsilon.

    Attributes:
        row: its row.
        rows: the attacks that it was chosen from.
        sure: whether it is shown to beat guessing.
    """

    row: Row
    rows: Sequence[Row]
    sure: bool


def _strongest(results: Sequence[Row]) -> _StrongestAttack | None:
    """None where no list with a click was attacked."""
    rows = [row for row in results if not row["baseline"] and row["auc"].known]
    if not rows:
        return None
    smallest = min(row["eps_claimed"] for row in rows)
    rows = [row for row in rows if row["eps_claimed"] == smallest]
    sure = [row for row in rows if beats_guessing(row["auc"], row["queries"], len(rows))]
    best = max(sure or rows, key=lambda row: (row.number("auc"), _recall_and_precision(row)))
    return _StrongestAttack(best, rows, bool(sure))


def describe_results(results: Sequence[Row]) -> str:
    """What the strongest attack on the smallest claimed epsilon shows.

    The strongest of several rows is the luckiest too. So its AUC counts as better than guessing only
    if its interval, widened for the number of rows that it was chosen from, lies above one half.
    """
    strongest = _strongest(results)
    if strongest is None:
        return "No list with a click was attacked, so nothing can be said."
    row, rows, sure = strongest
    eps, few = row["eps_claimed"], few_lists([row["lists"]])
    claim = "Without a claimed epsilon" if math.isinf(eps) else f"At a claimed epsilon of {eps:g}"
    if not sure:
        attacks = [
            AttackedClicks(row["click_model"], row["method"], row["auc"], row["queries"]) for row in rows
        ]
        backwards = wrong_sign(attacks)
        return f"{claim}, {backwards}." if backwards else _not_shown(claim, row, rows) + few
    guesses = [each for each in results if each["baseline"] and _place(each) == _place(row)]
    random = next(each for each in guesses if each["method"] == "random:k=3")
    text = _RECOVERS.format(
        claim=claim,
        who=attacker(row["view"]),
        sees=(row["sees"] or "").replace("message", "messages").replace("sum", "sums"),
        recall=whole_percent(row.number("recall")),
        clicks=row["click_model"],
        method=row["method"],
        precision=whole_percent(row.number("precision")),
        random_recall=whole_percent(random.number("recall")),
        random_precision=whole_percent(random.number("precision")),
    )
    known = {each.number("auc"): each["method"] for each in guesses if each["auc"].known}
    best, auc = max(known, default=0.0), row.number("auc")
    if best > auc:
        text += _BETTER_GUESS.format(
            guess=known[best], best=short(best), method=row["method"], auc=short(auc)
        )
    return text + few


def _place(row: Row) -> tuple[Any, ...]:
    return row["click_model"], row["view"], row.setting


def _not_shown(claim: str, row: Row, rows: Sequence[Row]) -> str:
    """No attack is shown to be better than guessing, with the names of those that ran."""
    ran = list(dict.fromkeys(other["method"] for other in rows))
    text = _NOT_SHOWN.format(
        claim=claim,
        ran=", ".join(ran),
        method=row["method"],
        clicks=row["click_model"],
        auc=f"{short(row.number('auc'))} {interval_text(row['auc'])}".rstrip(),
        lists=row["lists"],
    )
    tried = any(attack.strongest for name in ran if (attack := make_if_known(Attack, name)))
    return text if tried else text + _UNTRIED


def _recall_and_precision(row: Row) -> float:
    """Recall and precision together, which tell attacks of equal AUC apart; 0 where nothing was named."""
    both = row.number("recall") + row.number("precision")
    return 0.0 if math.isnan(both) else both


# --- short answer ----------------------------------------------------------------------------------


def _shown(rows: Sequence[Row]) -> list[Row]:
    """For each setting its attacks, strongest first, the best guess and the most that any attack can reach.

    Where that is too much, only the strongest attack of each setting and the best guess.
    """
    settings: dict[str, list[Row]] = {}
    for row in rows:
        settings.setdefault(f"{row['learner']} {row['defense']}", []).append(row)
    shown = [_of_setting(mine, MOST_ROWS) for mine in settings.values()]
    if sum(map(len, shown)) > MOST_ROWS:
        shown = [_of_setting(mine, 1) for mine in settings.values()]
    return [row for mine in shown for row in mine]


def _of_setting(rows: Sequence[Row], most: int) -> list[Row]:
    ranked = sorted(rows, key=lambda row: -row.number("auc") if row["auc"].known else 0.0)
    attacks = [row for row in ranked if not row["baseline"]][:most]
    guesses = [row for row in ranked if row["baseline"]][:1]
    ceilings = [row for row in with_ceilings(attacks) if row["method"] == ANY_ATTACK][:1]
    return [*attacks, *guesses, *ceilings]


def _brief_table(world: str, rows: Sequence[Row]) -> Table:
    claims_vary = len({row["eps_claimed"] for row in rows}) > 1
    columns = [
        method_column(),
        *setting_columns(rows, without=["trained_on"]),
        *([details.claimed_column()] if claims_vary else []),
        short_column("accuracy", "accuracy"),
        short_column("precision", "precision"),
        short_column("recall", "recall"),
        short_column("exact\nmatch", "exact"),
        beside_column("AUC", "auc"),
    ]
    lists = sorted({(row["lists"], row["queries"]) for row in rows})
    counts = " or ".join(f"{count} lists of {queries} queries" for count, queries in lists)
    guesses = dict.fromkeys(row["method"] for row in rows if row["baseline"] and row["method"] != ANY_ATTACK)
    best = f"; {' or '.join(guesses)}: the best guess that reads no message" if guesses else ""
    caption = [f"{counts}; AUC with its 95 % interval over queries ({YARDSTICK}){best}"]
    caption += [EXPLAINED] if any(row["method"] == ANY_ATTACK for row in rows) else []
    return make_table(
        world,
        columns,
        rows,
        caption="\n".join(caption),
        dim=lambda row: row["baseline"],
        section=lambda row: f"{row['learner']} {row['defense']}",
        spare=("exact\nmatch", "accuracy", "recall"),
    )
