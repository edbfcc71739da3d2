-- purpose: What operators compute, move and take, by shapes: FLOP and bytes from declared models. Of nested operators one
--   only is counted, so that sums hold all work once; those with device work but without a cost have the reason.
-- grain: one row per rank, operator, shapes of its inputs, model, element type and reason
-- reads: cost_rows
-- filter: rank inside
-- filter: step inside
-- filter: time starts
-- filter: layer inside
-- column: rank INTEGER Rank; NULL: unknown
-- column: name VARCHAR Operator; NULL: missing in the file
-- column: input_dims VARCHAR Shapes of its inputs, JSON; NULL: not recorded
-- column: model VARCHAR Model that gave the cost, or could not; NULL: no model for the operator
-- column: dtype VARCHAR Element type of the arithmetic; NULL: not known, or no arithmetic
-- column: calls BIGINT How often it ran.
-- column: flops BIGINT [FLOP] Of all calls; NULL: not known
-- column: bytes BIGINT [byte] Of all calls, inputs read once and outputs written once; NULL: not known
-- column: device_ns BIGINT [ns] Sum of durations of device activities launched inside; without device activity in the capture, time on the host; NULL: it launched none
-- column: host_ns BIGINT [ns] Sum of durations on the host; NULL: none was ever closed
-- column: flops_per_s DOUBLE [FLOP/s] flops over device_ns; NULL: one of them is not known or 0
-- column: bytes_per_s DOUBLE [byte/s] bytes over device_ns; NULL: one of them is not known or 0
-- column: profiler_flops BIGINT [FLOP] As the profiler states them; NULL: not recorded for each call
-- column: reason VARCHAR Why flops or bytes is NULL; NULL: both are known
WITH summed AS (
    SELECT
        rank,
        name,
        input_dims,
        model,
        dtype,
        reason,
        count(*) AS calls,
        CASE WHEN count(flops) = count(*) THEN least(sum(flops), 9223372036854775807)::BIGINT END AS all_flops,
        CASE WHEN count(bytes) = count(*) THEN least(sum(bytes), 9223372036854775807)::BIGINT END AS all_bytes,
        CASE WHEN count(profiler_flops) = count(*) THEN
            least(sum(profiler_flops), 9223372036854775807)::BIGINT
        END AS stated_flops,
        least(sum(device_ns), 9223372036854775807)::BIGINT AS all_device_ns,
        least(sum(host_ns), 9223372036854775807)::BIGINT AS all_host_ns
    FROM cost_rows
    GROUP BY rank, name, input_dims, model, dtype, reason
)

SELECT
    rank,
    name,
    input_dims,
    model,
    dtype,
    calls,
    all_flops AS flops,
    all_bytes AS bytes,
    all_device_ns AS device_ns,
    all_host_ns AS host_ns,
    nullif(all_flops, 0) / nullif(all_device_ns, 0) * 1e9 AS flops_per_s,
    nullif(all_bytes, 0) / nullif(all_device_ns, 0) * 1e9 AS bytes_per_s,
    stated_flops AS profiler_flops,
    reason
FROM summed
ORDER BY device_ns DESC NULLS LAST, host_ns DESC NULLS LAST, rank, name, input_dims, model, dtype, reason
