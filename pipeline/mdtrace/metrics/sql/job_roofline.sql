-- purpose: The whole job under three roofs, over the steps that count or those picked, all ranks summed: how much of the
--   hardware it uses (MFU), which roof bounds it, what the network and what stragglers cost. rho is the share of the
--   group's throughput that its slowest rank takes, by the ranks' own time (step less waiting): no roof explains it.
-- grain: one row, none where nothing was accounted
-- reads: roofline_figures, hardware_roofs, straggler_steps, step_times
-- filter: rank inside
-- filter: step inside
-- column: ranks BIGINT Captures summed.
-- column: steps BIGINT Steps summed; 0: the captures have none.
-- column: mfu DOUBLE [share] FLOP over what the matrix units could have done in the time, by the peak of the element type of most FLOP; recomputed work counts; NULL: no FLOP or roof known, or faster than the roof known
-- column: dtype VARCHAR Element type of most of the arithmetic; NULL: no FLOP known
-- column: peak_flops_per_s DOUBLE [FLOP/s] Its matrix peak, mean over ranks; NULL: no roof known
-- column: memory_bytes_per_s DOUBLE [byte/s] Memory roof, mean over ranks; NULL: none known
-- column: bus_bytes_per_s DOUBLE [byte/s] Roof of the links for collectives of all ranks, mean; NULL: none known
-- column: flops BIGINT [FLOP] Arithmetic, as far as known; NULL: of no operator
-- column: bytes BIGINT [byte] Device memory traffic, as far as known; NULL: of no operator
-- column: wire_bytes DOUBLE [byte] Bytes that the ranks put on the wire; NULL: there is communication, of unknown size
-- column: span_ns BIGINT [ns] Length of the steps, summed over ranks.
-- column: step_ns DOUBLE [ns] Mean length of a rank's step; NULL: the captures have no steps
-- column: t_compute_s DOUBLE [s] Mean time of a rank at the compute roofs; NULL: no FLOP or roof known
-- column: t_memory_s DOUBLE [s] Mean time of a rank at the memory roof; NULL: no bytes or roof known
-- column: t_comm_s DOUBLE [s] Mean time of a rank at the roof of the links; NULL: size or roof of communication not known
-- column: intensity_memory DOUBLE [FLOP/byte] FLOP per byte of device memory; NULL: either is not known
-- column: intensity_communication DOUBLE [FLOP/byte] FLOP per byte on the wire; NULL: not known, or nothing on the wire
-- column: achieved_flops_per_s DOUBLE [FLOP/s] Of a rank; NULL: no FLOP known
-- column: attainable_flops_per_s DOUBLE [FLOP/s] Of a rank, with as much communication hidden as here; NULL: no FLOP or roof known
-- column: attainable_overlap_flops_per_s DOUBLE [FLOP/s] With all communication hidden; NULL: no FLOP or roof known
-- column: attainable_serial_flops_per_s DOUBLE [FLOP/s] With none hidden; NULL: no FLOP or roof known
-- column: efficiency DOUBLE [share] Achieved over attainable; NULL: no roof known, faster than the roofs known (too low), or coverage under one half
-- column: bound VARCHAR As in layer_roofline; NULL: nothing known
-- column: phi DOUBLE [share] Share of communication that compute hides; NULL: no communication
-- column: compute_share DOUBLE [share] Of the time, in which compute runs.
-- column: network_share DOUBLE [share] Of the time, exposed communication that is no waiting for other ranks, as far as ranks were matched; NULL: no communication
-- column: straggler_share DOUBLE [share] Of the time, exposed communication that is waiting for other ranks; NULL: no communication, ranks not matched, or no time of theirs known
-- column: rho DOUBLE [share] Throughput that the slowest rank takes from the group, against the median rank; NULL: one rank, or ranks not matched
-- column: rho_sum DOUBLE [share] The same against what all ranks could do alone; NULL: one rank, or ranks not matched
-- column: coverage DOUBLE [share] Compute time of operators whose FLOP and bytes are known; NULL: nothing computes
-- column: unsized BIGINT Collectives of unknown size.
-- column: hardware VARCHAR Entries of the hardware table that give roofs; NULL: none
-- column: roof_origin VARCHAR Where the roofs come from; NULL: no roof is known
-- column: doubt VARCHAR What is open about the match of devices and entries; NULL: nothing
WITH own AS (
    SELECT rank, median(step_ns - lost_ns) AS own_ns, sum(lost_ns) AS lost_ns
    FROM straggler_steps
    WHERE
        step IS NOT NULL
        AND wanted_rank(rank)
        AND CASE WHEN step_is_filtered() THEN wanted_step(step) ELSE step IN (SELECT step FROM step_times WHERE steady) END
    GROUP BY rank
),

stragglers AS (
    SELECT
        sum(lost_ns) AS lost_ns,
        CASE WHEN count(*) > 1 THEN 1 - min(1 / own_ns) / median(1 / own_ns) END AS rho,
        CASE WHEN count(*) > 1 THEN 1 - count(*) * min(1 / own_ns) / sum(1 / own_ns) END AS rho_sum
    FROM own
    WHERE own_ns > 0
),

roofs AS (
    SELECT
        avg(per_s) FILTER (roof = 'memory') AS memory_bytes_per_s,
        avg(per_s) FILTER (roof = 'bus') AS bus_bytes_per_s,
        string_agg(DISTINCT doubt, ' | ' ORDER BY doubt) AS doubt
    FROM hardware_roofs
    WHERE wanted_rank(rank)
),

job AS (
    SELECT
        *,
        -- least() passes over NULL: a timeline tells what ranks waited, not what of their time that is.
        CASE WHEN exposed_comm_ns IS NOT NULL AND lost_ns IS NOT NULL THEN least(lost_ns, exposed_comm_ns) END
            AS straggler_ns
    FROM roofline_figures
    CROSS JOIN stragglers
    WHERE grain = 'job'
)

SELECT
    ranks,
    steps,
    CASE WHEN flops <= peak_time_flops THEN flops / nullif(peak_time_flops, 0) END AS mfu,
    dtype,
    peak_time_flops / nullif(time_ns / 1e9, 0) AS peak_flops_per_s,
    memory_bytes_per_s,
    bus_bytes_per_s,
    flops,
    bytes,
    wire_bytes,
    time_ns AS span_ns,
    time_ns / nullif(steps * ranks, 0) AS step_ns,
    t_compute_s / ranks AS t_compute_s,
    t_memory_s / ranks AS t_memory_s,
    t_comm_s / ranks AS t_comm_s,
    intensity_memory,
    intensity_communication,
    achieved_flops_per_s,
    attainable_flops_per_s,
    attainable_overlap_flops_per_s,
    attainable_serial_flops_per_s,
    efficiency,
    bound,
    phi,
    compute_ns / nullif(time_ns, 0) AS compute_share,
    (exposed_comm_ns - coalesce(straggler_ns, 0)) / nullif(time_ns, 0) AS network_share,
    straggler_ns / nullif(time_ns, 0) AS straggler_share,
    rho,
    rho_sum,
    coverage,
    unsized,
    hardware,
    roof_origin,
    doubt
FROM job
CROSS JOIN roofs
