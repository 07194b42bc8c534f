"""Shown lists as bytes, as a consenting client sends them to the server that records: an archive of NumPy."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from io import BytesIO

import numpy as np
from numpy.typing import NDArray

from .array_layout import npy_array
from .messages import ShownList
from .trace_files import archive_of


def pack_arrays(arrays: Mapping[str, NDArray[np.generic]]) -> bytes:
    """Arrays of numbers by name as bytes.

    Raises:
        ValueError: an array of something else than numbers.
    """
    for name, values in arrays.items():
        if values.dtype.kind not in "biuf":
            raise ValueError(f"array {name} is {values.dtype}; expected numbers")
    return archive_of(arrays)


def unpack_arrays(data: bytes) -> dict[str, NDArray[np.generic]]:
    """The arrays of `pack_arrays`, read-only.

    Raises:
        ValueError: other bytes, an array of something else than numbers, or sizes that the bytes do not have.
    """
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            infos = archive.infolist()
            if any(info.compress_type for info in infos) or sum(info.file_size for info in infos) > len(data):
                raise ValueError("they claim more than there is")
            names = {info: info.filename.removesuffix(".npy") for info in infos}
            return {name: npy_array(name, archive.read(info)).values for info, name in names.items()}
    except Exception as error:  # a damaged archive makes its readers raise errors of many kinds
        raise ValueError(f"these bytes hold no packed arrays: {error!r:.80}") from None


_UNKNOWN = 2  # in a column of truth values


def pack_lists(lists: Sequence[ShownList]) -> bytes:
    """Lists as bytes, which hold nothing else than arrays of numbers: of all lists one after the other."""
    features = [np.asarray(shown.features) for shown in lists]
    candidates = [shown.candidates for shown in lists]
    unknown = [np.full(len(each), _UNKNOWN) for each in features]
    clicks = [unknown[row] if shown.clicks is None else shown.clicks for row, shown in enumerate(lists)]
    arrays: dict[str, object] = {
        name: [getattr(shown, name) for shown in lists] for name in ("query", "part", "intent")
    }
    arrays |= {
        "clipped": [_UNKNOWN if shown.clipped is None else shown.clipped for shown in lists],
        "length": [len(each) for each in features],
        "n_candidates": [-1 if each is None else len(np.asarray(each)) for each in candidates],
        "shown": np.concatenate([[], *(np.asarray(shown.shown) for shown in lists)]),
        "clicks": np.concatenate([[], *clicks]),
    }
    packed = {name: np.asarray(values, dtype=np.int64) for name, values in arrays.items()}
    nothing = np.empty((0, features[0].shape[1] if lists else 0), dtype=np.float32)
    there = [np.asarray(each) for each in candidates if each is not None]
    rows = {
        name: np.concatenate([nothing, *each])
        for name, each in (("features", features), ("candidates", there))
    }
    return pack_arrays({**packed, **rows})


def unpack_lists(data: bytes) -> list[ShownList]:
    """The lists of `pack_lists`.

    Raises:
        ValueError: other bytes, or arrays that do not fit together.
    """
    try:
        arrays = unpack_arrays(data)
        whole = {
            name: arrays[name].astype(np.int64) for name in arrays if name not in ("features", "candidates")
        }
        lengths, sizes = whole["length"], np.maximum(whole["n_candidates"], 0)
        ends = np.cumsum(lengths)
        if lengths.min(initial=0) < 0 or lengths.sum() != len(arrays["features"]):
            raise ValueError("packed lists whose lengths are not those of their documents")
        split = {name: np.split(whole[name], ends[:-1]) for name in ("shown", "clicks")}
        features = np.split(arrays["features"], ends[:-1])
        candidates = np.split(arrays["candidates"], np.cumsum(sizes)[:-1])
        return [
            ShownList(
                features=features[row],
                clicks=None if np.any(split["clicks"][row] == _UNKNOWN) else split["clicks"][row],
                shown=split["shown"][row],
                candidates=None if whole["n_candidates"][row] < 0 else candidates[row],
                **{name: int(whole[name][row]) for name in ("query", "part", "intent")},
                clipped=None if whole["clipped"][row] == _UNKNOWN else bool(whole["clipped"][row]),
            )
            for row in range(lengths.size)
        ]
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError(f"packed lists that do not fit together: {error!r:.80}") from None
