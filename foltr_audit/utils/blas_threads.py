"""How many threads linear algebra and libraries with OpenMP use, for the length of a `with` block."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


@contextmanager
def one_thread(api: Literal["blas", "openmp"] = "blas") -> Iterator[None]:
    """Limit BLAS to one thread, so that no result depends on the number of threads; or OpenMP.

    With OpenMP scikit-learn adds in an order that depends on the number of threads.
    """
    with _controller(len(sys.modules)).limit(limits=1, user_api=api):
        yield


@lru_cache(maxsize=1)
def _controller(modules: int) -> ThreadpoolController:
    """Controls the libraries that are loaded while this many modules are imported.

    A search for libraries takes milliseconds, the limit itself microseconds. A library comes with a module.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
