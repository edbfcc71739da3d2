-- purpose: Which layers' bytes each collective carries. A collective that a layer calls is that layer's. Gradient buckets go to
--   the layers whose gradients fill them: gradients in the order in which they are accumulated, by elements, where
--   the bucket begins and ends with one of them; else the bucket stays one. A Horovod operation of a single tensor
--   is of the tensor's module.
-- grain: one row per collective and layer
-- reads: roofline_collectives, host_ops, collectives, roofline_layers
-- filter: rank rows
-- filter: step rows
-- filter: layer rows
-- column: collective_id BIGINT Collective.
-- column: process_id INTEGER Capture.
-- column: rank INTEGER Rank of the capture; NULL: unknown
-- column: step BIGINT Step; NULL: outside every step, or no steps
-- column: counts BOOLEAN Of a step that counts in steady-state figures, or of a capture without steps.
-- column: layer VARCHAR Path of the layer; NULL: a bucket or operation of no known layer
-- column: phase VARCHAR Phase in which the layer's bytes come up; NULL: not known
-- column: share DOUBLE [share] Of the collective.
-- column: basis VARCHAR own: called by the layer; gradients: shared out by elements; tensor: by the tensor's name; NULL: stays a bucket
-- column: wire_bytes DOUBLE [byte] Of the whole collective; NULL: unknown
-- column: own_ns BIGINT [ns] Of the whole collective; NULL: never closed
-- column: hidden_ns BIGINT [ns] Of the whole collective; NULL: never closed
-- column: wait_ns BIGINT [ns] Of the whole collective; NULL: ranks not matched
-- column: one_node BOOLEAN As in roofline_collectives; NULL: not known
-- column: ranks_per_node BIGINT As in roofline_collectives; NULL: not known
WITH every AS MATERIALIZED (
    FROM roofline_collectives
),

gradients AS (
    SELECT
        host_ops.process_id,
        host_ops.step,
        host_ops.start_ns,
        host_op_id,
        roofline_layers.layer,
        CASE
            WHEN starts_with(input_dims, '[[]') THEN 1
            ELSE list_product(
                list_transform(
                    string_split(regexp_extract(input_dims, '^\[\[([0-9, ]+)\]', 1), ','), lambda d: try_cast(d AS BIGINT)
                )
            )
        END AS elements
    FROM host_ops
    LEFT JOIN roofline_layers ON host_ops.layer_id = roofline_layers.layer_id
    WHERE name = 'torch::autograd::AccumulateGrad' AND NOT duplicate
),

-- Gradients one after the other, as stretches of a line; only where all sizes of the step are known.
filled AS (
    SELECT
        *,
        sum(elements) OVER (PARTITION BY process_id, step ORDER BY start_ns, host_op_id) - elements AS from_element,
        sum(elements) OVER (PARTITION BY process_id, step ORDER BY start_ns, host_op_id) AS to_element,
        min(start_ns) OVER (PARTITION BY process_id, step) AS first_ns
    FROM gradients
    QUALIFY bool_and(elements > 0) OVER (PARTITION BY process_id, step)
),

firsts AS (
    SELECT DISTINCT process_id, step, first_ns
    FROM filled
),

-- The buckets on the same line.
buckets AS (
    SELECT
        collective_id,
        every.process_id,
        every.step,
        sum(elements) OVER (PARTITION BY every.process_id, every.step ORDER BY start_ns, collective_id) - elements AS from_element,
        sum(elements) OVER (PARTITION BY every.process_id, every.step ORDER BY start_ns, collective_id) AS to_element
    FROM every
    INNER JOIN firsts ON every.process_id = firsts.process_id AND every.step IS NOT DISTINCT FROM firsts.step
    WHERE
        kind IN ('all_reduce', 'reduce_scatter')
        AND layer IS NULL
        AND coalesce(phase, 'backward') = 'backward'
        AND start_ns >= first_ns
        AND elements > 0
),

met AS (
    SELECT
        buckets.collective_id,
        layer,
        filled.from_element,
        filled.to_element,
        buckets.to_element - buckets.from_element AS whole,
        least(filled.to_element, buckets.to_element) - greatest(filled.from_element, buckets.from_element) AS elements,
        min(filled.from_element) OVER of_bucket = buckets.from_element
            AND max(filled.to_element) OVER of_bucket = buckets.to_element
            AND bool_and(layer IS NOT NULL) OVER of_bucket AS exact
    FROM buckets
    INNER JOIN filled
        ON buckets.process_id = filled.process_id
        AND buckets.step IS NOT DISTINCT FROM filled.step
        AND filled.to_element > buckets.from_element
        AND filled.from_element < buckets.to_element
    WINDOW of_bucket AS (PARTITION BY buckets.collective_id)
),

shared AS (
    SELECT collective_id, layer, sum(elements) / any_value(whole) AS share
    FROM met
    WHERE exact
    GROUP BY collective_id, layer
),

tensors AS (
    SELECT collective_id, regexp_replace(tensors[1], '[./](weight|bias|kernel|gamma|beta)(_\d+)?$', '') AS layer
    FROM collectives
    WHERE evidence = 'timeline' AND len(tensors) = 1 AND tensors[1] <> ''
)

SELECT
    every.collective_id,
    every.process_id,
    every.rank,
    every.step,
    every.counts,
    coalesce(every.layer, shared.layer, tensors.layer) AS layer,
    CASE WHEN every.layer IS NULL AND shared.layer IS NOT NULL THEN 'backward' ELSE every.phase END AS phase,
    coalesce(shared.share, 1) AS share,
    CASE
        WHEN every.layer IS NOT NULL THEN 'own'
        WHEN shared.layer IS NOT NULL THEN 'gradients'
        WHEN tensors.layer IS NOT NULL THEN 'tensor'
    END AS basis,
    wire_bytes,
    own_ns,
    hidden_ns,
    wait_ns,
    one_node,
    ranks_per_node
FROM every
LEFT JOIN shared ON every.collective_id = shared.collective_id
LEFT JOIN tensors ON every.collective_id = tensors.collective_id AND every.layer IS NULL
