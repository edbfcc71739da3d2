"""Many jobs: each folder of traces ingested and reported, and an index that ranks them by lost time."""
