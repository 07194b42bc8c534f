"""The contract of an attack: its answers, and that they follow from the view and its generator alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace

import numpy as np

from foltr_audit.core.plugins import Attack, Inference, View
from foltr_audit.judge.task import checked_answer
from foltr_audit.rng import Streams
from foltr_audit.testing.contract import PluginChecks, expect, same_each_time
from foltr_audit.testing.samples import MADE, cut, generator, rearranged, with_updates
from foltr_audit.utils.arrays import Bools, Floats
from foltr_audit.utils.blas_threads import one_thread

_CHECKS = PluginChecks(Attack)
attack_checks, check_attack = _CHECKS.of_plugin, _CHECKS.check


def view_for(attack: Attack, n: int, B: int = 1, kind: str | None = None) -> View:
    """A view that an attack can read; of messages that are models, if it can read these."""
    usual = "model" if "model" in attack.reads else min(attack.reads)
    made = MADE[kind or usual](n, B)
    return made if "individual" in attack.observers else replace(made, observer=min(attack.observers))


def _views(attack: Attack) -> Iterator[tuple[str, View]]:
    yield "seven messages", view_for(attack, 7)
    if {"model", "update"} <= attack.reads:
        yield "seven updates", view_for(attack, 7, kind="update")
    yield "five messages of three lists", view_for(attack, 5, 3)
    yield "one message", view_for(attack, 1)


def _answer(attack: Attack, view: View) -> Inference:
    """What an attack says of a view, after checks that hold for every answer."""
    with one_thread():
        said = checked_answer(attack, view, Streams(1).generator("test"))
    n, B, _ = view.shown.shape
    here = view.is_document
    expect(not said.guess[~here].any(), "no guess at the padding", "one")
    expect(np.isfinite(said.scores[here]).all(), "finite scores", "a score that is not finite")
    if attack.probabilities:
        inside = (said.scores[here] >= 0) & (said.scores[here] <= 1)
        expect(inside.all(), "probabilities as scores", "scores outside 0 to 1")
    for given, begins, what in ((said.answer, (n,), "an answer"), (said.patterns, (n, B), "patterns")):
        if given is not None:
            fits = given.shape[: len(begins)] == begins
            expect(fits, f"{what} of a shape that begins {begins}", given.shape)
    return said


def _contents(record: object) -> dict[str, bytes | int | None]:
    found: dict[str, bytes | int | None] = {}
    for each in fields(record) if is_dataclass(record) else ():
        value = getattr(record, each.name)
        if is_dataclass(value):
            found |= {f"{each.name}.{name}": inner for name, inner in _contents(value).items()}
        else:
            found[each.name] = value.tobytes() if isinstance(value, np.ndarray) else hash(value)
    return found


@_CHECKS("same seed, same bytes")
def _same_seed(attack: Attack) -> None:
    several = list(_views(attack))
    before = [_contents(_answer(attack, view)) for _, view in several]
    for (what, view), first in reversed(list(zip(several, before, strict=True))):
        seen = _contents(view)
        again = same_each_time(lambda view=view: _contents(_answer(attack, view)), f"answer to {what}")  # type: ignore[misc]
        changed = sorted(name for name, value in _contents(view).items() if seen[name] != value)
        expect(not changed, "a view that stays as it is", f"that `infer` changed {changed} of {what}")
        expect(again == first, "the same answer to the same view", f"another one to {what} after other views")


@_CHECKS("a view without messages, lists or documents")
def _nothing(attack: Attack) -> None:
    for B in (0, 1, 3):
        nobody = rearranged(view_for(attack, 2, max(B, 1)), slice(0, 0))
        _answer(attack, cut(nobody, B))
    _answer(attack, cut(view_for(attack, 2), 0))
    view = view_for(attack, 3, 2)
    empty = replace(view, shown=np.full_like(view.shown, -1), features=np.zeros_like(view.features))
    expect(not _answer(attack, empty).guess.any(), "no guess in lists without documents", "one")


def _expect_same(
    wanted: str, found: str, said: Inference, scores: Floats, guess: Bools, here: Bools, near: float = 1e-9
) -> None:
    """Expect the same scores and guesses of documents, scores up to a relative difference."""
    straight = np.where(here, said.scores, 0.0)
    room = near * np.abs(straight).max(initial=0.0)
    same = np.allclose(np.where(here, scores, 0.0), straight, rtol=near, atol=room)
    expect(same and np.array_equal(guess, said.guess), wanted, found)


@_CHECKS("a message alone is treated as among others")
def _alone(attack: Attack) -> None:
    """Then its place among them does not count either."""
    wanted = "the same answer for a message alone and among others"
    for what, view in _views(attack):
        said, found = _answer(attack, view), f"another one in {what}"
        alone = [_answer(attack, rearranged(view, slice(i, i + 1))) for i in range(len(view))]
        scores, guess = (
            np.concatenate([getattr(one, name) for one in alone]) for name in ("scores", "guess")
        )
        _expect_same(wanted, found, said, scores, guess, view.is_document, near=0.0)
        answers = [one.answer for one in alone if one.answer is not None]
        expect(len(answers) == (0 if said.answer is None else len(view)), wanted, found)
        if said.answer is not None:
            near = np.allclose(np.concatenate(answers), said.answer, rtol=1e-9, atol=1e-12, equal_nan=True)
            expect(near, wanted, found)


@_CHECKS("documents may come in another order")
def _order_of_documents(attack: Attack) -> None:
    wanted = "the same answer for a document, wherever it stands"
    for what, full in _views(attack) if "order" not in attack.needs else ():
        view = replace(full, knowledge=full.knowledge.without(frozenset({"order"})))
        order = generator(1).permutation(view.shown.shape[2])
        other, back = _answer(attack, rearranged(view, slice(None), order)), np.argsort(order)
        scores, guess = other.scores[:, :, back], other.guess[:, :, back]
        _expect_same(wanted, f"another in {what}", _answer(attack, view), scores, guess, view.is_document)


@_CHECKS("padding says nothing")
def _padding(attack: Attack) -> None:
    wanted = "the same answer with more padding"
    for what, view in _views(attack):
        said, (_, B, k) = _answer(attack, view), view.shown.shape
        for lists, places in ((0, 3), (2, 0)):
            other = _answer(attack, cut(view, B + lists, k + places))
            found = f"another one with {lists} empty lists and {places} empty places more in {what}"
            scores, guess = other.scores[:, :B, :k], other.guess[:, :B, :k]
            _expect_same(wanted, found, said, scores, guess, view.is_document)


@_CHECKS("updates of any size")
def _any_size(attack: Attack) -> None:
    for _, view in _views(attack):
        for size in (0.0, 1e-300, 1e30, 1e300):
            _answer(attack, with_updates(view, size * np.sign(view.updates)))


@_CHECKS("it refuses messages that it cannot read, and to guess without what it needs")
def _refusals(attack: Attack) -> None:
    unknown = sorted(attack.reads - set(MADE))
    expect(attack.reads and not unknown, f"`reads` of {', '.join(MADE)}", sorted(attack.reads))
    for kind in sorted(attack.reads):
        refusals = [attack.why_not(view_for(attack, 7, B, kind)) for B in (1, 2)]
        wanted = f"that it reads messages of kind {kind}, of one list or of two"
        expect(None in refusals, wanted, f"its refusal: {refusals[0]}")
    view = view_for(attack, 7)
    withheld = {"telegram": replace(view, kind="telegram")}
    for need in attack.needs:
        # Nothing but this item is withheld, not even what follows from it.
        hidden = False if isinstance(getattr(view.knowledge, need), bool) else None
        withheld[need] = replace(view, knowledge=view.knowledge.having(**{need: hidden}))
    for name, lacking in sorted(withheld.items()):
        said = attack.why_not(lacking)
        expect(said is not None and name in said, f"a refusal that names {name}", repr(said))
