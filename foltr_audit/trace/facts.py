"""Facts of a trace: the values that they may have, and those that a user states by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeGuard

from foltr_audit.errors import UsageError, suggest_name
from foltr_audit.privacy.events import parse_event
from foltr_audit.privacy.noise import parse_law
from foltr_audit.privacy.noise.parse import parts
from foltr_audit.privacy.randomized_response import RandomizedResponse
from foltr_audit.recorder.trace_format import FLOWER_MASKS
from foltr_audit.utils.formatting import JsonValue
from foltr_audit.utils.reading import is_whole
from foltr_audit.utils.seed_generators import PERTURBATIONS

Fact = str | int | float | bool | list[str]

FORMATS = ("float32", "float64")
"""Number formats of features and updates."""

MOST_PARTS = 256
"""Parts of a data set, and intents of users, that a trace has at most."""


def shortened(value: object) -> str:
    """A value as Python writes it, at most 80 characters of it."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


class FactDomain(NamedTuple):
    """The values of a fact: what is expected, in words, and whether a value is one of them."""

    values: str
    fits: Callable[[object], bool]


def _one_of(*names: str) -> FactDomain:
    return FactDomain(" or ".join(names), lambda value: value in names)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _above_0(value: object) -> bool:
    return _is_number(value) and 0 < value < math.inf


def _whole(least: int, most: float = math.inf) -> FactDomain:
    upwards = "on" if math.isinf(most) else f"to {most}"
    return FactDomain(f"a whole number from {least} {upwards}", lambda value: is_whole(value, least, most))


def _is_law(value: object) -> bool:
    if not isinstance(value, str):
        return False
    return value == "none" or all(
        parse_law(text) is not None or RandomizedResponse.parse(text, 2) is not None for text in parts(value)
    )


_TEXT = FactDomain("text", lambda value: isinstance(value, str) and bool(value))
_TEXTS = FactDomain("a list of texts", lambda value: isinstance(value, list))
_NUMBERS = FactDomain(
    "a list of whole numbers as texts",
    lambda value: isinstance(value, list) and all(isinstance(one, str) and one.isdigit() for one in value),
)
_BOOL = FactDomain("true or false", lambda value: isinstance(value, bool))
_POSITIVE = FactDomain("a number above 0", _above_0)

FACTS: dict[str, FactDomain] = {
    "aggregate": _one_of("mean", "other"),
    "antithetic": _BOOL,
    "bits": _whole(1),
    "claimed_sensitivity": _POSITIVE,
    "click_model": _TEXT,
    "client_step": _TEXT,
    "clip_norm": _POSITIVE,
    "clip_ord": FactDomain("1 or 2", lambda value: _is_number(value) and value in (1, 2)),
    "clip_without_pairs": _BOOL,
    "clipping_range": _POSITIVE,
    "defense": FactDomain("text or a list of texts", lambda value: isinstance(value, str | list)),
    "eps_claimed": FactDomain(
        "a number above 0", lambda value: _above_0(value) or (_is_number(value) and value == math.inf)
    ),
    "document_order": _one_of("content", "file"),
    "events": FactDomain(
        "a list of texts such as noised:laplace:scale=2.5",
        lambda value: isinstance(value, list) and all(parse_event(text) is not None for text in value),
    ),
    "feature_dtype": _one_of(*FORMATS),
    "fraction": _whole(0),
    "honest_messages": _whole(1),
    "interactions": _whole(1),
    "intents": _whole(1, MOST_PARTS),
    "intents_from": _TEXT,
    "intents_numbered": _TEXTS,
    "learner": _TEXT,
    "learning_rate": _POSITIVE,
    "lists": _one_of("sampled", "deterministic", "interleaved"),
    "lists_known": _one_of("server", "auditor"),
    "local_dp_clip": _POSITIVE,
    "local_dp_delta": FactDomain(
        "a number from 0 on, below 1", lambda value: _is_number(value) and 0 <= value < 1
    ),
    "local_dp_eps": _POSITIVE,
    "mask_seed_bits": _whole(1),
    "masking": _one_of("fixed-point", FLOWER_MASKS),
    "max_weight": _POSITIVE,
    "messages_every": _whole(0),
    "missing": _TEXT,
    "metric": _one_of("maxrr", "dcg"),
    "modulus_bits": _whole(1),
    "noise": FactDomain(
        "none, or a law such as gamma-share:n=1000,scale=2.5 (leave it out where the law is another)", _is_law
    ),
    "normaliser": _one_of("shown", "candidates"),
    "num_shares": _whole(1),
    "of": _one_of("model", "update"),
    "number_format": _one_of(*FORMATS),
    "optimiser": _TEXT,
    "pairs": _one_of("all", "last-click+1"),
    "perturbation": _one_of(*PERTURBATIONS, "other"),
    "quantization_range": _whole(1),
    "range": _POSITIVE,
    "rank_with": _one_of("local", "global"),
    "reconstruction_threshold": _whole(1),
    "second_total": _NUMBERS,
    "sigma": _POSITIVE,
    "subtracted": _NUMBERS,
    "target": _whole(0),
    "update_clip_norm": _POSITIVE,
    "width": _whole(1),
}
"""Every fact that is read, with its values."""


