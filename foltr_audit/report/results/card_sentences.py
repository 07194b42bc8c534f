"""The sentences of a privacy card, for readers who are no engineers; every number is taken from its rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

from foltr_audit.auditing.verdict import BROKEN
from foltr_audit.privacy.observer_views import VIEWS, with_article
from foltr_audit.report.results.card_limits import (
    NO_LIMIT,
    ONE_OF,
    eps_words,
    least_limit,
    limits_of_run,
    observer_limits,
)
from foltr_audit.report.results.compare_rows import ClaimRow
from foltr_audit.report.results.privacy_card import CardWorld, PrivacyCard
from foltr_audit.report.results.wording import counted, join_names, whole_percent
from foltr_audit.utils.formatting import short
from foltr_audit.utils.rows import Estimate


def observer_text(view: str, sees: str) -> str:
    """Who looks, from the name of a view and its words in tables.

    >>> observer_text("colluding", "3 other clients")
    'a server that sees the sum, and colludes with 3 other clients'
    """
    count = sees.partition(" other client")[0]
    return VIEWS[view].replace("other clients", f"{count} other clients") if count != sees else VIEWS[view]


def _any_of(seen: Iterable[str]) -> str:
    """What several observers see: `the message or the sum`."""
    return join_names(list(dict.fromkeys(map(with_article, seen))), "or")


def false_sentences(card: PrivacyCard) -> Iterator[str]:
    """One sentence for each false claim, and for each that contradicts its proof."""
    for rows, against in _alike(card.false, _against):
        row = rows[0]
        claimed = f"{eps_words(row.eps_claimed, row.delta)} is claimed for {ONE_OF[row.unit]}"
        seen = _any_of(row.sees for row in rows)
        yield f"The claim is false where the server sees {seen}: {claimed}, but {against}."
    for rows, why in _alike(card.contradicted, lambda row: row.why):
        seen = _any_of(row.sees for row in rows)
        yield (
            f"Rely on no number where the server sees {seen}: proof and trials contradict each other ({why})."
        )


def _alike(rows: Iterable[ClaimRow], text: Callable[[ClaimRow], str]) -> Iterator[tuple[list[ClaimRow], str]]:
    """The rows of each text together; they have the same unit and claim."""
    found: dict[tuple[str, float, float, str], list[ClaimRow]] = {}
    for row in rows:
        found.setdefault((row.unit, row.eps_claimed, row.delta, text(row)), []).append(row)
    for (*_, said), several in found.items():
        yield several, said


def _against(row: ClaimRow) -> str:
    if row.verdict == BROKEN:
        return f"a part of the defense does less than it declares: {row.declared_why or row.why}"
    if row.verdict == "refuted":
        return f"trials show at least {row.eps_lower:.3g} ({whole_percent(row.confidence)} confidence)"
    if row.eps_exact is None or math.isinf(row.eps_exact):
        return "an observer tells two of its inputs apart with certainty"
    return f"for one pair of inputs it is exactly {row.eps_exact:.3g}"


def limit_sentences(card: PrivacyCard) -> Iterator[str]:
    """For each observer, the most that any attack can find, or that no limit is known."""
    found: dict[str, list[str]] = {}
    for limit in observer_limits(card):
        found.setdefault(limit.text, []).append(limit.sees)
    for text, seen in found.items():
        yield f"Where the server sees {_any_of(seen)}: {text}."
    if not found:
        yield f"No claim was checked: {NO_LIMIT}."


def run_sentences(card: PrivacyCard) -> Iterator[str]:
    """The same for all rounds together, of each observer who is limited in one round."""
    found: dict[tuple[int, str], list[str]] = {}
    for seen, rounds, text in limits_of_run(card):
        found.setdefault((rounds, text), []).append(seen)
    for (rounds, text), several in found.items():
        yield f"Over all {rounds} rounds, where the server sees {_any_of(several)}: {text}."


def model_sentence(card: PrivacyCard) -> str:
    """What holds of somebody who only gets the trained model."""
    best = least_limit(observer_limits(card))
    start = "Anybody who only gets the trained model learns no more than the server, which computes it"
    return f"{start}: {NO_LIMIT if best is None else best.text}."


_SHOWN = {
    "reads": "The messages reveal clicks that nobody guesses without them.",
    "grades": "It beats guesses by position, but is not shown to beat a guess by somebody who knows how "
    "relevant each document is.",
    "guess": "It is not shown to do better than guesses that need no message.",
    "unknown": "There are too few lists to say whether that is chance.",
}


def attack_sentence(world: CardWorld) -> str:
    """What the best attack found, next to the best guess without a message."""
    best, guess = world.best, world.best_guess
    at = f"With {world.name}: " if world.name else ""
    if world.result.unread:
        return f"{at}{'no' if at else 'No'} round opens a sum, so attacks have nothing to read."
    if best is None:
        return f"{at}{'no' if at else 'No'} attack was run on a list with a click, so nothing is measured."
    text = (
        f"{at}{'the' if at else 'The'} best of {counted(world.result.attacks, 'attack')}, {best.method}, "
        f"gives a clicked document a higher score than an unclicked one {_times(best.found.auc)}"
    )
    if guess is not None:
        text += f"; the best guess without a message, {guess.method}, {_times(guess.found.auc)}"
    return f"{text}. {_SHOWN.get(world.leak, '')}".rstrip()


def _times(auc: Estimate) -> str:
    """An AUC as how often in 100, with the number and its interval."""
    ends = "" if auc.ci95 is None else f", 95 % interval {' to '.join(map(short, auc.ci95))}"
    return f"{100 * auc.value:.0f} times in 100 (AUC {short(auc.value)}{ends})"


def cost_sentence(world: CardWorld) -> str:
    """What the defense costs in quality, and what a client sends."""
    row, at = world.result, f"With {world.name}: " if world.name else ""
    if not row.ndcg.known:
        return f"{at}nDCG@10 is not known."
    text = f"{at}nDCG@10 is {short(row.ndcg.value)} with this defense"
    if world.without.known:
        text += f" and {short(world.without.value)} without one"
    found = row.ndcg_difference
    if found.known:
        size = short(abs(found.value))
        apart = "equal" if size == ".000" else f"{size} {'lower' if found.value < 0 else 'higher'}"
        ends = "" if found.ci95 is None else f", 95 % interval of the difference {_signed(found.ci95)}"
        text += f" ({apart}{ends})"
    if row.bytes_per_client is not None:
        text += f". A client sends {row.bytes_per_client:,.0f} bytes in a round"
    if row.worst_served_group is not None:
        text += f". Of {row.groups} groups of clients, {row.worst_served_group} is served worst"
    if row.worst_attacked_group is not None:
        text += f". The attack finds most of {row.worst_attacked_group} (AUC {short(row.worst_attacked_auc)})"
    return f"{text}."


def _signed(ends: tuple[float, float]) -> str:
    return " to ".join(f"{'−' if end < 0 else '+'}{short(abs(end))}" for end in ends)  # noqa: RUF001
