"""What would change a job's speed: pure functions on small tables, and what reads those from a dataset."""
