-- purpose: Windows of the steps on each device: from the start of the first activity launched in the step to the start
--   of the next step's first; the last one to the end of the device's last activity. Windows cut time, not
--   ownership: whatever runs inside one counts in it.
-- grain: one row per device and step with activity on it
-- reads: device_ops
-- per: process_id, device_id
-- filter: rank rows
-- filter: step rows
-- column: process_id INTEGER Capture.
-- column: rank INTEGER Rank of the capture; NULL: unknown
-- column: device_id INTEGER The process's own device ordinal; NULL: the activity names none
-- column: step BIGINT Step.
-- column: start_ns BIGINT [ns] Start of the window.
-- column: place BIGINT Place of the window on its device, from 1.
WITH firsts AS (
    SELECT process_id, rank, device_id, step, min(bounded(start_ns)) AS start_ns
    FROM device_ops
    WHERE class <> 'sync' AND dur_ns IS NOT NULL AND step IS NOT NULL
    GROUP BY process_id, rank, device_id, step
)

SELECT
    process_id,
    rank,
    device_id,
    step,
    start_ns,
    row_number() OVER (ORDER BY start_ns, step) AS place
FROM firsts
