-- purpose: Each rank's share of the time lost by waiting, and whether it is the one to blame step after step.
-- grain: one row per rank
-- reads: straggler_steps
-- filter: rank rows
-- filter: step inside
-- filter: time starts
-- column: rank INTEGER rank
-- column: blame DOUBLE share of the time lost by all ranks that it caused; NULL: no time was lost
-- column: lost_ns BIGINT [ns] time it waited for others
-- column: caused_ns BIGINT [ns] time that the other ranks together waited for it (rank-ns)
-- column: loss_ns DOUBLE [ns] median over the steps of what it cost each of the other ranks
-- column: mean_loss_ns DOUBLE [ns] the mean of the same
-- column: last_count BIGINT collectives (Horovod: tensors) at which it came last
-- column: late_count BIGINT of them, those with a lead of at least 3 error bars
-- column: collectives BIGINT collectives compared
-- column: steps BIGINT steps compared
-- column: worst_steps BIGINT steps in which it was late and caused more than half of the lost time
-- column: error_ns DOUBLE [ns] error bar of arrivals, median; NULL: unknown
-- column: step_ns DOUBLE [ns] duration of a step, median; NULL: no steps
-- column: persistent BOOLEAN causes most of the lost time in more than half of the steps and in all, by more than the error bar and 1 % of the step; NULL: cannot be said, see reason
-- column: reason VARCHAR why persistent is NULL; NULL: it is not
WITH
summed AS (
  SELECT rank, sum(caused_ns) AS caused_ns, sum(lost_ns) AS lost_ns, sum(last_count) AS last_count,
         sum(late_count) AS late_count, sum(collectives) AS collectives, count(step) AS steps,
         count(*) FILTER (causes_most AND step IS NOT NULL) AS worst_steps, median(error_ns) AS error_ns,
         median(step_ns) AS step_ns, avg(loss_ns) AS mean_loss_ns,
         coalesce(median(loss_ns) FILTER (step IS NOT NULL), median(loss_ns)) AS loss_ns
  FROM straggler_steps WHERE wanted_step(step) GROUP BY 1
),
totals AS (SELECT *, sum(lost_ns) OVER () AS all_lost_ns, max(steps) OVER () AS all_steps FROM summed)
SELECT
  rank, caused_ns / nullif(all_lost_ns, 0) AS blame, lost_ns::BIGINT AS lost_ns, caused_ns::BIGINT AS caused_ns, loss_ns,
  mean_loss_ns, last_count::BIGINT AS last_count, late_count::BIGINT AS late_count, collectives::BIGINT AS collectives,
  steps, worst_steps, error_ns, step_ns,
  CASE WHEN all_steps >= 3 AND error_ns IS NOT NULL THEN
    2 * worst_steps > all_steps AND 2 * caused_ns > all_lost_ns AND loss_ns > error_ns AND loss_ns > 0.01 * coalesce(step_ns, 0)
  END AS persistent,
  CASE
    WHEN all_steps = 0 THEN 'no steps are marked: nothing can recur'
    WHEN all_steps < 3 THEN 'arrivals are known for ' || all_steps || CASE all_steps WHEN 1 THEN ' step only' ELSE ' steps only' END
    WHEN error_ns IS NULL THEN 'the error of the arrivals is unknown'
  END AS reason
FROM totals
ORDER BY rank
