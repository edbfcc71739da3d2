-- purpose: Where the time of each device goes in steady state: the sums of step_breakdown over the steps that count, or
--   over the steps picked by a filter.
-- grain: one row per process and device; per process where no device activity was captured
-- reads: step_breakdown
-- filter: rank rows
-- filter: step inside
-- filter: time clips
-- column: process_id INTEGER Capture.
-- column: rank INTEGER Rank of the capture; NULL: unknown
-- column: device_id INTEGER The process's own device ordinal; NULL: accounted from host records, or the activity names none
-- column: steps BIGINT Steps summed.
-- column: compute_ns BIGINT [ns] As in time_breakdown; NULL: nothing was captured that tells
-- column: comm_ns BIGINT [ns] As in time_breakdown; NULL: nothing was captured that tells
-- column: overlap_ns BIGINT [ns] As in time_breakdown; NULL: there is no communication, or compute is unknown
-- column: exposed_comm_ns BIGINT [ns] As in time_breakdown; NULL: nothing was captured that tells
-- column: exposed_memory_ns BIGINT [ns] As in time_breakdown; NULL: nothing was captured that tells
-- column: idle_ns BIGINT [ns] Nothing runs; NULL: nothing was captured that tells
-- column: span_ns BIGINT [ns] Length of the windows; NULL: nothing was captured that tells
-- column: overlap_ratio DOUBLE [share] Overlap as a share of communication; NULL: there is no communication, or compute is unknown
-- column: basis VARCHAR What was accounted, as in time_breakdown; NULL: nothing was captured that tells
SELECT
    process_id,
    rank,
    device_id,
    count(*) AS steps,
    sum(compute_ns)::BIGINT AS compute_ns,
    sum(comm_ns)::BIGINT AS comm_ns,
    sum(overlap_ns)::BIGINT AS overlap_ns,
    sum(exposed_comm_ns)::BIGINT AS exposed_comm_ns,
    sum(exposed_memory_ns)::BIGINT AS exposed_memory_ns,
    sum(idle_ns)::BIGINT AS idle_ns,
    sum(span_ns)::BIGINT AS span_ns,
    sum(overlap_ns) / nullif(sum(CASE WHEN overlap_ns IS NOT NULL THEN comm_ns END), 0) AS overlap_ratio,
    any_value(basis) AS basis
FROM step_breakdown
WHERE step IS NOT NULL AND CASE WHEN step_is_filtered() THEN wanted_step(step) ELSE coalesce(steady, true) END
GROUP BY process_id, rank, device_id
ORDER BY rank NULLS LAST, process_id, device_id NULLS LAST
