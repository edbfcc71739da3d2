-- purpose: Every stretch in which a device does nothing, split by what it waited for, as the launch call of the activity
--   that ends it tells (of several that start together, the earliest call). host: before the call. launch:
--   inside the call. After the call, dependency: a collective, or work that the stream was told to wait for,
--   ended in the gap; queue: nothing is known to have been waited for. unknown: there is no launch record, or
--   it comes after the start.
-- grain: one row per gap
-- reads: step_segments, device_ops, launches
-- filter: rank rows
-- filter: time clips
-- column: process_id INTEGER Capture.
-- column: rank INTEGER Rank of the capture; NULL: unknown
-- column: device_id INTEGER The process's own device ordinal; NULL: the activity names none
-- column: place BIGINT Place of the step's window, as in device_windows; NULL: before the first window
-- column: start_ns BIGINT [ns] Start of the gap: the last activity ends.
-- column: end_ns BIGINT [ns] End of the gap: an activity starts.
-- column: launch_start_ns BIGINT [ns] Start of its launch call; NULL: there is no record of it
-- column: launch_end_ns BIGINT [ns] End of its launch call; NULL: there is no record of it, or it was never closed
-- column: host_ns BIGINT [ns] Waiting for the host to launch.
-- column: launch_ns BIGINT [ns] Launching.
-- column: dependency_ns BIGINT [ns] After a collective, or work of another stream that was waited for.
-- column: queue_ns BIGINT [ns] Launched, but not started.
-- column: unknown_ns BIGINT [ns] Cannot be told.
WITH gaps AS (
    SELECT
        process_id,
        rank,
        device_id,
        place,
        start_ns + greatest(compute_ns, comm_ns, memory_ns) AS start_ns,
        next_ns AS end_ns,
        comm_end_ns
    FROM step_segments
    WHERE next_ns - start_ns > greatest(compute_ns, comm_ns, memory_ns)
),

calls AS (
    SELECT
        launch_id,
        bounded(start_ns) AS call_start,
        bounded(bounded(start_ns) + bounded(greatest(dur_ns, 0))) AS call_end,
        dur_ns IS NULL AS never_closed
    FROM launches
),

work AS (
    SELECT
        process_id,
        coalesce(device_id, -1) AS device,
        stream_id,
        launch_id,
        bounded(start_ns) AS start_ns,
        bounded(bounded(start_ns) + bounded(greatest(dur_ns, 0))) AS end_ns
    FROM device_ops
    WHERE class <> 'sync' AND dur_ns IS NOT NULL
),

-- The activity that ends the gap.
ended AS (
    SELECT
        gaps.process_id,
        any_value(gaps.rank) AS rank,
        gaps.device_id,
        any_value(place) AS place,
        any_value(gaps.start_ns) AS start_ns,
        gaps.end_ns,
        any_value(comm_end_ns) AS comm_end_ns,
        min(call_start) AS call_start,
        arg_min(CASE WHEN NOT never_closed THEN call_end END, call_start) AS call_end,
        arg_min(stream_id, call_start) AS stream_id
    FROM gaps
    INNER JOIN work
        ON gaps.process_id = work.process_id
        AND coalesce(gaps.device_id, -1) = work.device
        AND gaps.end_ns = work.start_ns
    LEFT JOIN calls USING (launch_id)
    GROUP BY gaps.process_id, gaps.device_id, gaps.end_ns
),

-- Streams told to wait for others: the last such call before the launch, unless other work was put on the stream since.
told AS (
    SELECT process_id, stream_id, bounded(start_ns) AS told_ns, wait_stream_id
    FROM device_ops
    WHERE class = 'sync' AND wait_stream_id IS NOT NULL AND wait_stream_id <> stream_id
),

waiting AS (
    SELECT ended.process_id, ended.device_id, ended.stream_id, ended.start_ns, ended.end_ns, call_start, told_ns, wait_stream_id
    FROM ended
    ASOF JOIN told
        ON ended.process_id = told.process_id
        AND ended.stream_id = told.stream_id
        AND ended.call_start >= told.told_ns
),

still_waiting AS (
    SELECT waiting.*
    FROM waiting
    ASOF LEFT JOIN work
        ON waiting.process_id = work.process_id
        AND waiting.stream_id = work.stream_id
        AND waiting.end_ns > work.start_ns
    LEFT JOIN calls USING (launch_id)
    WHERE calls.call_start IS NULL OR calls.call_start < told_ns
),

waited_for AS (
    SELECT still_waiting.process_id, still_waiting.device_id, still_waiting.end_ns, work.end_ns AS waited_end_ns
    FROM still_waiting
    ASOF JOIN work
        ON still_waiting.process_id = work.process_id
        AND still_waiting.wait_stream_id = work.stream_id
        AND still_waiting.end_ns >= work.end_ns
),

judged AS (
    SELECT
        ended.* EXCLUDE (call_end),
        call_end,
        coalesce(call_start <= ended.end_ns, false) AS known,
        least(greatest(call_start, start_ns), ended.end_ns) AS call_from,
        least(greatest(coalesce(call_end, ended.end_ns), start_ns), ended.end_ns) AS call_to,
        coalesce(comm_end_ns >= call_to, false) OR coalesce(waited_end_ns >= call_to, false) AS waited
    FROM ended
    LEFT JOIN waited_for
        ON ended.process_id = waited_for.process_id
        AND ended.device_id IS NOT DISTINCT FROM waited_for.device_id
        AND ended.end_ns = waited_for.end_ns
)

SELECT
    process_id,
    rank,
    device_id,
    place,
    start_ns,
    end_ns,
    call_start AS launch_start_ns,
    call_end AS launch_end_ns,
    CASE WHEN known THEN clipped_ns(process_id, start_ns, call_from - start_ns) ELSE 0 END AS host_ns,
    CASE WHEN known THEN clipped_ns(process_id, call_from, call_to - call_from) ELSE 0 END AS launch_ns,
    CASE WHEN known AND waited THEN clipped_ns(process_id, call_to, end_ns - call_to) ELSE 0 END AS dependency_ns,
    CASE WHEN known AND NOT waited THEN clipped_ns(process_id, call_to, end_ns - call_to) ELSE 0 END AS queue_ns,
    CASE WHEN NOT known THEN clipped_ns(process_id, start_ns, end_ns - start_ns) ELSE 0 END AS unknown_ns
FROM judged
