-- purpose: What each device waited for while it was idle, over the whole capture; the parts add up to idle. How each gap
--   is split stands with idle_gaps.
-- grain: one row per process and device; per process where no device activity was captured
-- reads: time_breakdown, idle_gaps
-- filter: rank rows
-- filter: time clips
-- column: process_id INTEGER Capture.
-- column: rank INTEGER Rank of the capture; NULL: unknown
-- column: device_id INTEGER The process's own device ordinal; NULL: accounted from host records, or the activity names none
-- column: idle_ns BIGINT [ns] Nothing runs; NULL: nothing was captured that tells
-- column: host_ns BIGINT [ns] Waiting for the host to launch; NULL: idle is unknown
-- column: launch_ns BIGINT [ns] Inside launch calls; NULL: idle is unknown
-- column: dependency_ns BIGINT [ns] Launched, and started after a collective or work waited for ended; NULL: idle is unknown
-- column: queue_ns BIGINT [ns] Launched but not started, nothing waited for is known; NULL: idle is unknown
-- column: unknown_ns BIGINT [ns] No launch record tells; from host records, all of it; NULL: idle is unknown
-- column: gaps BIGINT Gaps; NULL: accounted from host records, or nothing was captured that tells
-- column: longest_ns BIGINT [ns] Longest gap; NULL: there is none, or as gaps
-- column: span_ns BIGINT [ns] First start to last end; NULL: nothing was captured that tells
WITH sums AS (
    SELECT
        process_id,
        device_id,
        sum(host_ns)::BIGINT AS host,
        sum(launch_ns)::BIGINT AS launch,
        sum(dependency_ns)::BIGINT AS dependency,
        sum(queue_ns)::BIGINT AS queue,
        sum(unknown_ns)::BIGINT AS unknown,
        count(*) AS gaps,
        max(clipped_ns(process_id, start_ns, end_ns - start_ns)) AS longest
    FROM idle_gaps
    WHERE clipped_ns(process_id, start_ns, end_ns - start_ns) > 0
    GROUP BY process_id, device_id
)

SELECT
    time_breakdown.process_id,
    time_breakdown.rank,
    time_breakdown.device_id,
    idle_ns,
    CASE WHEN idle_ns IS NOT NULL THEN coalesce(host, 0) END AS host_ns,
    CASE WHEN idle_ns IS NOT NULL THEN coalesce(launch, 0) END AS launch_ns,
    CASE WHEN idle_ns IS NOT NULL THEN coalesce(dependency, 0) END AS dependency_ns,
    CASE WHEN idle_ns IS NOT NULL THEN coalesce(queue, 0) END AS queue_ns,
    CASE WHEN basis = 'device activity' THEN coalesce(unknown, 0) ELSE idle_ns END AS unknown_ns,
    CASE WHEN basis = 'device activity' THEN coalesce(gaps, 0) END AS gaps,
    longest AS longest_ns,
    span_ns
FROM time_breakdown
LEFT JOIN sums
    ON time_breakdown.process_id = sums.process_id
    AND time_breakdown.device_id IS NOT DISTINCT FROM sums.device_id
    AND basis = 'device activity'
ORDER BY time_breakdown.rank NULLS LAST, time_breakdown.process_id, time_breakdown.device_id NULLS LAST
