"""How a format becomes rows: bytes in, staged batches out. Never queries, never joins."""
