"""Results as records: the rows of every report, and the tables and short answer that show them."""
