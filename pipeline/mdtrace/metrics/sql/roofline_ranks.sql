-- purpose: Each rank under three roofs, over the steps that count or those picked: its time is all that passes, waiting and idling included.
-- grain: one row per process
-- reads: roofline_figures
-- filter: rank rows
-- filter: step inside
-- column: process_id INTEGER Capture.
-- column: rank INTEGER Rank of the capture; NULL: unknown
-- column: steps BIGINT Steps summed; 0: the capture has none.
-- column: mfu DOUBLE [share] FLOP over what the matrix units could have done in that time, by the peak of the element type of most FLOP; recomputed work counts; NULL: no FLOP or roof known
-- column: calls BIGINT Operators with work.
-- column: flops BIGINT [FLOP] Arithmetic, as far as known; NULL: of no operator
-- column: bytes BIGINT [byte] Device memory traffic, as far as known; NULL: of no operator
-- column: wire_bytes DOUBLE [byte] Bytes on the wire, k times the payload, of each rank; NULL: there is communication, of unknown size
-- column: intensity_memory DOUBLE [FLOP/byte] FLOP per byte of device memory; NULL: either is not known
-- column: intensity_communication DOUBLE [FLOP/byte] FLOP per byte on the wire; NULL: not known, or nothing on the wire
-- column: achieved_flops_per_s DOUBLE [FLOP/s] FLOP over time; NULL: no FLOP known
-- column: attainable_flops_per_s DOUBLE [FLOP/s] With as much hidden as here; NULL: no FLOP or roof known
-- column: bound VARCHAR compute, memory, communication (the longest of the three times), balanced (the two longest within 5 %), latency (all under half of the time), straggler (waiting exceeds transfer where communication binds or the time is not explained); NULL: nothing known, or too little for latency
-- column: efficiency DOUBLE [share] Achieved over attainable; with no arithmetic: time at the roofs over time; NULL: no roof known, faster than the roofs known (too low), or coverage under one half
-- column: coverage DOUBLE [share] Compute time of operators whose FLOP and bytes are known; NULL: nothing computes
-- column: span_ns BIGINT [ns] Length of its steps, by their windows; without steps of the capture.
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
    steps,
    flops / nullif(peak_time_flops, 0) AS mfu,
    calls,
    flops,
    bytes,
    wire_bytes,
    intensity_memory,
    intensity_communication,
    achieved_flops_per_s,
    attainable_flops_per_s,
    bound,
    efficiency,
    coverage,
    time_ns AS span_ns,
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
WHERE grain = 'rank'
ORDER BY rank NULLS LAST, process_id
