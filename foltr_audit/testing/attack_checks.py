"""The contract of an attack: its answers, and that they follow from the view and its generator alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace

import numpy as np

from foltr_audit.core.plugins import Attack, Inference, IntentAttack, View
from foltr_audit.errors import PluginError, UsageError
from foltr_audit.judge.counts import CountTask
from foltr_audit.judge.protocol import judge, task_of
from foltr_audit.judge.task import checked_answer
from foltr_audit.judge.view_builder import with_lists
from foltr_audit.rng import Streams
from foltr_audit.testing.contract import (
    CheckList,
    ContractCheck,
    checks_of,
    expect,
    own_generators_only,
    run_checks,
    threads,
)
from foltr_audit.testing.samples import (
    MADE,
    PlayedRounds,
    cut,
    generator,
    rearranged,
    rounds_to_judge,
    with_updates,
)
from foltr_audit.utils.blas_threads import one_blas_thread

_CHECKS = CheckList()


def attack_checks(attack: Attack | type[Attack] | str) -> list[ContractCheck]:
    """The checks of an attack, each with its name, e.g. for `pytest.mark.parametrize`."""
    return checks_of(Attack, attack, _CHECKS, one_blas_thread)


def check_attack(attack: Attack | type[Attack] | str) -> None:
    """Check that an attack does what every attack must do; it need not be registered."""
    run_checks(attack_checks(attack))


# --- views and answers ----------------------------------------------------------------------------


def view_for(attack: Attack, n: int, B: int = 1, kind: str | None = None) -> View:
    """A view that an attack can read; of messages that are models, if it can read these."""
    usual = "model" if "model" in attack.reads else min(attack.reads)
    made = MADE[kind or usual](n, B)
    return made if "individual" in attack.observers else replace(made, observer=min(attack.observers))


def _views(attack: Attack) -> Iterator[tuple[str, View]]:
    """Several views, each with a description."""
    yield "seven messages", view_for(attack, 7)
    if {"model", "update"} <= attack.reads:
        yield "seven updates", view_for(attack, 7, kind="update")
    yield "five messages of three lists", view_for(attack, 5, 3)
    yield "one message", view_for(attack, 1)


def _answer(attack: Attack, view: View) -> Inference:
    """What an attack says of a view, after checks that hold for every answer."""
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
            shape = given.shape
            expect(shape[: len(begins)] == begins, f"{what} of a shape that begins {begins}", f"{shape}")
    return said


def _same(one: Inference, other: Inference) -> bool:
    """Whether two answers are equal to the byte."""
    pairs = ((getattr(one, each.name), getattr(other, each.name)) for each in fields(Inference))
    return all((a is None) == (b is None) and (a is None or a.tobytes() == b.tobytes()) for a, b in pairs)


def _contents(record: object) -> Iterator[tuple[str, bytes | int]]:
    """What the fields of a record hold, and of records inside it."""
    for each in fields(record) if is_dataclass(record) else ():
        value = getattr(record, each.name)
        if isinstance(value, np.ndarray):
            yield each.name, value.tobytes()
        elif is_dataclass(value):
            yield from ((f"{each.name}.{name}", inner) for name, inner in _contents(value))
        else:
            yield each.name, hash(value)


# --- what an answer follows from ------------------------------------------------------------------


@_CHECKS("same seed, same bytes")
def _same_seed(attack: Attack) -> None:
    several = list(_views(attack))
    first = [_answer(attack, view) for _, view in several]
    for (what, view), before in reversed(list(zip(several, first, strict=True))):
        wanted = "the same answer to the same view and seed"
        expect(_same(_answer(attack, view), before), wanted, f"another answer to {what} after other views")
        with threads(2), one_blas_thread():
            again = _answer(attack, view)
        expect(_same(again, before), "the same answer on one thread and on two", f"two answers to {what}")


@_CHECKS("the view stays as it is")
def _view_stays(attack: Attack) -> None:
    for what, view in _views(attack):
        before = dict(_contents(view))
        with own_generators_only():
            _answer(attack, view)
        changed = sorted(name for name, value in _contents(view) if before[name] != value)
        expect(not changed, "a view that stays as it is", f"that `infer` changed {changed} of {what}")


# --- how views may look ---------------------------------------------------------------------------


@_CHECKS("a view without messages, lists or documents")
def _nothing(attack: Attack) -> None:
    for B in (0, 1, 3):
        nobody = rearranged(view_for(attack, 2, max(B, 1)), slice(0, 0))
        _answer(attack, cut(nobody, B))
    _answer(attack, cut(view_for(attack, 2), 0))
    view = view_for(attack, 3, 2)
    empty = replace(view, shown=np.full_like(view.shown, -1), features=np.zeros_like(view.features))
    expect(not _answer(attack, empty).guess.any(), "no guess in lists without documents", "one")


@_CHECKS("a message alone is treated as among others")
def _alone(attack: Attack) -> None:
    """Then its place among them does not count either."""
    for what, view in _views(attack):
        said = _answer(attack, view)
        for i in range(len(view)):
            alone = _answer(attack, rearranged(view, slice(i, i + 1)))
            same = said.scores[i].tobytes() == alone.scores[0].tobytes()
            same &= said.guess[i].tobytes() == alone.guess[0].tobytes()
            same &= (said.answer is None) == (alone.answer is None)
            if said.answer is not None and alone.answer is not None:
                same &= np.allclose(said.answer[i], alone.answer[0], rtol=1e-9, atol=1e-12, equal_nan=True)
            wanted = "the same answer for a message alone and among others"
            expect(same, wanted, f"another one for message {i} of {what}")


@_CHECKS("documents may come in another order")
def _order_of_documents(attack: Attack) -> None:
    if "order" in attack.needs:
        return
    for what, full in _views(attack):
        view = replace(full, knowledge=full.knowledge.without(frozenset({"order"})))
        order = generator(1).permutation(view.shown.shape[2])
        said, other = _answer(attack, view), _answer(attack, rearranged(view, slice(None), order))
        here = view.is_document
        turned, straight = np.empty_like(said.scores), np.where(here, said.scores, 0.0)
        turned[:, :, order] = np.where(here[:, :, order], other.scores, 0.0)
        near = np.allclose(turned, straight, rtol=1e-9, atol=1e-9 * np.abs(straight).max(initial=0.0))
        wanted = "the same answer for a document, wherever it stands"
        expect(near and np.array_equal(said.guess[:, :, order], other.guess), wanted, f"another in {what}")


@_CHECKS("padding says nothing")
def _padding(attack: Attack) -> None:
    for what, view in _views(attack):
        _, B, k = view.shown.shape
        said, here = _answer(attack, view), view.is_document
        for lists, places in ((0, 3), (2, 0)):
            other = _answer(attack, cut(view, B + lists, k + places))
            near = np.allclose(other.scores[:, :B, :k][here], said.scores[here], rtol=1e-9, atol=1e-12)
            equal = np.array_equal(said.guess, other.guess[:, :B, :k])
            found = f"another one with {lists} empty lists and {places} empty places more in {what}"
            expect(near and equal, "the same answer with more padding", found)


@_CHECKS("updates of any size")
def _any_size(attack: Attack) -> None:
    for _, view in _views(attack):
        for size in (0.0, 1e-300, 1e30, 1e300):
            _answer(attack, with_updates(view, size * np.sign(view.updates)))


# --- its task, and what it refuses ----------------------------------------------------------------


@_CHECKS("its task accepts its answers")
def _judged(attack: Attack) -> None:
    """On played rounds with each kind of messages that it reads, in every form that its task may need."""
    task = task_of(attack)
    # Decisions on several messages of a client would need more rounds; answers do not depend on it.
    asked = attack.model_copy(update={"messages": 1}) if isinstance(attack, IntentAttack) else attack
    seen = task is not CountTask or "aggregate" in attack.observers
    expect(seen, "observers with aggregate, who see the sums that are counted in", f"{set(attack.observers)}")
    answered, refusals = False, list[str]()
    for played in rounds_to_judge(attack.reads, task):
        try:
            judged = judge(played.store, played.server, [asked], Streams(1), played.protocol)
        except PluginError:
            raise
        except UsageError as error:  # its task is not for such rounds
            refusals.append(str(error))
            continue
        reason = judged.refused.get(asked.label)
        answered |= reason is None or reason in _own_refusals(asked, played)
        refusals += [reason] if reason else []
    kinds = f"none with messages of kind {', '.join(sorted(attack.reads))}"
    why = "; ".join(dict.fromkeys(refusals)) or kinds
    expect(answered, f"played rounds that the task {task.name} can judge", why)


def _own_refusals(attack: Attack, played: PlayedRounds) -> set[str | None]:
    """Why an attack itself refuses what tasks may show it of the rounds: single lists, several, sums."""
    views = [seen.view for record in played.store.rounds() for seen in played.server.views(record)]
    forms = [*views, *(replace(view, observer="aggregate", kind="update") for view in views)]
    for view in views:
        rows = np.arange(len(view))
        if view.shown.shape[1] == 1:
            forms.append(with_lists(view, rows, np.tile(rows, (rows.size, 1))))
    return {attack.why_not(view) for view in forms}


@_CHECKS("messages that it cannot read are refused")
def _kinds(attack: Attack) -> None:
    unknown = sorted(attack.reads - set(MADE))
    expect(attack.reads and not unknown, f"`reads` of {', '.join(MADE)}", f"{sorted(attack.reads)}")
    for kind in sorted(attack.reads):
        refusals = [attack.why_not(view_for(attack, 7, B, kind)) for B in (1, 2)]
        wanted = f"that it reads messages of kind {kind}, of one list or of two"
        expect(None in refusals, wanted, f"its refusal: {refusals[0]}")
    said = attack.why_not(replace(view_for(attack, 7), kind="telegram"))
    expect(said is not None and "telegram" in said, "a refusal of messages of kind telegram", repr(said))


@_CHECKS("it refuses to guess without what it needs")
def _needs(attack: Attack) -> None:
    view = view_for(attack, 7)
    for need in sorted(attack.needs):
        # Nothing but this item is withheld, not even what follows from it.
        hidden = False if isinstance(getattr(view.knowledge, need), bool) else None
        said = attack.why_not(replace(view, knowledge=view.knowledge.having(**{need: hidden})))
        expect(said is not None and need in said, f"a refusal that names {need}", repr(said))
