-- purpose: Points of the job's roofline trajectory step by step, per device: where its performance and intensity move while it
--   runs. A job's steps are those of its ranks of the same number; all of them are shown, warm-up too.
-- grain: one row per step
-- reads: roofline_figures, hardware_roofs
-- filter: rank inside
-- filter: step rows
-- column: step BIGINT Step; NULL: the captures have none
-- column: ranks BIGINT Captures that have the step.
-- column: flops DOUBLE [FLOP] Arithmetic of all ranks; NULL: not known
-- column: span_ns BIGINT [ns] Length of the step, summed over ranks.
-- column: flops_per_s DOUBLE [FLOP/s] Performance of a device; NULL: no FLOP known
-- column: intensity_memory DOUBLE [FLOP/byte] FLOP per byte of device memory; NULL: either is not known
-- column: intensity_communication DOUBLE [FLOP/byte] FLOP per byte on the wire; NULL: not known, or nothing on the wire
-- column: bytes_per_s DOUBLE [byte/s] Memory traffic of a device; NULL: no bytes known
-- column: wire_bytes_per_s DOUBLE [byte/s] Traffic of a device on the wire; NULL: not known
-- column: peak_flops_per_s DOUBLE [FLOP/s] Compute roof of a device by the element type of most FLOP; NULL: none known
-- column: memory_bytes_per_s DOUBLE [byte/s] Memory roof of a device; NULL: none known
-- column: bus_bytes_per_s DOUBLE [byte/s] Roof of the links; NULL: none known
-- column: coverage DOUBLE [share] Compute time with FLOP and bytes known, least of the ranks; NULL: nothing computes
WITH flat AS (
    SELECT
        process_id,
        max(per_s) FILTER (roof = 'memory') AS memory,
        max(per_s) FILTER (roof = 'bus') AS bus
    FROM hardware_roofs
    GROUP BY process_id
)

SELECT
    step,
    count(*) AS ranks,
    sum(flops)::DOUBLE AS flops,
    sum(time_ns)::BIGINT AS span_ns,
    sum(flops) / nullif(sum(time_ns) / 1e9, 0) AS flops_per_s,
    sum(flops) / nullif(sum(bytes), 0) AS intensity_memory,
    sum(flops) / nullif(sum(wire_bytes), 0) AS intensity_communication,
    sum(bytes) / nullif(sum(time_ns) / 1e9, 0) AS bytes_per_s,
    sum(wire_bytes) / nullif(sum(time_ns) / 1e9, 0) AS wire_bytes_per_s,
    sum(peak_time_flops) / nullif(sum(time_ns) / 1e9, 0) AS peak_flops_per_s,
    avg(memory) AS memory_bytes_per_s,
    avg(bus) AS bus_bytes_per_s,
    min(coverage) AS coverage
FROM roofline_figures AS figures
LEFT JOIN flat ON figures.process_id = flat.process_id
WHERE grain = 'rank step' AND wanted_rank(rank)
GROUP BY step
ORDER BY step
