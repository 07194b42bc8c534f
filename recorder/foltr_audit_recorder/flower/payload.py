"""The records of a Flower message: its arrays, its weight, what travels in clear beside them, its bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..array_layout import NamedArray, named_arrays

if TYPE_CHECKING:
    from flwr.app import Array, ArrayRecord, RecordDict

COUNT = "num-examples"
"""Name of the metric that the strategies of the message API weigh replies by."""

_LEGACY_COUNT = "num_examples"
_LEGACY_STATUS = "fitres.status"
_SECAGG = "secaggplus_configs"


@dataclass(frozen=True, kw_only=True)
class ClearContent:
    """What travels in clear beside the arrays of a reply.

    Attributes:
        count: the weight of the reply in the mean; 1 where it has none.
        metrics: numbers by name; by record and name where several records have one of that name.
        size: bytes of all records.
        problem: why the client says that it failed; "" where it does not.
    """

    count: int = 1
    metrics: dict[str, float] = field(default_factory=dict)
    size: int = 0
    problem: str = ""


def model_in(content: RecordDict) -> list[NamedArray]:
    """The arrays of a message in their order; with the record's name before theirs where there are several.

    Raises:
        ValueError: arrays that are not those of NumPy.
    """
    records = array_records(content)
    arrays: dict[str, NDArray[np.generic]] = {}
    for record_name, record in records.items():
        for name, array in record.items():
            if array.data:
                arrays[name if len(records) == 1 else f"{record_name}.{name}"] = numpy_array(array)
    return named_arrays(arrays) if arrays else []


def array_records(content: RecordDict) -> dict[str, ArrayRecord]:
    """The records of arrays that are not empty."""
    from flwr.app import ArrayRecord

    return {
        name: record for name, record in content.items() if isinstance(record, ArrayRecord) and len(record)
    }


_HEADERS: dict[bytes, tuple[np.dtype[np.generic], tuple[int, ...], bool]] = {}


def numpy_array(array: Array) -> NDArray[np.generic]:
    """An array of Flower as NumPy array, read-only.

    Raises:
        ValueError: another serialisation than NumPy's, or an array of objects.
    """
    if array.stype != "numpy.ndarray":
        raise ValueError(f"an array is serialised as {array.stype!r}; expected numpy.ndarray")
    return npy_array(array.data)


def npy_array(data: bytes) -> NDArray[np.generic]:
    """The array of an `.npy` file, read-only. Thousands of messages share a header, which is parsed once.

    Raises:
        ValueError: other bytes, or an array of objects.
    """
    wide = data[6:7] != b"\x01"
    end = (12 if wide else 10) + int.from_bytes(data[8 : 12 if wide else 10], "little")
    header = data[:end]
    if header not in _HEADERS:
        if len(_HEADERS) > 10_000:
            _HEADERS.clear()
        _HEADERS[header] = _parsed(header)
    dtype, shape, by_columns = _HEADERS[header]
    values = np.frombuffer(data, dtype, math.prod(shape), end)
    return values.reshape(shape, order="F" if by_columns else "C")


def _parsed(header: bytes) -> tuple[np.dtype[np.generic], tuple[int, ...], bool]:
    from io import BytesIO

    stream = BytesIO(header)
    version = np.lib.format.read_magic(stream)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read is None:
        raise ValueError(f"an array in version {version} of NumPy's format; expected 1.0 or 2.0")
    shape, by_columns, dtype = read(stream)
    if dtype.hasobject:
        raise ValueError("an array of Python objects; expected numbers")
    return dtype, shape, by_columns


def clear_content(content: RecordDict, count_key: str = COUNT) -> ClearContent:
    """What travels in clear beside the arrays of a reply."""
    from flwr.app import ArrayRecord, ConfigRecord, MetricRecord

    found: list[tuple[str, str, float]] = []
    size, problem, count = 0, "", 1
    for record_name, record in content.items():
        if isinstance(record, ArrayRecord):
            size += sum(len(array.data) + len(name) for name, array in record.items())
            continue
        size += sum(_size(value) + len(name) for name, value in record.items())
        if record_name == _LEGACY_STATUS:
            if record.get("code"):
                problem = str(record.get("message") or "status is not OK")
        elif record_name != _SECAGG and isinstance(record, ConfigRecord | MetricRecord):
            found += [
                (record_name, name, float(value))
                for name, value in record.items()
                if isinstance(value, int | float)
            ]
    metrics: dict[str, float] = {}
    for record_name, name, value in found:
        if name in (count_key, _LEGACY_COUNT) and value >= 0 and math.isfinite(value):
            count = round(value)
        elif name in metrics:
            metrics[f"{record_name}.{name}"] = value
        else:
            metrics[name] = value
    return ClearContent(count=count, metrics=metrics, size=size, problem=problem)


def _size(value: object) -> int:
    """Bytes of an entry of a record: numbers travel in 64 bits."""
    if isinstance(value, list):
        return sum(map(_size, value))
    return len(value) if isinstance(value, str | bytes) else 8
