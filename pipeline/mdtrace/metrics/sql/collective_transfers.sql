-- purpose: Bytes, time and bandwidth of every collective, as nccl-tests defines them: algbw = payload over time, busbw =
--   algbw times a factor that makes it comparable with the speed of a link: all-reduce 2(n-1)/n; all-gather,
--   reduce-scatter, all-to-all, gather, scatter (n-1)/n; the others 1. Time is the transfer, after the last rank
--   has arrived, where ranks were matched; else the collective's own duration, which waiting for others may be in.
-- grain: one row per process and collective
-- reads: collectives, processes, instances, arrival_skew
-- filter: rank rows
-- filter: step rows
-- filter: time starts
-- column: collective_id BIGINT Collective.
-- column: process_id INTEGER Capture.
-- column: rank INTEGER Rank of the capture; NULL: unknown
-- column: step BIGINT Step; NULL: outside every step, or no steps
-- column: kind VARCHAR Operation.
-- column: group_name VARCHAR Process group; NULL: not recorded
-- column: group_desc VARCHAR What the group is for; NULL: not recorded
-- column: group_size INTEGER Ranks that take part; NULL: nothing says
-- column: evidence VARCHAR What stands for it in the file.
-- column: start_ns BIGINT [ns] Start.
-- column: payload_bytes BIGINT [byte] Payload; NULL: elements or type unknown
-- column: time_ns BIGINT [ns] Time that the bandwidth is of; NULL: never closed, or a range, which has no transfer time
-- column: time_basis VARCHAR transfer or own; NULL: no time
-- column: algbw_gb_s DOUBLE [GB/s] Payload over time; NULL: bytes or time unknown, or none
-- column: busbw_gb_s DOUBLE [GB/s] Bus bandwidth; NULL: algbw or the group's size is unknown, or the operation is
WITH sized AS (
    SELECT
        collectives.*,
        coalesce(
            collectives.group_size,
            len(collectives.group_ranks),
            instances.group_size,
            CASE WHEN collectives.group_name IS NULL AND collectives.communicator IS NULL THEN processes.world_size END
        )::INTEGER AS n,
        bounded(collectives.end_ns) - bounded(collectives.start_ns) AS own_ns
    FROM collectives
    LEFT JOIN processes ON collectives.process_id = processes.process_id
    LEFT JOIN instances ON collectives.instance_id = instances.instance_id
),

matched AS (
    SELECT instance_id, process_id, rank, max(transfer_ns) AS transfer_ns
    FROM arrival_skew
    WHERE tensor IS NULL AND present > 1 AND transfer_ns > 0
    GROUP BY instance_id, process_id, rank
),

timed AS (
    SELECT
        sized.*,
        CASE
            WHEN evidence = 'range' THEN NULL
            WHEN transfer_ns IS NOT NULL AND evidence <> 'timeline' THEN transfer_ns
            WHEN own_ns > 0 THEN own_ns
        END AS time_ns,
        CASE
            WHEN evidence = 'range' THEN NULL
            WHEN transfer_ns IS NOT NULL AND evidence <> 'timeline' THEN 'transfer'
            WHEN own_ns > 0 THEN 'own'
        END AS time_basis
    FROM sized
    LEFT JOIN matched
        ON sized.instance_id = matched.instance_id
        AND sized.process_id = matched.process_id
        AND sized.rank = matched.rank
)

SELECT
    collective_id,
    process_id,
    rank,
    step,
    kind,
    group_name,
    group_desc,
    n AS group_size,
    evidence,
    start_ns,
    payload_bytes,
    time_ns,
    time_basis,
    nullif(payload_bytes, 0) / time_ns AS algbw_gb_s,
    nullif(payload_bytes, 0) / time_ns * CASE
        WHEN kind = 'all_reduce' THEN 2.0 * (n - 1) / n
        WHEN kind IN ('all_gather', 'reduce_scatter', 'all_to_all', 'gather', 'scatter') THEN (n - 1) / n
        WHEN kind IN ('broadcast', 'reduce', 'send', 'recv', 'send_recv') THEN 1
    END AS busbw_gb_s
FROM timed
WHERE wanted_start(process_id, start_ns)
