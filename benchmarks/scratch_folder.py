"""A folder for what a timed turn writes, whose removal is not timed."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path


class ScratchFolder:
    """A temporary folder, which is removed with the last reference to it."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()

    def fresh(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self._folder.name))

    def clear(self) -> None:
        for path in Path(self._folder.name).iterdir():
            shutil.rmtree(path)
