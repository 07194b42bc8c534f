"""Model merging on topic splits; `run_merging` needs the extra `foltr-audit[merge]`."""

from foltr_audit.studies.model_merging.report import MergeReport
from foltr_audit.studies.model_merging.spec import MergeSpec
from foltr_audit.studies.model_merging.study import run_merging

__all__ = ["MergeReport", "MergeSpec", "run_merging"]
