"""Results as documents: HTML, Markdown and CSV."""
