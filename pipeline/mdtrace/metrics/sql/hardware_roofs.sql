-- purpose: The roofs of each capture's device: peak FLOP/s by unit and element type, memory bandwidth, bandwidth of the
--   links. What the driver states of memory wins over the hardware table; where neither tells, the best achieved
--   in the data stands in. The roofs of a CPU are those of its machine, shared by the captures on it.
-- grain: one row per process and roof
-- reads: device_hardware, hardware_peaks, devices, device_ops, processes, roofline_best, roofline_hosts
-- filter: rank rows
-- parameter: hardware VARCHAR = NULL; an entry of the hardware table, a .toml file, or empirical; NULL: by device names
-- column: process_id INTEGER Capture.
-- column: rank INTEGER Rank of the capture; NULL: unknown
-- column: device_id INTEGER The device with most activity; NULL: none was captured
-- column: device VARCHAR Its name; NULL: the file does not say
-- column: hardware VARCHAR Entry of the hardware table; NULL: not in it
-- column: roof VARCHAR compute, memory, link (inside a node), internode (network per device) or bus (what collectives of the job can use).
-- column: unit VARCHAR matrix or vector; NULL: no compute roof
-- column: dtype VARCHAR Element type; NULL: no compute roof
-- column: per_s DOUBLE [FLOP/s or byte/s] The roof.
-- column: origin VARCHAR driver, hardware table, user or empirical.
-- column: source VARCHAR Where the number comes from; NULL: the user does not say
-- column: doubt VARCHAR What is open about the match of device and entry; NULL: nothing
WITH activity AS (
    SELECT process_id, device_id, count(*) AS n
    FROM device_ops
    GROUP BY process_id, device_id
),

main_device AS (
    SELECT process_id, arg_max(device_id, n) AS device_id
    FROM activity
    WHERE device_id IS NOT NULL
    GROUP BY process_id
),

known AS (
    SELECT
        processes.process_id,
        processes.rank,
        main_device.device_id,
        coalesce(of_device.device, of_process.device) AS device,
        CASE WHEN of_device.process_id IS NULL THEN of_process.hardware ELSE of_device.hardware END AS hardware,
        CASE WHEN of_device.process_id IS NULL THEN of_process ELSE of_device END AS has,
        devices.memory_bandwidth_bytes_per_s AS driver_bytes_per_s,
        ranks_per_host,
        nodes
    FROM processes
    LEFT JOIN main_device ON processes.process_id = main_device.process_id
    LEFT JOIN device_hardware AS of_device
        ON processes.process_id = of_device.process_id AND main_device.device_id = of_device.device_id
    LEFT JOIN device_hardware AS of_process
        ON processes.process_id = of_process.process_id AND of_process.device_id IS NULL
    LEFT JOIN devices ON processes.process_id = devices.process_id AND main_device.device_id = devices.device_id
    LEFT JOIN roofline_hosts ON processes.process_id = roofline_hosts.process_id
),

stated AS (
    SELECT
        known.process_id,
        'compute' AS roof,
        hardware_peaks.unit,
        hardware_peaks.dtype,
        flops_per_s / CASE has.kind WHEN 'cpu' THEN ranks_per_host ELSE 1 END AS per_s,
        has.origin AS origin,
        has.peak_source || CASE WHEN of_dtype <> hardware_peaks.dtype THEN ' (runs as ' || of_dtype || ')' ELSE '' END AS source
    FROM known
    INNER JOIN hardware_peaks ON known.hardware = hardware_peaks.hardware
    UNION ALL
    SELECT process_id, 'memory', NULL, NULL, driver_bytes_per_s, 'driver', 'as the driver states it'
    FROM known
    WHERE driver_bytes_per_s > 0 AND (has.origin IS NULL OR has.origin <> 'user')
    UNION ALL
    SELECT
        process_id, 'memory', NULL, NULL,
        has.memory_bytes_per_s / CASE has.kind WHEN 'cpu' THEN ranks_per_host ELSE 1 END,
        has.origin, has.memory_source
    FROM known
    WHERE has.memory_bytes_per_s > 0 AND (coalesce(driver_bytes_per_s, 0) <= 0 OR has.origin = 'user')
    UNION ALL
    SELECT process_id, 'link', NULL, NULL, has.link_bytes_per_s, has.origin, has.link_source
    FROM known
    WHERE has.link_bytes_per_s > 0
    UNION ALL
    SELECT process_id, 'internode', NULL, NULL, has.internode_bytes_per_s, has.origin, has.internode_source
    FROM known
    WHERE has.internode_bytes_per_s > 0
    UNION ALL
    -- A ring enters each node once for each device in it that has a network adapter.
    SELECT
        process_id, 'bus', NULL, NULL,
        CASE WHEN nodes > 1 THEN least(coalesce(has.link_bytes_per_s, 'inf'::DOUBLE), has.internode_bytes_per_s * ranks_per_host)
            ELSE has.link_bytes_per_s END,
        has.origin,
        CASE WHEN nodes > 1 THEN has.internode_source ELSE has.link_source END
    FROM known
    WHERE CASE WHEN nodes > 1 THEN has.internode_bytes_per_s ELSE has.link_bytes_per_s END > 0
),

-- What the data achieved, where nothing is stated.
achieved AS (
    SELECT known.process_id, roofline_best.roof, roofline_best.unit, roofline_best.dtype, per_s, 'empirical' AS origin, source
    FROM known
    CROSS JOIN roofline_best
    ANTI JOIN stated
        ON known.process_id = stated.process_id
        AND roofline_best.roof = stated.roof
        AND roofline_best.unit IS NOT DISTINCT FROM stated.unit
        AND roofline_best.dtype IS NOT DISTINCT FROM stated.dtype
)

SELECT
    known.process_id,
    known.rank,
    known.device_id,
    known.device,
    known.hardware,
    roof,
    unit,
    dtype,
    per_s,
    origin,
    source,
    has.doubt AS doubt
FROM (FROM stated UNION ALL FROM achieved) AS roofs
INNER JOIN known ON roofs.process_id = known.process_id
ORDER BY rank NULLS LAST, known.process_id, roof, unit, dtype
