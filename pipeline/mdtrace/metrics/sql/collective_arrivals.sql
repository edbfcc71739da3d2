-- purpose: When each rank arrived at a collective and left it, on aligned clocks: the start of its kernel, record
--   or range, or its readiness tick in a Horovod timeline (there for each tensor).
-- grain: one row per instance, tensor and rank
-- reads: collectives, arrivals, clocks
-- column: instance_id BIGINT collective across ranks
-- column: tensor VARCHAR tensor negotiated; NULL: the arrival is that of the whole collective
-- column: rank INTEGER rank that arrived
-- column: process_id INTEGER capture that recorded it
-- column: timeline INTEGER arrivals of one timeline can be compared in time
-- column: clock INTEGER arrivals of one clock need no alignment
-- column: recorded_ns BIGINT [ns] arrival as recorded, on the capture's own clock
-- column: arrival_ns BIGINT [ns] arrival on the reference clock
-- column: start_ns BIGINT [ns] start of the transfer on the reference clock
-- column: end_ns BIGINT [ns] end on the reference clock; NULL: never closed
-- column: payload_bytes BIGINT [byte] bytes of the collective; NULL: unknown
-- column: align_error_ns BIGINT [ns] error of its clock against the reference: 0 on the reference itself
-- column: spread_ns BIGINT [ns] error of times compared on the same clock; NULL: unknown
WITH
recorded AS (
  SELECT instance_id, NULL::VARCHAR AS tensor, rank, process_id, start_ns AS recorded_ns, start_ns, end_ns, payload_bytes
  FROM collectives
  WHERE instance_id IS NOT NULL AND rank IS NOT NULL AND evidence <> 'timeline'
  UNION ALL
  SELECT c.instance_id, a.tensor, a.rank, c.process_id, min(a.ready_ns), any_value(c.start_ns), any_value(c.end_ns),
         any_value(c.payload_bytes)
  FROM arrivals AS a JOIN collectives AS c USING (collective_id)
  WHERE c.instance_id IS NOT NULL
  GROUP BY ALL
),
shifted AS (
  SELECT r.*, k.timeline, k.clock, CASE WHEN k.corrected THEN k.error_ns ELSE 0 END AS align_error_ns, k.spread_ns,
         coalesce(k.offset_ns, 0) AS offset_ns, coalesce(k.drift_ppb, 0) / 1e9 AS drift,
         coalesce(k.drift_origin_ns, 0) AS origin_ns
  FROM recorded AS r JOIN clocks AS k USING (process_id)
)
SELECT
  instance_id, tensor, rank, process_id, timeline, clock, recorded_ns,
  bounded(recorded_ns) - offset_ns - round(drift * (recorded_ns - origin_ns))::BIGINT AS arrival_ns,
  bounded(start_ns) - offset_ns - round(drift * (start_ns - origin_ns))::BIGINT AS start_ns,
  bounded(end_ns) - offset_ns - round(drift * (end_ns - origin_ns))::BIGINT AS end_ns,
  payload_bytes, align_error_ns, spread_ns
FROM shifted
