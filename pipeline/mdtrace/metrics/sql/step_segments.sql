-- purpose: The pieces of device_segments, each with the window of the step in which it lies. Windows start where an
--   activity starts, so no piece lies in two.
-- grain: one row per piece of device_segments
-- reads: device_segments, device_windows
-- per: process_id, device_id
-- filter: rank rows
-- column: process_id INTEGER Capture.
-- column: rank INTEGER Rank of the capture; NULL: unknown
-- column: device_id INTEGER The process's own device ordinal; NULL: the activity names none
-- column: place BIGINT Place of the window, as in device_windows; NULL: before the first window
-- column: start_ns BIGINT [ns] Start of the piece.
-- column: next_ns BIGINT [ns] End of the piece.
-- column: compute_ns BIGINT [ns] Length of the piece's first part during which compute runs.
-- column: comm_ns BIGINT [ns] The same of communication.
-- column: memory_ns BIGINT [ns] The same of copies and sets.
-- column: comm_end_ns BIGINT [ns] When the communication that started so far has all ended; NULL: none has started
WITH pieces AS (
    SELECT *, NULL::BIGINT AS mark FROM device_segments
    UNION ALL BY NAME
    SELECT process_id, rank, device_id, start_ns, place AS mark FROM device_windows
),

-- A window's mark comes before the pieces that start with it.
in_order AS (
    SELECT * FROM pieces ORDER BY start_ns, mark NULLS LAST
),

placed AS (
    SELECT *, max(mark) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS place
    FROM in_order
)

SELECT process_id, rank, device_id, place, start_ns, next_ns, compute_ns, comm_ns, memory_ns, comm_end_ns
FROM placed
WHERE mark IS NULL
