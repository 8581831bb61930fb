//! The usage ledger's file: creates and checks it, and writes it hour by hour.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::base::Moment;
use model::fleet::node::Billing;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, params};
use usage::{HourUsage, RunLoss, UsageKey};

use super::fault::UsageFault;
use crate::files::{make_folder, private};

/// File name in the directory of a record.
pub const FILE: &str = "usage.sqlite";

/// Schema migrations, applied in order.
const STEPS: [&str; 3] = [
    include_str!("schema.sql"),
    include_str!("unit_costs.sql"),
    include_str!("views.sql"),
];

/// Schema version (`user_version`): the number of applied migrations.
pub(super) const VERSION: i64 = STEPS.len() as i64;

/// `STKU` (`application_id`), by which `file` and this program identify the file.
const APPLICATION: i64 = 0x5354_4B55;

/// How long to wait for another reader or writer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Seconds of an hour.
pub(super) const HOUR: i64 = 3_600;

/// The usage ledger of a record.
pub struct UsageFile {
    pub(super) path: PathBuf,
    pub(super) sql: Connection,
    /// The hours do not contain the ends of jobs and runs.
    pub(super) ends_unknown: bool,
}

impl UsageFile {
    /// Opens the ledger in a record's directory for writing; creates it if it does not exist. Only its owner may read it.
    ///
    /// # Errors
    /// The file belongs to another program or was written by a later version, or it cannot be written.
    pub fn open(folder: &Path) -> Result<Self, UsageFault> {
        let path = folder.join(FILE);
        let failed = |what| {
            let path = path.clone();
            move |error| UsageFault::Io(what, path.clone(), error)
        };
        make_folder(folder).map_err(failed("make the directory of"))?;
        // Created first with private permissions, without following symbolic links.
        let mut options = private();
        let options = options.read(true).write(true).create(true).truncate(false);
        let made = options.open(&path).map_err(failed("write"))?;
        if !made.metadata().map_err(failed("read"))?.is_file() {
            return Err(UsageFault::Foreign(path));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let sql =
            Connection::open_with_flags(&path, flags).map_err(UsageFault::sql("open", &path))?;
        Self::prepared(path, sql, true)
    }

    /// Opens the ledger for reading.
    ///
    /// # Errors
    /// The file does not exist, belongs to another program or was written by a later version, or cannot be read.
    pub fn open_to_read(folder: &Path) -> Result<Self, UsageFault> {
        let path = folder.join(FILE);
        if !path.exists() {
            return Err(UsageFault::Absent(path));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let sql =
            Connection::open_with_flags(&path, flags).map_err(UsageFault::sql("open", &path))?;
        Self::prepared(path, sql, false)
    }

    /// A ledger in memory, for a record whose directory cannot be written. It is lost when the process ends.
    ///
    /// # Errors
    /// Out of memory.
    pub fn in_memory() -> Result<Self, UsageFault> {
        let path = PathBuf::from("(memory)");
        let sql = Connection::open_in_memory().map_err(UsageFault::sql("open", &path))?;
        Self::prepared(path, sql, true)
    }

    /// Marks the hours as containing no ends of jobs and runs: their number and lost work are unknown.
    #[must_use]
    pub fn without_ends(self) -> Self {
        Self {
            ends_unknown: true,
            ..self
        }
    }

    /// A copy in memory of the file in a directory that may not be written.
    ///
    /// # Errors
    /// See [`UsageFile::open_to_read`].
    pub fn copied(folder: &Path) -> Result<Self, UsageFault> {
        let mut copy = Self::in_memory()?;
        let from = match Self::open_to_read(folder) {
            Ok(from) => from,
            Err(UsageFault::Absent(_)) => return Ok(copy),
            Err(fault) => return Err(fault),
        };
        let path = from.path.clone();
        let attach = copy
            .sql
            .execute("ATTACH DATABASE ?1 AS old", params![path.to_string_lossy()]);
        attach.map_err(UsageFault::sql("read", &path))?;
        let work = copy
            .sql
            .transaction()
            .map_err(UsageFault::sql("read", &path))?;
        let version: i64 = work
            .query_row("PRAGMA old.user_version", [], |row| row.get(0))
            .map_err(UsageFault::sql("read", &path))?;
        let later = match version {
            1 => {
                "UPDATE counted SET since = coalesce((SELECT max(hour) + 3600 FROM old.hours WHERE state = 'closed'), 0);"
            }
            _ => {
                "INSERT INTO finished SELECT * FROM old.finished;
                 INSERT INTO on_demand SELECT * FROM old.on_demand;
                 INSERT OR REPLACE INTO counted SELECT * FROM old.counted;"
            }
        };
        work.execute_batch(&format!(
            "INSERT INTO keys SELECT * FROM old.keys;
             INSERT INTO hour_rows SELECT * FROM old.hour_rows;
             INSERT INTO losses SELECT * FROM old.losses;
             {later}
             INSERT INTO hours SELECT * FROM old.hours;"
        ))
        .map_err(UsageFault::sql("read", &path))?;
        work.commit().map_err(UsageFault::sql("read", &path))?;
        copy.path = path;
        Ok(copy)
    }

    fn prepared(path: PathBuf, sql: Connection, writes: bool) -> Result<Self, UsageFault> {
        let failed = || UsageFault::sql("read", &path);
        sql.busy_timeout(PATIENCE).map_err(failed())?;
        let number = |name: &str| sql.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let application = number("application_id").map_err(failed())?;
        let version = number("user_version").map_err(failed())?;
        let tables: i64 = sql
            .query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))
            .map_err(failed())?;
        let made = match (application, version) {
            (0, 0) if tables == 0 && writes => 0,
            (0, 0) if tables == 0 => return Err(UsageFault::Absent(path)),
            (APPLICATION, version) if version > VERSION => {
                return Err(UsageFault::Newer(path, version));
            }
            (APPLICATION, version) => usize::try_from(version).unwrap_or(0),
            _ => return Err(UsageFault::Foreign(path)),
        };
        let missing = STEPS.get(made..).unwrap_or_default().concat();
        if missing.is_empty() {
            return Ok(Self {
                path,
                sql,
                ends_unknown: false,
            });
        }
        let made = match writes {
            true => sql.execute_batch(&format!(
                "BEGIN IMMEDIATE; {missing} PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION}; COMMIT;"
            )),
            // A reader without write permission creates the tables of later migrations in memory, from the data in the file; a view
            // there hides the one of that name in the file.
            false => sql.execute_batch(&format!(
                "PRAGMA temp_store = MEMORY; {}",
                missing
                    .replace("DROP VIEW IF EXISTS usage;", "")
                    .replace("CREATE ", "CREATE TEMP ")
            )),
        };
        made.map_err(UsageFault::sql("write", &path))?;
        Ok(Self {
            path,
            sql,
            ends_unknown: false,
        })
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The recorded hours: hour since the epoch, `open` or `closed`, observed milliseconds.
    pub(super) fn hours(&self) -> Result<Vec<(i64, String, i64)>, UsageFault> {
        let failed = || UsageFault::sql("read", &self.path);
        let mut query = self
            .sql
            .prepare("SELECT hour, state, observed_ms FROM hours ORDER BY hour")
            .map_err(failed())?;
        let rows = query.query_map([], |row| {
            Ok((row.get::<_, i64>(0)? / HOUR, row.get(1)?, row.get(2)?))
        });
        rows.and_then(Iterator::collect).map_err(failed())
    }

    /// The closed hours.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn closed(&self) -> Result<BTreeSet<i64>, UsageFault> {
        let hours = self.hours()?.into_iter();
        Ok(hours
            .filter(|(_, state, _)| state == "closed")
            .map(|(hour, ..)| hour)
            .collect())
    }

