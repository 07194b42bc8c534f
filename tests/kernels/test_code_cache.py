"""Stored kernels: they are loaded, called, and compiled into other kernels."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from numba.core.caching import CompileResultCacheImpl

from foltr_audit.kernels import code_cache

SOURCE = """
import numpy as np
from foltr_audit.kernels.jit import inner, kernel

@inner
def twice(x):
    return 2.0 * x

@kernel
def rows(n):
    return np.full(n, twice(1.5))  # memory comes from numba's manager

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


@pytest.mark.parametrize("known", [True, False])
def test_a_stored_kernel_runs_and_is_compiled_into_others(
    source: Path, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a numba of another make it is loaded the way of numba."""
    monkeypatch.setattr(code_cache, "_KNOWN", known)
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
    assert code_cache._KNOWN
