-- Version 2: jobs that ended well, and what spot time would have cost on demand.

CREATE TABLE finished (
  hour INTEGER NOT NULL, key INTEGER NOT NULL REFERENCES keys (id),
  seen_ms INTEGER NOT NULL,          -- first picture that shows the end, milliseconds since 1970, UTC
  PRIMARY KEY (hour, key, seen_ms)
) WITHOUT ROWID;

-- micro-USD of all time of a row that is spot time; there is none where the price on demand is not known.
CREATE TABLE on_demand (
  hour INTEGER NOT NULL, key INTEGER NOT NULL REFERENCES keys (id),
  micros INTEGER NOT NULL,
  PRIMARY KEY (hour, key)
) WITHOUT ROWID;

-- The first hour in which something is counted that earlier versions did not count, seconds since 1970.
CREATE TABLE counted (what TEXT PRIMARY KEY, since INTEGER NOT NULL);
INSERT INTO counted SELECT 'finished', coalesce(max(hour) + 3600, 0) FROM hours WHERE state = 'closed';

CREATE TRIGGER finished_insert BEFORE INSERT ON finished WHEN (SELECT state FROM hours WHERE hour = NEW.hour) = 'closed'
  BEGIN SELECT RAISE(ABORT, 'the hour is closed'); END;
CREATE TRIGGER finished_update BEFORE UPDATE ON finished WHEN (SELECT state FROM hours WHERE hour = OLD.hour) = 'closed'
  BEGIN SELECT RAISE(ABORT, 'the hour is closed'); END;
CREATE TRIGGER finished_delete BEFORE DELETE ON finished WHEN (SELECT state FROM hours WHERE hour = OLD.hour) = 'closed'
  BEGIN SELECT RAISE(ABORT, 'the hour is closed'); END;
CREATE TRIGGER on_demand_insert BEFORE INSERT ON on_demand WHEN (SELECT state FROM hours WHERE hour = NEW.hour) = 'closed'
  BEGIN SELECT RAISE(ABORT, 'the hour is closed'); END;
CREATE TRIGGER on_demand_update BEFORE UPDATE ON on_demand WHEN (SELECT state FROM hours WHERE hour = OLD.hour) = 'closed'
  BEGIN SELECT RAISE(ABORT, 'the hour is closed'); END;
CREATE TRIGGER on_demand_delete BEFORE DELETE ON on_demand WHEN (SELECT state FROM hours WHERE hour = OLD.hour) = 'closed'
  BEGIN SELECT RAISE(ABORT, 'the hour is closed'); END;
