"""Questions: documented SQL views over the tables, one SELECT per file, and functions that run them."""
