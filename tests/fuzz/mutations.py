"""Ways to damage a file: bytes, text, values, arrays. Every one draws from a generator of its own number."""

from __future__ import annotations

import io
import json
import random
import re
import tomllib
import zipfile
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import numpy as np
import tomli_w

Random = random.Random

ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**53, 2**63, 2**64, -(2**63), 10**30, 10**400, 0.5, -0.5, 1e-320),
    *(1e308, -1e308, float("inf"), float("-inf"), float("nan"), "", " ", "0", "inf", "nan", "none", "²", "٣"),
    *("\0", "\x1b[31m", "a\nb", "\ud800", "é", "\U0001d518", "../../etc/passwd", "/dev/zero", "x" * 5000),
    "9" * 5000,
    *([], {}, [[1]], [None], {"a": 1}, ["a", "a"], [1, "a"], {"": {}}),
)
"""Values that hardly any field is made for."""

ODD_TEXTS = (
    *(
        "9" * 5000,
        "0x" + "f" * 5000,
        "1e999",
        "-1e999",
        "nan",
        "inf",
        "-1",
        "0",
        "1_000",
        "2.5",
        '""',
        "²",
        "٣",
    ),
    *("[" * 2000, "{" * 2000, "[" * 40 + "]" * 40, "a." * 3000),
    *("1979-05-27", "07:32:00", "true", "null", "NaN", "Infinity"),
    *('"\\ud800"', '"\\u0000"', "'''", '"""', "\0", "\ufeff", "\r", "..", "../../../tmp/x", "é", "="),
)
"""Pieces that stand where a value, a name or nothing stood."""


def generator(kind: str, number: int) -> Random:
    """The generator of one input: the same for the same kind and number, whatever was drawn before."""
    return random.Random(f"{kind}/{number}")  # noqa: S311 - nothing secret


def changed_bytes(rng: Random, data: bytes) -> bytes:
    """Bits flipped, cut, emptied, replaced, repeated or followed by something else."""
    way = rng.randrange(8)
    if way == 0 or not data:
        half = data[: len(data) // 2]
        return rng.choice([b"", b"\0", b"\xff" * 7, half, b"\x1f\x8b" + data, b"PK\x03\x04"])
    place = rng.randrange(len(data))
    if way == 1:
        return data[:place]
    if way == 2:
        piece = rng.randbytes(rng.randrange(1, 20))
        return data[:place] + piece + data[place + len(piece) :]
    if way == 3:
        end = min(len(data), place + rng.randrange(1, 200))
        return data[:end] + data[place:end] * rng.randrange(1, 5) + data[end:]
    if way == 4:
        return data[:place] + data[place + rng.randrange(1, 200) :]
    if way == 5:
        return data + data
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8, 64])):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def changed_text(rng: Random, text: str) -> bytes:
    """Text with other values, names or lines; now and then with other bytes."""
    way = rng.randrange(8)
    lines = text.splitlines(keepends=True)
    if way == 0 or not lines:
        return changed_bytes(rng, text.encode("utf-8", "surrogatepass"))
    line = rng.randrange(len(lines))
    if way == 1:
        lines.insert(line, lines[rng.randrange(len(lines))])
    elif way == 2:
        del lines[line]
    elif way == 3:
        other = rng.randrange(len(lines))
        lines[line], lines[other] = lines[other], lines[line]
    else:
        for _ in range(rng.choice([1, 1, 1, 3])):
            text = _replaced(rng, text)
        return text.encode("utf-8", "surrogatepass")
    return "".join(lines).encode("utf-8", "surrogatepass")


_TOKENS = (r"-?\d+(?:\.\d+)?|\"[^\"\n]*\"|[A-Za-z_]+|[\[\]{}=:,]", r"\d+(?:\.\d+)?")


def _replaced(rng: Random, text: str) -> str:
    pieces = list(re.finditer(rng.choice(_TOKENS), text))
    if not pieces:
        return rng.choice(ODD_TEXTS)
    piece = rng.choice(pieces)
    return text[: piece.start()] + rng.choice(ODD_TEXTS) + text[piece.end() :]


def changed_value(rng: Random, value: Any) -> Any:
    """A JSON value in which one place, or a few, hold something else, nothing, or one thing more."""
    changed = deepcopy(value)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        changed = _changed_place(rng, changed)
    return changed


def _changed_place(rng: Random, value: Any) -> Any:
    inner: Any = value
    while True:
        if not isinstance(inner, dict | list) or not inner:
            return deepcopy(rng.choice(ODD))
        key = rng.choice(sorted(inner)) if isinstance(inner, dict) else rng.randrange(len(inner))
        if isinstance(inner[key], dict | list) and inner[key] and rng.random() < 0.8:
            inner = inner[key]
            continue
        break
    way = rng.randrange(6)
    if way == 0:
        del inner[key]
    elif way == 1 and isinstance(inner, dict):
        inner[rng.choice(["x", "", "ä", "\ud800", *sorted(inner)])] = deepcopy(inner[key])
    elif way == 1 and isinstance(inner, list):
        inner.append(deepcopy(inner[key]))
    elif way == 2 and isinstance(inner[key], int | float):
        inner[key] *= rng.choice([-1, 2, 0, 10**18])
    else:
        inner[key] = deepcopy(rng.choice(ODD))
    return value


