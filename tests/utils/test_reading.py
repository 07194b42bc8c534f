"""What guarded readers read and refuse: numbers, JSON, TOML, arrays and archives."""

from __future__ import annotations

import io
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foltr_audit.errors import DataError, TraceError, UsageError, shorten_value
from foltr_audit.utils.reading import file_bytes, file_text, json_table, json_value, toml_table, whole_number
from foltr_audit.utils.reading.arrays import (
    UNPACKS_TO,
    ArraySchema,
    map_array,
    read_archive,
    read_array,
    refuse_other_forms,
)

# --- files and numbers ----------------------------------------------------------------------------


def test_a_file_is_read_up_to_a_bound(tmp_path: Path) -> None:
    path = tmp_path / "some.toml"
    path.write_bytes(b"12345")
    assert file_bytes(path, UsageError, 5) == b"12345"
    with pytest.raises(UsageError, match=r"some.toml: more than 4 bytes; expected 4 at most"):
        file_bytes(path, UsageError, 4)
    start = time.perf_counter()
    with pytest.raises(DataError, match="/dev/zero: more than"):
        file_bytes(Path("/dev/zero"), DataError, 1 << 20)
    assert time.perf_counter() - start < 5
    assert file_bytes(path, UsageError, 1 << 40) == b"12345"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("none", "no such file"),
        (".", "cannot be read: "),
        ("a\0b", "cannot be read"),
        ("x" * 999, "too long"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str, problem: str) -> None:
    with pytest.raises(TraceError, match=problem):
        file_text(tmp_path / name, TraceError)


def test_text_that_is_not_utf_8_is_named_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"ab\xff")
    with pytest.raises(TraceError, match=r"x: byte 3 is not UTF-8; expected UTF-8 text"):
        file_text(tmp_path / "x", TraceError)


@pytest.mark.parametrize(
    "text", ["", "²", "٣", "+1", "-1", " 1", "1_0", "1.0", "0x1", "9" * 5000, "1\n", "100"]
)
def test_what_is_no_whole_number(text: str) -> None:
    assert whole_number(text, 0, 99) is None


@given(st.integers(0, 10**18 - 1))
def test_whole_numbers(number: int) -> None:
    assert whole_number(f"{number:03d}", 0, 10**18) == number


def test_a_value_in_a_message_is_short() -> None:
    assert shorten_value(16**5000) == "a number of thousands of digits"
    assert (shorten_value("x" * 80), shorten_value("x" * 5000)) == ("x" * 80, "x" * 80 + "...")


# --- JSON and TOML --------------------------------------------------------------------------------

BAD_JSON = {
    "": "Expecting value",
    "{": "Expecting property name",
    "9" * 5000: "beyond 64 bits",
    "-" + "9" * 25: "beyond 64 bits",
    str(2**64): "beyond 64 bits",
    "NaN": "NaN; expected finite",
    "[-Infinity]": "-Infinity; expected finite",
    "1e999": "not finite",
    '{"a": 1, "a": 2}': "'a' is given twice",
    '["\\ud800"]': "half of a character",
    '{"\\udfff": 1}': "half of a character",
    "[" * 100_000: "too many levels",
    "[" * 40 + "]" * 40: "more than 32 levels",
    "\ufeff{}": "BOM",
}


@pytest.mark.parametrize(("text", "problem"), BAD_JSON.items())
def test_json_that_is_refused(text: str, problem: str) -> None:
    with pytest.raises(TraceError) as error:
        json_value(text, "cell.json", TraceError)
    assert str(error.value).startswith("cell.json: not JSON: ")
    assert problem in str(error.value)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize("text", [b"[]", b"1", b"true", b"null", b'"x"'])
def test_json_that_is_no_table(text: bytes) -> None:
    with pytest.raises(UsageError, match=r"x: .*; expected a JSON object"):
        json_table(text, "x", UsageError)
    with pytest.raises(UsageError, match="byte 1 is not UTF-8"):
        json_table(b"\xff" + text, "x", UsageError)