    /// The hour from which the ledger continues: the first open hour, otherwise the one after the last closed hour; `None` when
    /// the file is empty.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn resumes_at(&self) -> Result<Option<i64>, UsageFault> {
        let hours = self.hours()?;
        let open = hours.iter().find(|(_, state, _)| state == "open");
        let after = hours.last().map(|(hour, ..)| hour + 1);
        Ok(open.map(|(hour, ..)| *hour).or(after))
    }

    /// The time up to which the ledger is complete; `None` when the file is empty.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn until(&self) -> Result<Option<Moment>, UsageFault> {
        let query = "SELECT max(hour * 1000 + until_ms) FROM hours";
        let millis: Option<i64> = self
            .sql
            .query_row(query, [], |row| row.get(0))
            .map_err(UsageFault::sql("read", &self.path))?;
        Ok(millis.map(Moment::from_millis))
    }

    /// Writes hours in one transaction. Open hours are replaced; closed hours are never changed. Losses of `lost` in closed
    /// hours are stored separately.
    ///
    /// # Errors
    /// The file cannot be written; it is unchanged.
    pub fn write(&mut self, hours: &[HourUsage], lost: &[RunLoss]) -> Result<(), UsageFault> {
        let path = self.path.clone();
        let failed = || UsageFault::sql("write", &path);
        let work = self.sql.transaction().map_err(failed())?;
        for hour in hours {
            write_hour(&work, hour).map_err(failed())?;
        }
        for loss in lost {
            book(&work, loss).map_err(failed())?;
        }
        work.commit().map_err(failed())
    }
}

