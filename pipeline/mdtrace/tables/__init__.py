"""What a table is: declarations, the dataset folder, writing and reading it."""
