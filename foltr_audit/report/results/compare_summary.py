"""A comparison in words: its worlds, what leaks in each, and which claims hold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from foltr_audit.auditing.verdict import BROKEN, CONTRADICTION, FALSE
from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.experiments.runs.systems import without_shared_parameters
from foltr_audit.judge.doubts import sure_auc
from foltr_audit.judge.significance import bonferroni
from foltr_audit.privacy.observer_views import sees_lists, with_article
from foltr_audit.report.results.base import few_lists, short_scenario
from foltr_audit.report.results.compare_rows import (
    ClaimRow,
    ComparedAttackRow,
    ComparedGroupRow,
    ComparedSetting,
    CompareRow,
    CurveRow,
    ServedRow,
    WorldKey,
)
from foltr_audit.report.results.wording import (
    join_names,
    short_method,
    shortened,
    whole_percent,
)
from foltr_audit.utils.formatting import epsilon, short

if TYPE_CHECKING:
    from foltr_audit.report.results.compare import CompareReport

# --- worlds ----------------------------------------------------------------------------------------


class _OfSetting(Protocol):
    @property
    def setting(self) -> ComparedSetting:
        """The setting of the row."""


Row = TypeVar("Row", bound=_OfSetting)


@dataclass(frozen=True, kw_only=True)
class WorldRows:
    """Rows that share data, scenario and click model.

    Attributes:
        name: what sets it apart from other worlds; empty where it is the only one.
        results, attacks, groups, served, curves: its rows of the report.
    """

    name: str
    results: Sequence[CompareRow]
    attacks: Sequence[ComparedAttackRow]
    groups: Sequence[ComparedGroupRow]
    served: Sequence[ServedRow]
    curves: Sequence[CurveRow]

    @cached_property
    def learners(self) -> dict[str, str]:
        """Short names of its learners by their texts."""
        return without_shared_parameters(list(dict.fromkeys(row.setting.learner for row in self.results)))

    def called(self, row: CompareRow) -> str:
        """What a row is called in its world: with its learner, where there are several, and missing runs."""
        setting, asked = row.setting, row.runs_asked
        learner = f"{self.learners[setting.learner]}, " if len(self.learners) > 1 else ""
        return f"{learner}{setting.name}" + (
            f" ({setting.runs} of {asked} runs)" if setting.runs < asked else ""
        )

    def rivals(self, row: CompareRow) -> list[str]:
        """What the rows that dominate a row are called."""
        longer = {f"{learner}, ": f"{short}, " for learner, short in self.learners.items()}
        rivals = []
        for text in row.dominated_by:
            start = next((name for name in longer if text.startswith(name)), "")
            rivals.append(longer.get(start, "") + text.removeprefix(start))
        return rivals

    def attacks_on(self, row: CompareRow) -> list[ComparedAttackRow]:
        """The guessers of a row's setting."""
        return _like(row, self.attacks)

    def groups_of(self, row: CompareRow) -> list[ComparedGroupRow]:
        """What the best attack finds of each group of clients of a row's setting."""
        return [group for group in _like(row, self.groups) if group.method == row.attack]

    def served_under(self, row: CompareRow) -> list[ServedRow]:
        """How each group of clients is served in a row's setting."""
        return _like(row, self.served)

    def by_learner(self) -> list[list[CompareRow]]:
        return [[row for row in self.results if row.setting.learner == learner] for learner in self.learners]

    @cached_property
    def corrected(self) -> dict[tuple[str, str], float]:
        """P-values of nDCG@10 against no defense by learner and name, corrected for this world's tests."""
        tested = {row.setting.key: row.ndcg_p for row in self.results if row.ndcg_p is not None}
        return dict(zip(tested, bonferroni(list(tested.values())) if tested else (), strict=True))

    def p(self, row: CompareRow) -> float | None:
        """The corrected p-value of a row."""
        return self.corrected.get(row.setting.key)


def worlds(report: CompareReport) -> list[WorldRows]:
    """The worlds of a report, in the order of its results."""
    keys = list(dict.fromkeys(row.setting.world for row in report.results))
    return [
        WorldRows(
            name=_name(key, keys),
            results=_inside(key, report.results),
            attacks=_inside(key, report.attacks),
            groups=_inside(key, report.groups),
            served=_inside(key, report.served),
            curves=_inside(key, report.curves),
        )
        for key in keys
    ]


