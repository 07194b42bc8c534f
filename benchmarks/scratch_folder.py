"""A folder for what a timed turn writes, whose removal is not timed."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path


class ScratchFolder:
    """A temporary folder, which is removed with the last reference to it."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp())
        weakref.finalize(self, shutil.rmtree, self._folder)

    def fresh(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self._folder))

    def clear(self) -> None:
        for path in self._folder.iterdir():
            shutil.rmtree(path)
