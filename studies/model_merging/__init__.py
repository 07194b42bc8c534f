"""Model merging on topic splits; `run_merging` needs the extra `foltr-audit[merge]`."""

from foltr_audit.studies.model_merging.spec import MergeSpec
from foltr_audit.studies.model_merging.study import MergeStudy, run_merging

__all__ = ["MergeSpec", "MergeStudy", "run_merging"]
