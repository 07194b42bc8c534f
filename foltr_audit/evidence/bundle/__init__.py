"""Evidence bundles: what a study found as one file that others can check and re-run in part."""
