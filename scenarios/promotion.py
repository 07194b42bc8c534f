"""Malicious clients that promote one document by clicks alone."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from foltr_audit.plugins import Poisoning


class Promotion(Poisoning):
    """Malicious clients ask one query again and again, and click on one of its documents alone.

    They learn from these clicks as honest clients do, and follow the defenses: a rule of the server sees
    updates of clients that like a document. Rounds report its rank in the training data as `promoted_rank`,
    also those that no malicious client takes part in.

    Source: promotion of a target item by fake users, Fang, Yang, Gong & Liu 2018, "Poisoning attacks to
    graph-based recommender systems", section 3; here with a plain choice of clicks.

    Example:
        >>> Promotion(share=0.3, query=5, document=2).text
        'promotion:document=2,query=5,share=0.3'
    """

    name: ClassVar[str] = "promotion"

    query: int = Field(0, ge=0, description="query of the training part, from 0")
    document: int = Field(0, ge=0, description="position of the promoted document in its query, from 0")

    @property
    def click_model(self) -> str:
        """A click on every document with the highest grade, which the promoted one has for them, alone."""
        return "perfect"

    @property
    def promoted(self) -> tuple[int, int]:
        return self.query, self.document
