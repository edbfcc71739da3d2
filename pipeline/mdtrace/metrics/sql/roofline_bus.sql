-- purpose: The size-dependent roof of collectives: transfer time against bytes gives the time of an empty message (alpha) and
--   the bus bandwidth of an endless one, busbw(S) = k S / (alpha + k S / beta). One point for each size: the median
--   transfer, or the shortest duration where ranks were not matched; fitted for least relative error.
-- grain: one row per operation and size of the group
-- reads: collective_transfers
-- filter: rank inside
-- filter: step inside
-- column: kind VARCHAR Operation.
-- column: group_size INTEGER Ranks that take part.
-- column: sizes BIGINT Sizes of payload, the points of the fit.
-- column: count BIGINT Collectives behind them.
-- column: basis VARCHAR transfer, own (durations that may hold waiting) or both.
-- column: k DOUBLE Bytes on the wire over payload.
-- column: alpha_ns DOUBLE [ns] Time of an empty message; NULL: fewer than 3 sizes, or time does not grow with size
-- column: beta_bytes_per_s DOUBLE [byte/s] Bus bandwidth of an endless message; NULL: fewer than 3 sizes, or time does not grow with size
-- column: error DOUBLE [share] Root mean square relative error of the fit; NULL: no fit
-- column: best_bytes_per_s DOUBLE [byte/s] Best bus bandwidth measured.
WITH points AS (
    SELECT
        kind,
        group_size,
        payload_bytes AS bytes,
        count(*) AS count,
        bool_or(time_basis = 'transfer') AS matched,
        bool_or(time_basis = 'own') AS unmatched,
        max(busbw_gb_s) AS best,
        any_value(busbw_gb_s / algbw_gb_s) AS k,
        coalesce(median(time_ns) FILTER (time_basis = 'transfer'), min(time_ns)) AS t
    FROM collective_transfers
    WHERE busbw_gb_s > 0 AND wanted_rank(rank) AND wanted_step(step)
    GROUP BY kind, group_size, payload_bytes
),

-- Least squares of (alpha + slope b - t) / t.
sums AS (
    SELECT
        kind,
        group_size,
        count(*) AS sizes,
        sum(count) AS count,
        CASE WHEN NOT bool_or(unmatched) THEN 'transfer' WHEN NOT bool_or(matched) THEN 'own' ELSE 'both' END AS basis,
        any_value(k) AS k,
        max(best) AS best,
        sum(1 / t / t) AS w,
        sum(bytes / t / t) AS wb,
        sum(bytes / t * bytes / t) AS wbb,
        sum(1 / t) AS wt,
        sum(bytes / t) AS wbt
    FROM points
    GROUP BY kind, group_size
),

solved AS (
    SELECT
        *,
        (wbb * wt - wb * wbt) / nullif(w * wbb - wb * wb, 0) AS alpha,
        (w * wbt - wb * wt) / nullif(w * wbb - wb * wb, 0) AS slope
    FROM sums
),

-- A negative alpha means none: the line through the origin.
fitted AS (
    SELECT
        * REPLACE (
            CASE WHEN sizes >= 3 THEN greatest(alpha, 0) END AS alpha,
            CASE WHEN sizes >= 3 THEN CASE WHEN alpha < 0 THEN wbt / wbb ELSE slope END END AS slope
        )
    FROM solved
),

judged AS (
    SELECT fitted.kind, fitted.group_size, sqrt(avg(power((alpha + slope * bytes) / t - 1, 2))) AS error
    FROM fitted
    INNER JOIN points ON fitted.kind = points.kind AND fitted.group_size = points.group_size
    GROUP BY fitted.kind, fitted.group_size
)

SELECT
    fitted.kind,
    fitted.group_size,
    sizes,
    count::BIGINT AS count,
    basis,
    k,
    CASE WHEN slope > 0 THEN alpha END AS alpha_ns,
    CASE WHEN slope > 0 THEN k / slope * 1e9 END AS beta_bytes_per_s,
    CASE WHEN slope > 0 THEN error END AS error,
    best * 1e9 AS best_bytes_per_s
FROM fitted
LEFT JOIN judged ON fitted.kind = judged.kind AND fitted.group_size = judged.group_size
ORDER BY fitted.kind, fitted.group_size
