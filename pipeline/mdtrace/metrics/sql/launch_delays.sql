-- purpose: How long after its launch call returned each device activity started. Negative is normal: it started before the
--   call returned. A start before the call began is none: the clocks of host and device disagree.
-- grain: one row per device activity with a launch record
-- reads: device_ops, launches
-- filter: rank rows
-- filter: step rows
-- filter: time starts
-- column: device_op_id BIGINT The activity.
-- column: launch_id BIGINT Its launch call.
-- column: process_id INTEGER Capture.
-- column: rank INTEGER Rank of the capture; NULL: unknown
-- column: device_id INTEGER The process's own device ordinal; NULL: the activity names none
-- column: stream_id BIGINT Stream; NULL: the activity names none
-- column: step BIGINT Step of the launch; NULL: outside every step
-- column: class VARCHAR Class of the activity.
-- column: name VARCHAR Name of the activity; NULL: missing in the file
-- column: start_ns BIGINT [ns] Start of the activity.
-- column: call_ns BIGINT [ns] Duration of the call; NULL: never closed
-- column: delay_ns BIGINT [ns] Start less the end of the call; NULL: the call was never closed
-- column: before_call BOOLEAN It started before the call began: a clock error.
SELECT
    device_ops.device_op_id,
    device_ops.launch_id,
    device_ops.process_id,
    device_ops.rank,
    device_ops.device_id,
    device_ops.stream_id,
    device_ops.step,
    device_ops.class,
    device_ops.name,
    device_ops.start_ns,
    launches.dur_ns AS call_ns,
    bounded(device_ops.start_ns) - bounded(bounded(launches.start_ns) + bounded(launches.dur_ns)) AS delay_ns,
    device_ops.start_ns < launches.start_ns AS before_call
FROM device_ops
INNER JOIN launches ON device_ops.launch_id = launches.launch_id
WHERE
    device_ops.class <> 'sync'
    AND NOT device_ops.duplicate
    AND wanted_start(device_ops.process_id, device_ops.start_ns)