def changed_toml(rng: Random, text: str) -> bytes:
    """A TOML text with other values under its names, or changed as any text."""
    if rng.random() < 0.5:
        return changed_text(rng, text)
    table = changed_value(rng, tomllib.loads(text))
    try:
        changed = tomli_w.dumps(table)
    except (TypeError, ValueError, AttributeError):  # a value that no TOML has
        return changed_text(rng, text)
    return changed.encode("utf-8", "surrogatepass")


def json_bytes(rng: Random, value: Any) -> bytes:
    """A value as JSON, sometimes with a name twice."""
    text = json.dumps(value, indent=1, sort_keys=True)
    if rng.random() < 0.1 and isinstance(value, dict) and value:
        text = text.replace("{", "{" + json.dumps(rng.choice(sorted(value))) + ": 1, ", 1)
    return (text + "\n").encode("utf-8", "surrogatepass")


def changed_lines(rng: Random, content: bytes) -> bytes:
    """A file of JSON lines with another value in one of them."""
    lines = content.splitlines()
    number = rng.randrange(len(lines))
    lines[number] = json_bytes(rng, changed_value(rng, json.loads(lines[number]))).replace(b"\n", b" ")
    return b"\n".join(lines) + b"\n"


# --- arrays ---------------------------------------------------------------------------------------

_KINDS = ("<f8", "<f4", ">f8", "<i8", "<u8", "<i2", "|b1", "<U3", "<c16", "|S4", "<M8[s]", "|u1")
_EXTREME = (0.0, -0.0, np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-308, 5e-324, 1.7e38, 2.0**53, -1.0)
_HEADERS = (
    *("(3,", "(10000000000,)", "(-1,)", "(True,)", "(1e9,)", "((3,),)", "[3]", "(3, 0)", "(0, 99999999999)"),
    *("(" * 300, "(" + "9" * 5000 + ",)", "'", "(3,)+(3,)", "__import__('os')", "\n", "(3,), 'x': 1"),
)


def changed_array(rng: Random, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array of another type, shape or content."""
    way = rng.randrange(8)
    array = np.array(array)
    if way == 0:
        return array.reshape(-1)[: rng.randrange(array.size + 1)]
    if way == 1:
        return np.array(0.0)
    if way == 2:
        return array[np.newaxis]
    if way == 3:
        return np.zeros((0, *array.shape[1:]), array.dtype)
    if way == 4:
        dtype = rng.choice(_KINDS)
        return np.zeros(array.shape, dtype)
    if way == 5:
        return np.concatenate([array, array]) if array.ndim else array
    if not array.size or array.dtype.kind not in "fiub":
        return np.full(array.shape, rng.choice(["\x1b", "a" * 300, "", '{"pairs": 1}']))
    odd: tuple[Any, ...] = _EXTREME
    if array.dtype.kind in "iu":
        odd = (int(np.iinfo(array.dtype).min), int(np.iinfo(array.dtype).max), 0, 1, 99)
    flat = array.reshape(-1)
    for _ in range(rng.choice([1, 3, flat.size])):
        value = True if flat.dtype.kind == "b" else rng.choice(odd)
        with np.errstate(over="ignore"):
            flat[rng.randrange(flat.size)] = value
    return array


def npy(array: np.ndarray[Any, Any]) -> bytes:
    """An array in NumPy's format."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def changed_npy(rng: Random, array: np.ndarray[Any, Any]) -> bytes:
    """A `.npy` file of which header, bytes or array are others."""
    way = rng.randrange(4)
    if way == 0:
        return npy(changed_array(rng, array))
    data = npy(array)
    if way == 1:
        return changed_bytes(rng, data)
    length = int.from_bytes(data[8:10], "little")
    header = data[10 : 10 + length].decode("latin-1")
    if way == 2:
        header = re.sub(r"\([\d, ]*\)", lambda _: rng.choice(_HEADERS), header, count=1)
    else:
        header = changed_text(rng, header).decode("latin-1")
    written = header.encode("latin-1", "replace")[:65_535]
    return data[:8] + len(written).to_bytes(2, "little") + written + data[10 + length :]


def changed_zip(
    rng: Random, files: Mapping[str, bytes], other: Callable[[Random, str, bytes], bytes]
) -> bytes:
    """A zip archive with other members, names or bytes."""
    way = rng.randrange(6)
    members = dict(files)
    name = rng.choice(sorted(members))
    if way <= 2:
        members[name] = other(rng, name, members[name])
    elif way == 3:
        content = members.pop(name)
        if rng.random() < 0.7:
            others = ["../" + name, "/etc/" + name, "x.npy", "", "a\\b", name + "/", "é"]
            members[rng.choice(others)] = content
    elif way == 4:
        members[name] = b"\0" * 20_000_000 if rng.random() < 0.05 else b""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as archive:
        for inside, content in members.items():
            archive.writestr(inside or "x", content)
    return changed_bytes(rng, buffer.getvalue()) if way == 5 else buffer.getvalue()
