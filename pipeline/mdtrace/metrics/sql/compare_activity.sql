-- purpose: How much of a device's time each activity makes up, so that every ns of it belongs to one activity: compute
--   before communication before copies and sets, as in step_breakdown, and where several of one class run, the
--   one that ends last. The sum over a step's window is its span without idle.
-- grain: one row per activity and piece of time, in no order
-- reads: device_ops, device_windows
-- per: process_id, device_id
-- column: process_id INTEGER Capture.
-- column: rank INTEGER Rank of the capture; NULL: unknown
-- column: device_id INTEGER The process's own device ordinal; NULL: the activity names none
-- column: place BIGINT Place of the step's window, as in device_windows; NULL: before the first window
-- column: device_op_id BIGINT Activity.
-- column: started BIGINT 1: the activity starts here; 0: it goes on; exact copies of an event are not counted.
-- column: own_ns BIGINT [ns] Duration of the activity where it starts, else 0; of an exact copy 0.
-- column: shown_ns BIGINT [ns] Time of the piece that the activity makes up.
WITH work AS (
    SELECT
        process_id,
        rank,
        device_id,
        device_op_id,
        class,
        duplicate,
        bounded(start_ns) AS start_ns,
        bounded(bounded(start_ns) + bounded(greatest(dur_ns, 0))) AS end_ns,
        NULL::BIGINT AS mark
    FROM device_ops
    WHERE class <> 'sync' AND dur_ns IS NOT NULL
    UNION ALL BY NAME
    SELECT process_id, rank, device_id, start_ns, place AS mark FROM device_windows
),

by_class AS (
    SELECT
        *,
        CASE WHEN class = 'compute' THEN end_ns END AS compute_end,
        CASE WHEN class = 'communication' THEN end_ns END AS comm_end,
        CASE WHEN class IN ('memcpy', 'memset') THEN end_ns END AS memory_end
    FROM work
    -- A window's mark comes before the pieces that start with it.
    ORDER BY start_ns, mark NULLS LAST
),

-- No PARTITION BY and no ORDER BY in the windows: they stream over the sorted rows of one device.
running AS (
    SELECT
        *,
        lead(start_ns) OVER () AS next_start,
        max(mark) OVER so_far AS place,
        max(compute_end) OVER so_far AS compute_last,
        max(comm_end) OVER so_far AS comm_last,
        max(memory_end) OVER so_far AS memory_last,
        arg_max(device_op_id, compute_end) OVER so_far AS compute_id,
        arg_max(device_op_id, comm_end) OVER so_far AS comm_id,
        arg_max(device_op_id, memory_end) OVER so_far AS memory_id
    FROM by_class
    WINDOW so_far AS (ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
),

pieces AS (
    SELECT
        *,
        coalesce(next_start, greatest(start_ns, compute_last, comm_last, memory_last)) AS next_ns
    FROM running
    WHERE mark IS NULL
),

filled AS (
    SELECT
        *,
        greatest(least(coalesce(compute_last, start_ns), next_ns) - start_ns, 0) AS compute,
        greatest(least(coalesce(comm_last, start_ns), next_ns) - start_ns, 0) AS comm,
        greatest(least(coalesce(memory_last, start_ns), next_ns) - start_ns, 0) AS memory
    FROM pieces
),

shared_out AS (
    SELECT
        process_id,
        rank,
        device_id,
        place,
        unnest([device_op_id, compute_id, comm_id, memory_id]) AS device_op_id,
        unnest([CASE WHEN duplicate THEN 0 ELSE 1 END, 0, 0, 0])::BIGINT AS started,
        unnest([CASE WHEN duplicate THEN 0 ELSE end_ns - start_ns END, 0, 0, 0])::BIGINT AS own_ns,
        unnest([
            0,
            compute,
            greatest(compute, comm) - compute,
            greatest(compute, comm, memory) - greatest(compute, comm)
        ])::BIGINT AS shown_ns
    FROM filled
)

SELECT process_id, rank, device_id, place, device_op_id, started, own_ns, shown_ns
FROM shared_out
WHERE started > 0 OR shown_ns > 0
