-- purpose: Which device activities take the most time, by name: kernels, copies, sets and whole graphs. Times are sums of
--   durations: of activities that overlap, each counts in full.
-- grain: one row per class, kind and name
-- reads: device_ops, layers
-- filter: rank inside
-- filter: step inside
-- filter: time starts
-- filter: layer inside
-- column: name VARCHAR Name; NULL: missing in the file
-- column: class VARCHAR compute, communication, memcpy or memset.
-- column: kind VARCHAR kernel, memcpy, memset or graph.
-- column: processes BIGINT Captures in which it occurs.
-- column: count BIGINT How often it runs, exact copies of an event aside.
-- column: total_ns BIGINT [ns] Sum of durations; NULL: none was ever closed
-- column: share DOUBLE [share] Of the sum of all durations; NULL: none was ever closed
-- column: mean_ns DOUBLE [ns] Mean duration; NULL: none was ever closed
-- column: min_ns BIGINT [ns] Shortest; NULL: none was ever closed
-- column: median_ns DOUBLE [ns] Median duration; NULL: none was ever closed
-- column: max_ns BIGINT [ns] Longest; NULL: none was ever closed
-- column: bytes BIGINT [byte] Bytes copied or set; NULL: a kernel, or not recorded
-- column: duplicates BIGINT Exact copies of an event, counted nowhere else.
WITH wanted AS (
    SELECT device_ops.*
    FROM device_ops
    LEFT JOIN layers ON device_ops.layer_id = layers.layer_id
    WHERE
        class <> 'sync'
        AND wanted_rank(device_ops.rank)
        AND wanted_step(step)
        AND wanted_start(device_ops.process_id, start_ns)
        AND wanted_layer(path)
)

SELECT
    name,
    class,
    kind,
    count(DISTINCT process_id) AS processes,
    count(*) FILTER (NOT duplicate) AS count,
    capped(sum(dur_ns) FILTER (NOT duplicate)) AS total_ns,
    sum(dur_ns) FILTER (NOT duplicate) / nullif(sum(sum(dur_ns) FILTER (NOT duplicate)) OVER (), 0) AS share,
    avg(dur_ns) FILTER (NOT duplicate) AS mean_ns,
    min(dur_ns) FILTER (NOT duplicate) AS min_ns,
    median(dur_ns) FILTER (NOT duplicate) AS median_ns,
    max(dur_ns) FILTER (NOT duplicate) AS max_ns,
    capped(sum(bytes) FILTER (NOT duplicate)) AS bytes,
    count(*) FILTER (duplicate) AS duplicates
FROM wanted
GROUP BY name, class, kind
ORDER BY total_ns DESC NULLS LAST, name, class, kind
