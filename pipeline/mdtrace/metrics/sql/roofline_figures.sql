-- purpose: The three-roof figures (MD-Roofline) of layers, ranks and the job, with and without steps: the views layer_roofline,
--   roofline_layer_steps, roofline_ranks, roofline_steps and job_roofline show its parts. Three times: FLOP at the
--   compute roof of each operator's unit and element type, bytes at the memory roof, bytes on the wire at the roof of the
--   links. Attainable overlapped F/max of the three, serial F/(max(compute, memory) + communication), with phi
--   F/(max(compute, memory) + (1 - phi) communication), phi the share of the communication that compute hides.
-- grain: one row per subject: what grain says
-- reads: roofline_work, step_breakdown, step_times
-- filter: rank rows
-- filter: step rows
-- filter: layer rows
-- column: grain VARCHAR layer, layer step, rank, rank step or job.
-- column: process_id INTEGER Capture; NULL: the job
-- column: rank INTEGER Rank; NULL: unknown, or the job
-- column: step BIGINT Step; NULL: several, none, or outside every step
-- column: layer VARCHAR Path of the layer; NULL: no layer is known, or not of a layer
-- column: phase VARCHAR Phase; NULL: not known, or not of a layer
-- column: ranks BIGINT Captures summed.
-- column: steps BIGINT Steps summed; 0: the capture has none.
-- column: calls BIGINT Operators with work.
-- column: flops BIGINT [FLOP] Arithmetic, as far as known; NULL: of no operator
-- column: bytes BIGINT [byte] Device memory traffic, as far as known; NULL: of no operator
-- column: wire_bytes DOUBLE [byte] Bytes on the wire, k times the payload, of each rank; NULL: there is communication, of unknown size
-- column: time_ns BIGINT [ns] Time that the work took: of a layer its compute plus its exposed communication; of a rank the length of its steps; of a job their sum.
-- column: compute_ns BIGINT [ns] Time in which its compute runs.
-- column: comm_ns DOUBLE [ns] Time of its communication, waiting included; NULL: it has none
-- column: exposed_comm_ns DOUBLE [ns] Of that, time in which no compute runs; NULL: it has none
-- column: wait_ns DOUBLE [ns] Waiting for other ranks in its communication; NULL: it has none, or ranks were not matched
-- column: phi DOUBLE [share] Share of its communication that compute hides; NULL: it has none
-- column: t_compute_s DOUBLE [s] Time at the compute roofs; NULL: no FLOP or roof known
-- column: t_memory_s DOUBLE [s] Time at the memory roof; NULL: no bytes or roof known
-- column: t_comm_s DOUBLE [s] Time at the roof of the links; NULL: size or roof of its communication not known
-- column: intensity_memory DOUBLE [FLOP/byte] FLOP per byte of device memory; NULL: either is not known
-- column: intensity_communication DOUBLE [FLOP/byte] FLOP per byte on the wire; NULL: not known, or nothing on the wire
-- column: achieved_flops_per_s DOUBLE [FLOP/s] FLOP over time; NULL: no FLOP known
-- column: attainable_overlap_flops_per_s DOUBLE [FLOP/s] With all communication hidden; NULL: no FLOP or roof known
-- column: attainable_serial_flops_per_s DOUBLE [FLOP/s] With none hidden; NULL: no FLOP or roof known
-- column: attainable_flops_per_s DOUBLE [FLOP/s] With as much hidden as here; NULL: no FLOP or roof known
-- column: efficiency DOUBLE [share] Achieved over attainable; with no arithmetic: time at the roofs over time; NULL: no roof known, faster than the roofs known (too low), or coverage under one half
-- column: bound VARCHAR compute, memory, communication (the longest of the three times), balanced (the two longest within 5 %), latency (all under half of the time), straggler (waiting exceeds transfer where communication binds or the time is not explained); NULL: nothing known, or too little for latency
-- column: coverage DOUBLE [share] Compute time of operators whose FLOP and bytes are known; NULL: nothing computes
-- column: unsized BIGINT Collectives of unknown size.
-- column: shared BOOLEAN Its communication is a share of gradient buckets; NULL: it has none
-- column: dtype VARCHAR Element type of most of its arithmetic; NULL: no FLOP known
-- column: peak_time_flops DOUBLE [FLOP] What the matrix units of that type could have done in its time; NULL: no roof known
-- column: hardware VARCHAR Entry of the hardware table that gives roofs; NULL: none
-- column: roof_origin VARCHAR Where the roofs come from: driver, hardware table, user or empirical; NULL: no roof is known
WITH work AS MATERIALIZED (
    FROM roofline_work
),