fn billing(billing: Option<Billing>) -> &'static str {
    billing.map_or("", Billing::name)
}

/// The ID of a key, which is created if it does not exist.
fn id_of(work: &Transaction<'_>, key: &UsageKey) -> rusqlite::Result<i64> {
    let names: [&str; 12] = [
        &key.pool,
        &key.class,
        billing(key.billing),
        &key.zone,
        &key.namespace,
        &key.team,
        &key.queue,
        &key.owner,
        &key.job,
        &key.model,
        &key.price_source,
        &key.price_as_of,
    ];
    let known = work
        .query_row(
            "SELECT id FROM keys WHERE pool=?1 AND class=?2 AND billing=?3 AND zone=?4 AND namespace=?5 AND team=?6
             AND queue=?7 AND owner=?8 AND job=?9 AND model=?10 AND price_source=?11 AND price_as_of=?12",
            names,
            |row| row.get(0),
        )
        .optional()?;
    if let Some(id) = known {
        return Ok(id);
    }
    work.execute(
        "INSERT INTO keys (pool, class, billing, zone, namespace, team, queue, owner, job, model, price_source, price_as_of)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        names,
    )?;
    Ok(work.last_insert_rowid())
}

fn write_hour(work: &Transaction<'_>, usage: &HourUsage) -> rusqlite::Result<()> {
    let hour = usage.hour * HOUR;
    let state: Option<String> = work
        .query_row("SELECT state FROM hours WHERE hour = ?1", [hour], |row| {
            row.get(0)
        })
        .optional()?;
    if state.as_deref() == Some("closed") {
        return Ok(());
    }
    work.execute("DELETE FROM hour_rows WHERE hour = ?1", [hour])?;
    for table in ["losses", "finished", "on_demand"] {
        work.execute(&format!("DELETE FROM {table} WHERE hour = ?1"), [hour])?;
    }
    let mut insert = work.prepare(
        "INSERT INTO hour_rows VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
    )?;
    for row in &usage.rows {
        let id = id_of(work, &row.key)?;
        let ms = row.device_ms.map(|ms| ms as i64);
        let cost = row.cost_micros.map_or([None; 6], |cost| cost.map(Some));
        insert.execute(params![
            hour,
            id,
            ms[0],
            ms[1],
            ms[2],
            ms[3],
            ms[4],
            ms[5],
            row.unobserved_ms as i64,
            row.energy_mwh.map(|mwh| mwh as i64),
            cost[0],
            cost[1],
            cost[2],
            cost[3],
            cost[4],
            cost[5],
        ])?;
        if let Some(micros) = row.on_demand_micros {
            work.execute(
                "INSERT INTO on_demand VALUES (?1, ?2, ?3)",
                params![hour, id, micros],
            )?;
        }
    }
    for job in &usage.finished {
        let id = id_of(work, &job.key)?;
        work.execute(
            "INSERT OR IGNORE INTO finished VALUES (?1, ?2, ?3)",
            params![hour, id, job.seen_ms],
        )?;
    }
    for loss in &usage.losses {
        let id = id_of(work, &loss.key)?;
        let cost = loss.cost_micros.map_or([None; 4], |cost| cost.map(Some));
        let ms = loss.device_ms.map(|ms| ms as i64);
        insert_loss(work, hour, id, loss.seen_ms, loss.cause.name(), ms, cost)?;
    }
    work.execute(
        "INSERT INTO hours VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (hour) DO UPDATE SET state = ?2, observed_ms = ?3, until_ms = ?4",
        params![
            hour,
            if usage.closed { "closed" } else { "open" },
            usage.observed_ms as i64,
            usage.until_ms as i64
        ],
    )?;
    Ok(())
}

