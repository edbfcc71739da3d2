-- purpose: The all-reduces and reduce-scatters of each step that can be buckets of gradients, and when each could have
--   gone: when the compute launched before it by its thread had run.
-- grain: one row per process and collective in a step
-- reads: collectives, device_ops, launches, host_ops, processes, instances, step_times, gradient_made
-- filter: rank rows
-- filter: step rows
-- column: collective_id BIGINT Collective.
-- column: process_id INTEGER Capture.
-- column: rank INTEGER Rank of the capture; NULL: unknown
-- column: step BIGINT Step.
-- column: steady BOOLEAN Counts in steady-state figures.
-- column: kind VARCHAR all_reduce or reduce_scatter.
-- column: group_name VARCHAR Process group; NULL: not recorded
-- column: group_size INTEGER Ranks that take part; NULL: nothing says
-- column: phase VARCHAR Part of the step that launched it; NULL: not known
-- column: evidence VARCHAR What stands for it in the file.
-- column: elements BIGINT Numbers in it; NULL: not recorded
-- column: payload_bytes BIGINT [byte] Payload; NULL: elements or type unknown
-- column: tensors VARCHAR[] Tensors that travel together; NULL: not recorded
-- column: ready_ns BIGINT [ns] When the compute it waits for had run; NULL: no device, or its call is not in the capture
-- column: start_ns BIGINT [ns] Start.
-- column: end_ns BIGINT [ns] End; NULL: never closed
SELECT
    collectives.collective_id,
    collectives.process_id,
    processes.rank,
    collectives.step,
    coalesce(step_times.steady, true) AS steady,
    collectives.kind,
    coalesce(collectives.group_name, collectives.communicator) AS group_name,
    coalesce(
        collectives.group_size,
        len(collectives.group_ranks),
        instances.group_size,
        CASE WHEN collectives.group_name IS NULL AND collectives.communicator IS NULL THEN processes.world_size END
    )::INTEGER AS group_size,
    coalesce(device_ops.phase, host_ops.phase) AS phase,
    collectives.evidence,
    collectives.elements_in AS elements,
    collectives.payload_bytes,
    collectives.tensors,
    gradient_made.made_ns AS ready_ns,
    bounded(collectives.start_ns) AS start_ns,
    CASE
        WHEN collectives.end_ns IS NOT NULL THEN greatest(bounded(collectives.start_ns), bounded(collectives.end_ns))
    END AS end_ns
FROM collectives
JOIN processes ON collectives.process_id = processes.process_id
LEFT JOIN instances ON collectives.instance_id = instances.instance_id
LEFT JOIN host_ops ON collectives.host_op_id = host_ops.host_op_id
LEFT JOIN device_ops ON collectives.device_op_id = device_ops.device_op_id
LEFT JOIN launches ON device_ops.launch_id = launches.launch_id
LEFT JOIN step_times ON collectives.process_id = step_times.process_id AND collectives.step = step_times.step
ASOF LEFT JOIN gradient_made
    ON launches.process_id = gradient_made.process_id
    AND launches.thread_id = gradient_made.thread_id
    AND launches.start_ns >= gradient_made.called_ns
WHERE collectives.kind IN ('all_reduce', 'reduce_scatter') AND collectives.step IS NOT NULL
ORDER BY collectives.process_id, collectives.step, collectives.start_ns, collectives.collective_id
