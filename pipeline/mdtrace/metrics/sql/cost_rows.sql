-- purpose: Operators with their costs and times, and operators that launched device work without a cost. In a capture
--   without device activity the processor is the device: device_ns is the operator's time on the host.
-- grain: one row per row of op_costs
-- reads: op_costs, host_ops, layers, device_ops
-- filter: rank inside
-- filter: step inside
-- filter: time starts
-- filter: layer inside
-- column: host_op_id BIGINT The operator.
-- column: process_id INTEGER Capture.
-- column: rank INTEGER Rank of the capture; NULL: unknown
-- column: step BIGINT Step in which it started; NULL: outside every step, or no steps
-- column: layer_id BIGINT Layer; NULL: no layer is known
-- column: phase VARCHAR forward, backward or optimizer; NULL: not known
-- column: name VARCHAR Operator; NULL: missing in the file
-- column: input_dims VARCHAR Shapes of its inputs, JSON without spaces; NULL: not recorded
-- column: model VARCHAR Model that gave the cost, or could not; NULL: no model for the operator
-- column: dtype VARCHAR Element type of the arithmetic; NULL: not known, or no arithmetic
-- column: reason VARCHAR Why flops or bytes is NULL; NULL: both are known
-- column: flops BIGINT [FLOP] Work of the operator and all inside it; NULL: not known
-- column: bytes BIGINT [byte] Inputs read once, outputs written once; NULL: not known
-- column: profiler_flops BIGINT [FLOP] The same as the profiler states it; NULL: not recorded
-- column: device_count BIGINT Device activities launched inside.
-- column: device_ns BIGINT [ns] Sum of their durations; without device activity in the capture, time on the host; NULL: it launched none
-- column: compute_ns BIGINT [ns] The same for compute kernels only, on the host for all but collectives; NULL: it launched none
-- column: host_ns BIGINT [ns] Duration on the host; NULL: never closed
WITH with_devices AS (
    SELECT DISTINCT process_id
    FROM device_ops
)

SELECT
    op_costs.host_op_id,
    op_costs.process_id,
    op_costs.rank,
    host_ops.step,
    host_ops.layer_id,
    host_ops.phase,
    host_ops.name,
    regexp_replace(host_ops.input_dims, '\s+', '', 'g') AS input_dims,
    op_costs.model,
    op_costs.dtype,
    op_costs.reason,
    op_costs.flops,
    op_costs.bytes,
    op_costs.profiler_flops,
    op_costs.device_op_count::BIGINT AS device_count,
    CASE WHEN with_devices.process_id IS NULL THEN host_ops.dur_ns ELSE op_costs.device_ns END AS device_ns,
    CASE
        WHEN with_devices.process_id IS NOT NULL THEN op_costs.compute_ns
        WHEN op_costs.model IS DISTINCT FROM 'collective' THEN host_ops.dur_ns
    END AS compute_ns,
    host_ops.dur_ns AS host_ns
FROM op_costs
INNER JOIN host_ops ON op_costs.host_op_id = host_ops.host_op_id
LEFT JOIN layers ON host_ops.layer_id = layers.layer_id
LEFT JOIN with_devices ON op_costs.process_id = with_devices.process_id
WHERE
    wanted_rank(op_costs.rank)
    AND wanted_step(host_ops.step)
    AND wanted_start(host_ops.process_id, host_ops.start_ns)
    AND wanted_layer(layers.path)
