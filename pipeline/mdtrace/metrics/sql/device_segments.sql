-- purpose: Every device's time from its first activity to the end of its last, cut where an activity starts. Of each
--   piece, communication, compute and memory traffic fill a first part, because nothing starts within it: how
--   long those parts are gives every account of time.
-- grain: one row per device activity that is work (not sync, of known duration), in order of start on its device
-- reads: device_ops
-- per: process_id, device_id
-- filter: rank rows
-- column: process_id INTEGER Capture.
-- column: rank INTEGER Rank of the capture; NULL: unknown
-- column: device_id INTEGER The process's own device ordinal; NULL: the activity names none
-- column: start_ns BIGINT [ns] Start of the piece: an activity starts.
-- column: next_ns BIGINT [ns] End of the piece: the next activity starts; of the last piece, the last activity ends.
-- column: compute_ns BIGINT [ns] Length of the piece's first part during which compute runs.
-- column: comm_ns BIGINT [ns] The same of communication.
-- column: memory_ns BIGINT [ns] The same of copies and sets.
-- column: comm_end_ns BIGINT [ns] When the communication that started so far has all ended; NULL: none has started
WITH work AS (
    SELECT
        process_id,
        rank,
        device_id,
        -- A number, because it is sorted along with the times.
        CASE class WHEN 'compute' THEN 1 WHEN 'communication' THEN 2 ELSE 3 END::UTINYINT AS class,
        bounded(start_ns) AS start_ns,
        bounded(bounded(start_ns) + bounded(greatest(dur_ns, 0))) AS end_ns
    FROM device_ops
    WHERE class <> 'sync' AND dur_ns IS NOT NULL
    ORDER BY start_ns
),

-- No PARTITION BY and no ORDER BY in the windows: they stream over the sorted rows of one device.
running AS (
    SELECT
        process_id,
        rank,
        device_id,
        start_ns,
        lead(start_ns) OVER () AS next_start,
        max(end_ns) FILTER (class = 1) OVER so_far AS compute_end,
        max(end_ns) FILTER (class = 2) OVER so_far AS comm_end,
        max(end_ns) FILTER (class = 3) OVER so_far AS memory_end
    FROM work
    WINDOW so_far AS (ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
),

pieces AS (
    SELECT
        *,
        CASE
            WHEN next_start IS NULL THEN greatest(start_ns, compute_end, comm_end, memory_end)
            ELSE next_start
        END AS next_ns
    FROM running
)

SELECT
    process_id,
    rank,
    device_id,
    start_ns,
    next_ns,
    greatest(least(coalesce(compute_end, start_ns), next_ns) - start_ns, 0) AS compute_ns,
    greatest(least(coalesce(comm_end, start_ns), next_ns) - start_ns, 0) AS comm_ns,
    greatest(least(coalesce(memory_end, start_ns), next_ns) - start_ns, 0) AS memory_ns,
    comm_end AS comm_end_ns
FROM pieces
