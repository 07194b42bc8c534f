"""Progress bars, number formats and guarded readers: helpers that know nothing of ranking or privacy.

May import: `errors` only.
Begin with: `reading/`, which turns any file into plain values or one clear error.
"""