def families(report: CompareReport) -> list[str]:
    """The defenses as given, in order; rows of several epsilons belong to one family."""
    return list(dict.fromkeys(row.setting.alternative for row in report.results))


def epsilons(rows: Sequence[CompareRow]) -> list[float]:
    """The epsilons that defenses were made for, rising."""
    return sorted({row.setting.eps for row in rows if row.setting.eps is not None})


def _inside(key: WorldKey, rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.setting.world == key]


def _like(row: CompareRow, rows: Sequence[Row]) -> list[Row]:
    return [other for other in rows if other.setting.key == row.setting.key]


def _name(key: WorldKey, keys: Sequence[WorldKey]) -> str:
    data, scenario, clicks = key
    parts = []
    if len({setting_key[2] for setting_key in keys}) > 1:
        parts.append(f"{clicks} clicks")
    if len({setting_key[1] for setting_key in keys}) > 1:
        parts.append(short_scenario(scenario, [setting_key[1] for setting_key in keys]))
    if len({setting_key[0] for setting_key in keys}) > 1:
        parts.append(data)
    return ", ".join(parts)


# --- claims ----------------------------------------------------------------------------------------


def describe_claims(claims: Sequence[ClaimRow]) -> str:
    """How many of the checked claims are false or proven, and which."""
    claimed = [row for row in claims if not math.isinf(row.eps_claimed)]
    if not claimed:
        nothing = "No defense claims an epsilon, so there was nothing to refute."
        return nothing if claims else "No claim was checked."
    false = [row for row in claimed if row.verdict in FALSE]
    proven = [row.name for row in claimed if row.verdict == "proven"]
    rest = len(claimed) - len(false) - len(proven)
    return (
        f"Checked claims: {len(claimed)}. False: {_counted(len(false), _worst(false))}. Proven: "
        f"{_counted(len(proven), list(dict.fromkeys(proven)))}."
        + (f" Neither: {rest}; trials that refute nothing are no proof." if rest else "")
    )


def _counted(count: int, names: Sequence[str]) -> str:
    return f"{count} ({shortened(names)})" if count else "none"


def _worst(rows: Sequence[ClaimRow]) -> list[str]:
    """Each defense with a false claim once, with what the server sees where it is worst."""
    worst: dict[tuple[str, str], tuple[tuple[bool, bool, float], str]] = {}
    for row in rows:
        severity, shown = _loss(row)
        text = f"{row.name}: {shown}, from {with_article(row.sees)}"
        key = (row.learner, row.name)
        if key not in worst or severity > worst[key][0]:
            worst[key] = severity, text
    return [text for _, text in worst.values()]


def _loss(row: ClaimRow) -> tuple[tuple[bool, bool, float], str]:
    """How bad a false claim is, and in words: refuted by trials is worse than by exact loss."""
    exact = row.eps_exact or 0.0
    if row.verdict == "refuted":
        return (True, math.isinf(exact), row.eps_lower or 0.0), f"at least {row.eps_lower:.3g} measured"
    text = "an infinite exact loss" if math.isinf(exact) else f"an exact loss of {exact:.3g}"
    return (False, math.isinf(exact), exact), "does less than it declares" if row.verdict == BROKEN else text


def describe_lost_proofs(claims: Sequence[ClaimRow]) -> str:
    """Which proofs fail where the server sees the shown lists too."""
    without = (row.name for row in claims if not sees_lists(row.view) and row.verdict == "proven")
    lost = {row.name for row in claims if sees_lists(row.view) and math.isinf(row.eps_upper)}
    both = [name for name in dict.fromkeys(without) if name in lost]
    if not both:
        return ""
    return (
        f"Nothing is proven of {shortened(both)} where the server sees the shown lists as well: lists after "
        "the first of a message show the clicks before them, whatever the noise on the message."
    )


def describe_contradictions(claims: Sequence[ClaimRow]) -> str:
    """Which proofs and findings cannot both be right."""
    wrong = list(dict.fromkeys(row.name for row in claims if row.verdict == CONTRADICTION))
    if not wrong:
        return ""
    return f"Proof and trials contradict each other for {shortened(wrong)}: a fault, or rare chance."


# --- the whole summary -----------------------------------------------------------------------------

