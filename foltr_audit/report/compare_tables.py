"""A comparison on a terminal: what leaks, what it costs, which claims hold, and the short answer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from foltr_audit.core.results import Estimate
from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.experiments.decide import ABOVE_GUESS, BEATS, MOST_LOSS, ComparedWorld, Decision, LeakKind
from foltr_audit.experiments.runs.systems import without_shared_parameters
from foltr_audit.report.decision import MARKS, VERDICTS
from foltr_audit.report.documents import Row
from foltr_audit.report.settings import GRADES, GUESS_NOTES, run_bound_text, run_caption
from foltr_audit.report.table import (
    EMPTY,
    UNKNOWN_TEXT,
    Cell,
    Column,
    Mark,
    Table,
    claim_text,
    columns_of,
    counted,
    delta_text,
    estimate_cell,
    make_table,
    name_lines,
    short_method,
    verdict_cell,
)
from foltr_audit.utils.formatting import short

_FIXED = "over queries, with the trained models held fixed (repetitions are averaged first)"
NOTES = {
    "claimed": "claimed: epsilon, - without a claim",
    "attack": "attack: the one with the highest AUC of those that ran, chosen on the lists that it is shown "
    "on, so a little high",
    "AUC": "AUC: of the best attack (1: perfect)",
    **GUESS_NOTES,
    "promised": "promised: the largest AUC that any attack can have, by the proof of one interaction, where "
    "all documents are equally likely clicked",
    "difference": "difference: of nDCG@10 to no defense",
    "loses\nat most": "loses at most: one-sided 95 % upper bound of the loss, which has to be at most "
    f"{short(MOST_LOSS, 2)}",
    "bytes": "bytes: that a client sends in a round",
}
"""What columns mean, by header."""

_NO_SUM = "no sum"
_NO_SUM_NOTE = f"{_NO_SUM}: no round opened one, so that attacks had nothing to read"
_ONLINE = "online\nnDCG@10"

# --- cells and columns -----------------------------------------------------------------------------


def guess_cell(row: Row) -> Cell:
    """The AUC of the best guess that reads no message and knows no grades."""
    if row["baseline"] is None:
        return EMPTY
    return Cell(short(row["baseline_auc"]), short_method(row["baseline"]))


def auc_cell(row: Row) -> Cell:
    """The AUC of the best attack, or that no run opened a sum."""
    return Cell(_NO_SUM) if row["runs_without_sum"] == row["runs"] else estimate_cell(row.estimate("auc"))


AUC = Column("AUC", auc_cell)


def above_cell(row: Row) -> Cell:
    """What the best attack adds to the guess."""
    seen = row["attacked"][0] if "attacked" in row else row
    return estimate_cell(seen.estimate("above_guess"))._replace(mark=above_mark(seen))


def above_mark(seen: Row) -> Mark:
    """Bad where an attack is shown to add to the guess, good where it is shown to add little at most."""
    kind: LeakKind | None = seen["shown"]
    ends = seen.estimate("above_guess").ci95
    little = ends is not None and ends[1] <= ABOVE_GUESS
    return "bad" if kind in BEATS else "good" if kind == "guess" and little else ""


_ABOVE = Column("above\nguess", above_cell)
_ATTACK = (*columns_of("attack:attack"), AUC, Column("guess", guess_cell), _ABOVE)
_METRICS = "TPR@1%=tpr_at_1; accuracy; precision; recall; F1=f1"


def byte_count(row: Row) -> str:
    """What a client sends in a round."""
    sent = row["bytes_per_client"]
    return UNKNOWN_TEXT if sent is None else f"{sent:,.0f}"


BYTES = Column("bytes", byte_count)


def _claimed(row: Row) -> Cell:
    if math.isinf(row["eps_claimed"]):
        return EMPTY
    return Cell(claim_text(row["eps_claimed"]), delta_text(row.get("delta", 0.0)))


CLAIMED = Column("claimed", _claimed)
"""A claimed epsilon, and below it its delta."""


def difference_cell(difference: Estimate) -> Cell:
    """A difference to no defense with its interval."""
    if not difference.known:
        return EMPTY
    below = "" if difference.ci95 is None else f"[{', '.join(map(_signed, difference.ci95))}]"
    return Cell(_signed(difference.value), below)


def _signed(value: float) -> str:
    sign = "" if short(abs(value)) == ".000" else "−" if value < 0 else "+"  # noqa: RUF001
    return sign + short(abs(value))


DIFFERENCE = Column("difference", lambda row: difference_cell(row.estimate("ndcg@10_difference")))


def _loses(row: Row) -> Cell:
    upper = row["ndcg@10_loss_upper"]
    return EMPTY if upper is None else Cell(short(max(upper, 0.0)), mark="bad" if upper > MOST_LOSS else "")


LOSES = Column("loses\nat most", _loses)
"""The one-sided 95 % upper bound of what a defense loses of nDCG@10; bad where that is too much."""


def _of_group(header: str, name: str, value: str) -> Column:
    def cell(row: Row) -> Cell:
        return EMPTY if row[name] is None else Cell(row[name], short(row[value]))

    return Column(header, cell, "words")


def verdict_words(decision: Decision, rows: Iterable[Row]) -> str:
    """What the verdicts on the defenses of some rows mean, with their thresholds."""
    shown = {decision.judgement(row) for row in rows}
    words = [f"{verdict}: {text}" for verdict, text in VERDICTS.items() if verdict in shown]
    return "; ".join(["verdict: the worst over all settings", *words])


def epsilons_of(rows: Iterable[Row]) -> list[float]:
    """The epsilons that defenses were made for, the smallest first."""
    return sorted({row["eps"] for row in rows if row["eps"] is not None})


def _in_words(defense: str) -> str:
    """The name of a defense in a sentence, where `none` would read as a word."""
    return "no defense" if defense == NO_DEFENSE else defense


# --- tables ----------------------------------------------------------------------------------------


class WorldTables:
    """The tables of a world of a comparison, some columns of which depend on all its rows."""

    def __init__(self, world: ComparedWorld, decision: Decision, rows: Sequence[Row], *, alone: bool) -> None:
        """Tables of the rows of a world, which is named without its data where it is alone."""
        self.world, self.decision, self.rows = world, decision, rows
        self._learners = without_shared_parameters(list(dict.fromkeys(row["learner"] for row in rows)))
        data, scenario, click_model = world.key
        self.title = f"{click_model} clicks, scenario {scenario}{'' if alone else f' on {data}'}"
        self.defense = Column("defense", self._name, "name", narrow=name_lines)
        self.verdict = Column("verdict", self._verdict, "name")

    def _name(self, row: Row) -> str:
        """The defense of a row, with its learner where there are several, and missing runs."""
        learner = f"{self._learners[row['learner']]}, " if len(self._learners) > 1 else ""
        runs, asked = row["runs"], row["runs_asked"]
        return f"{learner}{row['name']}" + (f" ({runs} of {asked} runs)" if runs < asked else "")

    def _verdict(self, row: Row) -> Cell:
        judgement = self.decision.judgement(row)
        return Cell(judgement, mark=MARKS[judgement])

    @property
    def no_sum(self) -> str:
        """What `no sum` means; empty where no row lacks one."""
        several = [row for row in self.rows if row["runs_without_sum"]]
        parts = [_NO_SUM_NOTE]
        parts += [
            f"under {self._name(row)} that is {row['runs_without_sum']} of {row['runs']} runs"
            for row in several
            if row["runs_without_sum"] < row["runs"]
        ]
        return "; ".join(parts) if several else ""

    @property
    def no_better(self) -> list[str]:
        """The defenses under which an attack is shown to read messages, but no more than grades tell."""
        return [
            f"{_in_words(self._name(row))}: {short_method(row['attack'])} beats the guess, so messages leak; "
            f"it is not shown to be better than a guess that knows the grades ({short(row['grades_auc'])})"
            for row in self.rows
            if row["attacked"][0]["shown"] == "grades"
        ]

    @property
    def dominated(self) -> list[str]:
        """Which defenses others beat in both privacy and utility."""
        return [
            f"{_in_words(row['name'])}: dominated by {' and '.join(map(_in_words, row['dominated_by']))}"
            for row in self.rows
            if row["dominated_by"]
        ]

    def leaks(self) -> Table:
        """What the best attack finds."""
        caption = ["in brackets: 95 % intervals", self.no_sum, verdict_words(self.decision, self.rows)]
        return make_table(
            f"{self.title}: what an attack finds",
            [
                self.defense,
                *columns_of("chain=defense:fold", only="page"),
                replace(CLAIMED, only="page"),
                *_ATTACK,
                GRADES,
                *columns_of(f"promised=ceiling_auc:3; {_METRICS}"),
                self.verdict,
            ],
            self.rows,
            caption="; ".join(filter(None, caption)),
            notes=NOTES,
            spare=("accuracy", "F1", "TPR@1%", "promised", "attack", "recall", "precision", "grades"),
        )

    def costs(self) -> Table:
        """What a defense costs."""
        first = self.rows[0]
        over = ", interval over runs" if any(row.estimate("online_mean").ci95 for row in self.rows) else ""
        groups = [
            _of_group("served worst", "worst_served_group", "worst_served_online"),
            _of_group("hit hardest", "worst_attacked_group", "worst_attacked_auc"),
        ]
        return make_table(
            f"{self.title}: what it costs",
            [
                self.defense,
                *columns_of("nDCG@10=ndcg@10"),
                DIFFERENCE,
                LOSES,
                *columns_of(f"{_ONLINE}=online_mean"),
                BYTES,
                *(groups if any(row["groups"] for row in self.rows) else ()),
            ],
            self.rows,
            caption=f"{counted(first['runs'], 'run')}; nDCG@10 on "
            f"{' or '.join(dict.fromkeys(row['evaluated_on'] for row in self.rows))}, and online (mean of "
            f"rounds{over}); in brackets: 95 % intervals; those of nDCG@10 and what it loses: {_FIXED}; "
            f"ideal ranking {short(first['ndcg@10_ceiling'])}, untrained "
            f"{short(first['ndcg@10_untrained'])}",
            notes=NOTES,
            spare=("bytes", "hit hardest", "served worst", _ONLINE),
        )

    def others(self) -> Table | None:
        """What the best attacks of servers find that see lists too, or sums alone; None without any."""
        rows = [seen.with_values(name=self._name(row)) for row in self.rows for seen in row["attacked"][1:]]
        if not rows:
            return None
        unread = [_NO_SUM_NOTE] if any(row["runs_without_sum"] for row in rows) else []
        return make_table(
            f"{self.title}: what other servers find, in the first run",
            [
                *columns_of("defense=name:defense; server sees=sees:name"),
                *_ATTACK,
                *columns_of("lists"),
            ],
            rows,
            caption="; ".join([*unread, "in brackets: 95 % intervals"]),
            notes=NOTES,
            spare=("lists", "attack"),
        )

    def brief(self, rows: Sequence[Row]) -> Table:
        """Some rows with what a decision needs."""
        return make_table(
            self.title,
            [
                self.defense,
                CLAIMED,
                AUC,
                Column("guess", lambda row: guess_cell(row)._replace(below="")),
                _ABOVE,
                *columns_of("nDCG@10=ndcg@10:3"),
                DIFFERENCE,
                BYTES,
                self.verdict,
            ],
            rows,
            caption=f"in brackets: 95 % intervals; {verdict_words(self.decision, rows)}",
            notes=NOTES,
            spare=("claimed", "bytes", "difference"),
        )


def claims_table(claims: Sequence[Row]) -> Table:
    """Every claim that was checked, from both sides; a terminal names each defense once."""
    parts = [
        part
        for part in ("learner", "name", "scenario")
        if part == "name" or len({row[part] for row in claims}) > 1
    ]
    names = [", ".join(row[part] for part in parts) for row in claims]
    units = list(dict.fromkeys(row["unit"] for row in claims))

    return make_table(
        f"epsilon for one {' or '.join(units)} in one message: claimed, and what holds",
        [
            *columns_of("defense:defense", only="page"),
            *columns_of("defense=once:defense", only="terminal"),
            *columns_of("server sees=sees:name"),
            *columns_of("differs=unit:name", only=None if len(units) > 1 else "page"),
            *columns_of("pair=canary:words", only="page"),
            CLAIMED,
            *columns_of("proven=eps_upper:eps"),
            Column("run", run_bound_text),
            *columns_of("exact\nloss=eps_exact:eps; lower\nbound=eps_lower:eps; at most=eps_ceiling:eps"),
            Column(
                "verdict",
                lambda row: verdict_cell(row["eps_claimed"], row["verdict"]),
                "name",
                narrow=lambda text: text.replace("by ", "by\n"),
            ),
            *columns_of("why:words", only="page"),
        ],
        [
            row.with_values(defense=name, once="" if name == before else name)
            for row, name, before in zip(claims, names, ["", *names], strict=False)
        ],
        caption="claimed: - where nothing is; proven: an upper bound by accounting, ∞ where nothing is; "
        f"{run_caption(claims)}; exact loss: of the pair that was played, where it has a formula; lower "
        "bound: from trials with that pair, and at most: the most that so many can show, each at "
        f"{100 * claims[0]['confidence']:g} % confidence, not corrected for several claims; a claim below "
        "the exact loss or the lower bound is false",
        spare=("at most", "run", "exact\nloss", "proven", "claimed"),
    )
