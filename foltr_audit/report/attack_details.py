"""Tables and lines of attacks: on clicks, on other secrets, and what is proven against any attack."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from foltr_audit.core.results import UNKNOWN, Estimate
from foltr_audit.core.warning_kinds import coded
from foltr_audit.judge.promises import CEILINGS
from foltr_audit.judge.scoring import METRICS, RANDOM
from foltr_audit.privacy.observer_views import attacker, with_article
from foltr_audit.report.documents import Document, Row, Section, nested
from foltr_audit.report.groups import difference_column, once, with_totals
from foltr_audit.report.settings import (
    claim_words,
    differing,
    first_of_settings,
    in_method_order,
    run_bound_text,
    run_caption,
    setting_columns,
    setting_text,
)
from foltr_audit.report.table import (
    Cell,
    Column,
    Table,
    beside_column,
    bound_text,
    claim_text,
    counted,
    delta_text,
    estimate_cell,
    estimate_text,
    make_table,
    method_column,
    percent,
    whole_percent,
)
from foltr_audit.report.terminal import MOST_ROWS
from foltr_audit.utils.formatting import JsonValue, epsilon, short

if TYPE_CHECKING:
    from rich.console import Console

Line = dict[str, Any]
"""A row, or a line of a table that stands for no row, such as that of guessing."""

ANY_ATTACK = "any attack"
EXPLAINED = (
    "any attack: the most that the proof allows, for an attacker who knows the grades and how users click"
)
YARDSTICK = ".5 is a coin flip, 1 is perfect"
_OVER_QUERIES = "in brackets: the 95 % interval over queries"
_OVER_CLIENTS = "in brackets: the 95 % interval over clients"
_IDENTIFIABLE = "identifiable: accuracy on documents whose click is identifiable from the message"
_BITS_CAPTION = (
    "leaked at least: lower bound on the mutual information between message and clicks; in total: entropy of "
    "a list's clicks given query, list and grades; every list counts",
    "error at most: what the lower bound may miss, 0 where the attack's posterior is the true one",
)
_IDENTIFIABILITY = (
    "identifiable: {identifiable} of documents; rank {rank_mean:.1f} of {unknowns_mean:.1f} unknowns, "
    "{rank_min} at least; {all_clicked} lists all clicked, {without_click} without a click; {not_observed} "
    "of documents not observed"
)
_SINGLED_OUT = (
    "the global model changed in {rounds:,} rounds{still}; the change was one client's message in "
    "{published:,} of them; it fits one client's lists in {singled_out:,}{other}, and names the right client "
    "in {right:,}"
)


# --- worlds ----------------------------------------------------------------------------------------


def describe_world(row: Row) -> str:
    """What the rows of a table share: click model, observer, and Spec fields without a column."""
    more = "".join(f", {name}={value}" for name, value in row.setting.fields.items())
    seen = with_article(row["sees"] or "")
    return f"{row['click_model']} clicks, the {attacker(row['view'])} sees {seen}{more}"


def group_by_world(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows of each world, by its description."""
    worlds: dict[str, list[Row]] = {}
    for row in rows:
        worlds.setdefault(describe_world(row), []).append(row)
    return worlds


def claimed_column() -> Column:
    """The claimed epsilon of a line; nothing where it is of every epsilon."""
    return Column("claimed", lambda line: claim_text(line["eps_claimed"]) if "eps_claimed" in line else "")


def _columns(metrics: str, *, beside: bool = True) -> list[Column]:
    """Method, claimed epsilon, and metrics such as `accuracy, MRR=mrr`; intervals below or `beside` them."""
    pairs = [each.partition("=") for each in metrics.split(", ")]
    make = beside_column if beside else Column
    return [method_column(), claimed_column(), *(make(header, name or header) for header, _, name in pairs)]


def _guess(line: Line) -> bool:
    return bool(line.get("baseline"))


# --- attacks on clicks; rows of one world ----------------------------------------------------------


def with_ceilings(rows: Sequence[Row]) -> list[Row]:
    """The rows, and for each setting with a proof a line with the most that any attack can reach."""
    proven = first_of_settings(row for row in rows if row["ceiling_accuracy"] is not None)
    most = [{name: row.estimate(f"ceiling_{name}") for name in CEILINGS} for row in proven]
    unknown = dict.fromkeys(METRICS, UNKNOWN)
    return [
        *rows,
        *(
            row.with_values(method=ANY_ATTACK, baseline=True, **(unknown | ceilings))
            for row, ceilings in zip(proven, most, strict=True)
        ),
    ]


