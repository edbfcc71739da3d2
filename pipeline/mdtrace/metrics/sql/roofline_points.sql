-- purpose: Points under the roofs, of layers, of operators by name, or of kernels by name, over the steps that count. A kernel has
--   its operator's FLOP and bytes by its share of the operator's compute time.
-- grain: one row per process and layer and phase, or operator, or kernel, and element type
-- reads: layer_roofline, roofline_operators, hardware_roofs, device_ops, host_ops, op_costs
-- filter: rank rows
-- filter: step inside
-- parameter: points_by VARCHAR = 'layer'; layer, operator or kernel
-- column: process_id INTEGER Capture.
-- column: rank INTEGER Rank of the capture; NULL: unknown
-- column: name VARCHAR Path of the layer, or name of the operator or kernel; NULL: none
-- column: phase VARCHAR forward, backward or optimizer; NULL: not known
-- column: dtype VARCHAR Element type of its arithmetic; NULL: not known
-- column: calls BIGINT Operators, or kernels.
-- column: flops DOUBLE [FLOP] Arithmetic, as far as known; NULL: not known
-- column: bytes DOUBLE [byte] Device memory traffic, as far as known; NULL: not known
-- column: wire_bytes DOUBLE [byte] Bytes on the wire; NULL: no layer, or not known
-- column: device_ns BIGINT [ns] Time, as in layer_roofline; of operators and kernels the sum of durations.
-- column: intensity_memory DOUBLE [FLOP/byte] FLOP per byte of device memory; NULL: either is not known
-- column: intensity_communication DOUBLE [FLOP/byte] FLOP per byte on the wire; NULL: not known, or nothing on the wire
-- column: achieved_flops_per_s DOUBLE [FLOP/s] FLOP over time; NULL: no FLOP known
-- column: attainable_flops_per_s DOUBLE [FLOP/s] At the roofs; NULL: no FLOP or roof known
-- column: efficiency DOUBLE [share] Achieved over attainable; NULL: no roof known, faster than the roofs known (too low)
-- column: bound VARCHAR As in layer_roofline; NULL: nothing known
-- column: coverage DOUBLE [share] Of its time, with FLOP and bytes known; NULL: no time
WITH RECURSIVE kernels AS (
    SELECT process_id, device_op_id, host_op_id, name, dur_ns
    FROM device_ops
    WHERE getvariable('points_by') = 'kernel' AND class = 'compute' AND dur_ns IS NOT NULL AND NOT duplicate
),

climb (host_op_id, above) AS (
    SELECT DISTINCT host_op_id, host_op_id
    FROM kernels
    WHERE host_op_id IS NOT NULL
    UNION ALL
    SELECT climb.host_op_id, host_ops.parent_id
    FROM climb
    INNER JOIN host_ops ON climb.above = host_ops.host_op_id
    WHERE host_ops.parent_id IS NOT NULL AND climb.above NOT IN (SELECT host_op_id FROM op_costs WHERE flops IS NOT NULL)
),

owners AS (
    SELECT climb.host_op_id, any_value(above) AS owner
    FROM climb
    SEMI JOIN op_costs ON climb.above = op_costs.host_op_id AND op_costs.flops IS NOT NULL
    GROUP BY climb.host_op_id
),

each_one AS (
    SELECT process_id, rank, name, phase, unit, dtype, flops, bytes, time_ns
    FROM roofline_operators
    WHERE getvariable('points_by') = 'operator' AND counts
    UNION ALL
    SELECT
        kernels.process_id,
        ops.rank,
        kernels.name,
        ops.phase,
        ops.unit,
        ops.dtype,
        ops.flops * dur_ns / nullif(ops.time_ns, 0),
        ops.bytes * dur_ns / nullif(ops.time_ns, 0),
        dur_ns
    FROM kernels
    LEFT JOIN owners ON kernels.host_op_id = owners.host_op_id
    INNER JOIN roofline_operators AS ops ON coalesce(owners.owner, kernels.host_op_id) = ops.host_op_id
    WHERE ops.counts
),

flat AS (
    SELECT process_id, max(per_s) AS memory
    FROM hardware_roofs
    WHERE roof = 'memory'
    GROUP BY process_id
),

peaks AS (
    SELECT process_id, unit, dtype, per_s
    FROM hardware_roofs
    WHERE roof = 'compute'
),

summed AS (
    SELECT
        each_one.process_id,
        any_value(rank) AS rank,
        name,
        phase,
        each_one.unit,
        each_one.dtype,
        count(*) AS calls,
        sum(flops)::DOUBLE AS flops,
        sum(bytes)::DOUBLE AS bytes,
        capped(sum(time_ns)) AS time_ns,
        sum(time_ns) FILTER (flops IS NOT NULL AND bytes IS NOT NULL) AS priced_ns
    FROM each_one
    GROUP BY each_one.process_id, name, phase, each_one.unit, each_one.dtype
),

timed AS (
    SELECT
        summed.*,
        CASE WHEN flops = 0 THEN 0 ELSE flops / per_s END AS t_compute_s,
        bytes / memory AS t_memory_s
    FROM summed
    LEFT JOIN peaks ON summed.process_id = peaks.process_id AND summed.unit = peaks.unit AND summed.dtype = peaks.dtype
    LEFT JOIN flat ON summed.process_id = flat.process_id
),

points AS (
    SELECT
        process_id,
        rank,
        name,
        phase,
        dtype,
        calls,
        flops,
        bytes,
        NULL::DOUBLE AS wire_bytes,
        time_ns AS device_ns,
        flops / nullif(bytes, 0) AS intensity_memory,
        NULL::DOUBLE AS intensity_communication,
        flops / nullif(time_ns, 0) * 1e9 AS achieved_flops_per_s,
        flops / nullif(greatest(t_compute_s, t_memory_s), 0) AS attainable_flops_per_s,
        CASE
            WHEN greatest(t_compute_s, t_memory_s) * 1e9 <= time_ns
            THEN nullif(greatest(t_compute_s, t_memory_s), 0) / nullif(time_ns, 0) * 1e9
        END AS efficiency,
        CASE
            WHEN coalesce(greatest(t_compute_s, t_memory_s), 0) <= 0 OR coalesce(time_ns, 0) <= 0 THEN NULL
            WHEN greatest(t_compute_s, t_memory_s) < 0.5 * time_ns / 1e9 THEN 'latency'
            WHEN least(t_compute_s, t_memory_s) >= 0.95 * greatest(t_compute_s, t_memory_s)
                AND t_compute_s IS NOT NULL AND t_memory_s IS NOT NULL THEN 'balanced'
            WHEN t_compute_s > coalesce(t_memory_s, 0) THEN 'compute'
            ELSE 'memory'
        END AS bound,
        coalesce(priced_ns, 0) / nullif(time_ns, 0) AS coverage
    FROM timed
    UNION ALL
    SELECT
        process_id,
        rank,
        layer,
        phase,
        dtype,
        calls,
        flops,
        bytes,
        wire_bytes,
        device_ns,
        intensity_memory,
        intensity_communication,
        achieved_flops_per_s,
        attainable_flops_per_s,
        efficiency,
        bound,
        coverage
    FROM layer_roofline
    WHERE getvariable('points_by') = 'layer'
)

SELECT *
FROM points
ORDER BY rank NULLS LAST, process_id, device_ns DESC NULLS LAST, name, phase, dtype
