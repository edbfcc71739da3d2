-- purpose: Steps as the host marked them, one after the other, and which of them are steady: warm-up is the first
--   step captured, and the steps after it as long as each takes more than warm_up_factor times the median of all
--   but the first. The only step of a capture is steady.
-- grain: one row per process and step
-- reads: steps
-- filter: rank rows
-- filter: step rows
-- parameter: warm_up_factor DOUBLE = 1.5; a step at the start that takes more than this many medians is warm-up
-- column: process_id INTEGER Capture.
-- column: rank INTEGER Rank of the capture; NULL: unknown
-- column: step BIGINT Step.
-- column: start_ns BIGINT [ns] Start on the host.
-- column: end_ns BIGINT [ns] End on the host, at most the start of the next step; NULL: the last step's marker was never closed
-- column: host_ns BIGINT [ns] How long the marker lasts; NULL: it was never closed
-- column: steady BOOLEAN Counts in steady-state figures.
-- column: left_out VARCHAR Why not; NULL: it counts
WITH marked AS (
    SELECT
        process_id,
        rank,
        step,
        bounded(start_ns) AS start_ns,
        CASE WHEN end_ns IS NOT NULL THEN greatest(bounded(start_ns), bounded(end_ns)) END AS end_ns,
        row_number() OVER in_order AS place,
        count(*) OVER (PARTITION BY process_id) AS steps,
        lead(bounded(start_ns)) OVER in_order AS next_ns
    FROM steps
    WINDOW in_order AS (PARTITION BY process_id ORDER BY start_ns, step)
),

timed AS (
    SELECT
        *,
        end_ns - start_ns AS host_ns,
        median(CASE WHEN place > 1 THEN end_ns - start_ns END) OVER (PARTITION BY process_id) AS median_ns
    FROM marked
),

judged AS (
    SELECT
        *,
        steps > 1 AND bool_and(
            place = 1 OR coalesce(host_ns > getvariable('warm_up_factor')::DOUBLE * median_ns, false)
        ) OVER (
            PARTITION BY process_id ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS warm_up
    FROM timed
)

SELECT
    process_id,
    rank,
    step,
    start_ns,
    CASE WHEN end_ns IS NULL OR end_ns > next_ns THEN next_ns ELSE end_ns END AS end_ns,
    host_ns,
    NOT warm_up AS steady,
    CASE WHEN warm_up THEN CASE WHEN place = 1 THEN 'first step captured' ELSE 'slow start' END END AS left_out
FROM judged
ORDER BY rank NULLS LAST, process_id, start_ns
