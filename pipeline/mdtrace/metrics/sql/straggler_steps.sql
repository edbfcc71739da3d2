-- purpose: Who lost time waiting for whom, step by step: the union of a rank's waits, each piece given to the last rank
--   of the collective waited for; of several, of the one that ends last. Start-up is left out.
-- grain: one row per rank and step
-- reads: arrival_skew, steps
-- filter: rank rows
-- filter: step rows
-- filter: time starts
-- column: rank INTEGER rank
-- column: step BIGINT step; NULL: outside every step, or no steps
-- column: collectives BIGINT collectives (Horovod: tensors) at which its arrival was compared
-- column: last_count BIGINT of them, those at which it came last
-- column: late_count BIGINT of them, those at which it came last by 3 error bars or more
-- column: lost_ns BIGINT [ns] time it waited for others
-- column: caused_ns BIGINT [ns] time that the other ranks together waited for it (rank-ns)
-- column: loss_ns DOUBLE [ns] the same for each of the ranks that can wait for it
-- column: step_lost_ns BIGINT [ns] time that all ranks together lost in the step
-- column: error_ns DOUBLE [ns] error bar of its arrivals, median; NULL: unknown
-- column: step_ns DOUBLE [ns] duration of the step on the host, median over the captures; NULL: no such step marked
-- column: causes_most BOOLEAN it was late, and caused more than half of the time lost in the step
WITH
waits AS (
  SELECT instance_id, tensor, timeline, rank, step, last_rank, present, is_last, error_ns, significant,
         arrival_ns AS begin_ns, arrival_ns + wait_ns AS finish_ns
  FROM arrival_skew WHERE synchronising AND NOT start_up
),
pieces AS (
  SELECT *,
    greatest(0, least(finish_ns, coalesce(min(begin_ns) OVER later, finish_ns)) - begin_ns) AS lost_ns
  FROM waits
  WINDOW later AS (
    PARTITION BY timeline, rank ORDER BY finish_ns DESC, begin_ns, instance_id, tensor
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
  )
),
own AS (
  SELECT rank, step, count(*) AS collectives, count(*) FILTER (is_last) AS last_count,
         count(*) FILTER (is_last AND significant) AS late_count, sum(lost_ns) AS lost_ns,
         median(error_ns) AS error_ns, max(present) - 1 AS others
  FROM pieces GROUP BY ALL
),
caused AS (
  SELECT last_rank AS rank, step, sum(lost_ns) AS caused_ns FROM pieces WHERE last_rank IS NOT NULL GROUP BY ALL
),
lengths AS (
  SELECT step, median(bounded(end_ns) - bounded(start_ns)) AS step_ns FROM steps WHERE end_ns IS NOT NULL GROUP BY 1
),
joined AS (
  SELECT o.rank, o.step, o.collectives, o.last_count, o.late_count, o.lost_ns, coalesce(c.caused_ns, 0) AS caused_ns,
         o.others, sum(o.lost_ns) OVER (PARTITION BY o.step) AS step_lost_ns, o.error_ns, l.step_ns
  FROM own AS o
  LEFT JOIN caused AS c ON c.rank = o.rank AND c.step IS NOT DISTINCT FROM o.step
  LEFT JOIN lengths AS l ON l.step = o.step
)
SELECT
  rank, step, collectives, last_count, late_count, lost_ns::BIGINT AS lost_ns, caused_ns::BIGINT AS caused_ns,
  caused_ns / others AS loss_ns, step_lost_ns::BIGINT AS step_lost_ns, error_ns, step_ns,
  late_count > 0 AND 2 * caused_ns > step_lost_ns AS causes_most
FROM joined
ORDER BY step, rank
