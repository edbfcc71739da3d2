-- purpose: What a late rank did in its own time that the other ranks did not: where its steps spend more, compared with
--   the median of the other ranks over the same steps. Device work by kernel; host work by the time that operators,
--   annotations, ranges and frames spend in themselves (what runs inside them taken out), so that nothing counts twice.
--   Waiting is no work: time inside runtime calls (which block while the device is busy) and in what names itself
--   a wait or a collective is taken out; calls that allocate, load or free stand by themselves.
-- grain: one row per late rank and candidate
-- reads: straggler_blame, straggler_steps, device_ops, host_ops, launches, collectives, steps, clocks
-- filter: rank rows
-- filter: step inside
-- filter: time starts
-- column: rank INTEGER rank that was late, by 3 error bars or more
-- column: place VARCHAR where the time goes: device, host; or before: it enters the step later than the others
-- column: kind VARCHAR kind of work: compute, memcpy, memset, operator, annotation, python, nvtx, overhead, call, step, late start
-- column: name VARCHAR kernel, operator, range or frame; NULL: all of the kind together
-- column: own_ns DOUBLE [ns] time per step on this rank
-- column: others_ns DOUBLE [ns] time per step on the other ranks, median
-- column: excess_ns DOUBLE [ns] the difference
-- column: own_count DOUBLE [1] how often per step on this rank
-- column: others_count DOUBLE [1] how often per step on the other ranks, median
-- column: loss_ns DOUBLE [ns] time that each of the other ranks waits for this one, per step
-- column: share DOUBLE excess over loss: 1 explains all of it
-- column: same_work_ratio DOUBLE duration of what all ranks run alike (name, grid or shapes, how often), over that on the other ranks; NULL: nothing of this place is common
-- column: same_work_share DOUBLE share of the rank's kernels' or operators' time that is such work; NULL: nothing of this place is common
-- column: same_work_evenness DOUBLE share of such work's time whose own ratio is within 10 % of it: 1 is a constant factor; NULL: nothing of this place is common
-- column: leaf DOUBLE share of its occurrences that have nothing recorded inside; NULL: not host work that could have
-- column: depth DOUBLE how deep it is nested, mean; NULL: device work
-- column: phase VARCHAR part of the step it is in, most often; NULL: not known
WITH
late AS (
  SELECT rank, mean_loss_ns AS loss_ns FROM straggler_blame WHERE late_count > 0 AND mean_loss_ns > 0
),
compared AS (SELECT rank, step FROM straggler_steps WHERE wanted_step(step) AND EXISTS (FROM late)),
ranks AS (SELECT rank, count(*) AS steps FROM compared GROUP BY 1),
inner_time AS (
  SELECT parent_id, sum(dur_ns) AS inner_ns
  FROM (
    SELECT parent_id, dur_ns FROM host_ops WHERE parent_id IS NOT NULL AND form = 'nested' AND NOT duplicate
    UNION ALL
    SELECT host_op_id, dur_ns FROM launches WHERE host_op_id IS NOT NULL AND NOT duplicate
  )
  WHERE EXISTS (FROM late) GROUP BY 1
),
waits AS (SELECT DISTINCT host_op_id FROM collectives WHERE host_op_id IS NOT NULL),
entered AS (
  SELECT s.rank, s.step, k.timeline,
         bounded(s.start_ns) - coalesce(k.offset_ns, 0)
           - round(coalesce(k.drift_ppb, 0) / 1e9 * (s.start_ns - coalesce(k.drift_origin_ns, 0)))::BIGINT AS start_ns
  FROM steps AS s JOIN clocks AS k USING (process_id) JOIN compared AS c ON c.rank = s.rank AND c.step = s.step
),
work AS (
  SELECT d.rank, 'device' AS place, d.class AS kind, d.name, d.dur_ns AS ns, NULL::INTEGER AS depth, d.phase,
         concat_ws(',', d.grid_x, d.grid_y, d.grid_z, d.block_x, d.block_y, d.block_z) AS shape, NULL::BOOLEAN AS leaf
  FROM device_ops AS d JOIN compared AS c ON c.rank = d.rank AND c.step IS NOT DISTINCT FROM d.step
  WHERE d.class IN ('compute', 'memcpy', 'memset') AND d.dur_ns IS NOT NULL AND NOT d.duplicate
  UNION ALL
  SELECT h.rank, 'host', CASE WHEN s.step IS NOT NULL THEN 'step' ELSE h.kind END,
         CASE WHEN s.step IS NOT NULL THEN 'step' ELSE h.name END,
         greatest(0, h.dur_ns - coalesce(i.inner_ns, 0)), h.depth, h.phase,
         coalesce(h.input_dims, ''), i.inner_ns IS NULL
  FROM host_ops AS h
  JOIN compared AS c ON c.rank = h.rank AND c.step IS NOT DISTINCT FROM h.step
  LEFT JOIN inner_time AS i ON i.parent_id = h.host_op_id
  LEFT JOIN steps AS s ON s.host_op_id = h.host_op_id
  WHERE h.form = 'nested' AND h.dur_ns IS NOT NULL AND NOT h.duplicate
    AND h.host_op_id NOT IN (SELECT host_op_id FROM waits)
    AND NOT regexp_matches(coalesce(h.name, ''),
      '(?i)(^|[^a-z])wait|barrier|synchroni[sz]e|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|c10d|nccl|gloo')
    -- Backward may run on a thread of its own, while the one that asked for it waits.
    AND NOT (h.kind <> 'operator' AND regexp_matches(coalesce(h.name, ''), '(?i)backward'))
  UNION ALL
  SELECT l.rank, 'host', 'call', l.name, l.dur_ns, NULL, NULL, '', NULL
  FROM launches AS l JOIN compared AS c ON c.rank = l.rank AND c.step IS NOT DISTINCT FROM l.step
  WHERE l.dur_ns IS NOT NULL AND NOT l.duplicate
    AND NOT regexp_matches(coalesce(l.name, ''), '(?i)synchronize|memcpy|memset|launch|query|waitevent')
  UNION ALL
  SELECT e.rank, 'before', 'late start', NULL, e.start_ns - min(e.start_ns) OVER (PARTITION BY e.step, e.timeline),
         NULL, NULL, '', NULL
  FROM entered AS e
),
by_shape AS (
  SELECT rank, place, kind, name, shape, sum(ns) AS ns, count(*) AS count, sum(depth) AS depth, mode(phase) AS phase,
         count(*) FILTER (leaf) AS leaves, count(leaf) AS judged
  FROM work GROUP BY ALL
),
by_name AS (
  SELECT rank, place, kind, name, sum(ns) AS ns, sum(count) AS count, sum(depth) / sum(count) AS depth,
         arg_max(phase, count) AS phase, sum(leaves) / nullif(sum(judged), 0) AS leaf
  FROM by_shape GROUP BY ALL
),
summed AS (
  SELECT b.rank, b.place, b.kind, b.name, b.ns / r.steps AS ns, b.count / r.steps AS count, b.depth, b.phase, b.leaf
  FROM by_name AS b JOIN ranks AS r USING (rank) WHERE b.name IS NOT NULL
  UNION ALL
  SELECT b.rank, b.place, b.kind, NULL, sum(b.ns) / any_value(r.steps), sum(b.count) / any_value(r.steps), NULL, NULL, NULL
  FROM by_name AS b JOIN ranks AS r USING (rank) GROUP BY ALL
),
measured AS (SELECT DISTINCT rank, place FROM by_name),
candidates AS (
  SELECT s.*, l.loss_ns FROM summed AS s JOIN late AS l USING (rank) WHERE s.ns > 0.2 * l.loss_ns
),
others AS (
  SELECT c.rank, c.place, c.kind, c.name, median(coalesce(s.ns, 0)) AS ns, median(coalesce(s.count, 0)) AS count
  FROM candidates AS c
  JOIN measured AS m ON m.place = c.place AND m.rank <> c.rank
  LEFT JOIN summed AS s ON s.rank = m.rank AND s.place = c.place AND s.kind = c.kind AND s.name IS NOT DISTINCT FROM c.name
  GROUP BY ALL
),
shaped AS (
  SELECT b.rank, b.place, b.kind, b.name, b.shape, b.ns / r.steps AS ns, b.count / r.steps AS count
  FROM by_shape AS b JOIN ranks AS r USING (rank)
  WHERE b.kind IN ('compute', 'operator') AND b.name IS NOT NULL
),
common AS (
  SELECT s.rank, s.place, s.name, s.shape, any_value(s.ns) AS ns, median(o.ns) AS others_ns
  FROM shaped AS s
  JOIN late AS l USING (rank)
  JOIN shaped AS o ON o.rank <> s.rank AND o.place = s.place AND o.kind = s.kind AND o.name = s.name
    AND o.shape = s.shape AND o.count = s.count
  GROUP BY ALL
  HAVING median(o.ns) > 0
),
factor AS (SELECT rank, place, sum(ns) / sum(others_ns) AS ratio, sum(ns) AS ns FROM common GROUP BY ALL),
even AS (
  SELECT c.rank, c.place, any_value(f.ratio) AS ratio,
         any_value(f.ns) / (SELECT sum(ns) FROM shaped AS t WHERE t.rank = c.rank AND t.place = c.place) AS share,
         coalesce(sum(c.ns) FILTER (c.ns / c.others_ns BETWEEN 0.9 * f.ratio AND 1.1 * f.ratio) / sum(c.ns), 0) AS evenness
  FROM common AS c JOIN factor AS f ON f.rank = c.rank AND f.place = c.place GROUP BY c.rank, c.place
)
SELECT
  c.rank, c.place, c.kind, c.name, c.ns AS own_ns, o.ns AS others_ns, c.ns - o.ns AS excess_ns, c.count AS own_count,
  o.count AS others_count, c.loss_ns, (c.ns - o.ns) / c.loss_ns AS share, e.ratio AS same_work_ratio,
  e.share AS same_work_share, e.evenness AS same_work_evenness, c.leaf, c.depth, c.phase
FROM candidates AS c
JOIN others AS o ON o.rank = c.rank AND o.place = c.place AND o.kind = c.kind AND o.name IS NOT DISTINCT FROM c.name
LEFT JOIN even AS e ON e.rank = c.rank AND e.place = c.place
WHERE c.ns - o.ns > 0.2 * c.loss_ns
ORDER BY c.rank, excess_ns DESC, c.place, c.kind, c.name
