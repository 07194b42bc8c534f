"""Identical clients: each asks any training query with equal probability."""

from __future__ import annotations

from typing import ClassVar

from foltr_audit.plugins import Scenario


class UniformClients(Scenario):
    """Each interaction asks a training query drawn uniformly with replacement; clients do not differ.

    It adds no trait and no environment: every client searches with the labels of the data, clicks with the
    click model of the Spec, and has the learner's number of interactions. It is the default, and the baseline
    of the other scenarios.

    Example:
        >>> UniformClients().text
        'uniform'

    Source: Wang et al. 2021, "Effective and privacy-preserving federated online learning to rank",
    section 4.2 (B queries sampled randomly for each client).
    """

    name: ClassVar[str] = "uniform"
