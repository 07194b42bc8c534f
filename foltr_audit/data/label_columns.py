"""What `--intents` means: a folder of qrels per intent, or `synthetic[:I]` for made-up ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from foltr_audit.core.records import Dataset
from foltr_audit.core.spec.data import are_synthetic, synthetic_count
from foltr_audit.data.qrels import joined_with, qrels_files, read_qrels
from foltr_audit.data.synthetic.intents import synthetic_intents
from foltr_audit.errors import DataError


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
    number = synthetic_count(intents)
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
