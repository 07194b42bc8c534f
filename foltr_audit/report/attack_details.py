"""Tables and lines of attacks: on clicks, on other secrets, and what is proven against any attack."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, ClassVar, NamedTuple

from foltr_audit.core.results import UNKNOWN, Estimate
from foltr_audit.core.warning_kinds import coded
from foltr_audit.judge.scoring import RANDOM
from foltr_audit.privacy.observer_views import attacker, with_article
from foltr_audit.report.documents import Document, Row, Section, nested
from foltr_audit.report.plan_report import difference_column, once, with_totals
from foltr_audit.report.settings import (
    GUESS_COLUMNS,
    GUESS_NOTES,
    by_setting,
    claim_words,
    differing,
    in_method_order,
    run_bound_text,
    run_caption,
    setting_columns,
    setting_text,
)
from foltr_audit.report.table import (
    Column,
    Table,
    capitalised,
    claim_text,
    columns_of,
    counted,
    delta_text,
    estimate_text,
    make_table,
    percent,
    whole_percent,
)
from foltr_audit.report.terminal import MOST_ROWS
from foltr_audit.utils.formatting import JsonValue, epsilon, short

Line = dict[str, Any]
"""A row, or a line of a table that stands for no row, such as that of guessing."""

ANY_ATTACK = "any attack"
EXPLAINED = (
    "any attack: the most that the proof allows, for an attacker who knows the grades and how users click"
)
_OVER_QUERIES = "in brackets: the 95 % interval over queries"
_IDENTIFIABLE = "identifiable: accuracy on documents whose click is identifiable from the message"
_BITS_CAPTION = (
    "leaked at least: lower bound on the mutual information between message and clicks; in total: entropy of "
    "a list's clicks given query, list and grades; every list counts\n"
    "error at most: what the lower bound may miss, 0 where the attack's posterior is the true one"
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


def describe_world(row: Row) -> str:
    """What the rows of a table share: click model, observer, and Spec fields without a column."""
    return f"{row['click_model']} clicks, the {attacker(row['view'])} sees {_seen(row)}{_fields(row)}"


def group_by_world(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows of each world, by its description."""
    worlds: dict[str, list[Row]] = {}
    for row in rows:
        worlds.setdefault(describe_world(row), []).append(row)
    return worlds


def _seen(row: Row) -> str:
    return with_article(row["sees"] or "")


def _fields(row: Row) -> str:
    return "".join(f", {name}={value}" for name, value in row.setting.fields.items())


def claims_vary(rows: Sequence[Row]) -> bool:
    return len({row["eps_claimed"] for row in rows}) > 1


def _method_table(title: str, columns: Iterable[Column], lines: Sequence[Line], **options: Any) -> Table:
    """A table by method and claimed epsilon, with guesses dimmed."""
    columns = [*columns_of("method:method; claimed=eps_claimed:claim"), *columns]
    return make_table(title, columns, in_method_order(lines), dim=_guess, **options)


def _guess(line: Line) -> bool:
    return bool(line.get("baseline"))


def ceilings(rows: Iterable[Row]) -> list[Row]:
    """For each setting with a proof a line with the most that any attack can reach."""
    lines = []
    for first, *_ in by_setting(row for row in rows if row.get("ceiling_accuracy") is not None):
        metrics = [name for name, value in first.items() if isinstance(value, Estimate)]
        most = {name: first.estimate(f"ceiling_{name}") for name in metrics}
        lines.append(first.with_values(method=ANY_ATTACK, baseline=True, **most))
    return lines


