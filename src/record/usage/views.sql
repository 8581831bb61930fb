-- Version 3: views that other databases can read, too.
-- DuckDB runs the text of a view itself: with a function that only SQLite has, it takes every column for text. So no such function, no
-- integer division and no min or max of two values stand in `usage`.

-- allocated_ms = busy_ms + idle_ms + not_read_ms; the lost times are part of allocated_ms.
-- cost_micros = the sum of the eight columns behind it, to the micro-dollar.
DROP VIEW IF EXISTS usage;
CREATE VIEW usage AS SELECT
  r.hour AS hour_start, h.state AS state,
  pool, class, billing, zone, namespace, team, queue, owner, job, model, price_source, price_as_of,
  r.useful_ms + r.under_used_ms + r.idle_ms + r.not_read_ms AS allocated_ms,
  r.useful_ms + r.under_used_ms AS busy_ms, r.idle_ms AS idle_ms, r.not_read_ms AS not_read_ms,
  unallocated_ms, out_of_service_ms, unobserved_ms,
  coalesce(l.failure_ms, 0) AS lost_failure_ms, coalesce(l.preemption_ms, 0) AS lost_preemption_ms,
  energy_mwh AS energy_milliwatt_hours,
  r.useful_micros + r.under_used_micros + r.idle_micros + r.not_read_micros + unallocated_micros + out_of_service_micros AS cost_micros,
  r.useful_micros - coalesce(l.useful_micros, 0) AS useful_micros,
  r.under_used_micros - coalesce(l.under_used_micros, 0) AS under_used_micros,
  r.idle_micros - coalesce(l.idle_micros, 0) AS idle_micros,
  r.not_read_micros - coalesce(l.not_read_micros, 0) AS not_read_micros,
  unallocated_micros, out_of_service_micros,
  CASE WHEN r.useful_micros IS NOT NULL THEN coalesce(l.failure_micros, 0) END AS lost_failure_micros,
  CASE WHEN r.useful_micros IS NOT NULL THEN coalesce(l.preemption_micros, 0) END AS lost_preemption_micros
  FROM hour_rows r JOIN keys ON keys.id = r.key JOIN hours h ON h.hour = r.hour
  LEFT JOIN lost l ON l.hour = r.hour AND l.key = r.key;

-- The same with the hour as text.
CREATE VIEW usage_hours AS SELECT strftime('%Y-%m-%dT%H:%M:%SZ', hour_start, 'unixepoch') AS hour, u.* FROM usage u;