def test_json_that_is_read() -> None:
    assert json_table(b'{"a": [1.5, -7, 18446744073709551615, null, true, "\xc3\xa9"]}', "x", TraceError) == {
        "a": [1.5, -7, 2**64 - 1, None, True, "é"]
    }


BAD_TOML = {
    "a = " + "9" * 5000: "beyond 64 bits",
    "a = 0x" + "f" * 5000: "beyond 64 bits",
    "a = " + "[" * 100_000: "too many levels",
    "a." * 100_000 + "a = 1": "more than 32 levels",
    '"a" . ' * 100_000 + "a = 1": "more than 32 levels",
    "a = " + "[" * 33 + "]" * 33: "more than 32 levels",
    "a = 1979-05-27": "a date",
    "a = 07:32:00": "a time",
    'a = "\\ud800"': "not a Unicode scalar value",
    "a = 1\na = 2": "Cannot overwrite a value",
    "#" * 5_000_000: "more than 4194304 characters",
}


@pytest.mark.parametrize(("text", "problem"), BAD_TOML.items(), ids=range(len(BAD_TOML)))
def test_toml_that_is_refused(text: str, problem: str) -> None:
    start = time.perf_counter()
    with pytest.raises(UsageError) as error:
        toml_table(text, "spec.toml", UsageError)
    assert str(error.value).startswith("spec.toml: ")
    assert problem in str(error.value)
    assert time.perf_counter() - start < 5


def test_toml_that_is_read() -> None:
    text = 'a = inf\nb = [1.25, 3]\n[c.d]\ne = "learner:x=0.5.1"\n'
    read = {"a": np.inf, "b": [1.25, 3], "c": {"d": {"e": "learner:x=0.5.1"}}}
    assert toml_table(text, "x", UsageError) == read


# --- arrays ---------------------------------------------------------------------------------------


