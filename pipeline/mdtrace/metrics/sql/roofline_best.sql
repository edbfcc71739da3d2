-- purpose: The best rates achieved in the data: FLOP/s by unit and element type, memory and bus bandwidth. Operators of
--   less than 10 µs say little, and stand in only where there are no others.
-- grain: one row per roof, unit and element type
-- reads: roofline_operators, collective_transfers
-- column: roof VARCHAR compute, memory or bus.
-- column: unit VARCHAR matrix or vector; NULL: no compute roof
-- column: dtype VARCHAR Element type; NULL: no compute roof
-- column: per_s DOUBLE [FLOP/s or byte/s] Best rate achieved.
-- column: source VARCHAR What achieved it.
WITH rated AS (
    SELECT
        unit,
        dtype,
        name,
        rank,
        time_ns >= 10000 AS long,
        flops / time_ns * 1e9 AS flops_per_s,
        bytes / time_ns * 1e9 AS bytes_per_s
    FROM roofline_operators
    WHERE time_ns > 0
),

compute AS (
    SELECT
        unit,
        dtype,
        arg_max(name, flops_per_s) AS name,
        max(flops_per_s) AS per_s,
        arg_max(long, long) AS long
    FROM rated
    WHERE flops_per_s > 0
    GROUP BY unit, dtype, long
    QUALIFY row_number() OVER (PARTITION BY unit, dtype ORDER BY long DESC) = 1
),

memory AS (
    SELECT arg_max(name, bytes_per_s) AS name, max(bytes_per_s) AS per_s, long
    FROM rated
    WHERE bytes_per_s > 0
    GROUP BY long
    QUALIFY row_number() OVER (ORDER BY long DESC) = 1
)

SELECT 'compute' AS roof, unit, dtype, per_s, 'best achieved in the data: ' || name AS source
FROM compute
UNION ALL
SELECT 'memory', NULL, NULL, per_s, 'best achieved in the data: ' || name
FROM memory
UNION ALL
SELECT 'bus', NULL, NULL, max(busbw_gb_s) * 1e9, 'best achieved in the data: ' || arg_max(kind, busbw_gb_s)
FROM collective_transfers
HAVING max(busbw_gb_s) > 0