def results_table(rows: Sequence[Row]) -> Table:
    """What every method reads, with unit and yardstick, and how many lists the metrics are means over."""
    most, vary = ceilings(rows), claims_vary(rows)
    caption = [_OVER_QUERIES, *([EXPLAINED] if most else [])]
    for row in {row["defense"]: row for row in rows}.values():
        unknown = f"; {row['unknown']} whose clicks are not known left out" if row["unknown"] else ""
        clipped = "" if row["clipped"] is None else f"; {percent(row['clipped'])} of the steps clipped"
        caption.append(
            f"{claim_words(row['eps_claimed'])}: {row['lists']} lists of {row['queries']} queries; "
            f"{row['skipped']} without a click left out, {row['all_clicked']} with every document clicked "
            f"kept{unknown}{clipped}"
        )
    metrics = columns_of("accuracy; precision; recall; F1=f1; exact\nmatch=exact; AUC=auc")
    return _method_table(
        describe_world(rows[0]),
        [*metrics, *GUESS_COLUMNS],
        [*rows, *most],
        caption="\n".join(caption),
        notes=GUESS_NOTES,
        space=0,
        section=lambda row: vary and row["method"],
        spare=("F1", "accuracy", "recall", "exact\nmatch", "precision"),
    )


def scores_table(results: Sequence[Row]) -> Table:
    """How well scores do at few false alarms, and on identifiable documents."""
    # Of the random guesses only the one that knows most.
    rows = [row for row in results if not row["method"].startswith("random:") or row["method"] == RANDOM]
    rows += ceilings(results)
    message = any(row["exact_message"].known for row in rows)
    counts = sorted({row["unclicked_documents"] for row in rows})
    among = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    finest = f"; resolution {percent(1 / counts[0])}" if counts[0] else ""
    few = "; too few for an interval" if any(row["tpr_at_01"].ci95 is None for row in rows) else ""
    metrics = "TPR@1%=tpr_at_1:beside; TPR@.1%=tpr_at_01:beside; identifiable=accuracy_identifiable:beside"
    return _method_table(
        "",
        columns_of(metrics + ("; message=exact_message:beside" if message else "")),
        rows,
        caption=f"TPR at FPR <= 1 % and <= .1 % ({among} unclicked documents{finest}{few})\n{_IDENTIFIABLE}"
        + ("\nmessage: all lists of a message right" if message else ""),
        spare=("TPR@.1%", "message", "identifiable"),
    )


def any_click_table(rows: Sequence[Row]) -> Table:
    """Whether a list has any click, compared with always saying yes."""
    always = [
        row.with_values(
            method="always yes",
            baseline=True,
            auc=Estimate(0.5) if row["auc"].known else UNKNOWN,
            accuracy=row["base_rate"],
        )
        for row in {(row["eps_claimed"], row["defense"]): row for row in rows}.values()
    ]
    title = "any click at all? (every list counts)"
    metrics = columns_of("AUC=auc:beside; accuracy:beside")
    return _method_table(title, metrics, [*always, *rows], spare=("accuracy",))


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
            *map(once, columns_of("method:fold; claimed=eps_claimed:claim")),
            *columns_of("group:fold; lists; F1=f1; exact; AUC=auc"),
            difference_column("AUC - all", "auc"),
        ],
        lines[::-1],
        caption=f"AUC - all: less that of all {of}, over the same queries\n"
        f"{_OVER_QUERIES}, not widened for the choice of the first",
        dim=_guess,
        section=lambda row: row["method"],
        spare=("exact", "F1"),
    )


_BITS = [
    *columns_of("leaked at least=bits:beside"),
    Column("error at most", lambda row: short(row.number("bias_bound")), "name"),
    Column("in total", lambda row: short(row.number("entropy")), "name"),
    Column("share", lambda row: percent(row.number("share")), "name"),
]


def _bits_lines(rows: Iterable[Row]) -> list[Row]:
    """The rows; a negative estimate says that nothing is learned, and may miss everything."""
    return [
        row.with_values(bits="0", bias_bound=row["entropy"], share=0.0) if row.number("bits") < 0 else row
        for row in rows
    ]


