"""What a report says of the data of a run."""

from __future__ import annotations

from dataclasses import dataclass

from foltr_audit.core.records import Collection
from foltr_audit.core.settings.data import path_name
from foltr_audit.utils.formatting import JsonValue
from foltr_audit.utils.rows import ResultRow, column


@dataclass(frozen=True, kw_only=True)
class DataFacts(ResultRow):
    """Source, preparation and sizes of one fold.

    Attributes:
        intents: number of intents of a query; None where there is one.
        intents_from: where they come from, see `Collection`.
        rows_read: rows of the files with data; None where no intents are joined with them.
        rows_joined: those of them whose intents are judged, which make up the data.
        synthetic: whether the data are synthetic.
        normalised: how features were normalised.
        features: number of features.
        fold: number of the fold; 0 for data without folds.
        fingerprint: SHA-256 (hex) of the data.
        train, vali, test: number of queries of each part.
        test_without_relevant: queries of the test split without a relevant document.
    """

    source: str
    intents: int | None = column(optional=True)
    intents_from: str | None = column(optional=True)
    rows_read: int | None = column(optional=True)
    rows_joined: int | None = column(optional=True)
    synthetic: bool
    normalised: str
    features: int
    fold: int
    fingerprint: str
    train: int
    vali: int
    test: int
    test_without_relevant: int

    @classmethod
    def of(cls, collection: Collection) -> DataFacts:
        several = collection.n_intents > 1
        return cls(
            source=path_name(collection.source),
            intents=collection.n_intents if several else None,
            intents_from=path_name(collection.intents_from) if several and collection.intents_from else None,
            rows_read=None if collection.read is None else collection.read[0],
            rows_joined=None if collection.read is None else collection.n_documents,
            synthetic=collection.synthetic,
            normalised=collection.normalised,
            features=collection.n_features,
            fold=collection.fold,
            fingerprint=collection.fingerprint,
            train=collection.train.n_queries,
            vali=collection.vali.n_queries,
            test=collection.test.n_queries,
            test_without_relevant=int((~collection.test.has_relevant).sum()),
        )

    def plain(self) -> dict[str, JsonValue]:
        """As of every row; of several intents it also says that their source is the data, by null."""
        return super().plain() | ({} if self.intents is None else {"intents_from": self.intents_from})
