-- purpose: Each collective with its bytes on the wire (k times the payload, k as in busbw), its waiting and transfer, the part
--   of it that no compute hides, and the nodes it spans. Ranks are taken to fill nodes in order.
-- grain: one row per process and collective
-- reads: collective_transfers, collectives, device_ops, host_ops, arrival_skew, device_segments, host_segments,
--   host_accounted, roofline_hosts, roofline_layers, step_times
-- filter: rank rows
-- filter: step rows
-- filter: layer rows
-- column: collective_id BIGINT Collective.
-- column: process_id INTEGER Capture.
-- column: rank INTEGER Rank of the capture; NULL: unknown
-- column: step BIGINT Step; NULL: outside every step, or no steps
-- column: counts BOOLEAN Of a step that counts in steady-state figures, or of a capture without steps.
-- column: layer VARCHAR Layer that calls it; NULL: none, as for gradient buckets, or not known
-- column: phase VARCHAR forward, backward or optimizer; NULL: not known
-- column: kind VARCHAR Operation.
-- column: group_size INTEGER Ranks that take part; NULL: nothing says
-- column: elements BIGINT Elements of its input; NULL: not recorded
-- column: payload_bytes BIGINT [byte] Payload; NULL: unknown
-- column: wire_bytes DOUBLE [byte] Bytes that each rank puts on the wire; NULL: payload, group size or operation unknown
-- column: start_ns BIGINT [ns] Start.
-- column: own_ns BIGINT [ns] Duration, waiting included; NULL: never closed
-- column: hidden_ns BIGINT [ns] Of that, time in which compute runs; NULL: never closed
-- column: wait_ns BIGINT [ns] Time until the last rank came; NULL: ranks not matched
-- column: time_ns BIGINT [ns] Time of the transfer where ranks were matched, else its own; NULL: never closed, or a range
-- column: one_node BOOLEAN Its ranks share a node; NULL: its ranks are not recorded, and the job has several nodes
-- column: ranks_per_node BIGINT The most of its ranks on one node; NULL: its ranks are not recorded
WITH placed AS (
    SELECT
        collective_id,
        group_ranks,
        list_transform(group_ranks, lambda r: r // ranks_per_host) AS of_nodes,
        nodes
    FROM collectives
    LEFT JOIN roofline_hosts USING (process_id)
),

spread AS (
    SELECT
        collective_id,
        nodes = 1 OR len(list_distinct(of_nodes)) = 1 AS one_node,
        CASE
            WHEN len(of_nodes) > 0 THEN list_max(list_transform(of_nodes, lambda n: len(list_filter(of_nodes, lambda m: m = n))))
        END AS here
    FROM placed
),

waits AS (
    SELECT instance_id, process_id, rank, max(wait_ns) AS wait_ns
    FROM arrival_skew
    WHERE synchronising
    GROUP BY instance_id, process_id, rank
),

marked AS (SELECT DISTINCT process_id FROM step_times),

known AS (
    SELECT
        transfers.*,
        coalesce(device_ops.device_id, collectives.device_id) AS device_id,
        collectives.elements_in AS elements,
        bounded(collectives.end_ns) - bounded(collectives.start_ns) AS own_ns,
        coalesce(device_ops.layer_id, CASE WHEN device_ops.device_op_id IS NULL THEN host_ops.layer_id END) AS layer_id,
        coalesce(device_ops.phase, host_ops.phase) AS phase,
        waits.wait_ns,
        CASE
            WHEN transfers.kind = 'all_reduce' THEN 2.0 * (transfers.group_size - 1) / transfers.group_size
            WHEN transfers.kind IN ('all_gather', 'reduce_scatter', 'all_to_all', 'gather', 'scatter')
                THEN (transfers.group_size - 1) / transfers.group_size
            WHEN transfers.kind IN ('broadcast', 'reduce', 'send', 'recv', 'send_recv') THEN 1
            WHEN transfers.kind = 'barrier' THEN 0
        END AS k
    FROM collective_transfers AS transfers
    INNER JOIN collectives ON transfers.collective_id = collectives.collective_id
    LEFT JOIN device_ops ON collectives.device_op_id = device_ops.device_op_id
    LEFT JOIN host_ops ON collectives.host_op_id = host_ops.host_op_id
    LEFT JOIN waits
        ON collectives.instance_id = waits.instance_id
        AND collectives.process_id = waits.process_id
        AND collectives.rank IS NOT DISTINCT FROM waits.rank
),

-- How much compute the device has done until a time, as in layer_breakdown.
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
        collective_id,
        process_id,
        CASE WHEN process_id IN (SELECT process_id FROM host_accounted) THEN -2 ELSE coalesce(device_id, -1) END AS device,
        unnest([bounded(start_ns), bounded(start_ns) + own_ns]) AS at_ns,
        unnest([-1, 1]) AS sign
    FROM known
    WHERE own_ns > 0
),

hidden AS (
    SELECT collective_id, sum(sign * (done_ns + least(at_ns - start_ns, compute_ns))) AS hidden_ns
    FROM ends
    ASOF JOIN done ON ends.process_id = done.process_id AND ends.device = done.device AND ends.at_ns >= done.start_ns
    GROUP BY collective_id
)

SELECT
    known.collective_id,
    known.process_id,
    known.rank,
    known.step,
    CASE
        WHEN step_is_filtered() THEN wanted_step(known.step)
        WHEN marked.process_id IS NULL THEN true
        ELSE known.step IS NOT NULL AND coalesce(steady, true)
    END AS counts,
    roofline_layers.layer,
    phase,
    kind,
    group_size,
    elements,
    payload_bytes,
    payload_bytes * k AS wire_bytes,
    known.start_ns,
    own_ns,
    CASE WHEN own_ns IS NOT NULL THEN least(greatest(coalesce(hidden_ns, 0), 0), own_ns)::BIGINT END AS hidden_ns,
    CASE WHEN wait_ns IS NOT NULL THEN least(wait_ns, own_ns) END AS wait_ns,
    time_ns,
    one_node,
    here AS ranks_per_node
FROM known
LEFT JOIN spread ON known.collective_id = spread.collective_id
LEFT JOIN hidden ON known.collective_id = hidden.collective_id
LEFT JOIN step_times ON known.process_id = step_times.process_id AND known.step = step_times.step
LEFT JOIN marked ON known.process_id = marked.process_id
LEFT JOIN roofline_layers ON known.layer_id = roofline_layers.layer_id
