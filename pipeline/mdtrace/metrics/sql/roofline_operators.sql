-- purpose: Work of each operator with what its roofs depend on: step, layer, phase, element type, unit. Time is that
--   of its compute kernels; in captures without device activity its duration on the host. Collectives' own operators
--   are left out: they communicate; so is, where devices were captured, what launched no compute.
-- grain: one row per operator of op_costs
-- reads: op_costs, host_ops, device_ops, collectives, host_accounted, step_times, roofline_layers
-- filter: rank rows
-- filter: step rows
-- filter: layer rows
-- column: host_op_id BIGINT Operator.
-- column: process_id INTEGER Capture.
-- column: rank INTEGER Rank of the capture; NULL: unknown
-- column: step BIGINT Step; NULL: outside every step, or no steps
-- column: counts BOOLEAN Of a step that counts in steady-state figures, or of a capture without steps.
-- column: layer VARCHAR Path of the layer, cut at the depth asked for; NULL: no layer is known
-- column: phase VARCHAR forward, backward or optimizer; NULL: not known
-- column: name VARCHAR Name; NULL: missing in the file
-- column: model VARCHAR Model that gave the cost; NULL: none
-- column: unit VARCHAR matrix (GEMM, convolution, attention) or vector.
-- column: dtype VARCHAR Element type whose peak holds, tf32 where f32 work ran in kernels named so; NULL: not known
-- column: flops BIGINT [FLOP] Arithmetic; NULL: not known
-- column: bytes BIGINT [byte] Bytes read and written; NULL: not known
-- column: time_ns BIGINT [ns] Time of its compute; NULL: never closed
-- column: start_ns BIGINT [ns] Start on the host.
-- column: end_ns BIGINT [ns] End on the host; NULL: never closed
-- column: on_host BOOLEAN The time is the host's.
-- column: reason VARCHAR Why flops or bytes is NULL; NULL: both are known
WITH RECURSIVE named AS (
    SELECT DISTINCT host_op_id AS id
    FROM device_ops
    WHERE class = 'compute' AND host_op_id IS NOT NULL AND regexp_matches(name, '(?i)tf32|s1688(gemm|fprop|dgrad|wgrad)')
),

around (id, above) AS (
    SELECT id, id FROM named
    UNION
    SELECT around.id, host_ops.parent_id
    FROM around
    INNER JOIN host_ops ON around.above = host_ops.host_op_id
    WHERE host_ops.parent_id IS NOT NULL AND host_ops.kind = 'operator'
),

rounded AS (SELECT DISTINCT above AS host_op_id FROM around),

marked AS (SELECT DISTINCT process_id FROM step_times),

typed AS (
    SELECT
        op_costs.*,
        coalesce(regexp_matches(model, '(?i)gemm|convolution|attention|linear|matmul'), false) AS matrix,
        CASE
            WHEN dtype = 'f32' AND op_costs.host_op_id IN (SELECT host_op_id FROM rounded) THEN 'tf32'
            WHEN regexp_matches(dtype, '^(bf16|tf32|f64|f32|f16|f8|f6|f4|i8|i4)')
                THEN regexp_extract(dtype, '^(bf16|tf32|f64|f32|f16|f8|f6|f4|i8|i4)')
            WHEN dtype = 'u8' THEN 'i8'
            WHEN dtype = 'u4' THEN 'i4'
            WHEN dtype = 'c128' THEN 'f64'
            WHEN dtype IS NOT NULL THEN 'f32'
        END AS peak_of
    FROM op_costs
)

SELECT
    typed.host_op_id,
    typed.process_id,
    typed.rank,
    host_ops.step,
    CASE
        WHEN step_is_filtered() THEN wanted_step(host_ops.step)
        WHEN marked.process_id IS NULL THEN true
        ELSE host_ops.step IS NOT NULL AND coalesce(steady, true)
    END AS counts,
    roofline_layers.layer,
    host_ops.phase,
    host_ops.name,
    model,
    CASE WHEN matrix THEN 'matrix' ELSE 'vector' END AS unit,
    peak_of AS dtype,
    typed.flops,
    typed.bytes,
    CASE WHEN host_accounted.process_id IS NULL THEN compute_ns ELSE host_ops.dur_ns END AS time_ns,
    bounded(host_ops.start_ns) AS start_ns,
    bounded(bounded(host_ops.start_ns) + bounded(greatest(host_ops.dur_ns, 0))) AS end_ns,
    host_accounted.process_id IS NOT NULL AS on_host,
    reason
FROM typed
INNER JOIN host_ops ON typed.host_op_id = host_ops.host_op_id
LEFT JOIN host_accounted ON typed.process_id = host_accounted.process_id
LEFT JOIN step_times ON host_ops.process_id = step_times.process_id AND host_ops.step = step_times.step
LEFT JOIN marked ON typed.process_id = marked.process_id
LEFT JOIN roofline_layers ON host_ops.layer_id = roofline_layers.layer_id
WHERE
    NOT coalesce(regexp_matches(host_ops.name, '^(c10d::|gloo:|nccl:|mpi:|ucc:|record_param_comms$)'), false)
    AND typed.host_op_id NOT IN (SELECT host_op_id FROM collectives WHERE host_op_id IS NOT NULL)
    -- Where devices were captured, work that launched no compute was not theirs: copies, the host's own.
    AND (host_accounted.process_id IS NOT NULL OR compute_ns > 0)
