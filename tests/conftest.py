"""Fixtures that several test files share."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from foltr_audit.core.defense_chain import DefenseChain
from foltr_audit.core.plugins import Defense
from foltr_audit.core.records import Collection
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.data import load as store
from foltr_audit.simulation.setup import Setup
from tests.fixtures.data_cache import TEXT
from tests.fixtures.plugin_packages import Installer
from tests.fixtures.tiny import JOURNAL, Entry, tiny_collection

SetupOf = Callable[..., Setup]

# A first example may have to load plug-ins or compile kernels: no test is about time. Every run of the gate
# draws other examples, so that one run may have few.
settings.register_profile("foltr-audit", deadline=None, max_examples=50)
settings.load_profile("foltr-audit")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Hide the collected tests, which live to the end, from the garbage collector, and call it less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


@pytest.fixture(scope="session", autouse=True)
def _no_real_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests, and the processes they start, never touch the user's own cache of data, and have no terminal."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COLUMNS", raising=False)
        patch.setenv("FOLTR_AUDIT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def collection() -> Collection:
    """Tiny ranking data: queries of 1 to 14 documents, labels 0 to 2, six features."""
    return tiny_collection()


@pytest.fixture(scope="session")
def setup_of(collection: Collection) -> SetupOf:
    """Makes a small experiment: `setup_of(rounds=3, clients=5, defense=("clip:norm=1",))`.

    `chain` puts objects in the place of registered plug-ins; `data` other data; `train` holds more of that
    table.
    """

    def made(
        *,
        rounds: int = 2,
        clients: int = 8,
        cohort: int | None = None,
        separation: int | None = None,
        learner: str = "fpdgd",
        click_model: str = "informational",
        defense: tuple[str, ...] = ("none",),
        message: str = "model",
        dtype: str = "float64",
        embed_features: bool = False,
        no_relevant: str = "zero",
        seed: int = 1,
        repetition: int = 0,
        attack: dict[str, Any] | None = None,
        chain: tuple[Defense, ...] | None = None,
        scenario: str = "uniform",
        poisoning: str | None = None,
        server: str | None = None,
        cohorts: str | None = None,
        data: Collection | None = None,
        train: dict[str, Any] | None = None,
    ) -> Setup:
        spec = Spec.parse(
            {
                "seed": seed,
                "repetition": repetition,
                "defense": defense,
                "data": {"source": "tiny", "normalise": "none"},
                "population": {
                    "scenario": scenario,
                    "clients": clients,
                    "cohort": cohort,
                    "separation": separation,
                    "cohorts": cohorts,
                    "poisoning": poisoning,
                },
                "train": {
                    "rounds": rounds,
                    "learner": learner,
                    "click_model": click_model,
                    "no_relevant": no_relevant,
                    **({} if server is None else {"server": server}),
                    **(train or {}),
                },
                "trace": {"message": message, "dtype": dtype, "embed_features": embed_features},
                "attack": attack,
            }
        )
        setup = Setup(spec, collection if data is None else data)
        if chain is not None:
            vars(setup)["chain"] = DefenseChain(chain)
        return setup

    return made


@pytest.fixture
def journal() -> list[Entry]:
    """The empty journal of the toy plug-ins."""
    JOURNAL.clear()
    return JOURNAL


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Installer]:
    """Installs distributions of other people for the length of a test."""
    installer = Installer(monkeypatch)
    yield installer
    installer.forget()


@pytest.fixture
def cache_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache that keeps even the smallest data; its folder is not there yet."""
    monkeypatch.setenv(store.FOLDER_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(store, "SMALLEST_BYTES", 0)
    store._note.cache_clear()
    return tmp_path / "cache" / "data"


@pytest.fixture
def letor_file(tmp_path: Path) -> Path:
    """A small file of LETOR text."""
    path = tmp_path / "some.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture(scope="session")
def small_comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished comparison of two cells; nobody may change it."""
    from tests.fixtures.bundles import write_comparison

    return write_comparison(tmp_path_factory.mktemp("comparison") / "compared").path


@pytest.fixture(scope="session")
def small_bundle(small_comparison: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its bundle; nobody may change it."""
    from foltr_audit.evidence.bundle import pack

    path = tmp_path_factory.mktemp("bundle") / "small.zip"
    pack(small_comparison, path)
    return path
