-- purpose: layer_roofline step by step, steps that do not count in steady state included.
-- grain: one row per process, step, layer and phase
-- reads: roofline_figures
-- filter: rank rows
-- filter: step rows
-- filter: layer rows
-- column: process_id INTEGER Capture.
-- column: rank INTEGER Rank of the capture; NULL: unknown
-- column: step BIGINT Step; NULL: outside every step, or no steps
-- column: layer VARCHAR Path of the layer; NULL: no layer is known
-- column: phase VARCHAR forward, backward or optimizer; NULL: not known
-- column: calls BIGINT Operators with work.
-- column: flops BIGINT [FLOP] Arithmetic, as far as known; NULL: of no operator
-- column: bytes BIGINT [byte] Device memory traffic, as far as known; NULL: of no operator
-- column: wire_bytes DOUBLE [byte] Bytes on the wire, k times the payload, of each rank; NULL: there is communication, of unknown size
-- column: device_ns BIGINT [ns] Its compute, overlaps counted once, plus its communication that no compute hides.
-- column: intensity_memory DOUBLE [FLOP/byte] FLOP per byte of device memory; NULL: either is not known
-- column: intensity_communication DOUBLE [FLOP/byte] FLOP per byte on the wire; NULL: not known, or nothing on the wire
-- column: achieved_flops_per_s DOUBLE [FLOP/s] FLOP over time; NULL: no FLOP known
-- column: attainable_flops_per_s DOUBLE [FLOP/s] With as much hidden as here; NULL: no FLOP or roof known
-- column: bound VARCHAR compute, memory, communication (the longest of the three times), balanced (the two longest within 5 %), latency (all under half of the time), straggler (waiting exceeds transfer where communication binds or the time is not explained); NULL: nothing known, or too little for latency
-- column: efficiency DOUBLE [share] Achieved over attainable; with no arithmetic: time at the roofs over time; NULL: no roof known, faster than the roofs known (too low), or coverage under one half
-- column: coverage DOUBLE [share] Compute time of operators whose FLOP and bytes are known; NULL: nothing computes
-- column: compute_ns BIGINT [ns] Time in which its compute runs.
-- column: comm_ns DOUBLE [ns] Time of its communication, waiting included; NULL: it has none
-- column: exposed_comm_ns DOUBLE [ns] Of that, time in which no compute runs; NULL: it has none
-- column: wait_ns DOUBLE [ns] Waiting for other ranks in its communication; NULL: it has none, or ranks were not matched
-- column: phi DOUBLE [share] Share of its communication that compute hides; NULL: it has none
-- column: t_compute_s DOUBLE [s] Time at the compute roofs; NULL: no FLOP or roof known
-- column: t_memory_s DOUBLE [s] Time at the memory roof; NULL: no bytes or roof known
-- column: t_comm_s DOUBLE [s] Time at the roof of the links; NULL: size or roof of its communication not known
-- column: attainable_overlap_flops_per_s DOUBLE [FLOP/s] With all communication hidden; NULL: no FLOP or roof known
-- column: attainable_serial_flops_per_s DOUBLE [FLOP/s] With none hidden; NULL: no FLOP or roof known
-- column: dtype VARCHAR Element type of most of its arithmetic; NULL: no FLOP known
-- column: shared BOOLEAN Its communication is a share of gradient buckets; NULL: it has none
-- column: unsized BIGINT Collectives of unknown size.
-- column: hardware VARCHAR Entry of the hardware table that gives roofs; NULL: none
-- column: roof_origin VARCHAR Where the roofs come from: driver, hardware table, user or empirical; NULL: no roof is known
SELECT
    process_id,
    rank,
    step,
    layer,
    phase,
    calls,
    flops,
    bytes,
    wire_bytes,
    time_ns AS device_ns,
    intensity_memory,
    intensity_communication,
    achieved_flops_per_s,
    attainable_flops_per_s,
    bound,
    efficiency,
    coverage,
    compute_ns,
    comm_ns,
    exposed_comm_ns,
    wait_ns,
    phi,
    t_compute_s,
    t_memory_s,
    t_comm_s,
    attainable_overlap_flops_per_s,
    attainable_serial_flops_per_s,
    dtype,
    shared,
    unsized,
    hardware,
    roof_origin
FROM roofline_figures
WHERE grain = 'layer step'
ORDER BY rank NULLS LAST, process_id, step, time_ns DESC, layer, phase
