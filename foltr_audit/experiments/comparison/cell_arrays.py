"""The arrays of a stored cell: metrics of its rounds, nDCG by query, judged lists and guesses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.ranking_metrics import OFFLINE_NDCG, ONLINE_NDCG
from foltr_audit.errors import TraceError
from foltr_audit.experiments.comparison.facts import EvidenceFacts
from foltr_audit.judge.click_evidence import PER_LIST, ClickEvidence, ClickGuesses
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.reading.array_types import ArraySchema, refuse_other_forms
from foltr_audit.utils.reading.arrays import read_archive

ARRAYS = "arrays.npz"
ROUNDS = "rounds/"
LISTS = ("lists/", "guessed/")
"""Prefixes of the arrays that have a row for every attacked list."""

Arrays = dict[str, NDArray[Any]]

_MOST = 2.0**40  # counts of a stored file above this are damage, and are refused before anything is allocated
_GUESSED = tuple(each.name for each in fields(ClickGuesses))
_FORMS = {
    r"rounds/.+": ArraySchema("f8", "T"),
    r"query_ndcg": ArraySchema("f8", "Q", 0, 1),
    r"validation_ndcg": ArraySchema("f8", "V", 0, 1),
    r"lists/query": ArraySchema("U", "L"),
    r"lists/(message|rank|unknowns|group)": ArraySchema("i8", "L", 0, _MOST),
    r"lists/shown": ArraySchema("i8", "Lk", -1, _MOST),
    r"lists/(clicks|observed|told)": ArraySchema("b1", "Lk"),
    r"lists/surprisal": ArraySchema("f8", "L"),
    r"guessed/\d+/scores": ArraySchema("f8", "Lk"),
    r"guessed/\d+/guess": ArraySchema("b1", "Lk"),
    r"guessed/\d+/(any_click|surprisal)": ArraySchema("f8", "L"),
}
_CURVES = ("round", ONLINE_NDCG, OFFLINE_NDCG)
"""Metrics that every cell has for each round."""


def read_arrays(content: bytes | Path, where: str = ARRAYS) -> Arrays:
    """The arrays of a cell, of a file or its content.

    Raises:
        TraceError: it holds other arrays, or would unpack to far more than its size.
    """
    arrays = read_archive(content, where, TraceError)
    try:
        refuse_other_forms(arrays, _FORMS)
    except ValueError as error:
        raise TraceError(f"{where}: damaged: {error}") from error
    return arrays


def arrays_of(evidence: ClickEvidence) -> Arrays:
    """Judged lists and guesses as arrays."""
    found: Arrays = {f"lists/{name}": getattr(evidence, name) for name in PER_LIST}
    for number, guessed in enumerate(evidence.guessed.values()):
        for name in _GUESSED:
            values = getattr(guessed, name)
            if values is not None:
                found[f"guessed/{number}/{name}"] = values
    return found


def rounds_in(arrays: Mapping[str, NDArray[Any]], number: int) -> dict[str, Floats]:
    """Metrics of the training rounds by name, float64 (T,) each.

    Raises:
        ValueError: they are not of `number` rounds, or one that every cell has is missing.
    """
    rounds = {name.removeprefix(ROUNDS): arrays[name] for name in arrays if name.startswith(ROUNDS)}
    missing = [name for name in _CURVES if name not in rounds]
    if missing:
        raise ValueError(f"{ROUNDS}{missing[0]}: missing")
    if not np.array_equal(rounds["round"], np.arange(number)):
        raise ValueError(f"{ROUNDS}round: expected the {number} rounds of the Spec")
    for name in _CURVES[1:]:
        if np.any((rounds[name] < 0) | (rounds[name] > 1)):
            raise ValueError(f"{ROUNDS}{name}: a value outside of 0 to 1")
    return rounds


def evidence_in(arrays: Mapping[str, NDArray[Any]], described: EvidenceFacts) -> ClickEvidence:
    """Judged lists and guesses from arrays and their facts.

    Raises:
        ValueError: an array is missing or unexpected, or two do not fit each other.
    """
    expected = {f"lists/{name}" for name in PER_LIST}
    for number, label in enumerate(described.guessed):
        absent = set() if label in described.surprised else {"surprisal"}
        expected |= {f"guessed/{number}/{name}" for name in _GUESSED if name not in absent}
    there = {name for name in arrays if name.startswith(LISTS)}
    if there != expected:
        odd = min(there ^ expected)
        raise ValueError(f"{odd}: {'missing' if odd in expected else 'not expected'}")
    lists = {name: arrays[f"lists/{name}"] for name in PER_LIST}
    _refuse_odd_lists(lists, len(described.groups))
    guessed = {
        label: ClickGuesses(**{name: arrays.get(f"guessed/{number}/{name}") for name in _GUESSED})  # type: ignore[arg-type]
        for number, label in enumerate(described.guessed)
    }
    for label, one in guessed.items():
        if np.isnan(one.scores[lists["shown"] >= 0]).any():
            raise ValueError(f"scores of {label}: NaN for a document")
    return ClickEvidence(
        **lists,  # type: ignore[arg-type]
        guessed=guessed,
        baselines=frozenset(described.baselines),
        probabilities=frozenset(described.probabilities),
        exact=frozenset(described.exact),
        same_message=described.same_message,
        groups=tuple(described.groups),
        refused=described.refused,
        steps=described.steps,
        clipped=described.clipped,
    )


def _refuse_odd_lists(lists: Mapping[str, NDArray[Any]], groups: int) -> None:
    """Raise a `ValueError` for lists whose values do not fit each other."""
    shown, clicks = lists["shown"] >= 0, lists["clicks"]
    if np.any(shown[:, 1:] & ~shown[:, :-1]):
        raise ValueError("lists/shown: a document after the padding")
    if np.any(clicks & ~shown):
        raise ValueError("lists/clicks: a click where the list is padded")
    if lists["group"].max(initial=0) >= groups:
        raise ValueError(f"lists/group: {lists['group'].max()}; expected less than {groups}")
