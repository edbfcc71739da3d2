-- purpose: What captures without device activity did, as far as it counts in accounts of time. compute: operators
--   that neither are a collective's own nor lie inside one; an operator around a collective counts.
--   communication: the backend's records, and operations of a timeline.
-- grain: one row per operator or record
-- reads: host_accounted, host_ops, collectives
-- filter: rank rows
-- column: process_id INTEGER Capture.
-- column: rank INTEGER Rank of the capture; NULL: unknown
-- column: class VARCHAR compute or communication.
-- column: step BIGINT Step in which it started; NULL: outside every step, or no steps
-- column: layer_id BIGINT Layer of the operator; of a record, of its event; NULL: no layer is known
-- column: start_ns BIGINT [ns] Start.
-- column: end_ns BIGINT [ns] End.
WITH operators AS (
    SELECT
        host_op_id,
        process_id,
        rank,
        thread_id,
        depth,
        step,
        layer_id,
        bounded(start_ns) AS start_ns,
        bounded(bounded(start_ns) + bounded(greatest(dur_ns, 0))) AS end_ns,
        -- Operators that hand a collective to its backend, and the backend's own.
        coalesce(regexp_matches(name, '^(c10d::|gloo:|nccl:|mpi:|ucc:|record_param_comms$)'), false)
            OR host_op_id IN (SELECT host_op_id FROM collectives WHERE host_op_id IS NOT NULL) AS own
    FROM host_ops
    SEMI JOIN host_accounted USING (process_id)
    WHERE kind = 'operator' AND form = 'nested' AND dur_ns IS NOT NULL
),

-- Events of a thread nest: one that starts before the end of an earlier one lies inside it.
nested AS (
    SELECT
        *,
        max(CASE WHEN own THEN end_ns END) OVER (
            PARTITION BY process_id, thread_id
            ORDER BY start_ns, depth
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS own_until
    FROM operators
),

records AS (
    SELECT
        collectives.process_id,
        collectives.rank,
        collectives.step,
        host_ops.layer_id,
        bounded(collectives.start_ns) AS start_ns,
        greatest(bounded(collectives.start_ns), bounded(collectives.end_ns)) AS end_ns
    FROM collectives
    SEMI JOIN host_accounted ON collectives.process_id = host_accounted.process_id
    LEFT JOIN host_ops ON collectives.host_op_id = host_ops.host_op_id
    WHERE collectives.evidence IN ('host record', 'timeline') AND collectives.end_ns IS NOT NULL
)

SELECT process_id, rank, 'compute' AS class, step, layer_id, start_ns, end_ns
FROM nested
WHERE NOT own AND (own_until IS NULL OR start_ns >= own_until)
UNION ALL
SELECT process_id, rank, 'communication', step, layer_id, start_ns, end_ns
FROM records