def results_table(rows: Sequence[Row]) -> Table:
    """What every method reads, with unit and yardstick, and how many lists the metrics are means over."""
    claims_vary = len({row["eps_claimed"] for row in rows}) > 1
    lines = [f"{_OVER_QUERIES}; AUC: {YARDSTICK}"]
    lines += [EXPLAINED] if any(row["method"] == ANY_ATTACK for row in rows) else []
    for row in {row["defense"]: row for row in rows}.values():
        unknown = f"; {row['unknown']} whose clicks are not known left out" if row["unknown"] else ""
        clipped = "" if row["clipped"] is None else f"; {percent(row['clipped'])} of the steps clipped"
        lines.append(
            f"{claim_words(row['eps_claimed'])}: {row['lists']} lists of {row['queries']} queries; "
            f"{row['skipped']} without a click left out, {row['all_clicked']} with every document clicked "
            f"kept{unknown}{clipped}"
        )
    return make_table(
        describe_world(rows[0]),
        _columns("accuracy, precision, recall, F1=f1, exact\nmatch=exact, AUC=auc", beside=False),
        in_method_order(rows),
        caption="\n".join(lines),
        space=0,
        dim=_guess,
        section=lambda row: claims_vary and row["method"],
        spare=("F1", "accuracy", "recall", "exact\nmatch"),
    )


def scores_table(results: Sequence[Row]) -> Table:
    """How well scores do at few false alarms, and on identifiable documents."""
    # Of the random guesses only the one that knows most.
    rows = [row for row in results if not row["method"].startswith("random:") or row["method"] == RANDOM]
    message = any(row["exact_message"].known for row in rows)
    counts = sorted({row["unclicked_documents"] for row in rows})
    among = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    finest = f"; resolution {percent(1 / counts[0])}" if counts[0] else ""
    few = "; too few for an interval" if any(row["tpr_at_01"].ci95 is None for row in rows) else ""
    metrics = "TPR@1%=tpr_at_1, TPR@.1%=tpr_at_01, identifiable=accuracy_identifiable"
    return make_table(
        "",
        _columns(metrics + (", message=exact_message" if message else "")),
        in_method_order(rows),
        caption=f"TPR at FPR <= 1 % and <= .1 % ({among} unclicked documents{finest}{few})\n{_IDENTIFIABLE}"
        + ("\nmessage: all lists of a message right" if message else ""),
        dim=_guess,
        spare=("TPR@.1%", "message", "identifiable"),
    )


def any_click_table(rows: Sequence[Row]) -> Table:
    """Whether a list has any click, compared with always saying yes."""
    firsts = {(row["eps_claimed"], row["defense"]): row for row in rows}.values()
    always = [
        row.with_values(
            method="always yes",
            baseline=True,
            auc=Estimate(0.5) if row["auc"].known else UNKNOWN,
            accuracy=row["base_rate"],
        )
        for row in firsts
    ]
    return make_table(
        "any click at all? (every list counts)",
        _columns("AUC=auc, accuracy"),
        in_method_order([*always, *rows]),
        dim=_guess,
        spare=("accuracy",),
    )


def groups_table(rows: Sequence[Row], of: str) -> Table:
    """Which groups of `clients` or `lists` attacks read best; of the guesses only the best random one."""
    shown = in_method_order([row for row in rows if not row["baseline"] or row["method"] == RANDOM])
    lines: list[Row] = []
    total = 0
    for line in reversed(list(with_totals(shown, f"all {of}", ("f1", "exact", "auc")))):
        lines.append(line if line["place"] else line.with_values(lists=total))
        total = total + line["lists"] if line["place"] else 0
    return make_table(
        f"by group of {of}, hit hardest (highest AUC) first",
        [
            once(Column("method", "method", "fold")),
            once(claimed_column()),
            Column("group", "group", "fold"),
            Column("lists", "lists"),
            Column("F1", "f1"),
            Column("exact", "exact"),
            Column("AUC", "auc"),
            difference_column("AUC - all", "auc"),
        ],
        lines[::-1],
        caption=f"AUC - all: less that of all {of}, in the same resamples of queries\n"
        f"{_OVER_QUERIES}, not widened for the choice of the first",
        dim=_guess,
        section=lambda row: row["method"],
        spare=("exact", "F1"),
    )


def _least(row: Row) -> Cell:
    return Cell("0") if row.number("bits") < 0 else estimate_cell(row["bits"])


