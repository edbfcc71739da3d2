-- purpose: Who arrived late at a collective, who waited and how long the transfer itself took: collectives that no
--   rank leaves before all have entered, and whatever a Horovod timeline negotiates (all ranks must be ready first).
--   Clocks are aligned; ranks on clocks that cannot be compared are compared among themselves.
-- grain: one row per instance, tensor and rank
-- reads: collective_arrivals, instances
-- filter: rank rows
-- filter: step rows
-- filter: time starts
-- column: instance_id BIGINT collective across ranks
-- column: kind VARCHAR operation
-- column: group_name VARCHAR process group; NULL: not recorded
-- column: tensor VARCHAR tensor negotiated; NULL: not a Horovod timeline
-- column: step BIGINT step of the collective; NULL: outside every step, or no steps
-- column: start_up BOOLEAN before the first step: says nothing about training
-- column: synchronising BOOLEAN no rank leaves before all have entered, by the kind of the operation
-- column: rank INTEGER rank
-- column: process_id INTEGER capture
-- column: timeline INTEGER which ranks are compared with each other
-- column: present INTEGER ranks compared
-- column: partial BOOLEAN ranks of the group are missing: delays are relative to those present; NULL: group size unknown
-- column: arrival_ns BIGINT [ns] arrival on the reference clock
-- column: end_ns BIGINT [ns] end on the reference clock; NULL: never closed
-- column: delay_ns BIGINT [ns] arrival after the first rank's
-- column: wait_ns BIGINT [ns] time until the last rank arrived
-- column: transfer_ns BIGINT [ns] end after the last arrival (a timeline: after the transfer began); NULL: a range, or never closed
-- column: lead_ns BIGINT [ns] how far the last rank came after the second last
-- column: is_last BOOLEAN came last, and alone: ties name no last rank
-- column: last_rank INTEGER rank that came last; NULL: a tie
-- column: error_ns BIGINT [ns] error bar of the arrivals' differences: on one clock the spread of ends, else the alignment's; NULL: unknown
-- column: significant BOOLEAN the lead is at least 3 error bars: the last rank may be called late; NULL: error unknown
-- column: apparent_gb_s DOUBLE [GB/s] payload over this rank's time in the collective, wait included; NULL: size or end unknown, a range
-- column: transfer_gb_s DOUBLE [GB/s] payload over the transfer time; NULL: size or end unknown, a range
WITH
clocked AS (
  SELECT instance_id, tensor, timeline, clock, count(*) AS present, min(arrival_ns) AS first_ns,
         max(arrival_ns, 2) AS latest, arg_max(rank, arrival_ns) AS latest_rank, max(spread_ns) AS spread_ns,
         max(align_error_ns) AS align_error_ns
  FROM collective_arrivals
  GROUP BY ALL
),
compared AS (
  SELECT instance_id, tensor, timeline, sum(present) AS present, min(first_ns) AS first_ns,
         list_reverse_sort(flatten(list(latest)))[1:2] AS latest, arg_max(latest_rank, latest[1]) AS latest_rank,
         -- Two clocks differ by the errors of both against the reference.
         CASE count(*) WHEN 1 THEN any_value(spread_ns)
           ELSE greatest(list_sum(max(align_error_ns, 2)), max(spread_ns)) END AS error_ns
  FROM clocked
  GROUP BY ALL
  HAVING sum(present) > 1
),
skewed AS (
  SELECT
    a.instance_id, i.kind, i.group_name, a.tensor, i.step, i.start_up, i.synchronising, a.rank, a.process_id,
    a.timeline, c.present, i.partial, a.recorded_ns, a.arrival_ns, a.end_ns,
    a.arrival_ns - c.first_ns AS delay_ns,
    c.latest[1] - a.arrival_ns AS wait_ns,
    CASE WHEN i.evidence <> 'range' THEN a.end_ns - greatest(c.latest[1], a.start_ns) END AS transfer_ns,
    CASE WHEN i.evidence <> 'range' THEN a.end_ns - a.arrival_ns END AS spent_ns,
    c.latest[1] - c.latest[2] AS lead_ns,
    CASE WHEN c.latest[1] > c.latest[2] THEN c.latest_rank END AS last_rank,
    c.error_ns::BIGINT AS error_ns, a.payload_bytes
  FROM collective_arrivals AS a
  JOIN compared AS c ON c.instance_id = a.instance_id AND c.timeline = a.timeline AND c.tensor IS NOT DISTINCT FROM a.tensor
  JOIN instances AS i ON i.instance_id = a.instance_id
  WHERE i.synchronising OR i.evidence = 'timeline'
)
SELECT
  instance_id, kind, group_name, tensor, step, start_up, synchronising, rank, process_id, timeline,
  present::INTEGER AS present, partial OR present < max(present) OVER (PARTITION BY instance_id, tensor) AS partial,
  arrival_ns, end_ns, delay_ns, wait_ns, transfer_ns, lead_ns,
  coalesce(rank = last_rank, false) AS is_last, last_rank, error_ns,
  lead_ns > 0 AND lead_ns >= 3 * error_ns AS significant,
  CASE WHEN spent_ns > 0 THEN payload_bytes / spent_ns END AS apparent_gb_s,
  CASE WHEN transfer_ns > 0 THEN payload_bytes / transfer_ns END AS transfer_gb_s
FROM skewed
WHERE wanted_start(process_id, recorded_ns)
ORDER BY instance_id, tensor, rank
