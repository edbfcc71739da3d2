-- purpose: Time of the host's own, summed over captures, by name: of each nested event what no event nested inside it takes. On one thread
--   these times never overlap; threads run side by side. Markers of steps are left out.
-- grain: one row per step, kind, name, layer and phase
-- reads: host_ops, layers, steps
-- filter: rank inside
-- filter: step rows
-- filter: layer rows
-- column: step BIGINT Step in which the event starts; NULL: outside every step, or no steps
-- column: kind VARCHAR operator, annotation, python, nvtx or overhead.
-- column: name VARCHAR Name; NULL: missing in the file
-- column: layer VARCHAR Path of the layer; NULL: of no layer, or not known
-- column: phase VARCHAR forward, backward or optimizer; NULL: not known
-- column: count BIGINT Events, exact copies aside.
-- column: own_ns BIGINT [ns] Sum of the times of their own.
WITH inside AS (
    SELECT parent_id, sum(dur_ns) AS inside_ns
    FROM host_ops
    WHERE parent_id IS NOT NULL AND form = 'nested' AND NOT duplicate
    GROUP BY parent_id
)

SELECT
    host_ops.step,
    host_ops.kind,
    host_ops.name,
    layers.path AS layer,
    host_ops.phase,
    count(*) AS count,
    capped(sum(greatest(host_ops.dur_ns - coalesce(inside_ns, 0), 0))) AS own_ns
FROM host_ops
LEFT JOIN inside ON host_ops.host_op_id = inside.parent_id
LEFT JOIN layers ON host_ops.layer_id = layers.layer_id
ANTI JOIN steps ON host_ops.host_op_id = steps.host_op_id
WHERE wanted_rank(host_ops.rank) AND host_ops.form = 'nested' AND host_ops.dur_ns IS NOT NULL AND NOT host_ops.duplicate
GROUP BY ALL
