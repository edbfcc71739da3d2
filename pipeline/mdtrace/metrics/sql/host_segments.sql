-- purpose: The time of captures without device activity, cut where an operator or record starts and at the ends of
--   steps; as device_segments for devices.
-- grain: one row per cut, in no order
-- reads: host_work, step_times
-- filter: rank rows
-- column: process_id INTEGER Capture.
-- column: rank INTEGER Rank of the capture; NULL: unknown
-- column: step BIGINT Step whose time on the host this is; NULL: outside every step
-- column: start_ns BIGINT [ns] Start of the piece.
-- column: next_ns BIGINT [ns] End of the piece.
-- column: compute_ns BIGINT [ns] Length of the piece's first part during which an operator runs.
-- column: comm_ns BIGINT [ns] The same of communication.
WITH extents AS (
    SELECT process_id, any_value(rank) AS rank, min(start_ns) AS first_ns, max(end_ns) AS last_ns
    FROM host_work
    GROUP BY process_id
),

bounds AS (
    SELECT process_id, step, start_ns AS cut_ns FROM step_times
    UNION ALL
    SELECT process_id, NULL, end_ns FROM step_times
),

-- Ends come before starts of the same time, so that a step that follows at once is in force after both.
marks AS (
    SELECT
        process_id,
        step,
        rank,
        greatest(cut_ns, first_ns) AS cut_ns,
        row_number() OVER (PARTITION BY process_id ORDER BY cut_ns, step IS NOT NULL) AS mark
    FROM bounds
    INNER JOIN extents USING (process_id)
    WHERE cut_ns < last_ns
),

cuts AS (
    SELECT
        process_id,
        rank,
        start_ns,
        NULL AS mark,
        CASE WHEN class = 'compute' THEN end_ns END AS compute_end,
        CASE WHEN class = 'communication' THEN end_ns END AS comm_end
    FROM host_work
    UNION ALL
    SELECT process_id, rank, cut_ns, mark, NULL, NULL FROM marks
),

running AS (
    SELECT
        process_id,
        rank,
        start_ns,
        lead(start_ns) OVER in_order AS next_start,
        max(mark) OVER so_far AS mark,
        max(compute_end) OVER so_far AS compute_end,
        max(comm_end) OVER so_far AS comm_end
    FROM cuts
    WINDOW
        in_order AS (PARTITION BY process_id ORDER BY start_ns, mark),
        so_far AS (PARTITION BY process_id ORDER BY start_ns, mark ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
),

pieces AS (
    SELECT *, coalesce(next_start, greatest(start_ns, compute_end, comm_end)) AS next_ns FROM running
)

SELECT
    process_id,
    pieces.rank,
    step,
    start_ns,
    next_ns,
    greatest(least(coalesce(compute_end, start_ns), next_ns) - start_ns, 0) AS compute_ns,
    greatest(least(coalesce(comm_end, start_ns), next_ns) - start_ns, 0) AS comm_ns
FROM pieces
LEFT JOIN marks USING (process_id, mark)