def information_table(rows: Sequence[Row]) -> Table:
    """How many bits a message reveals of a list's clicks."""
    caption = [_BITS_CAPTION]
    if any(row.number("bits") < 0 for row in rows):
        caption.append("0: the attack errs more than who only knows grades (believes less: prior=relevance)")
    for row in rows:
        if row["impossible"]:
            caption.append(
                f"{row['method']}, {claim_words(row['eps_claimed'])}: it called the clicks of "
                f"{counted(row['impossible'], 'list')} impossible; each counts as 20 bits or more"
            )
        if row["wrong_prior"]:
            caption.append(
                f"{row['method']}: the click model calls some clicks impossible; nothing is estimated"
            )
    title = "what the server learns, in bits per list"
    return _method_table(title, _BITS, _bits_lines(rows), caption="\n".join(caption))


def learners_table(rows: Sequence[Row]) -> Table:
    """How many bits the messages of several learners reveal at the same claimed epsilon."""
    settings = [row.setting for row in rows]

    def learner(row: Row) -> str:
        return f"{setting_text(row.setting, 'learner', settings)} by {row['method'].partition(':')[0]}"

    return make_table(
        "what the server learns of a list's clicks, by learner, in bits",
        [
            *columns_of("clicks=click_model:name; claimed=eps_claimed:claim"),
            Column("learner", learner, "words"),
            *_BITS,
        ],
        _bits_lines(sorted(rows, key=lambda row: (row["click_model"], row["eps_claimed"]))),
        caption="claimed: the eps of one interaction; a message of several composes them",
    )


def proven_table(rows: Sequence[Row]) -> Table:
    """What is proven for each observer; rows of all worlds."""
    return make_table(
        "proven epsilon, whatever the attack",
        [
            *columns_of("server sees=sees:name"),
            *setting_columns(rows, without=["trained_on"]),
            *columns_of("claimed=eps_claimed:claim; round=eps_proven:eps"),
            Column("run", run_bound_text),
        ],
        rows,
        caption=f"round: proven for one {rows[0]['unit']} in a message of training; {run_caption(rows)}; "
        "∞: nothing is proven",
    )


def _of_chain(row: Row, text: str, *, several: bool) -> str:
    """A sentence about a chain, which is named where there are several."""
    return f"{row['defense']}: {text}" if several else capitalised(text)


def promise_lines(rows: Sequence[Row]) -> Iterator[str]:
    """A sentence on what is proven for one interaction, for each chain of a world."""
    promises = {row["defense"]: row for row in rows if row["unit"] == "interaction"}
    for row in promises.values():
        text = f"nothing is proven for {row['about']}, where the server sees {_seen(row)}: {row['how']}"
        if math.isfinite(row["eps_proven"]):
            delta = f" ({delta_text(row['delta'])})" if row["delta"] else ""
            text = (
                f"proven for {row['about']}: epsilon {epsilon(row['eps_proven'])}{delta}, so no attack tells "
                f"two possibilities apart with an AUC above {short(row['ceiling_auc'])} ({row['how']})"
            )
        yield _of_chain(row, text, several=len(promises) > 1)


def published_lines(rows: Sequence[Row]) -> Iterator[str]:
    """One line per setting of a world: how often a change of the global model is one client's update."""
    for row in rows:
        still = f", and did not in {row['unchanged']:,}" if row["unchanged"] else ""
        other = f", those of several clients in {row['several']:,}" if row["several"] else ""
        text = _SINGLED_OUT.format(**row, still=still, other=other)
        yield _of_chain(row, text, several=len(rows) > 1)


def _claim_prefix(row: Row, rows: Sequence[Row]) -> str:
    """`eps 1.2: ` where rows differ in the claimed epsilon, else nothing."""
    return f"{claim_words(row['eps_claimed'])}: " if claims_vary(rows) else ""


