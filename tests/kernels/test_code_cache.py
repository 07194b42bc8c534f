"""Kernels are compiled together with what they call, stored, loaded, and compiled into other kernels."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from numba.core.caching import CompileResultCacheImpl

from foltr_audit.kernels import jit

SOURCE = """
import numpy as np
from foltr_audit.kernels.jit import inner, kernel

@inner
def twice(x):
    if x < 0:
        raise ValueError(x)  # its message is made at run time, with the environment of the function
    return 2.0 * x

@kernel
def rows(n):
    return np.full(n, twice(1.5))  # memory comes from numba's manager

@kernel
def double(x):
    return twice(x)

@kernel
def total(n):
    return rows(n).sum()
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "made.py"
    path.write_text(SOURCE)
    return path


def loaded(source: Path) -> ModuleType:
    """The kernels as another process would find them."""
    spec = importlib.util.spec_from_file_location("made", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=[True, False])
def known(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether numba is as it is expected, or of another make."""
    value: bool = request.param
    monkeypatch.setattr(jit, "KNOWN", value)
    return value


@pytest.mark.usefixtures("known")
def test_a_stored_kernel_runs_and_is_compiled_into_others(source: Path) -> None:
    """Of a numba of another make it is loaded the way of numba."""
    first, again, third = loaded(source), loaded(source), loaded(source)
    assert first.rows(4).tolist() == [3.0] * 4
    assert again.rows(2).tolist() == [3.0] * 2
    assert again.rows.stats.cache_hits
    assert again.total(5) == 15.0  # compiled from what was stored
    assert again.total.stats.cache_misses
    assert third.total(5) == 15.0
    assert third.total.stats.cache_hits


def test_without_a_folder_kernels_are_compiled_each_time(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CompileResultCacheImpl, "_locator_classes", [])
    module = loaded(source)
    assert module.total(5) == 15.0
    assert module.total.stats.cache_path is None


def test_this_numba_is_known() -> None:
    assert jit.KNOWN


def test_an_inner_function_has_machine_code_only_in_its_callers(source: Path, known: bool) -> None:
    """Of a numba of another make it has its own."""
    first, again = loaded(source), loaded(source)
    first.twice.compile("(float64,)")
    [inner] = first.twice.overloads.values()
    engine: Any = inner.library._codegen._engine
    assert engine.is_symbol_defined(inner.fndesc.llvm_func_name) == (not known)
    assert first.double(1.5) == 3.0
    assert first.rows(1).tolist() == [3.0]
    assert again.total(2) == 6.0  # `rows` comes from the store, and `twice` with it
    assert again.twice.overloads == {}


@pytest.mark.parametrize("stored", [False, True])
def test_an_error_of_an_inner_function_is_raised_by_its_caller(source: Path, stored: bool) -> None:
    module = loaded(source)
    if stored:
        assert module.double(1.0) == 2.0
        module = loaded(source)
    with pytest.raises(ValueError, match="-1"):
        module.double(-1.0)
