-- purpose: Until when the device runs what a thread has launched: for each launch of compute, the latest end of all compute
--   that its thread has launched up to then.
-- grain: one row per launch of compute
-- reads: launches, device_ops
-- column: process_id INTEGER Capture.
-- column: thread_id BIGINT Thread that launched; NULL: unknown
-- column: called_ns BIGINT [ns] Start of the launch call.
-- column: made_ns BIGINT [ns] When the device has done all of it.
SELECT
    launches.process_id,
    launches.thread_id,
    bounded(launches.start_ns) AS called_ns,
    max(bounded(bounded(device_ops.start_ns) + bounded(greatest(device_ops.dur_ns, 0)))) OVER (
        PARTITION BY launches.process_id, launches.thread_id
        ORDER BY launches.start_ns
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS made_ns
FROM launches
JOIN device_ops ON launches.launch_id = device_ops.launch_id
WHERE device_ops.class = 'compute' AND device_ops.dur_ns IS NOT NULL
