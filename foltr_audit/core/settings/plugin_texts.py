"""What Specs make of texts of plug-ins.

Plug-ins need NumPy. They are imported when a Spec is made, so that `--help`, which shows fields, is quick.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from pydantic import ValidatorFunctionWrapHandler, WrapValidator

if TYPE_CHECKING:
    pass


def canonical(kind: str) -> WrapValidator:
    """A validator that turns a plug-in of a kind, e.g. `attack`, or its text into its canonical text."""

    def text(value: object, read: ValidatorFunctionWrapHandler) -> str:
        from foltr_audit.core.plugins.registry import SINGULAR, make, text_of

        base = next(base for base, name in SINGULAR.items() if name == kind)
        return make(base, read(text_of(base, value))).text

    return WrapValidator(text)


def chain_texts(value: object) -> object:
    """What Specs hold for a chain of defenses: texts, objects and lists of them; other values as they are."""
    from foltr_audit.core.plugins import Defense, Plugin
    from foltr_audit.core.plugins.registry import text_of

    if isinstance(value, str | Plugin | type):
        return [text_of(Defense, value)]
    if not isinstance(value, Sequence):
        return value
    inner = [chain_texts(one) if isinstance(one, str | Plugin | type | Sequence) else [one] for one in value]
    return [text for texts in inner for text in cast("Sequence[object]", texts)]


def canonical_chain(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The canonical texts of a chain of defenses."""
    from foltr_audit.core.defense_chain import DefenseChain, parse_chain

    return DefenseChain(parse_chain(texts)).texts