fn insert_loss(
    work: &Transaction<'_>,
    hour: i64,
    key: i64,
    seen_ms: i64,
    cause: &str,
    ms: [i64; 4],
    cost: [Option<i64>; 4],
) -> rusqlite::Result<()> {
    work.execute(
        "INSERT OR IGNORE INTO losses VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        params![
            hour, key, seen_ms, cause, ms[0], ms[1], ms[2], ms[3], cost[0], cost[1], cost[2],
            cost[3]
        ],
    )?;
    Ok(())
}

/// A row that a run may have lost work in: hour, key, remaining time and cost of each allocated part.
type Left = (i64, i64, [i64; 4], [Option<i64>; 4]);

/// Stores the lost work of a run in hours that were closed before the run ended.
fn book(work: &Transaction<'_>, loss: &RunLoss) -> rusqlite::Result<()> {
    let from = loss.lost_since_ms.div_euclid(1_000 * HOUR) * HOUR;
    let mut query = work.prepare(
        "SELECT r.hour, r.key,
           r.useful_ms - total(l.useful_ms), r.under_used_ms - total(l.under_used_ms),
           r.idle_ms - total(l.idle_ms), r.not_read_ms - total(l.not_read_ms),
           r.useful_micros - total(l.useful_micros), r.under_used_micros - total(l.under_used_micros),
           r.idle_micros - total(l.idle_micros), r.not_read_micros - total(l.not_read_micros)
         FROM hour_rows r JOIN keys k ON k.id = r.key JOIN hours h ON h.hour = r.hour
         LEFT JOIN losses l ON l.hour = r.hour AND l.key = r.key AND l.seen_ms < ?6
         WHERE r.hour >= ?1 AND r.hour < ?2 AND h.state = 'closed'
           AND k.namespace = ?3 AND k.job = ?4 AND k.owner = ?5
         GROUP BY r.hour, r.key",
    )?;
    let bounds = params![
        from,
        loss.booked_from * HOUR,
        loss.namespace.as_str(),
        loss.job.as_str(),
        loss.owner.as_str(),
        loss.seen_ms
    ];
    // `total` returns a float, which is exact up to 2^53 micro-dollars: nine billion dollars for one row.
    let whole = |row: &rusqlite::Row<'_>, at: usize| row.get::<_, f64>(at).map(|sum| sum as i64);
    let left = query.query_map(bounds, |row| {
        let mut ms = [0; 4];
        let mut cost = [None; 4];
        for at in 0..4 {
            ms[at] = whole(row, 2 + at)?;
            cost[at] = row.get::<_, Option<f64>>(6 + at)?.map(|sum| sum as i64);
        }
        Ok((row.get(0)?, row.get(1)?, ms, cost))
    })?;
    let left: Vec<Left> = left.collect::<rusqlite::Result<_>>()?;
    for (hour, key, ms, cost) in left {
        let Some((part, all)) = loss.share_of(hour / HOUR) else {
            continue;
        };
        let share = |of: i64| (i128::from(of) * i128::from(part) / i128::from(all)) as i64;
        let (ms, cost) = (ms.map(share), cost.map(|cost| cost.map(share)));
        if ms.iter().any(|ms| *ms > 0) {
            insert_loss(work, hour, key, loss.seen_ms, loss.cause.name(), ms, cost)?;
        }
    }
    Ok(())
}
