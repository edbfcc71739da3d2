-- purpose: Who makes the others wait: each rank's share of the time lost, whether it is the same one step after step, and
--   what it does in the time in which the others wait, compared with them.
-- grain: one row per rank
-- reads: straggler_blame, straggler_causes, clocks
-- filter: rank rows
-- filter: step inside
-- filter: time starts
-- column: rank INTEGER rank
-- column: blame DOUBLE share of the time lost by all ranks that it caused; NULL: no time was lost
-- column: last_count BIGINT collectives (Horovod: tensors) at which it came last; a tie has no last rank
-- column: late_count BIGINT of them, those with a lead of at least 3 error bars
-- column: collectives BIGINT collectives compared: synchronising ones, without start-up
-- column: steps BIGINT steps compared
-- column: worst_steps BIGINT steps in which it was late and caused more than half of the lost time
-- column: persistent BOOLEAN causes most of the lost time in more than half of the steps and in all, by more than the error bar and 1 % of the step; NULL: cannot be said, see reason
-- column: cause VARCHAR what it does in that time: host sleep, data loading, host idle, host work, more compute, slower device, slower host, memory copies, runtime call, late start (host causes with the part of the step they are in); NULL: it is not late, or the traces do not tell
-- column: evidence VARCHAR the figures behind the cause; NULL: no cause
-- column: lost_ns BIGINT [ns] time it waited for others
-- column: caused_ns BIGINT [ns] time that the other ranks together waited for it (rank-ns)
-- column: loss_ns DOUBLE [ns] what it cost each of the other ranks, per step, median
-- column: step_ns DOUBLE [ns] duration of a step, median; NULL: no steps
-- column: error_ns DOUBLE [ns] error bar of arrivals, median; NULL: unknown
-- column: reason VARCHAR why persistent or cause is NULL; NULL: neither is, or the rank is not late
WITH
ranked AS (
  SELECT *, row_number() OVER (
    PARTITION BY rank
    -- Device work in excess explains a late kernel whatever the host did, and the deepest host work is the most exact.
    ORDER BY place = 'device' AND name IS NULL DESC, place <> 'before' DESC, excess_ns DESC, depth DESC NULLS LAST, kind, name
  ) AS place_in_list
  FROM straggler_causes WHERE share >= 0.5 AND (name IS NOT NULL OR place <> 'host')
),
top AS (SELECT * FROM ranked WHERE place_in_list = 1),
kernels AS (
  SELECT rank, arg_max(name, excess_ns) AS name FROM straggler_causes WHERE place = 'device' AND name IS NOT NULL GROUP BY 1
),
named AS (
  SELECT t.*, k.name AS kernel,
    CASE
      WHEN t.same_work_ratio >= 1.03 AND t.same_work_evenness >= 0.8 AND t.same_work_share >= 0.8 AND t.kind IN ('compute', 'operator')
        THEN CASE t.place WHEN 'device' THEN 'slower device' ELSE 'slower host' END
      WHEN t.place = 'device' THEN CASE t.kind WHEN 'compute' THEN 'more compute' ELSE 'memory copies' END
      WHEN regexp_matches(t.name, '(?i)sleep') THEN 'host sleep'
      WHEN regexp_matches(t.name, '(?i)data_?load|dataset|enumerate|__next__|_next_data|fetch|(^|[^a-z])data([^a-z]|$)|\bload(er|_|$)')
        THEN 'data loading'
      WHEN regexp_matches(t.name, '(?i)^aten::(copy_|_to_copy|to)$|memcpy') THEN 'memory copies'
      WHEN t.kind = 'step' THEN 'host idle'
      WHEN t.kind = 'late start' THEN 'late start'
      WHEN t.kind = 'operator' THEN 'more compute'
      WHEN t.kind = 'call' THEN 'runtime call'
      WHEN t.kind IN ('annotation', 'nvtx') AND t.leaf < 0.5 THEN 'host idle'
      ELSE 'host work'
    END AS cause
  FROM top AS t LEFT JOIN kernels AS k ON k.rank = t.rank AND t.place = 'device'
),
worded AS (
  SELECT rank, cause || CASE WHEN place = 'host' THEN coalesce(' in ' || phase, '') ELSE '' END AS cause,
    CASE
      WHEN kind = 'late start' THEN 'enters the step later than the first rank, nothing in the step itself explains it'
      WHEN kind = 'step' THEN 'time in no operator, range or frame'
      WHEN cause = 'host idle' THEN 'nothing recorded inside ' || kind || ' ' || name
      WHEN name IS NULL THEN 'device ' || kind || coalesce(' (most of it in ' || kernel || ')', '')
      ELSE kind || ' ' || name
    END
    || format(': {:.3f} ms a step, {:.3f} ms on the other ranks', own_ns / 1e6, others_ns / 1e6)
    || CASE WHEN kind NOT IN ('step', 'late start') AND round(own_count, 1) <> round(others_count, 1)
         THEN format(', {:.1f} times against {:.1f}', own_count, others_count) ELSE '' END
    || CASE WHEN cause LIKE 'slower%' THEN format(', the same work takes {:.2f} times as long', same_work_ratio) ELSE '' END
    || format(', {:.0f} % of the wait', least(100, 100 * share)) AS evidence
  FROM named
),
timelines AS (
  SELECT coalesce(bool_and(k.method = 'timeline'), false) AS only FROM clocks AS k
)
SELECT
  b.rank, b.blame, b.last_count, b.late_count, b.collectives, b.steps, b.worst_steps, b.persistent, w.cause, w.evidence,
  b.lost_ns, b.caused_ns, b.loss_ns, b.step_ns, b.error_ns,
  nullif(concat_ws(', and ', CASE
    WHEN b.late_count = 0 OR w.cause IS NOT NULL THEN NULL
    WHEN t.only THEN 'a timeline does not tell what a rank did'
    ELSE 'nothing in its own time explains half of the wait'
  END, b.reason), '') AS reason
FROM straggler_blame AS b LEFT JOIN worded AS w USING (rank), timelines AS t
ORDER BY b.rank
