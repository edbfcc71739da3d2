-- purpose: When each gradient is ready to be sent. Autograd's AccumulateGrad nodes name the gradients in their order; on a
--   device one is ready when all compute launched by the node's thread until then has run, elsewhere when the node
--   and the copy into its bucket are done. In a timeline: the last rank's tick, else the start of the negotiation.
-- grain: one row per process, step and gradient (each time it is made, where a step makes it several times)
-- reads: host_ops, gradient_made, collectives, arrivals, processes, step_times
-- filter: rank rows
-- filter: step rows
-- column: process_id INTEGER Capture.
-- column: rank INTEGER Rank of the capture; NULL: unknown
-- column: step BIGINT Step.
-- column: steady BOOLEAN Counts in steady-state figures.
-- column: tensor VARCHAR Name of the gradient; NULL: the trace does not name it
-- column: dims VARCHAR Shape as recorded; NULL: not recorded
-- column: elements BIGINT Numbers in it; NULL: no shape recorded
-- column: ready_ns BIGINT [ns] When it is ready, on the capture's clock; NULL: launched on a device that was not captured
-- column: origin VARCHAR What tells: device, host, ticks, negotiation.
WITH nodes AS (
    SELECT
        host_op_id,
        process_id,
        thread_id,
        step,
        parent_id,
        regexp_extract(input_dims, '^\s*\[\s*(\[[\d,\s]*\])', 1) AS dims,
        bounded(start_ns) AS start_ns,
        bounded(bounded(start_ns) + bounded(greatest(dur_ns, 0))) AS end_ns
    FROM host_ops
    WHERE name LIKE '%AccumulateGrad'
        AND name NOT LIKE '%evaluate_function%'
        AND kind = 'operator'
        AND step IS NOT NULL
        AND dur_ns IS NOT NULL
        AND NOT duplicate
),

-- The hook that copies a gradient into its bucket runs beside the node, under the same parent.
copies AS (
    SELECT
        host_ops.parent_id,
        max(bounded(bounded(host_ops.start_ns) + bounded(greatest(host_ops.dur_ns, 0)))) AS end_ns
    FROM host_ops
    SEMI JOIN nodes ON host_ops.parent_id = nodes.parent_id
    WHERE host_ops.name NOT LIKE 'c10d::%' AND host_ops.dur_ns IS NOT NULL
    GROUP BY host_ops.parent_id
),

hooks AS (
    SELECT nodes.* REPLACE (greatest(nodes.end_ns, coalesce(copies.end_ns, nodes.end_ns)) AS end_ns)
    FROM nodes
    LEFT JOIN copies ON nodes.parent_id = copies.parent_id
),

on_device AS (
    SELECT DISTINCT process_id FROM gradient_made
),

autograd AS (
    SELECT
        hooks.process_id,
        hooks.step,
        NULL::VARCHAR AS tensor,
        nullif(dims, '') AS dims,
        CASE WHEN on_device.process_id IS NULL THEN hooks.end_ns ELSE made_ns END AS ready_ns,
        CASE WHEN on_device.process_id IS NULL THEN 'host' ELSE 'device' END AS origin,
        hooks.start_ns AS in_order
    FROM hooks
    ASOF LEFT JOIN gradient_made
        ON hooks.process_id = gradient_made.process_id
        AND hooks.thread_id = gradient_made.thread_id
        AND hooks.end_ns >= gradient_made.called_ns
    LEFT JOIN on_device ON hooks.process_id = on_device.process_id
),

fused AS (
    SELECT collective_id, process_id, step, bounded(start_ns) AS start_ns, unnest(tensors) AS tensor
    FROM collectives
    WHERE evidence = 'timeline' AND kind = 'all_reduce' AND step IS NOT NULL
),

ticks AS (
    SELECT collective_id, tensor, bounded(max(ready_ns)) AS ready_ns, count(*) AS ranks
    FROM arrivals
    GROUP BY collective_id, tensor
),

negotiations AS (
    SELECT process_id, domain AS tensor, bounded(start_ns) AS start_ns
    FROM host_ops
    WHERE name = 'NEGOTIATE_ALLREDUCE'
),

shapes AS (
    SELECT process_id, domain AS tensor, any_value(regexp_extract(input_dims, '^\s*\[\s*(\[[\d,\s]*\])', 1)) AS dims
    FROM host_ops
    WHERE name = 'ALLREDUCE' AND input_dims IS NOT NULL
    GROUP BY process_id, domain
),

negotiated AS (
    SELECT
        fused.process_id,
        fused.step,
        fused.tensor,
        nullif(shapes.dims, '') AS dims,
        CASE WHEN ticks.ranks > 1 THEN ticks.ready_ns ELSE negotiations.start_ns END AS ready_ns,
        CASE WHEN ticks.ranks > 1 THEN 'ticks' ELSE 'negotiation' END AS origin,
        coalesce(negotiations.start_ns, fused.start_ns) AS in_order
    FROM fused
    ASOF LEFT JOIN negotiations
        ON fused.process_id = negotiations.process_id
        AND fused.tensor = negotiations.tensor
        AND fused.start_ns >= negotiations.start_ns
    LEFT JOIN ticks ON fused.collective_id = ticks.collective_id AND fused.tensor = ticks.tensor
    LEFT JOIN shapes ON fused.process_id = shapes.process_id AND fused.tensor = shapes.tensor
),

found AS (
    SELECT * FROM autograd
    UNION ALL BY NAME
    SELECT * FROM negotiated
)

SELECT
    found.process_id,
    processes.rank,
    found.step,
    coalesce(step_times.steady, true) AS steady,
    tensor,
    dims,
    CASE
        WHEN dims IS NOT NULL
            THEN TRY_CAST(coalesce(list_product(regexp_extract_all(dims, '\d+')::DOUBLE[]), 1) AS BIGINT)
    END AS elements,
    ready_ns,
    origin
FROM found
JOIN processes ON found.process_id = processes.process_id
LEFT JOIN step_times ON found.process_id = step_times.process_id AND found.step = step_times.step
ORDER BY found.process_id, found.step, in_order, ready_ns