def identifiability_lines(rows: Sequence[Row]) -> Iterator[str]:
    """One line per setting of a world: what its messages can reveal at all."""
    for row in (row for row in rows if row["lists"]):
        shares = {name: percent(row[name]) for name in ("identifiable", "not_observed", "not_told")}
        text = _claim_prefix(row, rows) + _IDENTIFIABILITY.format(**(row | shares))
        lost = f", {shares['not_told']} combinations of others, too faint, or not in a metric"
        yield text + lost if row["not_told"] else text


def calibration_lines(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        yield (
            f"{row['method']}: {_claim_prefix(row, rows)}Brier score {estimate_text(row['brier'])} "
            f"(base rate {estimate_text(row['brier_base_rate'])}), log loss {short(row.number('log_loss'))}, "
            f"calibration error {short(row.number('calibration_error'))}"
        )


def refused_lines(rows: Iterable[Row]) -> Iterator[str]:
    yield from dict.fromkeys(f"{row['method']}: cannot run: {row['reason']}" for row in rows)


def utility_lines(rows: Sequence[Row]) -> Iterator[str]:
    """One line on the quality of the ranker for each epsilon, or for each chain where epsilons are equal."""
    chains = "defense" in differing([row.setting for row in rows])
    lines: dict[str, str] = {}
    for row in rows:
        name = row["defense"] if chains else claim_words(row["eps_claimed"])
        text = f"nDCG@10{f' ({name})' if chains or claims_vary(rows) else ''}: {short(row['ndcg@10'])}"
        for other, words in (("undefended", "without a defense"), ("untrained", "untrained")):
            value = row[f"ndcg@10_{other}"]
            text += "" if value is None else f", {short(value)} {words}"
        lines.setdefault(name, text)
    yield from list(lines.values())[:MOST_ROWS]


def named_queries(rows: Sequence[Row]) -> Iterator[Table | str]:
    """The attacked lists of the named queries, a table per world, and a line per query without any."""
    attacked = [row for row in rows if row["method"] is not None]
    for world, mine in group_by_world(attacked).items():
        yield make_table(
            f"named queries, {world}",
            columns_of("query:fold; claimed; who:fold; documents:fold; exact:name"),
            list(_query_lines(mine)),
            caption="documents by their place in the query's data, from 0, in the order shown; * clicked",
            dim=_guess,
            section=lambda line: line["list"],
        )
    for name in dict.fromkeys(row["query"] for row in rows):
        if all(row["query"] != name for row in attacked):
            yield f"query {name}: not attacked"


def _query_lines(rows: Sequence[Row]) -> Iterator[Line]:
    """A line with what was shown in each list, and one with what each attack named."""
    lists: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        lists.setdefault((row["query"], row["eps_claimed"], row["defense"], row["list"]), []).append(row)
    for attacked, attacks in lists.items():
        first, blank = attacks[0], {"list": attacked, "query": "", "claimed": "", "exact": ""}
        clicks = zip(first["shown"], first["clicked"], strict=True)
        shown = [f"{document}{'*' if clicked else ''}" for document, clicked in clicks]
        named = {"query": first["query"], "claimed": claim_text(first["eps_claimed"])}
        yield blank | named | {"who": "shown", "documents": " ".join(shown)}
        for row in attacks:
            guess = {"who": row["method"], "documents": " ".join(compress(shown, row["guessed"])) or "-"}
            yield blank | guess | {"exact": row["exact"], "baseline": row["baseline"]}


class _Inquiry(NamedTuple):
    """The texts on attacks that find something else than clicks; names in braces are those of `_words`.

    Attributes:
        metrics: columns as for `columns_of`.
    """

    title: str
    metrics: str
    caption: str
    sentence: str


_BY_CHANCE = {
    "accuracy": "chance",
    "balanced_accuracy": "chance",
    "accuracy_with_pairs": "chance",
    "mrr": "chance_mrr",
    "mrr_with_pairs": "chance_mrr",
}
"""The column with what guessing reaches, by metric."""

INQUIRIES = {
    "query_identification": _Inquiry(
        "which query?",
        "accuracy:beside; MRR=mrr:beside; with pairs=accuracy_with_pairs:beside; MRR=mrr_with_pairs:beside",
        "one of {choices} queries{fewer}; {messages} messages of {queries} queries; in brackets: the 95 % "
        "interval over queries\nwith pairs: the {messages_with_pairs} from whose clicks anything was learnt; "
        "the others say nothing of the query\nMRR: mean reciprocal rank of the right one",
        "{setting}: {method} names {accuracy} of the queries among {choices}, {accuracy_with_pairs} where "
        "anything was learnt (guessing: {chance}).",
    ),
    "counts": _Inquiry(
        "click counts,",
        "error; RMSE=rmse; Spearman=spearman; exact",
        "{lists} lists of {queries} queries, sums over {summands}\nin brackets: the 95 % interval over "
        "queries; errors are those of click-through rates\nconstant: the best one in hindsight; prior: what "
        "is usual, without a sum",
        "{setting}: {method} estimates click-through rates from sums over {summands} to within {error} on "
        "average{without}.",
    ),
    "intent_inference": _Inquiry(
        "which intent?",
        "accuracy:beside; balanced=balanced_accuracy:beside; bits:beside",
        "{intents} intents; {decisions} decisions, {clients} clients{mixed}{left_over}\nbalanced: mean over "
        "intents; bits: log2 of the probability of the truth, above even odds\nrelevant shown: the intent of "
        "which most relevant documents were shown; in brackets: the 95 % interval over clients",
        "{setting}: {method} names {accuracy} of the clients' intents{together} (guessing: {chance}; by what "
        "was shown: {shown}).",
    ),
    "linkage": _Inquiry(
        "same client?",
        "accuracy:beside; MRR=mrr:beside",
        "one of {choices} messages of the next round{fewer}; {messages} messages of {clients} clients\n"
        "count: nearest number of interactions; same-queries: most queries in common\nMRR: mean reciprocal "
        "rank of the client's own; in brackets: the 95 % interval over clients",
        "{setting}: {method} links {accuracy} of the messages to the next one of their client among "
        "{choices} (guessing: {chance}{without}).",
    ),
}
"""How each kind of rows is shown, in this order."""


def inquiry_table(kind: str, world: str, rows: Sequence[Row]) -> Table:
    """What attacks of one kind find in a world, compared with guessing."""
    inquiry, first = INQUIRIES[kind], rows[0]
    chances = {
        metric: first[name] for metric, name in _BY_CHANCE.items() if metric in first and name in first
    }
    guessing = {"method": "guessing", "baseline": True, "bits": 0.0, **chances}
    without = [guess for row in rows if kind == "intent_inference" for guess in _guessed_intents(row)]
    return _method_table(
        f"{inquiry.title} {world}",
        columns_of(inquiry.metrics),
        [*([guessing] if chances else []), *without, *rows, *ceilings(rows)],
        caption=inquiry.caption.format_map(_words(first, rows)),
        space=1 if ":beside" in inquiry.metrics else 2,
    )


def task_table(world: str, rows: Sequence[Row]) -> Table:
    """Whatever tasks of other packages measure."""
    metrics = dict.fromkeys(
        name for row in rows for name, value in row.items() if isinstance(value, Estimate)
    )
    title = f"{', '.join(dict.fromkeys(row['task'] for row in rows))}: {world}"
    columns = [Column(name, name, "name", beside=True) for name in metrics]
    return _method_table(title, columns, rows, caption="in brackets: 95 % intervals")


def inquiry_sentences(kind: str, rows: Sequence[Row]) -> Iterator[str]:
    sentence = INQUIRIES[kind].sentence
    yield from (sentence.format_map(_words(row, rows)) for row in rows if not _guess(row))


def _guessed_intents(row: Row) -> Iterator[Row]:
    """How often an intent is named without a message."""
    of = f" ({row['messages_together']} messages)" if row["messages_together"] > 1 else ""
    for guess, accuracy, balanced in (
        ("most frequent", "most_frequent", "chance"),
        ("relevant shown", "shown", "shown_balanced"),
    ):
        values = {"accuracy": row[accuracy], "balanced_accuracy": row[balanced], "bits": None}
        yield row.with_values(method=guess + of, baseline=True, **values)


def _words(row: Row, rows: Sequence[Row]) -> dict[str, Any]:
    """The columns of a row, shares in whole percent, and phrases, which are empty where they do not apply."""

    def if_any(name: str, phrase: str, least: int = 1) -> str:
        return phrase.format(row[name]) if row.get(name, 0) >= least else ""

    shares = {
        name: whole_percent(row.number(name))
        for name, value in row.items()
        if isinstance(value, Estimate | float)
    }
    fewer = row.get("choices", 0) < row.get("choices_asked", 0)
    return {
        **row,
        **shares,
        "error": short(row.number("error")),
        "setting": _setting(row),
        "fewer": f", not {row['choices_asked']}: there are no more" if fewer else "",
        "mixed": if_any("mixed", "; left out: {} with several intents"),
        "left_over": if_any("left_over", "; {} messages too few of a client"),
        "together": if_any("messages_together", " from {} messages", 2),
        "summands": _summands(row) if "clients_min" in row else "",
        "without": _found_without(row, rows),
    }


def _setting(row: Row) -> str:
    """What a sentence about a row begins with: click model, epsilon, and Spec fields without a column."""
    return f"{row['click_model']} clicks, {claim_words(row['eps_claimed'])}{_fields(row)}"


def _summands(row: Row) -> str:
    """What each sum adds up, e.g. `20 clients`."""
    least, most, pooled = row["clients_min"], row["clients_max"], row["view"] == "pooled"
    fewest = "" if least == most else f"{least} to "
    return fewest + (f"{counted(most, 'message')} of one client" if pooled else counted(most, "client"))


def _found_without(row: Row, rows: Sequence[Row]) -> str:
    """How well a usual guess does in the setting of a row, at the end of a sentence."""
    guesses = [each for each in rows if _guess(each) and _setting(each) == _setting(row)]
    if "error" in row:
        usual = [each for each in guesses if each["method"] == "position-prior:median"]
        return f" (without the sums: {short(usual[-1].number('error'))})" if usual else ""
    known = [each for each in guesses if each["accuracy"].known]
    best = max(known, key=lambda each: each.number("accuracy"), default=None)
    return "" if best is None else f"; {best['method']} alone: {whole_percent(best.number('accuracy'))}"


FACTS = Section(
    "state wrong:bool reason:str|null messages:int explained:num|null contradictions:[str] text "
    "warnings:[str]"
)
"""Whether the declared facts of a trace explain its messages; see `FactCheck`."""


def given_text(known: Mapping[str, JsonValue]) -> str:
    return "facts given by hand: " + ", ".join(f"{name} {value}" for name, value in known.items())


@dataclass(frozen=True, kw_only=True)
class FactsReport(Document):
    """The result of `trace check-facts`: a row per trace; `known` has facts that were given by hand."""

    SCHEMA: ClassVar[str] = "foltr-audit/trace-check-facts/1"
    ROW: ClassVar[Section] = Section("trace known:table?", FACTS)
    FIELDS: ClassVar[Section] = Section(nested("facts", ROW))

    facts: tuple[Row, ...]

    def lines(self) -> Iterator[str]:
        """What was found, without style; warnings on lines of their own."""
        for row in self.facts:
            if row["known"]:
                yield f"{row['trace']}: {given_text(row['known'])}"
            lines = [] if row["text"] in row["warnings"] else [row["text"]]
            for line in (*lines, *(f"warning {coded('facts', text)}" for text in row["warnings"])):
                yield f"{row['trace']}: {line}"
