-- purpose: What each device waited for while it was idle, step by step, in the windows of step_breakdown; the parts add up
--   to idle.
-- grain: one row per process, device and step; without steps one row, step NULL
-- reads: step_breakdown, idle_gaps, device_windows
-- filter: rank rows
-- filter: step rows
-- filter: time clips
-- column: process_id INTEGER Capture.
-- column: rank INTEGER Rank of the capture; NULL: unknown
-- column: device_id INTEGER The process's own device ordinal; NULL: accounted from host records, or the activity names none
-- column: step BIGINT Step; NULL: outside every step, or no steps were found
-- column: steady BOOLEAN Counts in steady-state figures; NULL: no step, or its marker is not in the capture
-- column: idle_ns BIGINT [ns] Nothing runs; NULL: nothing was captured that tells
-- column: host_ns BIGINT [ns] Waiting for the host to launch; NULL: idle is unknown
-- column: launch_ns BIGINT [ns] Inside launch calls; NULL: idle is unknown
-- column: dependency_ns BIGINT [ns] Launched, and started after a collective or work waited for ended; NULL: idle is unknown
-- column: queue_ns BIGINT [ns] Launched but not started, nothing waited for is known; NULL: idle is unknown
-- column: unknown_ns BIGINT [ns] No launch record tells; from host records, all of it; NULL: idle is unknown
-- column: span_ns BIGINT [ns] Length of the window; NULL: nothing was captured that tells
WITH sums AS (
    SELECT
        idle_gaps.process_id,
        idle_gaps.device_id,
        step,
        sum(host_ns)::BIGINT AS host,
        sum(launch_ns)::BIGINT AS launch,
        sum(dependency_ns)::BIGINT AS dependency,
        sum(queue_ns)::BIGINT AS queue,
        sum(unknown_ns)::BIGINT AS unknown
    FROM idle_gaps
    LEFT JOIN device_windows
        ON idle_gaps.process_id = device_windows.process_id
        AND idle_gaps.device_id IS NOT DISTINCT FROM device_windows.device_id
        AND idle_gaps.place = device_windows.place
    GROUP BY idle_gaps.process_id, idle_gaps.device_id, step
)

SELECT
    step_breakdown.process_id,
    step_breakdown.rank,
    step_breakdown.device_id,
    step_breakdown.step,
    steady,
    idle_ns,
    CASE WHEN idle_ns IS NOT NULL THEN coalesce(host, 0) END AS host_ns,
    CASE WHEN idle_ns IS NOT NULL THEN coalesce(launch, 0) END AS launch_ns,
    CASE WHEN idle_ns IS NOT NULL THEN coalesce(dependency, 0) END AS dependency_ns,
    CASE WHEN idle_ns IS NOT NULL THEN coalesce(queue, 0) END AS queue_ns,
    CASE WHEN basis = 'device activity' THEN coalesce(unknown, 0) ELSE idle_ns END AS unknown_ns,
    span_ns
FROM step_breakdown
LEFT JOIN sums
    ON step_breakdown.process_id = sums.process_id
    AND step_breakdown.device_id IS NOT DISTINCT FROM sums.device_id
    AND step_breakdown.step IS NOT DISTINCT FROM sums.step
    AND basis = 'device activity'
ORDER BY
    step_breakdown.rank NULLS LAST,
    step_breakdown.process_id,
    step_breakdown.device_id NULLS LAST,
    step_breakdown.start_ns,
    step_breakdown.step