LEAST = 0.05
"""Corrected p-values below this make a difference."""

_KNOWS_GRADES = "relevance-prior"
"""The guess of a server that has the grades of the documents; the other guesses use positions at most."""


class WorldSummary(NamedTuple):
    """Sentences on one world.

    Attributes:
        world: its name; empty for sentences on everything, or where there is only one world.
        sentences: in order.
    """

    world: str
    sentences: list[str]


def summarise(report: CompareReport) -> list[WorldSummary]:
    """The sentences, those on everything first."""
    claims = report.claims
    first = [describe_scope(report), *describe_progress(report), describe_claims(claims)]
    first += [describe_lost_proofs(claims), describe_contradictions(claims)]
    summaries = [WorldSummary("", [sentence for sentence in first if sentence])]
    for world in worlds(report):
        sentences = [*describe_leaks(world), describe_most_useful(world), describe_front(world)]
        sentences.append(describe_groups(world))
        summaries.append(WorldSummary(world.name, [sentence for sentence in sentences if sentence]))
    return summaries


def describe_scope(report: CompareReport) -> str:
    """What was compared, and on which data."""
    rows = report.results
    if not rows:
        return "No cell of this comparison is done, so nothing can be said yet."
    every = [epsilon(eps) for eps in epsilons(rows)]
    runs = sorted({row.setting.runs for row in rows})
    data = report.dataset
    return _SCOPE.format(
        defenses=", ".join(families(report)),
        at=f" Claimed epsilons: {', '.join(every)}." if every else "",
        server=_SERVER.format(report.server) if report.server else "",
        data="" if data is None else data.title,
        clicks=join_names(list(dict.fromkeys(row.setting.click_model for row in rows))),
        runs=" to ".join(map(str, dict.fromkeys((runs[0], runs[-1])))),
        one=_ONE_RUN if runs == [1] else ".",
    )


_SERVER = " All runs have the server {}, also those without a defense."
_SCOPE = "Defenses: {defenses}.{at}{server} On {data}, with {clicks} clicks. Runs of each: {runs}{one}"
_ONE_RUN = ", so that no interval here says how another run would differ."


def describe_progress(report: CompareReport) -> list[str]:
    """What is not done and what could not be done."""
    asked, done = cells_done(report)
    failed, left_out = len(report.failed), len(report.left_out)
    states = {
        f"{done} of {asked} cells are done: what follows is of these and will change. "
        "compare --resume runs the others.": done < asked,
        f"Cells that could not be run and are left out (see below): {failed}.": failed,
        f"Combinations that cannot be (see below): {left_out}.": left_out,
    }
    return [sentence for sentence, holds in states.items() if holds]


def cells_done(report: CompareReport) -> tuple[int, int]:
    """How many cells were asked for, and how many of them are done."""
    asked = report.cells.attack + report.cells.audit
    return asked, asked - sum(row.cells - row.done for row in report.unfinished)


# --- leaks -----------------------------------------------------------------------------------------


class StrongestLeak(NamedTuple):
    """What the best attack on one setting reveals beyond guesses without a message.

    Attributes:
        row: the row of the results.
        name: what the setting is called.
        bound: the weakest guess that the attack is not shown to beat; None where it beats them all.
    """

    row: CompareRow
    name: str
    bound: ComparedAttackRow | None

    @property
    def kind(self) -> str:
        """Which sentence of `_LEAKS` is true of it; without an interval nothing can be shown."""
        if self.row.unread:
            return "no sum"
        if self.row.auc.ci95 is None:
            return "unknown"
        if self.bound is None:
            return "reads"
        return "grades" if self.bound.method == _KNOWS_GRADES else "guess"

    @property
    def held(self) -> bool:
        """Whether it has no sum, or is not shown to do better than a guess by position, or at random."""
        return self.kind in ("guess", "no sum")


_LEAKS = {
    "reads": "The best attack beats every guess without a message under {defenses}. Under {first}, "
    "{attack} recovers {recall} of the clicks, at a precision of {precision}.",
    "grades": "The best attack reveals more than positions do, but is not shown to beat a server that knows "
    f"the grades of the documents ({_KNOWS_GRADES}), under {{defenses}}.",
    "guess": "The best attack is not shown to beat a guess without a message ({guesses}), by intervals "
    "corrected for the number of attacks, under {defenses}.",
    "no sum": "Attacks have nothing to read, since no round opens a sum, under {defenses}.",
    "unknown": "The best attack has no interval, so that nothing is shown of it, under {defenses}.",
}
"""What the best attack is shown to do, in the order of the sentences."""


