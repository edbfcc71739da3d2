-- purpose: How long each step takes, over the captures that have it: on the host by its marker, on devices by its window,
--   and what the windows hold.
-- grain: one row per step
-- reads: step_times, step_breakdown
-- filter: rank inside
-- filter: step rows
-- filter: time starts
-- column: step BIGINT Step.
-- column: steady BOOLEAN Counts in steady-state figures, in every capture that has it.
-- column: left_out VARCHAR Why not; NULL: it counts
-- column: processes BIGINT Captures that have the step.
-- column: host_min_ns BIGINT [ns] Shortest on the host; NULL: no marker was closed
-- column: host_median_ns DOUBLE [ns] Median on the host; NULL: no marker was closed
-- column: host_max_ns BIGINT [ns] Longest on the host; NULL: no marker was closed
-- column: longest_rank INTEGER Rank of the longest; NULL: its rank is unknown, or no marker was closed
-- column: span_median_ns DOUBLE [ns] Median of the windows accounted (of devices, else of the host); NULL: nothing was captured that tells
-- column: compute_median_ns DOUBLE [ns] Median compute in the window; NULL: nothing was captured that tells
-- column: exposed_comm_median_ns DOUBLE [ns] Median exposed communication; NULL: nothing was captured that tells
-- column: exposed_memory_median_ns DOUBLE [ns] Median exposed copies and sets; NULL: nothing was captured that tells
-- column: idle_median_ns DOUBLE [ns] Median idle time; NULL: nothing was captured that tells
WITH marked AS (
    SELECT
        step,
        bool_and(steady) AS steady,
        min(left_out) AS left_out,
        count(*) AS processes,
        min(host_ns) AS host_min_ns,
        median(host_ns) AS host_median_ns,
        max(host_ns) AS host_max_ns,
        arg_max(rank, host_ns) AS longest_rank,
        min(start_ns) AS start_ns
    FROM step_times
    WHERE wanted_rank(rank) AND wanted_start(process_id, start_ns)
    GROUP BY step
),

windows AS (
    SELECT
        step,
        median(span_ns) AS span_median_ns,
        median(compute_ns) AS compute_median_ns,
        median(exposed_comm_ns) AS exposed_comm_median_ns,
        median(exposed_memory_ns) AS exposed_memory_median_ns,
        median(idle_ns) AS idle_median_ns
    FROM step_breakdown
    WHERE wanted_rank(rank)
    GROUP BY step
)

SELECT
    step,
    steady,
    left_out,
    processes,
    host_min_ns,
    host_median_ns,
    host_max_ns,
    longest_rank,
    span_median_ns,
    compute_median_ns,
    exposed_comm_median_ns,
    exposed_memory_median_ns,
    idle_median_ns
FROM marked
LEFT JOIN windows USING (step)
ORDER BY step
