-- purpose: What messages take on the link, for a fit of latency and bandwidth. Of collectives matched across ranks: from the
--   last arrival to the last end, on aligned clocks; of the others, and of timelines: their own duration, in which
--   waiting for late ranks may be. Each once, start-up aside.
-- grain: one row per collective across ranks; per process and collective where it is not matched
-- reads: collectives, instances, collective_instances, processes
-- filter: step rows
-- column: instance_id BIGINT Collective across ranks; NULL: not matched
-- column: process_id INTEGER Capture whose record it is; NULL: of several
-- column: step BIGINT Step; NULL: outside every step, or no steps
-- column: kind VARCHAR Operation.
-- column: group_name VARCHAR Process group; NULL: not recorded
-- column: group_size INTEGER Ranks that take part; NULL: nothing says
-- column: hosts INTEGER Hosts that its ranks are on; NULL: the captures of its ranks are not all there, or name no host
-- column: payload_bytes BIGINT [byte] Payload; NULL: unknown
-- column: start_ns BIGINT [ns] When the transfer could begin.
-- column: end_ns BIGINT [ns] When it was over.
-- column: basis VARCHAR transfer or own.
WITH sized AS (
    SELECT
        collectives.*,
        coalesce(
            collectives.group_size,
            len(collectives.group_ranks),
            instances.group_size,
            CASE WHEN collectives.group_name IS NULL AND collectives.communicator IS NULL THEN processes.world_size END
        )::INTEGER AS n,
        processes.host,
        coalesce(instances.start_up, false) AS start_up
    FROM collectives
    JOIN processes ON collectives.process_id = processes.process_id
    LEFT JOIN instances ON collectives.instance_id = instances.instance_id
    WHERE collectives.evidence <> 'range' AND collectives.end_ns IS NOT NULL
),

matched AS (
    SELECT
        sized.instance_id,
        any_value(sized.kind) AS kind,
        any_value(coalesce(sized.group_name, sized.communicator)) AS group_name,
        max(sized.n) AS group_size,
        CASE WHEN count(sized.host) = max(sized.n) THEN count(DISTINCT sized.host) END::INTEGER AS hosts,
        max(sized.payload_bytes) AS payload_bytes
    FROM sized
    WHERE sized.evidence <> 'timeline' AND sized.instance_id IS NOT NULL
    GROUP BY sized.instance_id
)

SELECT
    matched.instance_id,
    NULL::INTEGER AS process_id,
    collective_instances.step,
    matched.kind,
    matched.group_name,
    matched.group_size,
    hosts,
    matched.payload_bytes,
    last_arrival_ns AS start_ns,
    last_arrival_ns + transfer_ns AS end_ns,
    'transfer' AS basis
FROM matched
JOIN collective_instances ON matched.instance_id = collective_instances.instance_id
WHERE transfer_ns > 0 AND last_arrival_ns IS NOT NULL AND NOT collective_instances.start_up
    AND NOT coalesce(collective_instances.partial, false)
UNION ALL BY NAME
SELECT
    sized.instance_id,
    sized.process_id,
    sized.step,
    sized.kind,
    coalesce(sized.group_name, sized.communicator) AS group_name,
    sized.n AS group_size,
    NULL::INTEGER AS hosts,
    sized.payload_bytes,
    bounded(sized.start_ns) AS start_ns,
    bounded(sized.end_ns) AS end_ns,
    'own' AS basis
FROM sized
LEFT JOIN collective_instances ON sized.instance_id = collective_instances.instance_id
WHERE sized.end_ns > sized.start_ns AND NOT sized.start_up
    AND (
        sized.evidence = 'timeline'
        OR collective_instances.transfer_ns IS NULL
        OR collective_instances.transfer_ns <= 0
        OR coalesce(collective_instances.partial, false)
    )
ORDER BY start_ns
