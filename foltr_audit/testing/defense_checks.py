"""The contract of a defense: what its hooks return, and that this follows from arrays, round and streams."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foltr_audit.core.plugins import Defense, RoundContext, WireMessages
from foltr_audit.core.plugins.defense import HOOKS, STAGES, Stage
from foltr_audit.testing.contract import CheckList, ContractCheck, checks_of, expect, run_checks
from foltr_audit.testing.declaration_checks import DECLARATION_CHECKS
from foltr_audit.testing.plugin_checks import PLUGIN_CHECKS
from foltr_audit.testing.sample_data import FEATURES, context, generator
from foltr_audit.testing.surroundings import own_generators_only, threads
from foltr_audit.utils.arrays import Bools, Floats, Ints

Arrays = tuple[Floats | Ints | Bools, ...]

_CHECKS = CheckList()
_CLIENTS = np.array([11, 4, 7, 0, 23])
_VALUES = np.append(0.0, 1 / np.arange(1, 11))
"""Values of an online metric, MaxRR of lists of ten."""


def defense_checks(defense: Defense | type[Defense] | str) -> list[ContractCheck]:
    """The checks of a defense, each with its name, e.g. for `pytest.mark.parametrize`.

    Args:
        defense: an object, a class whose parameters all have defaults, or the text of a registered defense.

    Raises:
        ContractError: it cannot be made.
    """
    return checks_of(Defense, defense, [*PLUGIN_CHECKS, *_CHECKS, *DECLARATION_CHECKS])


def check_defense(defense: Defense | type[Defense] | str) -> None:
    """Check that a defense does what every defense must do, and what it declares; it need not be registered.

    Tests of noise have fixed seeds. With other seeds each check would reject a defense that does as it
    declares with a probability of at most one in a million.

    Args:
        defense: as for `defense_checks`.

    Raises:
        ContractError: it does not; the error says which checks failed, and why.
    """
    run_checks(defense_checks(defense))


# --- hooks ----------------------------------------------------------------------------------------


def _inputs(stage: Stage, C: int, P: int = FEATURES) -> Arrays:
    """Read-only arrays for a stage; every client has a row in each but an average."""
    rng = generator(5)
    models = 3 * rng.normal(size=(C, P))
    arrays: Arrays = (models,)
    if stage == "click":
        shown = np.where(np.arange(10) < rng.integers(1, 11, size=(C, 1)), np.arange(10), -1)
        arrays = ((rng.random((C, 10)) < 0.4) & (shown >= 0), shown)
    elif stage == "metric":
        arrays = (rng.integers(0, _VALUES.size, size=C),)
    elif stage == "wire":
        arrays = (models, np.arange(C) % 4 != 1)
    elif stage == "aggregate":
        weights = np.arange(1.0, C + 1) / max(1.0, C * (C + 1) / 2)
        arrays = ((models * weights[:, np.newaxis]).sum(axis=0), models, weights)
    for array in arrays:
        array.flags.writeable = False
    return arrays


def _stages(defense: Defense) -> tuple[Stage, ...]:
    """The stages of a defense; of one that does nothing, that of messages."""
    return defense.stages or ("message",)


def _applied(defense: Defense, stage: Stage, arrays: Arrays, round_: RoundContext) -> Arrays:
    """What the hook of a stage makes of arrays, after checks that hold for every stage."""
    before = [array.tobytes() for array in arrays]
    more: tuple[object, ...] = {"click": (0,), "metric": (_VALUES, 0)}.get(stage, ())
    hook = HOOKS[stage]
    out = getattr(defense, hook)(*arrays, *more, round_)
    made: Arrays = (out,)
    encoded = False
    if stage == "wire":
        expect(isinstance(out, WireMessages), f"WireMessages from {hook}", type(out).__name__)
        encoded, made = out.is_encoded, (out.messages, out.survivors)
    unchanged = before == [array.tobytes() for array in arrays]
    expect(unchanged, f"arrays that {hook} leaves as they are", "that it changed one")
    for new, old in zip(made, arrays, strict=False):
        expect(isinstance(new, np.ndarray), f"an array from {hook}", type(new).__name__)
        expect(new.shape == old.shape, f"shape {old.shape} from {hook}", f"shape {new.shape}")
        expect(new.dtype == old.dtype or encoded, f"{old.dtype} from {hook}", f"{new.dtype}")
        shared = bool(defense.stages) and any(np.shares_memory(new, given) for given in arrays)
        expect(not shared, f"a new array from {hook}", "the array that it was given")
    _check_values(stage, made, arrays)
    return made


def _check_values(stage: Stage, made: Arrays, arrays: Arrays) -> None:
    if stage == "click":
        expect(not made[0][arrays[1] < 0].any(), "no click at the padding", "one")
    if stage == "metric":
        inside = (made[0] >= 0) & (made[0] < _VALUES.size)
        expect(inside.all(), f"outcomes from 0 to {_VALUES.size - 1}", "another one")
    if stage == "wire":
        expect(
            not (made[1].astype(np.bool_) & np.logical_not(arrays[1])).any(),
            "that lost messages stay lost",
            "one that comes back",
        )
    if stage in ("step", "message", "aggregate"):
        expect(np.isfinite(np.asarray(made[0], dtype=np.float64)).all(), "finite numbers", "others")


def _rows(made: Arrays, order: Ints | slice) -> list[bytes]:
    """Bytes of the rows of the chosen clients."""
    return [np.ascontiguousarray(array[order]).tobytes() for array in made]


def _everything(made: Arrays) -> list[bytes]:
    return [array.tobytes() for array in made]


@_CHECKS("its stages")
def _stages_fit(defense: Defense) -> None:
    stages = defense.stages
    known = [stage for stage in STAGES if stage in stages]
    expect(list(stages) == known, f"stages of {', '.join(STAGES)}, in this order", repr(stages))
    for stage in stages:
        own = getattr(type(defense), HOOKS[stage]) is not getattr(Defense, HOOKS[stage])
        expect(own, f"a method {HOOKS[stage]} for stage {stage}", "none")


@_CHECKS("same seed, same bytes")
def _same_seed(defense: Defense) -> None:
    for stage in _stages(defense):
        arrays = _inputs(stage, _CLIENTS.size)
        with own_generators_only():
            made = [_everything(_applied(defense, stage, arrays, context(_CLIENTS))) for _ in range(2)]
        wanted = "the same output for the same input, round and seed"
        expect(made[0] == made[1], wanted, f"two outputs of {HOOKS[stage]}")


@_CHECKS("any number of threads")
def _threads(defense: Defense) -> None:
    for stage in _stages(defense):
        arrays, made = _inputs(stage, _CLIENTS.size), []
        for count in (1, 2):
            with threads(count):
                made.append(_everything(_applied(defense, stage, arrays, context(_CLIENTS))))
        expect(made[0] == made[1], "the same output on one thread and on two", f"two of {HOOKS[stage]}")


@_CHECKS("the order of clients is irrelevant")
def _order(defense: Defense) -> None:
    order = np.array([3, 1, 4, 0, 2])
    for stage in _stages(defense):
        arrays = _inputs(stage, _CLIENTS.size)
        straight = _applied(defense, stage, arrays, context(_CLIENTS))
        wanted, found = "the same output for clients in another order", f"another one of {HOOKS[stage]}"
        if stage == "aggregate":
            turned = (arrays[0], arrays[1][order], arrays[2][order])
            other = _applied(defense, stage, turned, context(_CLIENTS[order]))
            expect(np.allclose(_numbers(straight), _numbers(other), rtol=1e-12), wanted, found)
            continue
        turned = tuple(array[order] for array in arrays)
        other = _applied(defense, stage, turned, context(_CLIENTS[order]))
        expect(_rows(straight, order) == _everything(other), wanted, found)


def _numbers(made: Arrays) -> Floats:
    return np.asarray(made[0], dtype=np.float64)


@_CHECKS("a client alone is treated as in its cohort")
def _alone(defense: Defense) -> None:
    for stage in _stages(defense):
        if stage in ("wire", "aggregate"):
            continue  # it acts on a cohort as a whole
        arrays = _inputs(stage, _CLIENTS.size)
        together = _applied(defense, stage, arrays, context(_CLIENTS))
        for i in range(_CLIENTS.size):
            row = slice(i, i + 1)
            alone = tuple(array[row].copy() for array in arrays)
            own = _applied(defense, stage, alone, context(_CLIENTS[row]))
            wanted = "the same row for a client alone as in its cohort: n comes from context.shares"
            expect(_everything(own) == _rows(together, row), wanted, f"another one of {HOOKS[stage]}")


@_CHECKS("a secure sum is that of the messages that arrived")
def _secure_sum(defense: Defense) -> None:
    if "wire" not in defense.stages:
        return
    messages, survivors = 3 * generator(5).normal(size=(_CLIENTS.size, FEATURES)), np.arange(5) % 4 != 1
    round_ = context(_CLIENTS)
    wired = defense.on_wire(messages, survivors, round_)
    if wired.sum is None:
        return
    encoding = defense.encoding
    expect(encoding is not None, "an encoding beside encoded messages", "none")
    there = wired.survivors[:, np.newaxis]
    expected = (messages * round_.counts[:, np.newaxis] * there).sum(axis=0)
    off = float(np.abs(wired.sum - expected).max())
    room = 2.0 * _CLIENTS.size * (0.0 if encoding is None else encoding.error)
    wanted = f"the sum of counts times messages, up to a rounding of {room:.3g}"
    expect(off <= room, wanted, f"a sum that is off by {off:.3g}")


@_CHECKS("fresh clients do not share a wire")
def _alone_on_the_wire(defense: Defense) -> None:
    if "wire" not in defense.stages:
        return
    messages = 3 * generator(5).normal(size=(_CLIENTS.size, FEATURES))
    together = defense.alone(messages, context(_CLIENTS))
    for i in range(_CLIENTS.size):
        row = slice(i, i + 1)
        own = defense.alone(messages[row], context(_CLIENTS[row]))
        same = own.messages.tobytes() == together.messages[row].tobytes()
        same &= bool(own.survivors[0] == together.survivors[i])
        expect(same, "the same from `alone` for a client with and without others", "something else")


@_CHECKS("nobody, and one parameter")
def _smallest(defense: Defense) -> None:
    for stage in _stages(defense):
        _applied(defense, stage, _inputs(stage, 0), context([]))
        _applied(defense, stage, _inputs(stage, _CLIENTS.size, P=1), context(_CLIENTS, P=1))


@_CHECKS("noise depends on shares, not on who is there")
def _shares(defense: Defense) -> None:
    if "message" not in defense.stages:
        return
    for shares in (1, 2, 1000):
        few = _sent(defense, [8, 9], shares)
        many = _sent(defense, range(10), shares)
        wanted = "the same noise for a client, whoever else is there: n comes from context.shares"
        expect(few.tobytes() == many[8:].tobytes(), wanted, "other noise in a larger cohort")
        more = _sent(defense, [8, 9], shares + 1)
        laws = [defense.law(context([8], shares=n)) for n in (shares, shares + 1)]
        equal, alike = more.tobytes() == few.tobytes(), laws[0] == laws[1]
        said = "the same law" if alike else "different laws"
        found = "equal" if equal else "different"
        expect(equal == alike, f"messages that follow {said}, with one more share", f"{found} messages")


def _sent(defense: Defense, clients: Sequence[int], shares: int) -> Floats:
    models = np.zeros((len(clients), FEATURES))
    return defense.on_message(models, context(list(clients), shares=shares))
