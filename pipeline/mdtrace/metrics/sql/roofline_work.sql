-- purpose: Work, times and times at the roofs of each layer and phase, step by step: what the figures of layers, ranks and jobs
--   are summed from. Buckets that no layer is known for stand in rows without one.
-- grain: one row per process, step, layer and phase
-- reads: roofline_operators, roofline_shares, hardware_roofs, device_ops, roofline_layers,
--   step_times
-- filter: rank rows
-- filter: step rows
-- filter: layer rows
-- column: process_id INTEGER Capture.
-- column: rank INTEGER Rank of the capture; NULL: unknown
-- column: hardware VARCHAR Entry of the hardware table that gives roofs; NULL: none
-- column: roof_origin VARCHAR Where the roofs come from: driver, hardware table, user or empirical; NULL: no roof is known
-- column: step BIGINT Step; NULL: outside every step, or no steps
-- column: counts BOOLEAN Of a step that counts in steady-state figures, or of a capture without steps.
-- column: layer VARCHAR Path of the layer; NULL: no layer is known
-- column: phase VARCHAR forward, backward or optimizer; NULL: not known
-- column: calls BIGINT Operators with work.
-- column: flops BIGINT [FLOP] Arithmetic, as far as known; NULL: of no operator
-- column: bytes BIGINT [byte] Device memory traffic, as far as known; NULL: of no operator
-- column: t_compute_s DOUBLE [s] Time of the arithmetic at the compute roofs; NULL: no FLOP or no roof known
-- column: t_memory_s DOUBLE [s] Time of the bytes at the memory roof; NULL: no bytes or no roof known
-- column: dtype VARCHAR Element type of the operator with most FLOP; NULL: no FLOP known
-- column: matrix_peak DOUBLE [FLOP/s] Matrix roof of that type; NULL: no FLOP or roof known
-- column: priced_ns BIGINT [ns] Time of operators whose FLOP and bytes are known.
-- column: worked_ns BIGINT [ns] Sum of durations of compute.
-- column: compute_ns BIGINT [ns] Time in which compute runs, overlaps counted once.
-- column: collectives BIGINT Collectives it takes part in.
-- column: wire_bytes DOUBLE [byte] Bytes on the wire; NULL: of none of its collectives known
-- column: unsized BIGINT Collectives of unknown size.
-- column: t_comm_s DOUBLE [s] Time of the wire's bytes at the roof of the links; NULL: no bytes or no roof known
-- column: comm_ns DOUBLE [ns] Time of its communication, waiting included.
-- column: hidden_ns DOUBLE [ns] Of that, time in which compute of the device runs.
-- column: wait_ns DOUBLE [ns] Of that, time until the last rank came; NULL: ranks not matched
-- column: shared BOOLEAN Its communication is a share of buckets; NULL: it has none
WITH marked AS (SELECT DISTINCT process_id FROM step_times),

ops AS MATERIALIZED (
    FROM roofline_operators
),

roofs AS MATERIALIZED (
    FROM hardware_roofs
),

-- One origin, or one for each of the roofs that figures stand under.
origins AS (
    SELECT
        process_id,
        any_value(hardware) AS hardware,
        CASE
            WHEN count(DISTINCT origin) = 1 THEN any_value(origin)
            ELSE string_agg(DISTINCT roof || ' ' || origin, ', ' ORDER BY roof || ' ' || origin)
        END AS roof_origin
    FROM roofs
    WHERE roof IN ('memory', 'bus') OR (roof = 'compute' AND (origin <> 'empirical' OR hardware IS NULL))
    GROUP BY process_id
),

flat AS (
    SELECT
        process_id,
        max(per_s) FILTER (roof = 'memory') AS memory,
        max(per_s) FILTER (roof = 'link') AS link,
        max(per_s) FILTER (roof = 'internode') AS internode,
        max(per_s) FILTER (roof = 'bus') AS bus
    FROM roofs
    GROUP BY process_id
),

priced AS (
    SELECT
        ops.*,
        -- No arithmetic takes no time, whatever its type.
        CASE WHEN flops = 0 THEN 0 ELSE flops / roofs.per_s END AS t_compute,
        bytes / memory AS t_memory,
        matrix.per_s AS matrix_peak
    FROM ops
    LEFT JOIN roofs
        ON ops.process_id = roofs.process_id AND ops.unit = roofs.unit AND ops.dtype = roofs.dtype AND roofs.roof = 'compute'
    LEFT JOIN roofs AS matrix
        ON ops.process_id = matrix.process_id AND matrix.unit = 'matrix' AND ops.dtype = matrix.dtype AND matrix.roof = 'compute'
    LEFT JOIN flat ON ops.process_id = flat.process_id
),