def find_leaks(world: WorldRows) -> list[StrongestLeak]:
    """The settings of a world with what an attack is shown to do: the guesses that it does not beat.

    Settings in which no round opened a sum are among them.
    """
    leaks = []
    for row in world.results:
        if row.unread:
            leaks.append(StrongestLeak(row, world.called(row), None))
            continue
        rows = world.attacks_on(row)
        best = next((attack for attack in rows if attack.method == row.attack), None)
        if best is None or not row.auc.known:
            continue
        guesses = [attack for attack in rows if attack.baseline and attack.found.auc.known]
        unbeaten = [attack for attack in guesses if not _beats(best, attack, row.attacks)]
        bound = min(unbeaten, key=lambda attack: (attack.found.auc.value, attack.method), default=None)
        leaks.append(StrongestLeak(row, world.called(row), bound))
    return leaks


def _by_defense(several: Sequence[StrongestLeak]) -> list[str]:
    """Leaks in words, those of one defense together: `published, eps 1.2, 4.5 and 10 (AUC .98 to 1.000)`."""
    leaks_of: dict[tuple[str, str], list[StrongestLeak]] = {}
    for leak in several:
        leaks_of.setdefault((leak.row.setting.learner, leak.row.setting.alternative), []).append(leak)
    texts = []
    for same in leaks_of.values():
        name, setting = same[0].name, same[0].row.setting
        if len(same) > 1:
            eps = join_names([epsilon(leak.row.setting.eps or 0.0) for leak in same])
            name = f"{name.replace(setting.name, setting.alternative)}, eps {eps}"
        aucs = [leak.row.auc.value for leak in same if leak.row.auc.known]
        ends = dict.fromkeys(short(end(aucs)) for end in (min, max) if aucs)
        texts.append(f"{name} (AUC {' to '.join(ends)})" if aucs else name)
    return texts


def _beats(best: ComparedAttackRow, guess: ComparedAttackRow, choices: int) -> bool:
    """Whether the best of `choices` attacks is shown to be better than a guess.

    Than a random one: by its interval, widened for the choice. Than another, which has an interval too: if
    the two do not meet, which is stricter than a test of their difference.
    """
    auc, other = best.found.auc, guess.found.auc
    if guess.method.startswith("random:"):
        return sure_auc(auc, best.found.queries, choices) > other.value
    return auc.ci95 is not None and other.ci95 is not None and auc.ci95[0] > other.ci95[1]


def describe_leaks(world: WorldRows) -> list[str]:
    """Under which defenses the best attack reads clicks, and under which it does no better than a guess."""
    leaks = find_leaks(world)
    if not leaks:
        return ["No list with a click was attacked, so nothing can be said on attacks."]
    sentences = []
    for kind, text in _LEAKS.items():
        of_kind = [leak for leak in leaks if leak.kind == kind]
        if not of_kind:
            continue
        methods = [leak.bound.method for leak in of_kind if leak.bound is not None]
        names = dict.fromkeys("random" if method.startswith("random:") else method for method in methods)
        first = next((leak for leak in of_kind if leak.row.setting.alternative != NO_DEFENSE), of_kind[0])
        sentences.append(
            text.format(
                defenses=shortened(_by_defense(of_kind)),
                guesses=" or ".join(names),
                first=first.name,
                attack=short_method(first.row.attack or ""),
                recall=whole_percent(first.row.recall.value),
                precision=whole_percent(first.row.precision.value),
            )
        )
    sentences += _some_without_sum(world)
    few = few_lists([leak.row.lists for leak in leaks if leak.row.lists is not None])
    return [*sentences, few.strip()] if few else sentences


def _some_without_sum(world: WorldRows) -> Iterator[str]:
    """Under which defenses attacks had something to read in some runs only."""
    for row in world.results:
        if row.runs_without_sum and not row.unread:
            of = f"{row.runs_without_sum} of {row.setting.runs} runs"
            yield (
                f"In {of} under {world.called(row)} no round opens a sum; what attacks find is of the others."
            )


