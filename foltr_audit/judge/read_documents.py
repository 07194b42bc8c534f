"""Judges attacks that read documents: their features, compared with those of the shown lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.pdgd import observed_documents
from foltr_audit.core.plugins import Attack, View
from foltr_audit.core.records.view import Inference
from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.observer import RoundView
from foltr_audit.judge.task import Evidence, MessageTask, TaskScore, answer_of
from foltr_audit.judge.view_builder import InteractionPlacement
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats

_CLOSE = 0.01  # of a feature that is read, at most, to the true one


@dataclass(frozen=True, kw_only=True, eq=False)
class DocumentEvidence(Evidence):
    """Documents behind M messages, and how many of them each attack read.

    Attributes:
        message: name of each message, (M,).
        shown: documents in pairs of clicked and skipped ones, float64 (M,).
        found: of each attack by label, float64 (M, 4): documents that it read, those of them whose click is
            right, answers that it gave, and those of them that are a shown document.
    """

    message: NDArray[np.str_]
    shown: Floats
    found: dict[str, Floats] = field(default_factory=dict)

    def scores(self, streams: Streams) -> Iterator[TaskScore]:
        """How many documents are read, and how much of what an attack says is true.

        `read` is the share of the documents in pairs that some answer equals, `clicks` the share of these
        whose click is named right, `right` the share of all answers that equal a shown document.
        """
        if not self.message.size:
            return
        resamples = QueryBootstrap(self.message, streams)
        facts = {"messages": int(self.message.size), "documents": int(self.shown.sum())}
        for label, (read, clicks, answers, right) in ((name, each.T) for name, each in self.found.items()):
            metrics = {
                "read": resamples.ratio(read, self.shown, share=True),
                "clicks": resamples.ratio(clicks, read, share=True),
                "right": resamples.ratio(right, answers, share=True),
            }
            yield TaskScore(method=label, facts=facts | {"answers": int(answers.sum())}, metrics=metrics)


class DocumentTask(MessageTask[DocumentEvidence]):
    """Which documents were shown, by their features alone, and which of them were clicked.

    An answer has a row for each document: its features and the sign of its weight, positive for a click; NaN
    for no document.
    """

    name: ClassVar[str] = "documents"

    def see(self, seen: RoundView) -> None:
        """Have the attacks answer a view, and compare the features."""
        place = f"{self.record.round}/{seen.rows.start}"
        for attack, answer in self.session.answers(seen.view, self.record.round, place):
            rows = self.checked(attack, seen.view, answer)
            self.session.keep(attack, np.stack([_compared(seen.full, i, rows[i]) for i in range(len(rows))]))

    def checked(self, attack: Attack, view: View, answer: Inference) -> Floats:
        """Features and a sign for each document, (n, any number, d + 1)."""
        shape = (len(view), None, view.features.shape[3] + 1)
        return answer_of(attack, answer, shape, "features and a sign for each document")

    def judged(self, answers: Mapping[str, Floats]) -> DocumentEvidence:
        """The documents in pairs of each message, with what was read of them."""
        record, truth = self.record, self.truth
        only = self.observer.header.knowledge.get("pairs") == "last-click+1"
        paired = observed_documents(truth.clicks, record.shown >= 0, only_observed=only)
        placed = InteractionPlacement.of(record)
        inside, clicks = (
            placed.spread(each, False).reshape(record.n_messages, -1) for each in (paired, truth.clicks)
        )
        return DocumentEvidence(
            message=np.array([f"{record.round}/{slot}" for slot in range(record.n_messages)]),
            shown=inside.sum(axis=1).astype(np.float64),
            found={
                label: np.column_stack(
                    [
                        (inside & (signs != 0)).sum(axis=1),
                        (inside & (signs == np.where(clicks, 1, -1))).sum(axis=1),
                        rest,
                    ]
                )
                for label, signs, rest in (
                    (name, each[:, :-2], each[:, -2:]) for name, each in answers.items()
                )
            },
        )


def _compared(view: View, i: int, rows: Floats) -> Floats:
    """For each document of message i the sign that was read, 0 without one, then answers and right ones.

    Float64 (B k + 2,). The nearest answer counts.
    """
    documents = view.features[i].reshape(-1, view.features.shape[3]).astype(np.float64)
    there = view.is_document[i].reshape(-1)
    given = rows[~np.isnan(rows).any(axis=1)]
    out = np.zeros(there.size + 2)
    if not given.size or not there.any():
        out[-2] = len(given)
        return out
    away = np.stack([np.abs(documents - one).max(axis=1) for one in given[:, :-1]])
    away[:, ~there] = np.inf
    nearest = away.argmin(axis=0)
    out[:-2] = np.where(away.min(axis=0) <= _CLOSE, given[nearest, -1], 0.0)
    out[-2:] = len(given), (away.min(axis=1) <= _CLOSE).sum()
    return out
