-- purpose: Bytes of device memory moved as sampled by hardware counters against bytes of the models. Sampled: share of the
--   peak bandwidth for reads and writes, each sample held to the next one. The models leave out what has no cost,
--   and what caches save; so the ratio says how far they are from the traffic in truth.
-- grain: one row per process
-- reads: counters, devices, cost_rows
-- filter: rank rows
-- column: process_id INTEGER Capture.
-- column: rank INTEGER Rank of the capture; NULL: unknown
-- column: sampled_read_bytes DOUBLE [byte] Read; NULL: reads were not sampled, or the peak bandwidth is not stated
-- column: sampled_write_bytes DOUBLE [byte] Written; NULL: writes were not sampled, or the peak bandwidth is not stated
-- column: model_bytes BIGINT [byte] Bytes of all operators with device work that have a cost; NULL: none has
-- column: ratio DOUBLE [ratio] model_bytes over sampled bytes; NULL: one of them is not known
WITH samples AS (
    SELECT
        counters.process_id,
        counters.rank,
        regexp_matches(counters.name, '(?i)write') AS writes,
        least(greatest(value, 0), 100) / 100 * memory_bandwidth_bytes_per_s * (
            lead(bounded(time_ns)) OVER (
                PARTITION BY counters.process_id, counters.device_id, counters.name ORDER BY time_ns
            ) - bounded(time_ns)
        ) / 1e9 AS bytes
    FROM counters
    INNER JOIN devices
        ON counters.process_id = devices.process_id AND counters.device_id = devices.device_id
    WHERE
        counters.kind = 'gpu_metric'
        AND counters.unit = '%'
        AND regexp_matches(counters.name, '(?i)dram.*(read|write)')
),

sampled AS (
    SELECT
        process_id,
        any_value(rank) AS rank,
        sum(bytes) FILTER (NOT writes) AS sampled_read_bytes,
        sum(bytes) FILTER (writes) AS sampled_write_bytes
    FROM samples
    GROUP BY process_id
),

modelled AS (
    SELECT process_id, least(sum(bytes), 9223372036854775807)::BIGINT AS model_bytes
    FROM cost_rows
    WHERE device_count > 0
    GROUP BY process_id
)

SELECT
    sampled.process_id,
    rank,
    sampled_read_bytes,
    sampled_write_bytes,
    model_bytes,
    model_bytes / nullif(sampled_read_bytes + sampled_write_bytes, 0) AS ratio
FROM sampled
LEFT JOIN modelled ON sampled.process_id = modelled.process_id
ORDER BY sampled.process_id