# --- usefulness ------------------------------------------------------------------------------------


def describe_most_useful(world: WorldRows) -> str:
    """Which defense that holds the best attack off keeps the most nDCG@10, and at what price.

    If its claim was checked and is not proven, the best one with a proven claim too.
    """
    leaks = [leak for leak in find_leaks(world) if leak.row.setting.alternative != NO_DEFENSE]
    held = [leak for leak in leaks if leak.held and leak.row.ndcg.known]
    if not held:
        none = bool(leaks) and all(leak.kind in ("reads", "grades") for leak in leaks)
        return "None of these defenses keeps the best attack from reading clicks." if none else ""
    best = max(held, key=_ndcg)
    nothing = " or has nothing to read" if any(leak.kind == "no sum" for leak in held) else ""
    text = f"Of the defenses under which it is not shown to beat a guess{nothing}, {_price(best, world)}"
    claim = _describe_claim(best.row)
    if not claim:
        return f"{text}."
    proven = [leak for leak in held if set(leak.row.verdicts.values()) == {"proven"}]
    if proven:
        return f"{text}; {claim}. Of those with a proven claim, {_price(max(proven, key=_ndcg), world)}."
    return f"{text}; {claim}." + " None of these has a proven claim." * any(
        leak.row.verdicts for leak in held
    )


def _ndcg(leak: StrongestLeak) -> float:
    return leak.row.ndcg.value


def _describe_claim(row: CompareRow) -> str:
    """What to know of the claim of a setting; nothing where it is proven or was not checked."""
    verdicts = set(row.verdicts.values())
    if math.isinf(row.setting.eps_claimed):
        return "it makes no claim"
    if verdicts <= {"proven"}:
        return ""
    return "but its claim is false" if verdicts & set(FALSE) else "its claim is neither refuted nor proven"


def _price(leak: StrongestLeak, world: WorldRows) -> str:
    row, difference = leak.row, leak.row.ndcg_difference.value
    text = f"{leak.name} keeps the most nDCG@10, {short(row.ndcg.value)}"
    if math.isnan(difference):
        return f"{text}; there is no run without a defense to compare it with"
    p = world.p(row)
    test = "not tested" if p is None else f"{'a' if p < LEAST else 'no'} significant difference, {p_text(p)}"
    size = short(abs(difference))
    apart = "within .001 of" if size == ".000" else f"{size} {'below' if difference < 0 else 'above'}"
    return f"{text}, which is {apart} no defense ({test})"


def describe_front(world: WorldRows) -> str:
    """Which settings no other setting beats in both privacy and utility."""
    known = [row for row in world.results if row.pareto is not None]
    if len(known) < 2:
        return ""
    front = [world.called(row) for row in known if row.pareto]
    beaten = sum(bool(row.dominated_by) for row in known)
    refuted = len(known) - len(front) - beaten
    rest = f"; dominated by one of these: {beaten}" if beaten else ""
    rest += f"; left out for a false claim: {refuted}" if refuted else ""
    return f"On the front of attack AUC and nDCG@10: {shortened(front, 8) or 'no row'}{rest}."


def describe_groups(world: WorldRows) -> str:
    """Which group of clients is served worst, under the first defense for which this is known."""
    rows = [row for row in world.results if row.worst_served_group is not None]
    if not rows:
        return ""
    row = rows[0]
    often = sum(other.worst_served_group == row.worst_served_group for other in rows)
    worst, everybody = short(row.worst_served_online), short(row.online_mean.value)
    return (
        f"Clients differ: under {world.called(row)} the group {row.worst_served_group!r} is served worst "
        f"(online nDCG@10 {worst}; of all clients {everybody}); so in {often} of {len(rows)} rows."
    )


def p_text(p: float) -> str:
    """A p-value as text.

    >>> p_text(0.0321), p_text(1e-9)
    ('p = .032', 'p < .001')
    """
    return "p < .001" if p < 0.001 else f"p = {short(p)}".replace("1.000", "1")


def p_value(p: float | None) -> str:
    """A p-value in a column of them; `-` where there is none.

    >>> p_value(0.0321), p_value(1e-9), p_value(None)
    ('.032', '< .001', '-')
    """
    return "-" if p is None or math.isnan(p) else p_text(p).removeprefix("p ").removeprefix("= ")
