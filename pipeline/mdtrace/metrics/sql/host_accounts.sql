-- purpose: Accounts of time of captures without device activity, for each step and for the whole capture.
-- grain: one row per process and step, and one for the whole of each process
-- reads: host_accounted, host_segments, host_work
-- filter: rank rows
-- filter: time clips
-- column: process_id INTEGER Capture.
-- column: rank INTEGER Rank of the capture; NULL: unknown
-- column: device_id INTEGER None; NULL: always
-- column: whole BOOLEAN The row is of the whole capture.
-- column: step BIGINT Step; NULL: the whole capture, or outside every step
-- column: start_ns BIGINT [ns] First time accounted; NULL: nothing was captured that tells
-- column: compute_ns BIGINT [ns] Operators outside collectives; NULL: no operators were captured
-- column: comm_ns BIGINT [ns] Communication; NULL: nothing was captured that tells
-- column: overlap_ns BIGINT [ns] Both run; NULL: no communication, or no operators were captured
-- column: exposed_comm_ns BIGINT [ns] Communication while no operator runs; NULL: no operators were captured
-- column: exposed_memory_ns BIGINT [ns] 0: the host's copies are operators; NULL: no operators were captured
-- column: idle_ns BIGINT [ns] Neither runs; NULL: no operators were captured
-- column: span_ns BIGINT [ns] First start to last end; of a step, what of its time on the host lies between them; NULL: nothing was captured that tells
-- column: basis VARCHAR host records or timeline; NULL: nothing was captured that tells
WITH sums AS (
    SELECT
        process_id,
        grouping(step) = 1 AS whole,
        step,
        min(start_ns) AS start_ns,
        sum(clipped_ns(process_id, start_ns, compute_ns))::BIGINT AS compute,
        sum(clipped_ns(process_id, start_ns, comm_ns))::BIGINT AS comm,
        sum(
            clipped_ns(process_id, start_ns, greatest(compute_ns, comm_ns))
        )::BIGINT AS busy,
        sum(clipped_ns(process_id, start_ns, next_ns - start_ns))::BIGINT AS span
    FROM host_segments
    GROUP BY GROUPING SETS ((process_id), (process_id, step))
),

known AS (
    SELECT process_id, bool_or(class = 'compute') AS has_operators FROM host_work GROUP BY process_id
)

SELECT
    process_id,
    rank,
    NULL::INTEGER AS device_id,
    coalesce(whole, true) AS whole,
    step,
    start_ns,
    CASE WHEN has_operators THEN compute END AS compute_ns,
    comm AS comm_ns,
    CASE WHEN has_operators AND comm > 0 THEN compute + comm - busy END AS overlap_ns,
    CASE WHEN has_operators THEN busy - compute END AS exposed_comm_ns,
    CASE WHEN has_operators THEN 0::BIGINT END AS exposed_memory_ns,
    CASE WHEN has_operators THEN span - busy END AS idle_ns,
    span AS span_ns,
    CASE WHEN has_operators THEN 'host records' WHEN NOT has_operators THEN 'timeline' END AS basis
FROM host_accounted
LEFT JOIN known USING (process_id)
LEFT JOIN sums USING (process_id)
