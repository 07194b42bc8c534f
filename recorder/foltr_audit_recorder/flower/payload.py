"""The records of a Flower message: its arrays, its weight, what travels in clear beside them, its bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..array_layout import NamedArray, npy_array

if TYPE_CHECKING:
    from flwr.app import Array, ArrayRecord, RecordDict

COUNT = "num-examples"
"""Name of the metric that the strategies of the message API weigh replies by."""

_LEGACY_COUNT = "num_examples"
_LEGACY_STATUS = "fitres.status"
_SECAGG = "secaggplus_configs"


class ReplyContent(NamedTuple):
    """What a reply holds.

    Attributes:
        arrays: its arrays in their order.
        weight: the weight of the reply in the mean, from 0; 1 where it has none.
        metrics: numbers in clear by name; by record and name where several records have one of that name.
        size: bytes of all records.
        problem: why the client says that it failed; "" where it does not.
    """

    arrays: list[NamedArray]
    weight: float
    metrics: dict[str, float]
    size: int
    problem: str


def model_in(content: RecordDict) -> list[NamedArray]:
    """The arrays of a message in their order; with the record's name before theirs where there are several.

    Raises:
        ValueError: arrays that are not those of NumPy.
    """
    return _named(array_records(content))


def _named(records: Mapping[str, ArrayRecord]) -> list[NamedArray]:
    several = len(records) > 1
    return [
        flower_array(f"{record_name}.{name}" if several else name, array)
        for record_name, record in records.items()
        for name, array in record.items()
        if array.data
    ]


def array_records(content: RecordDict) -> dict[str, ArrayRecord]:
    """The records of arrays that are not empty."""
    from flwr.app import ArrayRecord

    return {
        name: record for name, record in content.items() if isinstance(record, ArrayRecord) and len(record)
    }


def flower_array(name: str, array: Array) -> NamedArray:
    """An array of Flower with its name, read-only.

    Raises:
        ValueError: another serialisation than NumPy's, or an array of objects.
    """
    if array.stype != "numpy.ndarray":
        raise ValueError(f"array {name} is serialised as {array.stype!r}; expected numpy.ndarray")
    return npy_array(name, array.data)


def reply_content(content: RecordDict, count_key: str = COUNT) -> ReplyContent:
    """What a reply holds, in one pass.

    Raises:
        ValueError: arrays that are not those of NumPy, or a weight that is no number from 0 on.
    """
    from flwr.app import ArrayRecord, MetricRecord

    arrays: dict[str, ArrayRecord] = {}
    metrics: dict[str, float] = {}
    size, problem = 0, ""
    weight: float = 1
    for record_name, record in content.items():
        if isinstance(record, ArrayRecord):
            arrays[record_name] = record
            for name, array in record.items():
                size += len(array.data) + len(name)
            continue
        for name, value in record.items():
            size += len(name) + (8 if isinstance(value, int | float) else _size(value))
            if record_name == _SECAGG or not isinstance(value, int | float):
                continue
            # Strategies weigh by numbers of a metric record alone.
            if name in (count_key, _LEGACY_COUNT) and isinstance(record, MetricRecord):
                if isinstance(value, bool) or not 0 <= value < math.inf:
                    raise ValueError(f"{name} is {value}; expected a finite number from 0 on")
                weight = value
            elif record_name != _LEGACY_STATUS:
                metrics[f"{record_name}.{name}" if name in metrics else name] = float(value)
        if record_name == _LEGACY_STATUS and record.get("code"):
            problem = str(record.get("message") or "its status is not OK")
    return ReplyContent(_named(arrays), weight, metrics, size, problem)


def _size(value: object) -> int:
    """Bytes of an entry of a record: numbers travel in 64 bits."""
    if isinstance(value, list):
        return sum(map(_size, value))
    return len(value) if isinstance(value, str | bytes) else 8
