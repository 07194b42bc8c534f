"""Results as records: the rows of every report, before they are tables or pictures."""
