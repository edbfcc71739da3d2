-- purpose: Device time in the windows of the steps, summed over devices, by everything that runs are compared by: kernel, operator, layer and
--   phase. Two sums: durations, of which what overlaps counts in full, and the part of the window that the
--   activities make up, which adds up over all rows to the window without its idle time.
-- grain: one row per step, name, class, operator, layer and phase
-- reads: compare_activity, device_windows, device_ops, host_ops, layers
-- filter: rank inside
-- filter: step rows
-- filter: layer rows
-- column: step BIGINT Step of the window; NULL: before the first window, or no steps
-- column: name VARCHAR Name of the activity; NULL: missing in the file
-- column: class VARCHAR compute, communication, memcpy or memset.
-- column: operator VARCHAR Innermost operator around the launch; NULL: not known
-- column: layer VARCHAR Path of the layer; NULL: of no layer, or not known
-- column: phase VARCHAR forward, backward or optimizer; NULL: not known
-- column: count BIGINT Activities that start in the window, exact copies of an event aside.
-- column: own_ns BIGINT [ns] Sum of their durations.
-- column: shown_ns BIGINT [ns] Time of the window that they make up.
WITH sums AS (
    SELECT
        process_id,
        device_id,
        place,
        device_op_id,
        sum(started) AS started,
        sum(own_ns) AS own_ns,
        sum(shown_ns) AS shown_ns
    FROM compare_activity
    WHERE wanted_rank(rank)
    GROUP BY ALL
)

SELECT
    device_windows.step,
    device_ops.name,
    device_ops.class,
    host_ops.name AS operator,
    layers.path AS layer,
    device_ops.phase,
    sum(started)::BIGINT AS count,
    capped(sum(sums.own_ns)) AS own_ns,
    capped(sum(sums.shown_ns)) AS shown_ns
FROM sums
INNER JOIN device_ops ON sums.device_op_id = device_ops.device_op_id
LEFT JOIN device_windows
    ON sums.process_id = device_windows.process_id
    AND sums.device_id IS NOT DISTINCT FROM device_windows.device_id
    AND sums.place = device_windows.place
LEFT JOIN host_ops ON device_ops.host_op_id = host_ops.host_op_id
LEFT JOIN layers ON device_ops.layer_id = layers.layer_id
GROUP BY ALL