subjects AS (
    SELECT
        'layer' AS grain,
        process_id,
        any_value(rank) AS rank,
        any_value(hardware) AS hardware,
        any_value(roof_origin) AS roof_origin,
        NULL::BIGINT AS step,
        layer,
        phase,
        1 AS ranks,
        count(DISTINCT step) AS steps,
        sum(calls) AS calls,
        sum(flops) AS flops,
        sum(bytes) AS bytes,
        sum(t_compute_s) AS t_compute_s,
        sum(t_memory_s) AS t_memory_s,
        sum(priced_ns) AS priced_ns,
        sum(worked_ns) AS worked_ns,
        sum(collectives) AS collectives,
        sum(wire_bytes) AS wire_bytes,
        sum(unsized) AS unsized,
        sum(t_comm_s) AS t_comm_s,
        sum(comm_ns) AS comm_ns,
        sum(hidden_ns) AS hidden_ns,
        sum(wait_ns) AS wait_ns,
        bool_or(shared) AS shared,
        arg_max(dtype, flops) AS dtype,
        sum(compute_ns) AS compute_ns,
        sum(compute_ns) + sum(comm_ns) - sum(hidden_ns) AS time_ns
    FROM work
    WHERE counts
    GROUP BY process_id, layer, phase
    UNION ALL BY NAME
    SELECT
        'layer step' AS grain,
        * EXCLUDE (counts, matrix_peak),
        1 AS ranks,
        (step IS NOT NULL)::BIGINT AS steps,
        compute_ns + comm_ns - hidden_ns AS time_ns
    FROM work
),

-- Accounts of time of a capture's devices, by step; of captures without steps as a whole.
accounts AS (
    SELECT
        process_id,
        step,
        max(span_ns) AS span_ns,
        sum(compute_ns) AS compute_ns,
        sum(comm_ns) AS comm_ns,
        sum(coalesce(overlap_ns, 0)) AS overlap_ns,
        sum(exposed_comm_ns) AS exposed_ns
    FROM step_breakdown
    WHERE step IS NOT NULL OR process_id NOT IN (SELECT process_id FROM step_times)
    GROUP BY process_id, step
),

by_rank AS (
    SELECT
        process_id,
        any_value(rank) AS rank,
        any_value(hardware) AS hardware,
        any_value(roof_origin) AS roof_origin,
        step,
        bool_or(counts) AS counts,
        sum(calls) AS calls,
        sum(flops) AS flops,
        sum(bytes) AS bytes,
        sum(t_compute_s) AS t_compute_s,
        sum(t_memory_s) AS t_memory_s,
        sum(priced_ns) AS priced_ns,
        sum(worked_ns) AS worked_ns,
        sum(collectives) AS collectives,
        sum(wire_bytes) AS wire_bytes,
        sum(unsized) AS unsized,
        sum(t_comm_s) AS t_comm_s,
        sum(wait_ns) AS wait_ns,
        bool_or(shared) AS shared,
        arg_max(dtype, flops) AS dtype,
        arg_max(matrix_peak, flops) AS matrix_peak
    FROM work
    GROUP BY process_id, step
),

of_ranks AS (
    SELECT
        by_rank.*,
        accounts.compute_ns,
        accounts.comm_ns,
        accounts.comm_ns - accounts.exposed_ns AS hidden_ns,
        span_ns AS time_ns,
        span_ns / 1e9 * matrix_peak AS peak_time_flops
    FROM by_rank
    INNER JOIN accounts ON by_rank.process_id = accounts.process_id AND by_rank.step IS NOT DISTINCT FROM accounts.step
),

totals AS (
    SELECT
        CASE WHEN grouping(process_id) = 0 THEN 'rank' ELSE 'job' END AS grain,
        process_id,
        CASE WHEN grouping(process_id) = 0 THEN any_value(rank) END AS rank,
        string_agg(DISTINCT hardware, ', ' ORDER BY hardware) AS hardware,
        string_agg(DISTINCT roof_origin, ' | ' ORDER BY roof_origin) AS roof_origin,
        count(DISTINCT process_id) AS ranks,
        count(DISTINCT step) AS steps,
        sum(calls) AS calls,
        sum(flops) AS flops,
        sum(bytes) AS bytes,
        sum(t_compute_s) AS t_compute_s,
        sum(t_memory_s) AS t_memory_s,
        sum(priced_ns) AS priced_ns,
        sum(worked_ns) AS worked_ns,
        sum(collectives) AS collectives,
        sum(wire_bytes) AS wire_bytes,
        sum(unsized) AS unsized,
        sum(t_comm_s) AS t_comm_s,
        sum(wait_ns) AS wait_ns,
        bool_or(shared) AS shared,
        arg_max(dtype, flops) AS dtype,
        sum(compute_ns) AS compute_ns,
        sum(comm_ns) AS comm_ns,
        sum(hidden_ns) AS hidden_ns,
        sum(time_ns) AS time_ns,
        sum(peak_time_flops) AS peak_time_flops
    FROM of_ranks
    WHERE counts AND wanted_rank(rank)
    GROUP BY GROUPING SETS ((process_id), ())
),

