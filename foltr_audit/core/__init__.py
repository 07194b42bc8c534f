"""The Spec, the records, the plug-in interfaces, rankers, click models and ranking metrics.

May import: `errors`, `rng`, `utils`, `kernels` and `privacy`.
Begin with: `settings/experiment.py`, then `plugins/` and `records/`.
"""
