-- purpose: Captures without device activity: what they did is accounted from host records.
-- grain: one row per such process
-- reads: processes, device_ops
-- filter: rank rows
-- column: process_id INTEGER Capture.
-- column: rank INTEGER Rank of the capture; NULL: unknown
SELECT process_id, rank
FROM processes
WHERE process_id NOT IN (SELECT DISTINCT process_id FROM device_ops WHERE class <> 'sync' AND dur_ns IS NOT NULL)