all_subjects AS (
    FROM subjects
    UNION ALL BY NAME
    SELECT * EXCLUDE (counts, matrix_peak), 'rank step' AS grain, 1 AS ranks, (step IS NOT NULL)::BIGINT AS steps FROM of_ranks
    UNION ALL BY NAME
    FROM totals
    WHERE ranks > 0
),

timed AS (
    SELECT
        * REPLACE (
            CASE WHEN collectives = 0 THEN 0 WHEN unsized < collectives THEN wire_bytes END AS wire_bytes,
            CASE WHEN collectives = 0 THEN 0 ELSE t_comm_s END AS t_comm_s,
            CASE WHEN collectives > 0 THEN comm_ns END AS comm_ns,
            CASE WHEN collectives > 0 THEN hidden_ns END AS hidden_ns
        ),
        time_ns / 1e9 AS time_s,
        CASE WHEN collectives > 0 THEN hidden_ns / nullif(comm_ns, 0) END AS phi
    FROM all_subjects
),

roofed AS (
    SELECT
        *,
        greatest(t_compute_s, t_memory_s) AS t_device_s,
        greatest(t_compute_s, t_memory_s, t_comm_s) AS longest_s,
        list_sort([coalesce(t_compute_s, 0), coalesce(t_memory_s, 0), coalesce(t_comm_s, 0)])[2] AS second_s
    FROM timed
),

at_roofs AS (
    SELECT
        *,
        -- Work known for less than half of the compute explains nothing by being short.
        worked_ns = 0 OR priced_ns >= 0.5 * worked_ns AS told,
        coalesce(t_device_s, 0) + coalesce((1 - coalesce(phi, 0)) * t_comm_s, 0) AS least_s
    FROM roofed
)

SELECT
    grain,
    process_id,
    rank,
    step,
    layer,
    phase,
    ranks::BIGINT AS ranks,
    steps::BIGINT AS steps,
    calls::BIGINT AS calls,
    capped(flops) AS flops,
    capped(bytes) AS bytes,
    wire_bytes,
    -- 292 years: a sum of recorded nonsense must not end the query.
    CASE WHEN time_ns IS NOT NULL THEN least(round(time_ns), 9.2e18)::BIGINT END AS time_ns,
    CASE WHEN compute_ns IS NOT NULL THEN least(compute_ns, 9.2e18)::BIGINT END AS compute_ns,
    comm_ns::DOUBLE AS comm_ns,
    (comm_ns - hidden_ns)::DOUBLE AS exposed_comm_ns,
    wait_ns,
    phi::DOUBLE AS phi,
    t_compute_s,
    t_memory_s,
    t_comm_s,
    (flops / nullif(bytes, 0))::DOUBLE AS intensity_memory,
    (flops / nullif(wire_bytes, 0))::DOUBLE AS intensity_communication,
    (flops / nullif(time_s, 0))::DOUBLE AS achieved_flops_per_s,
    (flops / nullif(longest_s, 0))::DOUBLE AS attainable_overlap_flops_per_s,
    (flops / nullif(t_device_s + coalesce(t_comm_s, 0), 0))::DOUBLE AS attainable_serial_flops_per_s,
    (flops / nullif(least_s, 0))::DOUBLE AS attainable_flops_per_s,
    -- Faster than the roofs: they are too low, and a share above one is no answer.
    CASE WHEN longest_s > 0 AND told AND least_s <= time_s THEN (least_s / nullif(time_s, 0))::DOUBLE END AS efficiency,
    CASE
        WHEN longest_s IS NULL OR longest_s <= 0 OR time_s <= 0 THEN NULL
        WHEN wait_ns > comm_ns - wait_ns AND (longest_s = t_comm_s OR longest_s < 0.5 * time_s) THEN 'straggler'
        WHEN longest_s < 0.5 * time_s THEN CASE WHEN told THEN 'latency' END
        WHEN second_s >= 0.95 * longest_s THEN 'balanced'
        WHEN longest_s = t_compute_s THEN 'compute'
        WHEN longest_s = t_memory_s THEN 'memory'
        ELSE 'communication'
    END AS bound,
    CASE WHEN worked_ns > 0 THEN least(1, priced_ns / worked_ns)::DOUBLE END AS coverage,
    unsized::BIGINT AS unsized,
    shared,
    dtype,
    peak_time_flops::DOUBLE AS peak_time_flops,
    hardware,
    roof_origin
FROM at_roofs
