"""Shown lists as bytes, as a consenting client sends them to the server that records."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from .messages import ShownList

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


_UNKNOWN = 2  # in a column of truth values


def pack_lists(lists: Sequence[ShownList]) -> bytes:
    """Lists as bytes, which hold nothing else than arrays of numbers."""
    features = [np.asarray(shown.features) for shown in lists]
    arrays: dict[str, NDArray[np.generic]] = {
        "length": np.array([len(each) for each in features], dtype=np.int64),
        "features": np.concatenate(features) if lists else np.empty((0, 0)),
        "shown": _joined([np.asarray(shown.shown, dtype=np.int64) for shown in lists], np.int64),
        "clicks": _joined([_clicks(shown) for shown in lists], np.uint8),
        "query": np.array([shown.query for shown in lists], dtype=np.int64),
        "part": np.array([shown.part for shown in lists], dtype=np.int64),
        "intent": np.array([shown.intent for shown in lists], dtype=np.int64),
        "clipped": np.array(
            [_UNKNOWN if shown.clipped is None else shown.clipped for shown in lists], np.uint8
        ),
    }
    candidates = [np.asarray(shown.candidates) for shown in lists if shown.candidates is not None]
    if candidates:
        sizes = [-1 if shown.candidates is None else len(np.asarray(shown.candidates)) for shown in lists]
        arrays["candidates"] = np.concatenate(candidates)
        arrays["n_candidates"] = np.array(sizes, dtype=np.int64)
    return pack_arrays(arrays)


def _clicks(shown: ShownList) -> NDArray[np.uint8]:
    if shown.clicks is None:
        return np.full(len(np.asarray(shown.features)), _UNKNOWN, dtype=np.uint8)
    return np.asarray(shown.clicks, dtype=np.uint8)


def _joined(pieces: Sequence[NDArray[np.generic]], dtype: type[np.generic]) -> NDArray[np.generic]:
    return np.concatenate([np.empty(0, dtype=dtype), *pieces])


def unpack_lists(data: bytes) -> list[ShownList]:
    """The lists of `pack_lists`.

    Raises:
        ValueError: other bytes, or arrays that do not fit together.
    """
    arrays = unpack_arrays(data)
    try:
        return _lists(arrays)
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError(f"packed lists that do not fit together: {error!r:.80}") from None


def _lists(arrays: dict[str, NDArray[np.generic]]) -> list[ShownList]:
    lengths = arrays["length"].astype(np.int64)
    if lengths.ndim != 1 or (lengths.size and lengths.min() < 0) or lengths.sum() != len(arrays["features"]):
        raise ValueError("packed lists whose lengths are not those of their documents")
    ends = np.cumsum(lengths)
    sizes = arrays.get("n_candidates", np.full(lengths.size, -1)).astype(np.int64)
    candidates = np.cumsum(np.maximum(sizes, 0))
    lists = []
    for row, k in enumerate(lengths.tolist()):
        here = slice(int(ends[row]) - k, int(ends[row]))
        clicks = arrays["clicks"][here]
        clipped = int(arrays["clipped"][row])
        lists.append(
            ShownList(
                features=arrays["features"][here],
                clicks=None if np.any(clicks == _UNKNOWN) else clicks.astype(np.bool_),
                shown=arrays["shown"][here].astype(np.int64),
                query=int(arrays["query"][row]),
                part=int(arrays["part"][row]),
                candidates=None
                if sizes[row] < 0
                else arrays["candidates"][int(candidates[row] - sizes[row]) : int(candidates[row])],
                intent=int(arrays["intent"][row]),
                clipped=None if clipped == _UNKNOWN else bool(clipped),
            )
        )
    return lists
