-- purpose: Where the time of each device goes, step by step. The windows of the steps follow each other without gap;
--   time before the first is the row without a step (launched before the capture); all rows together are the
--   capture. A process without device activity is cut where its host's steps start and end.
-- grain: one row per process, device and step; without steps one row, step NULL
-- reads: device_windows, step_segments, host_accounts, step_times
-- filter: rank rows
-- filter: step rows
-- filter: time clips
-- column: process_id INTEGER Capture.
-- column: rank INTEGER Rank of the capture; NULL: unknown
-- column: device_id INTEGER The process's own device ordinal; NULL: accounted from host records, or the activity names none
-- column: step BIGINT Step; NULL: outside every step, or no steps were found
-- column: steady BOOLEAN Counts in steady-state figures, by the rule of step_times; NULL: no step, or its marker is not in the capture
-- column: start_ns BIGINT [ns] Start of the window; NULL: nothing was captured that tells
-- column: compute_ns BIGINT [ns] As in time_breakdown; NULL: nothing was captured that tells
-- column: comm_ns BIGINT [ns] As in time_breakdown; NULL: nothing was captured that tells
-- column: overlap_ns BIGINT [ns] As in time_breakdown; NULL: there is no communication, or compute is unknown
-- column: exposed_comm_ns BIGINT [ns] As in time_breakdown; NULL: nothing was captured that tells
-- column: exposed_memory_ns BIGINT [ns] As in time_breakdown; NULL: nothing was captured that tells
-- column: idle_ns BIGINT [ns] Nothing runs; NULL: nothing was captured that tells
-- column: span_ns BIGINT [ns] Length of the window; NULL: nothing was captured that tells
-- column: overlap_ratio DOUBLE [share] Overlap as a share of communication; NULL: there is no communication, or compute is unknown
-- column: host_ns BIGINT [ns] How long the step lasts on the host, by its marker; NULL: no step, or its marker was never closed
-- column: basis VARCHAR What was accounted, as in time_breakdown; NULL: nothing was captured that tells
WITH sums AS (
    SELECT
        process_id,
        rank,
        device_id,
        place,
        min(start_ns) AS start_ns,
        sum(clipped_ns(process_id, start_ns, compute_ns))::BIGINT AS compute,
        sum(clipped_ns(process_id, start_ns, comm_ns))::BIGINT AS comm,
        sum(
            clipped_ns(process_id, start_ns, greatest(compute_ns, comm_ns))
        )::BIGINT AS either,
        sum(
            clipped_ns(process_id, start_ns, greatest(compute_ns, comm_ns, memory_ns))
        )::BIGINT AS busy,
        clip_time(process_id, max(next_ns)) - clip_time(process_id, min(start_ns)) AS span
    FROM step_segments
    GROUP BY process_id, rank, device_id, place
),

accounts AS (
    SELECT
        sums.process_id,
        sums.rank,
        sums.device_id,
        step,
        sums.start_ns,
        compute AS compute_ns,
        comm AS comm_ns,
        CASE WHEN comm > 0 THEN compute - either + comm END AS overlap_ns,
        either - compute AS exposed_comm_ns,
        busy - either AS exposed_memory_ns,
        span - busy AS idle_ns,
        span AS span_ns,
        'device activity' AS basis
    FROM sums
    LEFT JOIN device_windows
        ON sums.process_id = device_windows.process_id
        AND sums.device_id IS NOT DISTINCT FROM device_windows.device_id
        AND sums.place = device_windows.place
    WHERE span > 0 OR NOT time_is_filtered()
    UNION ALL BY NAME
    SELECT * EXCLUDE (whole) FROM host_accounts
    WHERE (NOT whole OR span_ns IS NULL) AND (span_ns > 0 OR NOT time_is_filtered())
)

SELECT
    accounts.process_id,
    accounts.rank,
    device_id,
    accounts.step,
    steady,
    accounts.start_ns,
    compute_ns,
    comm_ns,
    overlap_ns,
    exposed_comm_ns,
    exposed_memory_ns,
    idle_ns,
    span_ns,
    overlap_ns / nullif(comm_ns, 0) AS overlap_ratio,
    host_ns,
    basis
FROM accounts
LEFT JOIN step_times ON accounts.process_id = step_times.process_id AND accounts.step = step_times.step
ORDER BY accounts.rank NULLS LAST, accounts.process_id, device_id NULLS LAST, accounts.start_ns, accounts.step