def problems_of(facts: Mapping[str, object], *, ours: bool) -> list[str]:
    """What is wrong with facts, one line each; `ours`: of a Run, which may have other facts and laws."""
    problems = []
    for name, value in facts.items():
        allowed = FACTS.get(name)
        if ours and (allowed is None or name in ("noise", "events")):
            continue
        if allowed is None:
            problems.append(f"unknown fact knowledge.{name}; {suggest_name(name, FACTS)}")
        elif not allowed.fits(value):
            problems.append(f"knowledge.{name} is {shortened(value)}, expected {allowed.values}")
    return problems


OPTION = "--know"
_SWITCHES = {"yes": True, "true": True, "no": False, "false": False}


def parse_facts(texts: Sequence[str]) -> dict[str, Fact]:
    """Facts from texts `NAME=VALUE`; the values of a list are separated by `;`.

    >>> parse_facts(["learning_rate=.1", "pairs=all", "clip_without_pairs=no"])
    {'learning_rate': 0.1, 'pairs': 'all', 'clip_without_pairs': False}

    Raises:
        UsageError: a text of another form, a fact that does not exist or is given twice, or a value that
            the fact cannot have.
    """
    found: dict[str, Fact] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name, value = name.strip().removeprefix("knowledge."), value.strip()
        if not equals or not name or not value:
            raise UsageError(f"{OPTION}: {shortened(text)}; expected NAME=VALUE, e.g. learning_rate=0.1")
        if not value.isprintable():
            raise UsageError(
                f"{OPTION}: {name}={shortened(value)}; expected one line without control characters"
            )
        if name in found:
            raise UsageError(f"{OPTION}: {name} is given twice")
        found[name] = _read(name, value)
    return found


def checked_facts(facts: Mapping[str, object]) -> dict[str, Fact]:
    """The same facts, if all of them exist and have values that they can have.

    Raises:
        UsageError: a fact that does not exist, or a value that it cannot have.
    """
    for name, value in facts.items():
        allowed = _domain(name)
        if not allowed.fits(value):
            raise UsageError(f"{OPTION} {name}: {shortened(value)}; expected {allowed.values}")
    return {name: value for name, value in facts.items() if isinstance(value, str | int | float | list)}


def plain_facts(facts: Mapping[str, Fact]) -> dict[str, JsonValue]:
    """Facts as the values of a JSON object."""
    return {name: [*value] if isinstance(value, list) else value for name, value in facts.items()}


def _domain(name: str) -> FactDomain:
    if name not in FACTS:
        raise UsageError(f"{OPTION}: unknown fact {name!r}; {suggest_name(name, FACTS)}")
    return FACTS[name]


def _read(name: str, text: str) -> Fact:
    """The first reading of a text that the fact allows."""
    allowed = _domain(name)
    for value in (_SWITCHES.get(text.lower()), _number(text), text, text.split(";")):
        if value is not None and allowed.fits(value):
            return value
    raise UsageError(f"{OPTION}: {name}={shortened(text)[1:-1]}; expected {allowed.values}")


def _number(text: str) -> int | float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    if math.isnan(number):
        return None
    return int(text) if text.isdecimal() else number
