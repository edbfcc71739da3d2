-- purpose: Compute and communication of each layer, and how much of that communication no compute of the device hides.
--   A layer has the activities launched by its own operators, not those of layers inside it; communication
--   that no layer launched, such as gradient buckets, stands in the row without a layer.
-- grain: one row per process, device and layer, and one for what has no layer
-- reads: device_ops, device_segments, host_work, host_segments, layers
-- filter: rank rows
-- filter: step inside
-- filter: time clips
-- filter: layer rows
-- column: process_id INTEGER Capture.
-- column: rank INTEGER Rank of the capture; NULL: unknown
-- column: device_id INTEGER The process's own device ordinal; NULL: accounted from host records, or the activity names none
-- column: layer_id BIGINT Layer; NULL: of no layer, or not known
-- column: layer VARCHAR Path of the layer; NULL: of no layer, or not known
-- column: origin VARCHAR What named the layer; NULL: of no layer, or not known
-- column: compute_ns BIGINT [ns] Time in which compute of the layer runs, overlaps counted once.
-- column: comm_ns BIGINT [ns] Time in which communication of the layer runs, overlaps counted once.
-- column: overlap_ns BIGINT [ns] Of that, time in which any compute of the device runs; NULL: there is no communication
-- column: exposed_comm_ns BIGINT [ns] The rest of it.
-- column: overlap_ratio DOUBLE [share] Overlap as a share of the layer's communication; NULL: there is no communication
-- column: compute_share DOUBLE [share] Of the device's compute, summed over layers; NULL: nothing computes
WITH work AS (
    SELECT
        process_id,
        rank,
        device_id,
        layer_id,
        step,
        class,
        bounded(start_ns) AS start_ns,
        bounded(bounded(start_ns) + bounded(greatest(dur_ns, 0))) AS end_ns
    FROM device_ops
    WHERE class IN ('compute', 'communication') AND dur_ns IS NOT NULL
    UNION ALL BY NAME
    SELECT process_id, rank, layer_id, step, class, start_ns, end_ns FROM host_work
),

-- What each activity adds to the union of its layer's: disjoint stretches.
seen AS (
    SELECT
        *,
        max(end_ns) OVER (
            PARTITION BY process_id, device_id, layer_id, class
            ORDER BY start_ns
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS seen_ns
    FROM work
    WHERE wanted_step(step)
),

added AS (
    SELECT
        process_id,
        rank,
        device_id,
        layer_id,
        class,
        clip_time(process_id, greatest(start_ns, seen_ns)) AS from_ns,
        clip_time(process_id, greatest(end_ns, seen_ns)) AS to_ns
    FROM seen
),

-- How much compute the device has done until a time: computed at the start of its piece, plus the part of the piece.
pieces AS (
    SELECT process_id, coalesce(device_id, -1) AS device, start_ns, next_ns, compute_ns FROM device_segments
    UNION ALL
    SELECT process_id, -2, start_ns, next_ns, compute_ns FROM host_segments
),

done AS (
    SELECT
        process_id,
        device,
        start_ns,
        compute_ns,
        coalesce(
            sum(compute_ns) OVER (
                PARTITION BY process_id, device ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ),
            0
        )::BIGINT AS done_ns
    FROM pieces
    WHERE next_ns > start_ns
),

ends AS (
    SELECT
        added.process_id,
        device_id,
        layer_id,
        CASE WHEN added.process_id IN (SELECT process_id FROM host_work) THEN -2 ELSE coalesce(device_id, -1) END AS device,
        unnest([from_ns, to_ns]) AS at_ns,
        unnest([-1, 1]) AS sign
    FROM added
    WHERE class = 'communication' AND to_ns > from_ns
),

hidden AS (
    SELECT
        ends.process_id,
        ends.device_id,
        ends.layer_id,
        sum(sign * (done_ns + least(at_ns - start_ns, compute_ns))) AS overlap
    FROM ends
    ASOF JOIN done ON ends.process_id = done.process_id AND ends.device = done.device AND ends.at_ns >= done.start_ns
    GROUP BY ends.process_id, ends.device_id, ends.layer_id
),

sums AS (
    SELECT
        process_id,
        rank,
        device_id,
        layer_id,
        coalesce(sum(to_ns - from_ns) FILTER (class = 'compute'), 0)::BIGINT AS compute,
        coalesce(sum(to_ns - from_ns) FILTER (class = 'communication'), 0)::BIGINT AS comm
    FROM added
    GROUP BY process_id, rank, device_id, layer_id
)

SELECT
    sums.process_id,
    sums.rank,
    sums.device_id,
    sums.layer_id,
    layers.path AS layer,
    layers.origin,
    compute AS compute_ns,
    comm AS comm_ns,
    CASE WHEN comm > 0 THEN overlap::BIGINT END AS overlap_ns,
    (comm - coalesce(overlap, 0))::BIGINT AS exposed_comm_ns,
    CASE WHEN comm > 0 THEN overlap / comm END AS overlap_ratio,
    compute / nullif(sum(compute) OVER (PARTITION BY sums.process_id, sums.device_id), 0) AS compute_share
FROM sums
LEFT JOIN hidden
    ON sums.process_id = hidden.process_id
    AND sums.device_id IS NOT DISTINCT FROM hidden.device_id
    AND sums.layer_id IS NOT DISTINCT FROM hidden.layer_id
LEFT JOIN layers ON sums.layer_id = layers.layer_id
ORDER BY sums.rank NULLS LAST, sums.process_id, sums.device_id NULLS LAST, compute_ns::DOUBLE + comm_ns DESC, layer, sums.layer_id
