"""Checks of the values that plug-ins return; the error for a wrong type or shape names the plug-in."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.plugins.defense import Defense, Stage, stages_of
from foltr_audit.core.plugins.learner import Fact, Learner, ModelLearner
from foltr_audit.core.plugins.scenario import ClickModel
from foltr_audit.core.records.round_context import RoundContext
from foltr_audit.errors import PluginError
from foltr_audit.privacy.events import NoiseAddition, PrivacyClaim, PrivacyEvent
from foltr_audit.privacy.noise import AdditiveNoise
from foltr_audit.rng import ClientStreams
from foltr_audit.utils.arrays import Bools, Floats, Ints

N = TypeVar("N", bound=np.generic)
T = TypeVar("T")

_EVENTS = get_args(PrivacyEvent)

Kind = Literal["truth values", "whole numbers", "numbers"]
"""The type of an array's elements."""

_KINDS: dict[Kind, str] = {"truth values": "b", "whole numbers": "iu", "numbers": "iuf"}


def array_of(who: str, answer: NDArray[N], shape: Sequence[int], kind: Kind = "numbers") -> NDArray[N]:
    """The returned value, if it is an array of the expected shape and type.

    `who`: the plug-in and its method, e.g. `defense clip: on_step`. `kind`: the expected type of its
    elements.

    Raises:
        PluginError: the value is not such an array.
    """
    if not isinstance(answer, np.ndarray) or answer.dtype.kind not in _KINDS[kind]:
        expected = f"an array of {kind}, shape {tuple(shape)}"
        raise PluginError(f"{who} gave {_described(answer)}; expected {expected}")
    if answer.shape != tuple(shape):
        raise PluginError(f"{who} gave an array of shape {answer.shape}; expected {tuple(shape)}")
    return answer


def arrays_of(
    who: str, answer: tuple[NDArray[N], ...], shapes: Sequence[Sequence[int]]
) -> tuple[NDArray[N], ...]:
    """A returned tuple of arrays of these shapes; arguments and errors as for `array_of`."""
    if not isinstance(answer, tuple) or len(answer) != len(shapes):
        raise PluginError(f"{who} gave {_described(answer)}; expected a tuple of {len(shapes)} arrays")
    return tuple(array_of(who, one, shape) for one, shape in zip(answer, shapes, strict=True))


def one_of(who: str, answer: object, kind: type[T]) -> T:
    """A returned object of type `kind`; arguments and errors as for `array_of`."""
    if not isinstance(answer, kind):
        raise PluginError(f"{who} gave {_described(answer)}; expected {_article(kind.__name__)}")
    return answer


def all_of(who: str, answer: Sequence[T], kinds: Sequence[type], named: str) -> tuple[T, ...]:
    """A returned tuple or list of objects of these types, as a tuple; errors as for `array_of`.

    An error calls the expected objects `named`.
    """
    if not isinstance(answer, tuple | list):
        raise PluginError(f"{who} gave {_described(answer)}; expected a tuple of {named}")
    wrong = [one for one in answer if not isinstance(one, tuple(kinds))]
    if wrong:
        raise PluginError(f"{who} gave {_described(wrong[0])} in a tuple; expected {named}")
    return tuple(answer)


def clicks_of(
    model: ClickModel, labels: Ints, largest_label: int, streams: ClientStreams, step: int
) -> Bools:
    """Clicks of a click model on lists, see `ClickModel.click`; errors as for `array_of`."""
    clicks = model.click(labels, largest_label, streams, step)
    return array_of(f"click model {model.name}: click", clicks, labels.shape, "truth values")


def step_of(learner: ModelLearner, answer: tuple[Floats, Bools], models: Floats) -> tuple[Floats, Bools]:
    """The result of `ModelLearner.local_step` from models (C, P); errors as for `array_of`."""
    who = f"learner {learner.name}: local_step"
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise PluginError(f"{who} gave {_described(answer)}; expected models (C, P) and truth values (C,)")
    moved = array_of(who, answer[1], models.shape[:1], "truth values")
    return array_of(who, answer[0], models.shape), moved


def facts_of(learner: Learner) -> dict[str, Fact]:
    """The public facts about a learner, see `Learner.facts`; errors as for `array_of`."""
    return one_of(f"learner {learner.name}: facts", learner.facts, dict)


def events_of(
    defense: Defense, context: RoundContext, stage: Stage | None = None
) -> tuple[PrivacyEvent, ...]:
    """The privacy events of a defense in a stage, or in all of its stages; errors as for `array_of`."""
    if stage is None:
        every = stages_of(defense)
        return tuple(event for one in every for event in events_of(defense, context, one))
    given = defense.events_in(stage, context)
    found = all_of(f"defense {defense.name}: events", given, _EVENTS, "events")
    for event in found:
        if isinstance(event, NoiseAddition):
            _checked_law(defense, event.law)
    return found


def claims_of(defense: Defense, context: RoundContext) -> tuple[PrivacyClaim, ...]:
    """The privacy claims of a defense for one round; errors as for `array_of`."""
    return all_of(f"defense {defense.name}: claims", defense.claims(context), (PrivacyClaim,), "claims")


def law_of(defense: Defense, context: RoundContext) -> AdditiveNoise | None:
    """The noise law that a defense declares, or None; errors as for `array_of`."""
    law = defense.law(context)
    return None if law is None else _checked_law(defense, law)


def _checked_law(defense: Defense, law: object) -> AdditiveNoise:
    if not isinstance(law, AdditiveNoise):
        raise PluginError(f"defense {defense.name}: law gave {_described(law)}; expected a law of noise")
    return law


_OF_METHODS = ("method", "baseline", "task", "click_model", "view")
_OF_SETTINGS = ("trained_on", "eps_claimed", "defense", "learner", "pdgd", "sees", "seed", "repetition")
COLUMNS = frozenset({*_OF_METHODS, *_OF_SETTINGS, "run", "round"})
"""Columns that rows of reports have besides a plug-in's own; more are Spec fields, by their dotted names."""


def column_name(who: str, name: str, taken: Collection[str] = ()) -> None:
    r"""Refuse a name of a plug-in's number that would hide another column, or that no file can hold.

    >>> column_name("task likes: my-guess: metric", "error")
    >>> column_name("task likes: my-guess: metric", "view")
    Traceback (most recent call last):
        ...
    foltr_audit.errors.PluginError: task likes: my-guess: metric 'view': this is the name of another column

    `who`: the plug-in, and what it names. `taken`: names that are taken, besides `COLUMNS`.

    Raises:
        PluginError: a name that is taken, or that ends in `_ci95`; a backslash or a control character.
    """
    table, dot, _ = name.partition(".")
    if name in COLUMNS or name in taken or (dot and table.isidentifier()):
        raise PluginError(f"{who} {name!r}: this is the name of another column")
    if name.endswith("_ci95"):
        raise PluginError(f"{who} {name!r}: so ends the name of an interval")
    if not name or not name.isprintable() or "\\" in name:
        raise PluginError(f"{who} {name!r}: expected a name without backslashes and control characters")


def _described(answer: object) -> str:
    if isinstance(answer, np.ndarray):
        return f"an array of {answer.dtype}, shape {answer.shape}"
    return "None" if answer is None else _article(type(answer).__name__)


def _article(name: str) -> str:
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
