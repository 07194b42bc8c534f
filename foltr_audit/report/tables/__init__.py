"""Results as tables: the model of a table, columns that tables share, and tables of rows from other rooms."""
