"""What `--intents` means: a folder of qrels per intent, or `synthetic[:I]` for made-up ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from foltr_audit.errors import DataError
from foltr_audit.qrels import joined_with, qrels_files, read_qrels
from foltr_audit.records import Dataset
from foltr_audit.synthetic_intents import FEWEST, MOST, USUAL, synthetic_intents
from foltr_audit.utils.reading import whole_number

_SYNTHETIC = re.compile(r"synthetic(?::(.*))?")


def canonical_intents(text: str) -> str:
    """The same text with every default spelt out.

    Raises:
        ValueError: an empty name, or a number of made-up intents that is refused.
    """
    number = _synthetic(text)
    if not text.strip():
        raise ValueError(f"intents {text!r}: expected a folder of qrels, or synthetic:I")
    if number is None:
        return text
    count = whole_number(number, FEWEST, MOST)
    if count is None:
        raise ValueError(f"intents {text[:40]!r}: expected synthetic:I with I from {FEWEST} to {MOST}")
    return f"synthetic:{count}"


def _synthetic(text: str) -> str | None:
    """Number of made-up intents as it is written; None for a folder."""
    match = _SYNTHETIC.fullmatch(text)
    return None if match is None else str(USUAL) if match[1] is None else match[1]


def are_synthetic(intents: str) -> bool:
    """Whether intents are made up."""
    return _synthetic(intents) is not None


def intent_files(intents: str | None) -> tuple[Path, ...]:
    """Every file that the intents are read from.

    Raises:
        DataError: a folder that holds no complete set of qrels.
    """
    return () if intents is None or are_synthetic(intents) else qrels_files(Path(intents))


def with_intents(parts: Mapping[str, Dataset], intents: str, source: str) -> dict[str, Dataset]:
    """The parts with a grade under each intent, in place of their own labels.

    Raises:
        DataError: qrels that cannot be read, or a part of which they judge nothing.
    """
    number = _synthetic(intents)
    if number is not None:
        return {name: synthetic_intents(part, int(number)) for name, part in parts.items()}
    qrels, joined = read_qrels(Path(intents)), {}
    for name, part in parts.items():
        judged = joined_with(part, qrels, name)
        if judged is None:
            raise DataError(
                f"intents: {intents} judges no document of the {name} part of {source}; "
                f"expected the same query and document ids"
            )
        joined[name] = judged
    return joined