_BITS = [
    Column("leaked at least", _least, "name", beside=True),
    Column(
        "error at most",
        lambda row: short(row.number("entropy" if row.number("bits") < 0 else "bias_bound")),
        "name",
    ),
    Column("in total", lambda row: short(row.number("entropy")), "name"),
    Column(
        "share", lambda row: percent(max(0.0, row.number("share")) if row["share"].known else None), "name"
    ),
]
"""What is learned at least (0 for a negative estimate), what that may miss, the entropy, the share."""


def information_table(rows: Sequence[Row]) -> Table:
    """How many bits a message reveals of a list's clicks."""
    lines = list(_BITS_CAPTION)
    if any(row.number("bits") < 0 for row in rows):
        lines.append("0: the attack errs more than who only knows grades (believes less: prior=relevance)")
    for row in rows:
        if row["impossible"]:
            lines.append(
                f"{row['method']}, {claim_words(row['eps_claimed'])}: it called the clicks of "
                f"{counted(row['impossible'], 'list')} impossible; each counts as 20 bits or more"
            )
        if row["wrong_prior"]:
            lines.append(
                f"{row['method']}: the click model calls some clicks impossible; nothing is estimated"
            )
    return make_table(
        "what the server learns, in bits per list",
        [method_column(), claimed_column(), *_BITS],
        in_method_order(rows),
        caption="\n".join(lines),
    )


def learners_table(rows: Sequence[Row]) -> Table:
    """How many bits the messages of several learners reveal at the same claimed epsilon."""
    settings = [row.setting for row in rows]

    def learner(row: Row) -> str:
        return f"{setting_text(row.setting, 'learner', settings)} by {row['method'].partition(':')[0]}"

    return make_table(
        "what the server learns of a list's clicks, by learner, in bits",
        [
            Column("clicks", "click_model", "name"),
            claimed_column(),
            Column("learner", learner, "words"),
            *_BITS,
        ],
        sorted(rows, key=lambda row: (row["click_model"], row["eps_claimed"])),
        caption="claimed: the eps of one interaction; a message of several composes them",
    )


def proven_table(rows: Sequence[Row]) -> Table:
    """What is proven for each observer; rows of all worlds."""
    return make_table(
        "proven epsilon, whatever the attack",
        [
            Column("server sees", "sees", "name"),
            *setting_columns(rows, without=["trained_on"]),
            claimed_column(),
            Column("round", lambda row: bound_text(row["eps_proven"])),
            Column("run", run_bound_text),
        ],
        rows,
        caption=f"round: proven for one {rows[0]['unit']} in a message of training; {run_caption(rows)}; "
        "∞: nothing is proven",
    )


# --- lines -----------------------------------------------------------------------------------------


def _of_chain(row: Row, text: str, *, several: bool) -> str:
    """A sentence about a chain, which is named where there are several."""
    return f"{row['defense']}: {text}" if several else text[0].upper() + text[1:]


def promise_lines(rows: Sequence[Row]) -> Iterator[str]:
    """A sentence on what is proven for one interaction, for each chain of a world."""
    promises = {row["defense"]: row for row in rows if row["unit"] == "interaction"}
    for row in promises.values():
        sees, delta = with_article(row["sees"] or ""), row["delta"]
        text = f"nothing is proven for {row['about']}, where the server sees {sees}: {row['how']}"
        if math.isfinite(row["eps_proven"]):
            text = (
                f"proven for {row['about']}: epsilon {epsilon(row['eps_proven'])}"
                f"{f' ({delta_text(delta)})' if delta else ''}, so no attack tells two possibilities apart "
                f"with an AUC above {short(row['ceiling_auc'])} ({row['how']})"
            )
        yield _of_chain(row, text, several=len(promises) > 1)


def _claim_prefix(row: Row, rows: Sequence[Row]) -> str:
    """`eps 1.2: ` where rows differ in the claimed epsilon, else nothing."""
    several = len({other["eps_claimed"] for other in rows}) > 1
    return f"{claim_words(row['eps_claimed'])}: " if several else ""


def identifiability_lines(rows: Sequence[Row]) -> Iterator[str]:
    """One line per setting of a world: what its messages can reveal at all."""
    for row in (row for row in rows if row["lists"]):
        shares = {name: percent(row[name]) for name in ("identifiable", "not_observed", "not_told")}
        text = _claim_prefix(row, rows) + _IDENTIFIABILITY.format(**(row | shares))
        lost = f", {shares['not_told']} combinations of others, too faint, or not in a metric"
        yield text + lost if row["not_told"] else text


