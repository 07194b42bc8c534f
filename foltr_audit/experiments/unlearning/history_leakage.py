"""What the stored messages of a training give to whoever reads them: clicks."""

from __future__ import annotations

from collections.abc import Mapping

from foltr_audit.core.records.client_groups import ONE_GROUP
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.defaults import MODEL_ATTACKS
from foltr_audit.errors import UsageError
from foltr_audit.experiments.stages import judge_attacks
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.simulation.recorder import RoundStore
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.progress import SILENT, Progress

VIEWS = ("individual", "aggregate")
"""What may be stored of a round, as in `AttackSpec.view`: every message, or their sum alone."""


def history_leakage(
    setup: Setup, recording: RoundStore | None, progress: Progress = SILENT
) -> Mapping[str, ClickEvidence]:
    """What the first default attack and the baselines read in a recorded training, by `VIEWS`.

    Nothing where no messages were recorded, where secure aggregation hides them, or where the attack cannot
    run, as on neural rankers.
    """
    hidden = setup.chain.encoding is not None
    if recording is None or hidden or setup.spec.trace.every == 0:
        return {}
    found = {}
    for view in VIEWS:
        protocol = AttackSpec.model_validate(
            {"methods": MODEL_ATTACKS[:1], "target": "training", "view": view}
        )
        try:
            judged = judge_attacks(
                recording, setup.collection, protocol, setup.streams, progress, "the history", ONE_GROUP
            )
        except UsageError:  # the attack does not fit the messages: the rest of the report still does
            return {}
        if judged.clicks is not None:
            found[view] = judged.clicks
    return found
