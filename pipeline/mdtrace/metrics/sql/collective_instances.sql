-- purpose: Each collective across ranks: who was there, when it began and ended on aligned clocks, who came last.
-- grain: one row per instance
-- reads: instances, collectives, collective_arrivals, arrival_skew
-- filter: step rows
-- column: instance_id BIGINT collective across ranks
-- column: kind VARCHAR operation
-- column: group_name VARCHAR process group; NULL: not recorded
-- column: group_size INTEGER ranks of the group; NULL: unknown
-- column: seq BIGINT sequence number in the group; NULL: not recorded, or matched by order
-- column: step BIGINT step; NULL: outside every step, or no steps
-- column: start_up BOOLEAN before the first step
-- column: sender INTEGER rank that sends; NULL: no point-to-point transfer
-- column: receiver INTEGER rank that receives; NULL: no point-to-point transfer
-- column: present INTEGER ranks whose record or tick is in the dataset
-- column: partial BOOLEAN ranks of the group are missing; NULL: group size unknown, or no ticks
-- column: synchronising BOOLEAN no rank leaves before all have entered
-- column: matched_by VARCHAR how its members were found
-- column: payload_bytes BIGINT [byte] bytes, the largest that a member states; NULL: unknown
-- column: first_arrival_ns BIGINT [ns] first arrival on the reference clock; NULL: arrivals cannot be compared
-- column: last_arrival_ns BIGINT [ns] last arrival; NULL: arrivals cannot be compared
-- column: spread_ns BIGINT [ns] last arrival after the first; NULL: arrivals cannot be compared
-- column: end_spread_ns BIGINT [ns] last end after the first; NULL: ends cannot be compared
-- column: transfer_ns BIGINT [ns] last end after the last arrival; NULL: unknown
-- column: last_rank INTEGER rank that came last; NULL: a tie, or arrivals cannot be compared
-- column: lead_ns BIGINT [ns] how far it came after the second last; NULL: arrivals cannot be compared
-- column: significant BOOLEAN the lead is at least 3 error bars; NULL: unknown
WITH
sizes AS (
  SELECT instance_id, max(payload_bytes) AS payload_bytes FROM collectives WHERE instance_id IS NOT NULL GROUP BY 1
),
spans AS (
  SELECT instance_id, min(arrival_ns) AS first_ns, max(arrival_ns) AS last_ns, min(end_ns) AS first_end_ns,
         max(end_ns) AS last_end_ns, count(*) AS arrivals, count(DISTINCT timeline) AS timelines
  FROM collective_arrivals GROUP BY 1
),
skew AS (
  SELECT instance_id, arg_max(last_rank, arrival_ns + wait_ns) AS last_rank, arg_max(lead_ns, arrival_ns + wait_ns) AS lead_ns,
         arg_max(significant, arrival_ns + wait_ns) AS significant, max(transfer_ns) AS transfer_ns
  FROM arrival_skew GROUP BY 1
)
SELECT
  i.instance_id, i.kind, i.group_name, i.group_size, i.seq, i.step, i.start_up, i.sender, i.receiver, i.present,
  i.partial, i.synchronising, i.matched_by, z.payload_bytes,
  CASE WHEN s.timelines = 1 AND s.arrivals > 1 THEN s.first_ns END AS first_arrival_ns,
  CASE WHEN s.timelines = 1 AND s.arrivals > 1 THEN s.last_ns END AS last_arrival_ns,
  CASE WHEN s.timelines = 1 AND s.arrivals > 1 THEN s.last_ns - s.first_ns END AS spread_ns,
  CASE WHEN s.timelines = 1 AND s.arrivals > 1 AND i.evidence <> 'timeline' THEN s.last_end_ns - s.first_end_ns END AS end_spread_ns,
  k.transfer_ns, k.last_rank, k.lead_ns, k.significant
FROM instances AS i
LEFT JOIN sizes AS z USING (instance_id)
LEFT JOIN spans AS s USING (instance_id)
LEFT JOIN skew AS k USING (instance_id)
ORDER BY i.instance_id
