-- purpose: Communication in each step, summed over captures, by operation, group and message size, as collective_bandwidth sorts it: how often,
--   how long in total, waiting for late ranks included, and how much of the device's time it makes up.
-- grain: one row per step, operation, group, size of group and bucket of payload
-- reads: collectives, compare_activity, device_windows, processes, instances
-- filter: rank inside
-- filter: step rows
-- column: step BIGINT Step: of a kernel, whose window it starts in; NULL: outside every step, or no steps
-- column: kind VARCHAR Operation.
-- column: group_name VARCHAR What the group is for, else its name; NULL: not recorded
-- column: group_size INTEGER Ranks that take part; NULL: nothing says
-- column: bucket_bytes BIGINT [byte] Payload from this up to twice of it; 0: empty; NULL: size unknown
-- column: count BIGINT Collectives that start in the step.
-- column: own_ns BIGINT [ns] Sum of durations; NULL: none was ever closed
-- column: shown_ns BIGINT [ns] Time of the window that no compute hides; NULL: no device kernels
WITH shown AS (
    SELECT
        compare_activity.device_op_id,
        device_windows.step,
        sum(started) AS started,
        sum(own_ns) AS own_ns,
        sum(shown_ns) AS shown_ns
    FROM compare_activity
    LEFT JOIN device_windows
        ON compare_activity.process_id = device_windows.process_id
        AND compare_activity.device_id IS NOT DISTINCT FROM device_windows.device_id
        AND compare_activity.place = device_windows.place
    GROUP BY ALL
),

placed AS (
    SELECT
        collectives.*,
        CASE WHEN collectives.device_op_id IS NULL THEN collectives.step ELSE shown.step END AS own_step,
        CASE WHEN collectives.device_op_id IS NULL THEN 1 ELSE started END AS started,
        CASE
            WHEN collectives.device_op_id IS NOT NULL THEN shown.own_ns
            ELSE greatest(bounded(collectives.end_ns) - bounded(collectives.start_ns), 0)
        END AS spent_ns,
        shown_ns
    FROM collectives
    LEFT JOIN shown ON collectives.device_op_id = shown.device_op_id
    WHERE collectives.device_op_id IS NULL OR shown.device_op_id IS NOT NULL
)

SELECT
    own_step AS step,
    placed.kind,
    coalesce(placed.group_desc, placed.group_name) AS group_name,
    coalesce(
        placed.group_size,
        len(placed.group_ranks),
        instances.group_size,
        CASE WHEN placed.group_name IS NULL AND placed.communicator IS NULL THEN processes.world_size END
    )::INTEGER AS group_size,
    CASE
        WHEN payload_bytes > 0 THEN 1::BIGINT << floor(log2(payload_bytes))::INTEGER
        WHEN payload_bytes = 0 THEN 0
    END AS bucket_bytes,
    sum(started)::BIGINT AS count,
    capped(sum(spent_ns)) AS own_ns,
    capped(sum(shown_ns)) AS shown_ns
FROM placed
LEFT JOIN processes ON placed.process_id = processes.process_id
LEFT JOIN instances ON placed.instance_id = instances.instance_id
WHERE wanted_rank(placed.rank)
GROUP BY ALL