def published_lines(rows: Sequence[Row]) -> Iterator[str]:
    """One line per setting of a world: how often a change of the global model is one client's update."""
    for row in rows:
        still = f", and did not in {row['unchanged']:,}" if row["unchanged"] else ""
        other = f", those of several clients in {row['several']:,}" if row["several"] else ""
        text = _SINGLED_OUT.format(**row, still=still, other=other)
        yield _of_chain(row, text, several=len(rows) > 1)


def calibration_lines(rows: Sequence[Row]) -> Iterator[str]:
    """One line per attack with probabilities and setting of a world."""
    for row in rows:
        yield (
            f"{row['method']}: {_claim_prefix(row, rows)}Brier score {estimate_text(row['brier'])} "
            f"(base rate {estimate_text(row['brier_base_rate'])}), log loss {short(row.number('log_loss'))}, "
            f"calibration error {short(row.number('calibration_error'))}"
        )


def refused_lines(rows: Sequence[Row]) -> Iterator[str]:
    """One line per attack of a world that could not run, and why."""
    yield from dict.fromkeys(f"{row['method']}: cannot run: {row['reason']}" for row in rows)


def utility_lines(rows: Sequence[Row]) -> Iterator[str]:
    """One line on the quality of the ranker for each epsilon, or for each chain where epsilons are equal."""
    chains = "defense" in differing([row.setting for row in rows])
    claims_vary = len({row["eps_claimed"] for row in rows}) > 1
    lines: dict[str, str] = {}
    for row in rows:
        name = row["defense"] if chains else claim_words(row["eps_claimed"])
        text = f"nDCG@10{f' ({name})' if claims_vary or chains else ''}: {short(row['ndcg@10'])}"
        for other, words in (("undefended", "without a defense"), ("untrained", "untrained")):
            value = row[f"ndcg@10_{other}"]
            text += "" if value is None else f", {short(value)} {words}"
        lines.setdefault(name, text)
    yield from list(lines.values())[:MOST_ROWS]


# --- named queries ---------------------------------------------------------------------------------


def named_query_tables(rows: Sequence[Row]) -> Iterator[Table]:
    """The attacked lists of the named queries, one table per world: what was clicked, what was named."""
    for name, mine in group_by_world(row for row in rows if row["method"] is not None).items():
        yield make_table(
            f"named queries, {name}",
            [
                Column("query", "query", "fold"),
                Column("claimed", "claimed"),
                Column("who", "who", "fold"),
                Column("documents", "documents", "fold"),
                Column("exact", "exact", "name"),
            ],
            list(_query_lines(mine)),
            caption="documents by their place in the query's data, from 0, in the order shown; * clicked",
            dim=_guess,
            section=lambda line: line["number"],
        )


def _query_lines(rows: Sequence[Row]) -> Iterator[Line]:
    """A line with what was shown in each list, and one with what each attack named."""
    lists: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        lists.setdefault((row["query"], row["eps_claimed"], row["defense"], row["list"]), []).append(row)
    for number, attacks in enumerate(lists.values()):
        first, blank = attacks[0], {"number": number, "query": "", "claimed": "", "exact": ""}
        shown = _documents(first, [True] * len(first["shown"]))
        named = {"query": first["query"], "claimed": claim_text(first["eps_claimed"])}
        yield blank | named | {"who": "shown", "documents": shown}
        for row in attacks:
            guessed = {"who": row["method"], "documents": _documents(row, row["guessed"])}
            yield blank | guessed | {"exact": row["exact"], "baseline": row["baseline"]}


def _documents(row: Row, which: Sequence[bool]) -> str:
    named = zip(row["shown"], row["clicked"], which, strict=True)
    return " ".join(f"{document}{'*' if clicked else ''}" for document, clicked, here in named if here) or "-"


def not_attacked_lines(rows: Sequence[Row]) -> Iterator[str]:
    """One line per named query without an attacked list anywhere."""
    attacked = {row["query"] for row in rows if row["method"] is not None}
    for name in dict.fromkeys(row["query"] for row in rows if row["query"] not in attacked):
        yield f"query {name}: not attacked"


# --- attacks on something else; rows of one world --------------------------------------------------


