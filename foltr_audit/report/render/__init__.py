"""Results on a terminal and as documents: HTML, Markdown and CSV."""
