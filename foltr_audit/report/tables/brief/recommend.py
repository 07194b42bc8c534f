"""The short answer of `recommend`: the defense, and its evidence on the test part."""

from __future__ import annotations

from foltr_audit.report.results.recommend import RecommendReport
from foltr_audit.report.tables.attack import dataset_line
from foltr_audit.report.tables.brief.short_answer import BriefAnswer, first_rows
from foltr_audit.report.tables.recommend import candidates_table, evidence_table


def brief_recommend(report: RecommendReport) -> BriefAnswer:
    """The short answer; where no candidate keeps to the limits, its table has the nearest ones."""
    train = report.config.experiment.train
    found = report.evidence
    trained = (found.setting.learner, found.setting.pdgd) if found else (train.learner, "none")
    rows, more = first_rows(report.nearest, "candidates")
    table = evidence_table(report, found) if found is not None else None
    if table is None and rows:
        table = candidates_table(rows, report)
    return BriefAnswer(
        conclusion=(report.sentence,),
        about=dataset_line(report.dataset, report.config.spec, [trained]),
        table=table,
        notes=() if report.recommended is None else (report.recommended.options,),
        left_out=(*more, "the other candidates, and what was refused"),
    )