operators AS (
    SELECT
        process_id,
        rank,
        step,
        counts,
        layer,
        phase,
        count(*) FILTER (flops IS NOT NULL OR bytes IS NOT NULL OR time_ns > 0) AS calls,
        sum(flops) AS flops,
        sum(bytes) AS bytes,
        sum(t_compute) AS t_compute_s,
        sum(t_memory) AS t_memory_s,
        arg_max(dtype, flops) FILTER (flops > 0) AS dtype,
        arg_max(matrix_peak, flops) FILTER (flops > 0) AS matrix_peak,
        coalesce(sum(time_ns) FILTER (flops IS NOT NULL AND bytes IS NOT NULL), 0) AS priced_ns
    FROM priced
    GROUP BY ALL
),

activity AS (
    SELECT
        device_ops.process_id,
        device_ops.rank,
        coalesce(device_id, -1) AS device,
        device_ops.step,
        CASE
            WHEN step_is_filtered() THEN wanted_step(device_ops.step)
            WHEN marked.process_id IS NULL THEN true
            ELSE device_ops.step IS NOT NULL AND coalesce(steady, true)
        END AS counts,
        layer,
        phase,
        bounded(device_ops.start_ns) AS start_ns,
        bounded(bounded(device_ops.start_ns) + bounded(greatest(dur_ns, 0))) AS end_ns,
        duplicate
    FROM device_ops
    LEFT JOIN roofline_layers ON device_ops.layer_id = roofline_layers.layer_id
    LEFT JOIN step_times ON device_ops.process_id = step_times.process_id AND device_ops.step = step_times.step
    LEFT JOIN marked ON device_ops.process_id = marked.process_id
    WHERE class = 'compute' AND dur_ns IS NOT NULL
    UNION ALL
    SELECT process_id, rank, -2, step, counts, layer, phase, start_ns, end_ns, false
    FROM ops
    WHERE on_host AND end_ns IS NOT NULL
),

-- What each activity adds to the union of its layer's.
seen AS (
    SELECT
        *,
        max(end_ns) OVER (
            PARTITION BY process_id, device, step, layer, phase
            ORDER BY start_ns
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS seen_ns
    FROM activity
),

worked AS (
    SELECT
        process_id,
        rank,
        step,
        counts,
        layer,
        phase,
        sum(end_ns - start_ns) FILTER (NOT duplicate) AS worked_ns,
        sum(greatest(end_ns, seen_ns) - greatest(start_ns, seen_ns)) AS compute_ns
    FROM seen
    GROUP BY ALL
),

communicated AS (
    SELECT
        shares.process_id,
        rank,
        step,
        counts,
        layer,
        phase,
        count(*) AS collectives,
        sum(wire_bytes * share) AS wire_bytes,
        count(*) FILTER (wire_bytes IS NULL) AS unsized,
        -- Between nodes a ring uses the adapters of all its ranks on a node.
        sum(
            wire_bytes * share / CASE
                WHEN one_node THEN coalesce(link, bus)
                WHEN ranks_per_node IS NULL OR internode IS NULL THEN bus
                ELSE least(coalesce(link, 'inf'::DOUBLE), internode * ranks_per_node)
            END
        ) AS t_comm_s,
        sum(own_ns * share) AS comm_ns,
        sum(hidden_ns * share) AS hidden_ns,
        sum(wait_ns * share) AS wait_ns,
        bool_or(coalesce(basis = 'gradients', false)) AS shared
    FROM roofline_shares AS shares
    LEFT JOIN flat ON shares.process_id = flat.process_id
    GROUP BY ALL
)

SELECT
    process_id,
    any_value(rank) AS rank,
    any_value(hardware) AS hardware,
    any_value(roof_origin) AS roof_origin,
    step,
    any_value(counts) AS counts,
    layer,
    phase,
    coalesce(sum(calls), 0)::BIGINT AS calls,
    capped(sum(flops)) AS flops,
    capped(sum(bytes)) AS bytes,
    sum(t_compute_s) AS t_compute_s,
    sum(t_memory_s) AS t_memory_s,
    any_value(dtype) AS dtype,
    any_value(matrix_peak) AS matrix_peak,
    capped(coalesce(sum(priced_ns), 0)) AS priced_ns,
    capped(coalesce(sum(worked_ns), 0)) AS worked_ns,
    capped(coalesce(sum(compute_ns), 0)) AS compute_ns,
    coalesce(sum(collectives), 0)::BIGINT AS collectives,
    sum(wire_bytes) AS wire_bytes,
    coalesce(sum(unsized), 0)::BIGINT AS unsized,
    sum(t_comm_s) AS t_comm_s,
    coalesce(sum(comm_ns), 0) AS comm_ns,
    coalesce(sum(hidden_ns), 0) AS hidden_ns,
    sum(wait_ns) AS wait_ns,
    bool_or(shared) AS shared
FROM (
    FROM operators
    UNION ALL BY NAME
    FROM worked
    UNION ALL BY NAME
    FROM communicated
)
LEFT JOIN origins USING (process_id)
GROUP BY process_id, step, layer, phase
