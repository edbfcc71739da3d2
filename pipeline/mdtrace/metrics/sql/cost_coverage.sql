-- purpose: How much of the time of compute kernels has FLOP and bytes, and why the rest has not. Without device activity
--   in the capture: of the time of operators on the host that have no others inside, or have a cost.
-- grain: one row per process and reason
-- reads: cost_rows, device_ops, layers
-- filter: rank inside
-- filter: step inside
-- filter: time starts
-- filter: layer inside
-- column: process_id INTEGER Capture.
-- column: rank INTEGER Rank of the capture; NULL: unknown
-- column: reason VARCHAR Why FLOP or bytes are not known; NULL: both are known
-- column: operators BIGINT Operators concerned; NULL: kernels without an operator
-- column: time_ns BIGINT [ns] Sum of durations of their compute kernels; without device activity, of the operators.
-- column: share DOUBLE [share] Of the process's time_ns; NULL: there is none
-- column: flops_share DOUBLE [share] Part of share that has FLOP; NULL: there is none
-- column: bytes_share DOUBLE [share] Part of share that has bytes; NULL: there is none
WITH found AS (
    SELECT
        process_id,
        rank,
        reason,
        1 AS operators,
        compute_ns AS time_ns,
        flops IS NOT NULL AS with_flops,
        bytes IS NOT NULL AS with_bytes
    FROM cost_rows
    WHERE compute_ns > 0
    UNION ALL
    SELECT
        device_ops.process_id,
        device_ops.rank,
        CASE
            WHEN launch_id IS NULL THEN 'the launch is not in the file'
            ELSE 'no operator around the launch'
        END,
        NULL,
        least(greatest(coalesce(dur_ns, 0), 0), 4398046511104),
        false,
        false
    FROM device_ops
    LEFT JOIN layers ON device_ops.layer_id = layers.layer_id
    WHERE
        class = 'compute'
        AND NOT duplicate
        AND host_op_id IS NULL
        AND wanted_rank(device_ops.rank)
        AND wanted_step(step)
        AND wanted_start(device_ops.process_id, start_ns)
        AND wanted_layer(path)
)

SELECT
    process_id,
    rank,
    reason,
    sum(operators)::BIGINT AS operators,
    least(sum(time_ns), 9223372036854775807)::BIGINT AS time_ns,
    sum(time_ns) / nullif(sum(sum(time_ns)) OVER (PARTITION BY process_id), 0) AS share,
    coalesce(sum(time_ns) FILTER (with_flops), 0)
    / nullif(sum(sum(time_ns)) OVER (PARTITION BY process_id), 0) AS flops_share,
    coalesce(sum(time_ns) FILTER (with_bytes), 0)
    / nullif(sum(sum(time_ns)) OVER (PARTITION BY process_id), 0) AS bytes_share
FROM found
GROUP BY process_id, rank, reason
ORDER BY process_id, time_ns DESC, reason NULLS FIRST
