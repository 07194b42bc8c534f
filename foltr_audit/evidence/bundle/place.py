"""Finds the data of a bundle's Specs on this machine, and checks that they are the same data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from foltr_audit.core.records import Collection
from foltr_audit.core.spec.data import DataSpec
from foltr_audit.core.spec.experiment import Spec
from foltr_audit.core.spec.train import ZEROS
from foltr_audit.data.load import SYNTHETIC, load_collection
from foltr_audit.errors import FoltrAuditError, UsageError
from foltr_audit.evidence.bundle.integrity import CheckUnavailableError
from foltr_audit.experiments.runner import Runner
from foltr_audit.utils.progress import SILENT, Progress


@dataclass
class DataLocator:
    """Finds data and creates runners for them; the last data set stays in memory.

    Attributes:
        data: the path of the data if it is not that of the Specs; synthetic data are generated in any case.
    """

    data: str | None = None
    _last: tuple[tuple[DataSpec, int], Collection] | None = field(default=None, repr=False)

    def runner(
        self, spec: Spec, fingerprint: str | None, progress: Progress = SILENT, *, with_undefended: bool
    ) -> Runner:
        """A runner on the data of a Spec, which must have the fingerprint if one is given.

        Raises:
            CheckUnavailableError: the data are not on this machine, or are other data.
        """
        collection = self._collection(spec)
        if fingerprint is not None and collection.fingerprint != fingerprint:
            raise CheckUnavailableError(
                f"{self.data or spec.data.source}: not the data of the bundle: "
                f"fingerprint {collection.fingerprint[:12]}, expected {fingerprint[:12]}"
            )
        return Runner(progress, collection, with_undefended=with_undefended)

    def _collection(self, spec: Spec) -> Collection:
        key = (spec.data, spec.seed)
        if self._last is None or self._last[0] != key:
            self._last = None  # frees the old data before the new ones are loaded
            self._last = (key, self._load(spec))
        return self._last[1]

    def _load(self, spec: Spec) -> Collection:
        data, moved = spec.data, self.data is not None and not _is_synthetic(spec.data)
        if moved:
            data = data.model_copy(update={"source": self.data})
        for what, path in (("data", data.source), ("intents", data.intents), ("init", spec.train.init)):
            if path is not None and not _is_made(what, path) and not _is_there(path):
                raise CheckUnavailableError(
                    f"{what} {path!a}: not on this machine; --data PATH names another path of the data"
                )
        try:
            collection = load_collection(data, spec.seed)
        except (FoltrAuditError, OSError) as error:
            raise CheckUnavailableError(f"the data cannot be read: {error}") from error
        return replace(collection, source=spec.data.source) if moved else collection


def refuse_unused_path(data: str | None, specs: Sequence[Spec]) -> None:
    """Refuse a path of data that no Spec reads.

    Raises:
        UsageError: all data are synthetic.
    """
    if data is not None and all(_is_synthetic(spec.data) for spec in specs):
        raise UsageError(f"--data: {data}: the data of this bundle are synthetic; expected no path")


def _is_synthetic(data: DataSpec) -> bool:
    return data.source.partition(":")[0] == SYNTHETIC


def _is_made(what: str, path: str) -> bool:
    """Whether a field names something that is computed and not read."""
    return path.startswith(f"{SYNTHETIC}:") or (what == "init" and path == ZEROS)


def _is_there(path: str) -> bool:
    """Whether a path is a folder or plain file: an untrusted Spec must not make us read a device."""
    try:
        return Path(path).is_dir() or Path(path).is_file()
    except (OSError, ValueError):
        return False
