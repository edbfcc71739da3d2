-- purpose: How far each capture's clock is ahead of the reference, how sure that is, and what was done about it.
-- grain: one row per process
-- reads: clocks
-- filter: rank rows
-- column: process_id INTEGER capture
-- column: rank INTEGER rank of the capture; NULL: unknown
-- column: host VARCHAR host name; NULL: the file names none
-- column: clock INTEGER captures with the same number share a clock
-- column: timeline INTEGER captures with the same number can be compared in time
-- column: reference_rank INTEGER rank of the capture measured against; NULL: unknown, or not connected
-- column: offset_ns BIGINT [ns] subtracted from the capture's times; NULL: cannot be solved
-- column: drift_ppb DOUBLE [ppb] growth of the offset, ns per second; NULL: none beyond the error
-- column: error_ns BIGINT [ns] error bar; NULL: nothing to take it from
-- column: lower_ns BIGINT [ns] least offset that causality allows; NULL: nothing to take it from
-- column: upper_ns BIGINT [ns] greatest offset that causality allows; NULL: nothing to take it from
-- column: measured_ns BIGINT [ns] distance between the wall clocks of the files; NULL: nothing to take it from
-- column: spread_ns BIGINT [ns] spread of the ends on this clock; NULL: no other capture shares it
-- column: collectives INTEGER synchronising collectives used
-- column: method VARCHAR how it was found
-- column: corrected BOOLEAN views subtract the offset
-- column: reason VARCHAR why it was not solved or corrected, or what is doubtful; NULL: nothing to say
SELECT
  k.process_id, k.rank, k.host, k.clock, k.timeline, r.rank AS reference_rank, k.offset_ns, k.drift_ppb, k.error_ns,
  k.lower_ns, k.upper_ns, k.measured_ns, k.spread_ns, k.collectives, k.method, k.corrected, k.reason
FROM clocks AS k LEFT JOIN clocks AS r ON r.process_id = k.reference_process_id
ORDER BY k.process_id