def query_table(name: str, rows: Sequence[Row]) -> Table:
    """How often each attack names the query, compared with guessing."""
    row = rows[0]
    return make_table(
        f"which query? {name}",
        _columns("accuracy, MRR=mrr, with pairs=accuracy_with_pairs, MRR=mrr_with_pairs"),
        [
            _guessing(row, accuracy="chance", mrr="chance_mrr")
            | _guessing(row, accuracy_with_pairs="chance", mrr_with_pairs="chance_mrr"),
            *in_method_order(rows),
            *_ceilings(rows),
        ],
        caption=f"one of {row['choices']} queries{_fewer_choices(row)}; {row['messages']} messages of "
        f"{row['queries']} queries; {_OVER_QUERIES}\nwith pairs: the {row['messages_with_pairs']} from whose "
        "clicks anything was learnt; the others say nothing of the query\n"
        "MRR: mean reciprocal rank of the right one",
        dim=_guess,
    )


def count_table(name: str, rows: Sequence[Row]) -> Table:
    """How well click counts are estimated, also without a message."""
    row = rows[0]
    return make_table(
        f"click counts, {name}",
        _columns("error, RMSE=rmse, Spearman=spearman, exact", beside=False),
        in_method_order(rows),
        caption=f"{row['lists']} lists of {row['queries']} queries, sums over {_summands(row)}\n"
        f"{_OVER_QUERIES}; errors are those of click-through rates\n"
        "constant: the best one in hindsight; prior: what is usual, without a sum",
        space=2,
        dim=_guess,
    )


def intent_table(name: str, rows: Sequence[Row]) -> Table:
    """How often each attack names the intent, also without a message."""
    first = rows[0]
    mixed = f"; left out: {first['mixed']} with several intents" if first["mixed"] else ""
    few = f"; {first['left_over']} messages too few of a client" if first["left_over"] else ""
    lines = [_guessing(first, accuracy="chance", balanced_accuracy="chance") | {"bits": 0.0}]
    for row in in_method_order(rows):
        of = f" ({row['messages_together']} messages)" if row["messages_together"] > 1 else ""
        for guess, accuracy, balanced in (
            ("most frequent", "most_frequent", "chance"),
            ("relevant shown", "shown", "shown_balanced"),
        ):
            values = {"accuracy": row[accuracy], "balanced_accuracy": row[balanced], "bits": None}
            lines.append(row.with_values(method=guess + of, baseline=True, **values))
        lines.append(row)
    return make_table(
        f"which intent? {name}",
        _columns("accuracy, balanced=balanced_accuracy, bits"),
        [*lines, *_ceilings(rows)],
        caption=f"{first['intents']} intents; {first['decisions']} decisions, {first['clients']} clients"
        f"{mixed}{few}\nbalanced: mean over intents; bits: log2 of the probability of the truth, above even "
        f"odds\nrelevant shown: the intent of which most relevant documents were shown; {_OVER_CLIENTS}",
        dim=_guess,
    )


def link_table(name: str, rows: Sequence[Row]) -> Table:
    """How often a client's next message is named, also in simple ways."""
    row = rows[0]
    return make_table(
        f"same client? {name}",
        _columns("accuracy, MRR=mrr"),
        [_guessing(row, accuracy="chance", mrr="chance_mrr"), *in_method_order(rows), *_ceilings(rows)],
        caption=f"one of {row['choices']} messages of the next round{_fewer_choices(row)}; "
        f"{row['messages']} messages of {row['clients']} clients\n"
        "count: nearest number of interactions; same-queries: most queries in common\n"
        f"MRR: mean reciprocal rank of the client's own; {_OVER_CLIENTS}",
        dim=_guess,
    )


def task_table(name: str, rows: Sequence[Row]) -> Table:
    """Whatever tasks of other packages measure."""
    metrics = [metric for row in rows for metric, value in row.items() if isinstance(value, Estimate)]
    return make_table(
        f"{', '.join(dict.fromkeys(row['task'] for row in rows))}: {name}",
        [method_column(), claimed_column(), *(beside_column(each, each) for each in dict.fromkeys(metrics))],
        in_method_order(rows),
        caption="in brackets: 95 % intervals",
        dim=_guess,
    )


def _guessing(row: Row, **names: str) -> Line:
    """The line of guessing: columns of a row under other names."""
    return {"method": "guessing", "baseline": True, **{metric: row[name] for metric, name in names.items()}}


def _ceilings(rows: Sequence[Row]) -> list[Line]:
    """The most that any attack can reach in each setting with a proof."""
    return [
        _guessing(row, accuracy="ceiling_accuracy", eps_claimed="eps_claimed") | {"method": ANY_ATTACK}
        for row in first_of_settings(rows)
        if row["ceiling_accuracy"] is not None
    ]


