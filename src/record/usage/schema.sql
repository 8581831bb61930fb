-- The usage ledger. `usage` (views.sql) is the view to query; the tables under it may change with user_version.

CREATE TABLE hours (
  hour INTEGER PRIMARY KEY,          -- start of the hour, seconds since 1970, UTC
  state TEXT NOT NULL CHECK (state IN ('open', 'closed')),
  observed_ms INTEGER NOT NULL,      -- for how much of it there are pictures
  until_ms INTEGER NOT NULL          -- how far into it the ledger has come
);

CREATE TABLE keys (
  id INTEGER PRIMARY KEY,
  pool TEXT NOT NULL, class TEXT NOT NULL, billing TEXT NOT NULL, zone TEXT NOT NULL,
  namespace TEXT NOT NULL, team TEXT NOT NULL, queue TEXT NOT NULL, owner TEXT NOT NULL, job TEXT NOT NULL, model TEXT NOT NULL,
  price_source TEXT NOT NULL, price_as_of TEXT NOT NULL,
  UNIQUE (pool, class, billing, zone, namespace, team, queue, owner, job, model, price_source, price_as_of)
);

-- Device time in milliseconds, cost in micro-USD (NULL: no price is known).
CREATE TABLE hour_rows (
  hour INTEGER NOT NULL, key INTEGER NOT NULL REFERENCES keys (id),
  useful_ms INTEGER NOT NULL, under_used_ms INTEGER NOT NULL, idle_ms INTEGER NOT NULL, not_read_ms INTEGER NOT NULL,
  unallocated_ms INTEGER NOT NULL, out_of_service_ms INTEGER NOT NULL, unobserved_ms INTEGER NOT NULL,
  energy_mwh INTEGER,
  useful_micros INTEGER, under_used_micros INTEGER, idle_micros INTEGER, not_read_micros INTEGER,
  unallocated_micros INTEGER, out_of_service_micros INTEGER,
  PRIMARY KEY (hour, key)
) WITHOUT ROWID;

-- What runs that ended badly had of a row. Known only when the run ends: the row itself stays as it was closed.
CREATE TABLE losses (
  hour INTEGER NOT NULL, key INTEGER NOT NULL REFERENCES keys (id),
  seen_ms INTEGER NOT NULL,          -- first picture that shows the end, milliseconds since 1970, UTC
  cause TEXT NOT NULL CHECK (cause IN ('failure', 'preemption')),
  useful_ms INTEGER NOT NULL, under_used_ms INTEGER NOT NULL, idle_ms INTEGER NOT NULL, not_read_ms INTEGER NOT NULL,
  useful_micros INTEGER, under_used_micros INTEGER, idle_micros INTEGER, not_read_micros INTEGER,
  PRIMARY KEY (hour, key, seen_ms, cause)
) WITHOUT ROWID;

-- An hour is closed once.
CREATE TRIGGER closed_hour BEFORE UPDATE ON hours WHEN OLD.state = 'closed'
  BEGIN SELECT RAISE(ABORT, 'the hour is closed'); END;
CREATE TRIGGER closed_hour_stays BEFORE DELETE ON hours WHEN OLD.state = 'closed'
  BEGIN SELECT RAISE(ABORT, 'the hour is closed'); END;
CREATE TRIGGER closed_insert BEFORE INSERT ON hour_rows WHEN (SELECT state FROM hours WHERE hour = NEW.hour) = 'closed'
  BEGIN SELECT RAISE(ABORT, 'the hour is closed'); END;
CREATE TRIGGER closed_update BEFORE UPDATE ON hour_rows WHEN (SELECT state FROM hours WHERE hour = OLD.hour) = 'closed'
  BEGIN SELECT RAISE(ABORT, 'the hour is closed'); END;
CREATE TRIGGER closed_delete BEFORE DELETE ON hour_rows WHEN (SELECT state FROM hours WHERE hour = OLD.hour) = 'closed'
  BEGIN SELECT RAISE(ABORT, 'the hour is closed'); END;

CREATE VIEW lost AS SELECT hour, key,
  sum(useful_ms) AS useful_ms, sum(under_used_ms) AS under_used_ms, sum(idle_ms) AS idle_ms, sum(not_read_ms) AS not_read_ms,
  sum(useful_micros) AS useful_micros, sum(under_used_micros) AS under_used_micros,
  sum(idle_micros) AS idle_micros, sum(not_read_micros) AS not_read_micros,
  sum(CASE cause WHEN 'failure' THEN useful_ms + under_used_ms + idle_ms + not_read_ms ELSE 0 END) AS failure_ms,
  sum(CASE cause WHEN 'preemption' THEN useful_ms + under_used_ms + idle_ms + not_read_ms ELSE 0 END) AS preemption_ms,
  sum(CASE cause WHEN 'failure' THEN useful_micros + under_used_micros + idle_micros + not_read_micros ELSE 0 END) AS failure_micros,
  sum(CASE cause WHEN 'preemption' THEN useful_micros + under_used_micros + idle_micros + not_read_micros ELSE 0 END) AS preemption_micros
  FROM losses GROUP BY hour, key;