def npy(array: np.ndarray[Any, Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def headed(header: str, values: bytes = b"\0" * 24) -> bytes:
    """A file with a header of our own."""
    text = header.encode("latin-1")
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + values


GOOD = "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }\n"
BAD_ARRAYS = {
    "nothing": b"",
    "another beginning": b"PK\x03\x04" + b"\0" * 100,
    "another version": npy(np.zeros(3)).replace(b"NUMPY\x01", b"NUMPY\x03"),
    "a header without an end": headed(GOOD.replace(", }\n", "")),
    "a tuple without an end": headed("{'descr': '<f8', 'fortran_order': False, 'shape': (3,"),
    "a claim of 80 GB": headed(GOOD.replace("3,", "10000000000,")),
    "a claim of digits": headed(GOOD.replace("3,", "9" * 5000 + ",")),
    "less than it claims": headed(GOOD, b"\0" * 16),
    "more than it claims": headed(GOOD, b"\0" * 32),
    "an expression": headed(GOOD.replace("(3,)", "__import__('os').getcwd()")),
    "objects": headed(GOOD.replace("<f8", "|O")),
    "a record": headed(GOOD.replace("'<f8'", "[('a', '<f8')]")),
    "complex numbers": headed(GOOD.replace("<f8", "<c8")),
    "dates": npy(np.zeros(3, dtype="M8[s]")),
    "values of no bytes": headed(GOOD.replace("<f8", "<U0").replace("(3,)", "(99999999999,)"), b""),
    "a long empty axis": headed(GOOD.replace("(3,)", "(0, 99999999999)"), b""),
    "many axes": headed(GOOD.replace("(3,)", "(" + "1, " * 60 + "3)")),
    "a truth value of 2": npy(np.zeros(3, dtype=np.bool_))[:-1] + b"\2",
    "text beyond Unicode": npy(np.array(["ab"]))[:-1] + b"\x7f",
    "half of a character": npy(np.array(["\u0800"])).replace(b"\x00\x08\x00\x00", b"\x00\xd8\x00\x00"),
}


@pytest.mark.parametrize("data", BAD_ARRAYS.values(), ids=BAD_ARRAYS)
def test_arrays_that_are_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.npy"
    path.write_bytes(data)
    with pytest.raises(UsageError) as error:
        read_array(path, UsageError)
    assert f"{path}: no .npy file with one plain array: " in str(error.value)
    assert len(str(error.value).splitlines()) == 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_arrays_come_back(tmp_path: Path, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(["<f8", ">f4", "<i8", "|u1", "|b1", "<U5", ">U2"]))
    shape = data.draw(st.lists(st.integers(0, 4), max_size=3))
    as_fortran = data.draw(st.booleans())
    values = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    path = tmp_path / "array.npy"
    path.unlink(missing_ok=True)  # what is mapped stays as it was
    path.write_bytes(npy(np.asfortranarray(values) if as_fortran else values))
    for found in (read_array(path, TraceError), map_array(path)):
        assert found.dtype == values.dtype
        np.testing.assert_array_equal(found, values)
        assert not (found.size and found.flags.writeable)


def archive(members: dict[str, bytes], kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", kind) as into:
        for name, content in members.items():
            into.writestr(name, content)
    return buffer.getvalue()


def bomb() -> bytes:
    """An archive of an array of zeros, which is a thousand times as large."""
    size = UNPACKS_TO[0] + (1 << 20)
    header = npy(np.zeros(0)).replace(b"(0,)", f"({size // 8},)".encode())
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as into,
        into.open("a.npy", "w") as member,
    ):
        member.write(header)
        for _ in range(size >> 20):
            member.write(b"\0" * (1 << 20))
    return buffer.getvalue()


RANDOM = archive({"a.npy": npy(np.random.default_rng(1).random(99))})
BAD_ARCHIVES = {
    "no archive": (b"hello", "File is not a zip file"),
    "cut": (archive({"a.npy": npy(np.zeros(3))})[:60], "damaged"),
    "no array": (archive({"a.txt": b"x"}), "no array"),
    "a path upwards": (archive({"/a.npy": npy(np.zeros(3))}), "no array"),
    "compressed in another way": (archive({"a.npy": npy(np.zeros(3))}, zipfile.ZIP_BZIP2), "another way"),
    "an array of another size": (archive({"a.npy": headed(GOOD, b"")}), "its header claims"),
    "damaged bytes": (RANDOM.replace(b"\x99", b"\x66"), "damaged"),
}


@pytest.mark.parametrize(("data", "problem"), BAD_ARCHIVES.values(), ids=BAD_ARCHIVES)
def test_archives_that_are_refused(data: bytes, problem: str) -> None:
    with pytest.raises(TraceError, match=problem) as error:
        read_archive(data, "arrays.npz", TraceError)
    assert str(error.value).startswith("arrays.npz: damaged: ")


def test_an_archive_that_unpacks_to_far_more_than_it_is_is_refused_unread() -> None:
    data = bomb()
    assert len(data) < 2 << 20
    start = time.perf_counter()
    with pytest.raises(TraceError, match="unpacks to more than"):
        read_archive(data, "arrays.npz", TraceError)
    assert time.perf_counter() - start < 0.5


def test_forms() -> None:
    forms = {"a/.+": ArraySchema("f8", "nk", 0, 1), "b": ArraySchema("i8", "n"), "c": ArraySchema("U", "k")}
    good = {"a/x": np.array([[0.5, np.nan]]), "b": np.array([7]), "c": np.array(["x", "yy"])}
    assert refuse_other_forms(good, forms) == {"n": 1, "k": 2}
    for name, array, problem in (
        ("d", np.zeros(1), "'d': no array that is expected here"),
        ("b", np.zeros(1), "b: float64 with 1 axes; expected i8 with 1"),
        ("b", np.array(7), "b: int64 with 0 axes"),
        ("b", np.array([1, 2]), "b: 2 along an axis of 1"),
        ("a/x", np.array([[np.nan, 1.5]]), "a/x: a value outside of 0 to 1"),
        ("c", np.array([1, 2]), "c: int64"),
    ):
        with pytest.raises(ValueError, match=problem):
            refuse_other_forms({**good, name: array}, forms)