def _fewer_choices(row: Row) -> str:
    """A note if there were fewer choices than asked for; else nothing."""
    fewer = row["choices"] < row["choices_asked"]
    return f", not {row['choices_asked']}: there are no more" if fewer else ""


def _summands(row: Row) -> str:
    """What each sum adds up, e.g. `20 clients`."""
    least, most = row["clients_min"], row["clients_max"]
    count = f"{least}" if least == most else f"{least} to {most}"
    what = "message" if row["view"] == "pooled" else "client"
    return f"{count} {what}{'' if most == 1 else 's'}{' of one client' if row['view'] == 'pooled' else ''}"


def inquiry_sentences(
    queries: Sequence[Row], counts: Sequence[Row], intents: Sequence[Row], links: Sequence[Row]
) -> Iterator[str]:
    """What each attack on something else than clicks finds."""

    def share(row: Row, name: str) -> str:
        return whole_percent(row.number(name))

    for row in queries:
        yield (
            f"{_setting(row)}: {row['method']} names {share(row, 'accuracy')} of the queries among "
            f"{row['choices']}, {share(row, 'accuracy_with_pairs')} where anything was learnt "
            f"(guessing: {share(row, 'chance')})."
        )
    usual = {_setting(row): row.number("error") for row in counts if row["method"] == "position-prior:median"}
    for row in (row for row in counts if not row["baseline"]):
        without = f" (without the sums: {short(usual[_setting(row)])})" if _setting(row) in usual else ""
        yield (
            f"{_setting(row)}: {row['method']} estimates click-through rates from sums over {_summands(row)} "
            f"to within {short(row.number('error'))} on average{without}."
        )
    for row in intents:
        together = f" from {row['messages_together']} messages" if row["messages_together"] > 1 else ""
        yield (
            f"{_setting(row)}: {row['method']} names {share(row, 'accuracy')} of the clients' intents"
            f"{together} (guessing: {share(row, 'chance')}; by what was shown: {share(row, 'shown')})."
        )
    for row in (row for row in links if not row["baseline"]):
        simple = [each for each in links if each["baseline"] and _setting(each) == _setting(row)]
        known = [each for each in simple if each["accuracy"].known]
        best = max(known, key=lambda each: each.number("accuracy"), default=None)
        alone = "" if best is None else f"; {best['method']} alone: {share(best, 'accuracy')}"
        yield (
            f"{_setting(row)}: {row['method']} links {share(row, 'accuracy')} of the messages to the next "
            f"one of their client among {row['choices']} (guessing: {share(row, 'chance')}{alone})."
        )


def _setting(row: Row) -> str:
    """What a sentence about a row begins with: click model, epsilon, and Spec fields without a column."""
    more = "".join(f", {name}={value}" for name, value in row.setting.fields.items())
    return f"{row['click_model']} clicks, {claim_words(row['eps_claimed'])}{more}"


# --- declared facts --------------------------------------------------------------------------------

FACTS = Section(
    "state wrong:bool reason:str|null messages:int explained:num|null contradictions:[str] text "
    "warnings:[str]"
)
"""Whether the declared facts of a trace explain its messages; see `FactCheck`."""


def given_text(known: Mapping[str, JsonValue]) -> str:
    """Facts that were given by hand, in one line.

    >>> given_text({"learning_rate": 0.1, "pairs": "all"})
    'facts given by hand: learning_rate 0.1, pairs all'
    """
    return "facts given by hand: " + ", ".join(f"{name} {value}" for name, value in known.items())


@dataclass(frozen=True, kw_only=True)
class FactsReport(Document):
    """The result of `trace check-facts`.

    Attributes:
        facts: one row per trace; `known` has facts that were given by hand, over those of its header.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/trace-check-facts/1"
    ROW: ClassVar[Section] = Section("trace known:table?", FACTS)
    FIELDS: ClassVar[Section] = Section(nested("facts", ROW))

    facts: tuple[Row, ...]

    def show(self, console: Console) -> None:
        for line in self.lines():
            console.print(line, highlight=False, markup=False)

    def lines(self) -> Iterator[str]:
        """What was found, without style; warnings on lines of their own."""
        for row in self.facts:
            if row["known"]:
                yield f"{row['trace']}: {given_text(row['known'])}"
            lines = [] if row["text"] in row["warnings"] else [row["text"]]
            for line in (*lines, *(f"warning {coded('facts', text)}" for text in row["warnings"])):
                yield f"{row['trace']}: {line}"
