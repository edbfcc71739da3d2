-- purpose: Operators whose FLOP or bytes are not known, by the time they take, with the reason.
-- grain: one row per rank, operator and reason
-- reads: cost_rows
-- filter: rank inside
-- filter: step inside
-- filter: time starts
-- filter: layer inside
-- column: rank INTEGER Rank; NULL: unknown
-- column: name VARCHAR Operator; NULL: missing in the file
-- column: reason VARCHAR Why FLOP or bytes are not known.
-- column: missing VARCHAR What is not known: FLOP, bytes, or FLOP and bytes.
-- column: calls BIGINT How often it ran.
-- column: device_ns BIGINT [ns] Sum of durations of device activities launched inside; without device activity in the capture, time on the host; NULL: it launched none
-- column: share DOUBLE [share] Of the device_ns of all operators of the rank; NULL: it launched none
WITH every AS (
    SELECT
        rank,
        name,
        reason,
        CASE WHEN flops IS NULL AND bytes IS NULL THEN 'FLOP and bytes' WHEN flops IS NULL THEN 'FLOP' ELSE 'bytes' END
            AS missing,
        device_ns,
        sum(device_ns) OVER (PARTITION BY rank) AS every_ns
    FROM cost_rows
)

SELECT
    rank,
    name,
    reason,
    missing,
    count(*) AS calls,
    least(sum(device_ns), 9223372036854775807)::BIGINT AS device_ns,
    sum(device_ns) / nullif(any_value(every_ns), 0) AS share
FROM every
WHERE reason IS NOT NULL
GROUP BY rank, name, reason, missing
ORDER BY device_ns DESC NULLS LAST, rank, name, reason, missing
