-- purpose: Which operators take the most time on the host and what they start on devices, by name.
-- grain: one row per operator name
-- reads: host_ops, device_ops, layers
-- filter: rank inside
-- filter: step inside
-- filter: time starts
-- filter: layer inside
-- column: name VARCHAR Name; NULL: missing in the file
-- column: processes BIGINT Captures in which it occurs.
-- column: count BIGINT How often it runs, exact copies of an event aside.
-- column: total_ns BIGINT [ns] Sum of durations on the host, what is nested inside included; NULL: none was ever closed
-- column: self_ns BIGINT [ns] The same without events directly nested inside; NULL: none was ever closed
-- column: self_share DOUBLE [share] Of the self time of all operators; NULL: none was ever closed
-- column: mean_ns DOUBLE [ns] Mean duration on the host; NULL: none was ever closed
-- column: median_ns DOUBLE [ns] Median duration on the host; NULL: none was ever closed
-- column: max_ns BIGINT [ns] Longest; NULL: none was ever closed
-- column: device_count BIGINT Device activities launched by it directly, not by operators nested inside.
-- column: device_ns BIGINT [ns] Sum of their durations; NULL: it launched none
-- column: duplicates BIGINT Exact copies of an event, counted nowhere else.
WITH nested AS (
    SELECT parent_id AS host_op_id, sum(dur_ns) AS nested_ns
    FROM host_ops
    WHERE parent_id IS NOT NULL AND form = 'nested' AND NOT duplicate
    GROUP BY parent_id
),

launched AS (
    SELECT host_op_id, count(*) AS device_count, sum(dur_ns) AS device_ns
    FROM device_ops
    WHERE host_op_id IS NOT NULL AND class <> 'sync' AND NOT duplicate
    GROUP BY host_op_id
),

operators AS (
    SELECT
        host_ops.name,
        host_ops.process_id,
        duplicate,
        dur_ns,
        dur_ns - least(coalesce(nested_ns, 0), dur_ns) AS own_ns,
        device_count,
        device_ns
    FROM host_ops
    LEFT JOIN nested ON host_ops.host_op_id = nested.host_op_id
    LEFT JOIN launched ON host_ops.host_op_id = launched.host_op_id
    LEFT JOIN layers ON host_ops.layer_id = layers.layer_id
    WHERE
        kind = 'operator'
        AND wanted_rank(host_ops.rank)
        AND wanted_step(step)
        AND wanted_start(host_ops.process_id, start_ns)
        AND wanted_layer(path)
)

SELECT
    name,
    count(DISTINCT process_id) AS processes,
    count(*) FILTER (NOT duplicate) AS count,
    capped(sum(dur_ns) FILTER (NOT duplicate)) AS total_ns,
    capped(sum(own_ns) FILTER (NOT duplicate)) AS self_ns,
    sum(own_ns) FILTER (NOT duplicate) / nullif(sum(sum(own_ns) FILTER (NOT duplicate)) OVER (), 0) AS self_share,
    avg(dur_ns) FILTER (NOT duplicate) AS mean_ns,
    median(dur_ns) FILTER (NOT duplicate) AS median_ns,
    max(dur_ns) FILTER (NOT duplicate) AS max_ns,
    coalesce(sum(device_count), 0)::BIGINT AS device_count,
    capped(sum(device_ns)) AS device_ns,
    count(*) FILTER (duplicate) AS duplicates
FROM operators
GROUP BY name
ORDER BY self_ns DESC NULLS LAST, name
