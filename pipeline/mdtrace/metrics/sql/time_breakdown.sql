-- purpose: Where the time of each device goes, over the whole capture. compute + exposed_comm + exposed_memory + idle
--   = span, exactly. A process without device activity is accounted from its host records: there compute and
--   communication share the cores, and overlap means that both ran, not that one was hidden.
-- grain: one row per process and device; per process where no device activity was captured
-- reads: device_segments, host_accounts
-- filter: rank rows
-- filter: time clips
-- column: process_id INTEGER Capture.
-- column: rank INTEGER Rank of the capture; NULL: unknown
-- column: device_id INTEGER The process's own device ordinal; NULL: accounted from host records, or the activity names none
-- column: compute_ns BIGINT [ns] Time in which kernels other than communication run, overlaps counted once; from host
--   records: operators outside collectives; NULL: nothing was captured that tells
-- column: comm_ns BIGINT [ns] Time in which communication runs, overlaps counted once; NULL: nothing was captured that tells
-- column: overlap_ns BIGINT [ns] Time in which both run; NULL: there is no communication, or compute is unknown
-- column: exposed_comm_ns BIGINT [ns] Communication while nothing computes; NULL: nothing was captured that tells
-- column: exposed_memory_ns BIGINT [ns] Copies and sets while nothing computes or communicates; NULL: nothing was captured that tells
-- column: idle_ns BIGINT [ns] Nothing runs; NULL: nothing was captured that tells
-- column: span_ns BIGINT [ns] First start to last end; NULL: nothing was captured that tells
-- column: overlap_ratio DOUBLE [share] Overlap as a share of communication; NULL: there is no communication, or compute is unknown
-- column: basis VARCHAR What was accounted: device activity, host records, timeline (communication alone is known); NULL: nothing was captured that tells
WITH sums AS (
    SELECT
        process_id,
        rank,
        device_id,
        sum(clipped_ns(process_id, start_ns, compute_ns)) AS compute,
        sum(clipped_ns(process_id, start_ns, comm_ns)) AS comm,
        sum(clipped_ns(process_id, start_ns, greatest(compute_ns, comm_ns))) AS either,
        sum(
            clipped_ns(process_id, start_ns, greatest(compute_ns, comm_ns, memory_ns))
        ) AS busy,
        clip_time(process_id, max(next_ns)) - clip_time(process_id, min(start_ns)) AS span
    FROM device_segments
    GROUP BY process_id, rank, device_id
),

accounts AS (
    SELECT
        process_id,
        rank,
        device_id,
        compute::BIGINT AS compute_ns,
        comm::BIGINT AS comm_ns,
        CASE WHEN comm > 0 THEN (compute - either + comm)::BIGINT END AS overlap_ns,
        (either - compute)::BIGINT AS exposed_comm_ns,
        (busy - either)::BIGINT AS exposed_memory_ns,
        (span - busy)::BIGINT AS idle_ns,
        span AS span_ns,
        'device activity' AS basis
    FROM sums
    UNION ALL BY NAME
    SELECT * EXCLUDE (whole, step, start_ns) FROM host_accounts WHERE whole
)

SELECT
    process_id,
    rank,
    device_id,
    compute_ns,
    comm_ns,
    overlap_ns,
    exposed_comm_ns,
    exposed_memory_ns,
    idle_ns,
    span_ns,
    overlap_ns / nullif(comm_ns, 0) AS overlap_ratio,
    basis
FROM accounts
ORDER BY rank NULLS LAST, process_id, device_id NULLS LAST
