"""Arrays as bytes that may come from anybody: a line of JSON that says what follows, then the numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

_MAGIC = b"foltr-audit/arrays/1\n"
_MOST_HEADER = 1 << 20
_KINDS = "biuf"


def pack_arrays(arrays: Mapping[str, NDArray[np.generic]]) -> bytes:
    """Arrays of numbers by name as bytes.

    Raises:
        ValueError: an array of something else than numbers.
    """
    entries, pieces = [], []
    for name, values in arrays.items():
        if values.dtype.kind not in _KINDS:
            raise ValueError(f"array {name} is {values.dtype}; expected numbers")
        plain = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("<"), copy=False))
        entries.append({"name": name, "dtype": plain.dtype.str, "shape": list(values.shape)})
        pieces.append(plain.tobytes())
    return _MAGIC + json.dumps(entries).encode() + b"\n" + b"".join(pieces)


def unpack_arrays(data: bytes) -> dict[str, NDArray[np.generic]]:
    """The arrays of `pack_arrays`, read-only.

    Raises:
        ValueError: other bytes, or sizes that do not match what follows.
    """
    if not data.startswith(_MAGIC):
        raise ValueError("these bytes hold no packed arrays")
    end = data.find(b"\n", len(_MAGIC), len(_MAGIC) + _MOST_HEADER)
    if end < 0:
        raise ValueError("packed arrays without a header")
    try:
        entries = json.loads(data[len(_MAGIC) : end])
        found, begin = {}, end + 1
        for entry in entries:
            dtype, shape = np.dtype(str(entry["dtype"])), [int(length) for length in entry["shape"]]
            if dtype.kind not in _KINDS or any(length < 0 for length in shape) or len(shape) > 8:
                raise ValueError(f"array {entry['name']!r:.40} is {dtype}{shape}; expected numbers")
            count = math.prod(shape)
            if begin + count * dtype.itemsize > len(data):
                raise ValueError(f"array {entry['name']!r:.40} is cut off")
            found[str(entry["name"])] = np.frombuffer(data, dtype, count, begin).reshape(shape)
            begin += count * dtype.itemsize
    except (KeyError, TypeError, RecursionError, OverflowError) as error:
        raise ValueError(f"packed arrays with a broken header: {error!r:.80}") from None
    if begin != len(data):
        raise ValueError(f"packed arrays with {len(data) - begin} bytes too many")
    return found
