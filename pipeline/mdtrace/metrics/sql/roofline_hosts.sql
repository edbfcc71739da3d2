-- purpose: How the ranks of the job lie on nodes, as far as the captures tell: hosts by name, else by the number of
--   devices that a process sees.
-- grain: one row per process
-- reads: processes, devices
-- column: process_id INTEGER Capture.
-- column: nodes BIGINT Nodes of the job.
-- column: ranks_per_host BIGINT Ranks on the capture's node.
-- column: basis VARCHAR host names, devices seen, or assumed (one node).
WITH seen AS (
    SELECT process_id, count(DISTINCT device_id) AS devices
    FROM devices
    GROUP BY process_id
),

sizes AS (
    SELECT
        process_id,
        host,
        devices,
        count(host) OVER () AS named,
        count(DISTINCT host) OVER () AS hosts,
        count(*) OVER (PARTITION BY host) AS here,
        count(*) OVER () AS captures,
        greatest(count(*) OVER (), coalesce(max(world_size) OVER (), 1)) AS ranks
    FROM processes
    LEFT JOIN seen USING (process_id)
)

SELECT
    process_id,
    CASE
        WHEN named = captures AND captures >= ranks THEN hosts
        WHEN devices > 0 AND ranks > devices THEN ceil(ranks / devices)::BIGINT
        WHEN hosts > 1 THEN hosts
        ELSE 1
    END AS nodes,
    CASE
        WHEN named = captures AND captures >= ranks THEN here
        WHEN devices > 0 THEN least(ranks, devices)
        WHEN hosts > 1 THEN here
        ELSE ranks
    END AS ranks_per_host,
    CASE
        WHEN named = captures AND captures >= ranks THEN 'host names'
        WHEN devices > 0 THEN 'devices seen'
        WHEN hosts > 1 THEN 'host names'
        ELSE 'assumed'
    END AS basis
FROM sizes
