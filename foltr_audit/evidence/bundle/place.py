"""Finds the data of a bundle's Specs on this machine, and checks that they are the same data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from foltr_audit.core.records import Collection
from foltr_audit.core.settings.data import SYNTHETIC, DataSpec, are_synthetic
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.settings.train import ZEROS
from foltr_audit.data.load import load_collection
from foltr_audit.errors import FoltrAuditError, UsageError
from foltr_audit.evidence.bundle.integrity import CheckUnavailableError
from foltr_audit.experiments.runner import Runner
from foltr_audit.utils.progress import SILENT, Progress


class DataPlaces(NamedTuple):
    """Where this machine has what a bundle only names; without a path in the working folder.

    Attributes:
        data: the path of the data; synthetic data are generated in any case.
        intents: the path of their intents.
    """

    data: str | None = None
    intents: str | None = None


@dataclass
class DataLocator:
    """Finds data and creates runners for them; the last data set stays in memory.

    Attributes:
        places: where they are.
    """

    places: DataPlaces = field(default_factory=DataPlaces)
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
                f"{self.places.data or spec.data.source}: not the data of the bundle: "
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
        data, places = spec.data, self.places
        if places.data is not None and not data.is_synthetic:
            data = data.model_copy(update={"source": places.data})
        if places.intents is not None and data.intents is not None and not are_synthetic(data.intents):
            data = data.model_copy(update={"intents": places.intents})
        for what, path in (("data", data.source), ("intents", data.intents), ("init", spec.train.init)):
            if path is not None and not _is_made(what, path) and not _is_there(path):
                raise CheckUnavailableError(f"{what} {path!a}: not on this machine; {_ADVICE[what]}")
        try:
            collection = load_collection(data, spec.seed)
        except (FoltrAuditError, OSError) as error:
            raise CheckUnavailableError(f"the data cannot be read: {error}") from error
        if data == spec.data:
            return collection
        return replace(collection, source=spec.data.source, intents_from=spec.data.intents)


_ADVICE = {
    "data": "--data PATH says where the data are",
    "intents": "--intents PATH says where the intents are",
    "init": "run verify in the folder that holds the first model",
}


def refuse_unused_path(places: DataPlaces, specs: Sequence[Spec]) -> None:
    """Refuse a path that no Spec reads.

    Raises:
        UsageError: all data are synthetic, or no intents are read.
    """
    if places.data is not None and all(spec.data.is_synthetic for spec in specs):
        raise UsageError(f"--data: {places.data}: the data of this bundle are synthetic; expected no path")
    read = [spec.data.intents for spec in specs if spec.data.intents and not are_synthetic(spec.data.intents)]
    if places.intents is not None and not read:
        raise UsageError(f"--intents: {places.intents}: this bundle reads no intents; expected no path")


def _is_made(what: str, path: str) -> bool:
    """Whether a field names something that is computed and not read."""
    return path.startswith(f"{SYNTHETIC}:") or (what == "init" and path == ZEROS)


def _is_there(path: str) -> bool:
    """Whether a path is a folder or plain file: an untrusted Spec must not make us read a device."""
    try:
        return Path(path).is_dir() or Path(path).is_file()
    except (OSError, ValueError):
        return False
