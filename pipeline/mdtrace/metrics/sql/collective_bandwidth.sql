-- purpose: How fast collectives are, by operation, group and message size. Sizes fall in buckets of powers of two;
--   collectives of unknown size have a row of their own, so that none is left out.
-- grain: one row per operation, group, size of group and bucket of payload
-- reads: collective_transfers
-- filter: rank inside
-- filter: step inside
-- filter: time starts
-- column: kind VARCHAR Operation.
-- column: group_name VARCHAR Process group; NULL: not recorded
-- column: group_desc VARCHAR What the group is for; NULL: not recorded
-- column: group_size INTEGER Ranks that take part; NULL: nothing says
-- column: bucket_bytes BIGINT [byte] Payload from this up to twice of it; 0: empty; NULL: size unknown
-- column: processes BIGINT Captures that recorded them.
-- column: count BIGINT Collectives, each counted in every capture that recorded it.
-- column: unknown_size BIGINT Of them, of unknown size.
-- column: untimed BIGINT Of them, without a time: never closed, or ranges.
-- column: from_transfer BIGINT Of them, timed by the transfer alone; the others' time may hold waiting for late ranks.
-- column: bytes BIGINT [byte] Sum of payloads; NULL: sizes unknown
-- column: time_ns BIGINT [ns] Sum of times; NULL: none is timed
-- column: time_median_ns DOUBLE [ns] Median time; NULL: none is timed
-- column: algbw_min_gb_s DOUBLE [GB/s] Least algorithm bandwidth; NULL: sizes or times unknown
-- column: algbw_median_gb_s DOUBLE [GB/s] Median algorithm bandwidth; NULL: sizes or times unknown
-- column: algbw_max_gb_s DOUBLE [GB/s] Greatest algorithm bandwidth; NULL: sizes or times unknown
-- column: busbw_min_gb_s DOUBLE [GB/s] Least bus bandwidth; NULL: sizes, times or the group's size unknown
-- column: busbw_median_gb_s DOUBLE [GB/s] Median bus bandwidth; NULL: sizes, times or the group's size unknown
-- column: busbw_max_gb_s DOUBLE [GB/s] Greatest bus bandwidth; NULL: sizes, times or the group's size unknown
-- column: of_best DOUBLE [share] Median bus bandwidth over the greatest median of all rows, the limit seen in the data; NULL: bus bandwidth unknown
SELECT
    kind,
    group_name,
    group_desc,
    group_size,
    CASE
        WHEN payload_bytes > 0 THEN 1::BIGINT << floor(log2(payload_bytes))::INTEGER
        WHEN payload_bytes = 0 THEN 0
    END AS bucket_bytes,
    count(DISTINCT process_id) AS processes,
    count(*) AS count,
    count(*) FILTER (payload_bytes IS NULL) AS unknown_size,
    count(*) FILTER (time_ns IS NULL) AS untimed,
    count(*) FILTER (time_basis = 'transfer') AS from_transfer,
    capped(sum(payload_bytes)) AS bytes,
    capped(sum(time_ns)) AS time_ns,
    median(time_ns) AS time_median_ns,
    min(algbw_gb_s) AS algbw_min_gb_s,
    median(algbw_gb_s) AS algbw_median_gb_s,
    max(algbw_gb_s) AS algbw_max_gb_s,
    min(busbw_gb_s) AS busbw_min_gb_s,
    median(busbw_gb_s) AS busbw_median_gb_s,
    max(busbw_gb_s) AS busbw_max_gb_s,
    median(busbw_gb_s) / max(median(busbw_gb_s)) OVER () AS of_best
FROM collective_transfers
WHERE wanted_rank(rank) AND wanted_step(step)
GROUP BY ALL
ORDER BY kind, group_name, group_desc, group_size, bucket_bytes NULLS LAST
