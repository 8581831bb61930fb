//! Muted and acknowledged findings, stored on the operator's own machine, not in the cluster.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use model::base::{Moment, Name, SmallSort};
use model::fleet::finding::Finding;

/// How long a mute lasts; a permanent one would be forgotten.
pub const MUTED_FOR: std::time::Duration = std::time::Duration::from_secs(7 * 86_400);

/// How a finding was silenced.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Silence {
    /// Muted: it stays out of every count, for at most a week, even if it recurs.
    Muted,
    /// Acknowledged: a user works on it, and it stays out of every count while it lasts.
    Acknowledged,
}

impl Silence {
    /// As shown in the alerts view.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Muted => "muted",
            Self::Acknowledged => "acked",
        }
    }
}

/// The silence of one finding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SilenceEntry {
    pub silence: Silence,
    /// When it was set.
    pub at: Moment,
}

/// The silences of one cluster, by finding id.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Silences(BTreeMap<Name, SilenceEntry>);

/// A line of the log beside a record.
#[derive(Serialize, Deserialize)]
struct LoggedSilence {
    at: String,
    id: String,
    /// `None` where the silence was removed.
    state: Option<Silence>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SilenceFile {
    version: u32,
    #[serde(default)]
    context: BTreeMap<String, BTreeMap<String, SilenceLine>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SilenceLine {
    state: Silence,
    at: String,
}

impl Silences {
    /// The silence of a finding in effect at this moment.
    pub fn of(&self, finding: &Finding, now: Moment) -> Option<Silence> {
        let entry = self.0.get(&finding.id)?;
        let holds = match entry.silence {
            Silence::Muted => now < entry.at.plus(MUTED_FOR),
            // A finding that recurs afterwards is new.
            Silence::Acknowledged => finding.since <= entry.at,
        };
        holds.then_some(entry.silence)
    }

    /// The silence of an advice in effect at this moment; either kind lasts a week.
    pub fn of_advice(&self, id: &str, now: Moment) -> Option<Silence> {
        let entry = self.0.get(id)?;
        (now < entry.at.plus(MUTED_FOR)).then_some(entry.silence)
    }

    /// Sets the silence of a finding; `None` removes it.
    pub fn set(&mut self, id: Name, entry: Option<SilenceEntry>) {
        match entry {
            Some(entry) => self.0.insert(id, entry),
            None => self.0.remove(&id),
        };
    }

    /// True where no finding is silenced.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Every silence, by finding id.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &SilenceEntry)> {
        self.0.iter()
    }

    /// The silence of a finding, in effect or expired.
    pub fn entry(&self, id: &str) -> Option<SilenceEntry> {
        self.0.get(id).copied()
    }

    /// The log line of a record for setting a silence at `at`; `None` removes it.
    pub fn logged(id: &str, state: Option<Silence>, at: Moment) -> String {
        let line = LoggedSilence {
            at: at.rfc3339(),
            id: id.to_owned(),
            state,
        };
        let text = serde_json::to_string(&line).expect("has text keys");
        text + "\n"
    }

    /// The silences in effect at `at` by the log of a record. Malformed and truncated lines are skipped.
    pub fn by_log(log: &str, at: Moment) -> Self {
        let lines = log.lines().filter_map(|line| {
            let line: LoggedSilence = serde_json::from_str(line).ok()?;
            Some((Moment::parse(&line.at)?, line))
        });
        // Two consoles may have written out of order.
        let mut lines: Vec<(Moment, LoggedSilence)> =
            lines.filter(|(done, _)| *done <= at).collect();
        lines.small_sort_by_key(|(done, _)| *done);
        let mut silences = Self::default();
        for (at, line) in lines {
            let entry = line.state.map(|silence| SilenceEntry { silence, at });
            silences.set(Name::from(line.id), entry);
        }
        silences
    }

    /// Reads the entries of `context` from the state file; an empty text has none.
    ///
    /// # Errors
    /// The text is not a valid state file.
    pub fn read(text: &str, context: &str) -> Result<Self, String> {
        let mut file = file(text)?;
        let lines = file.context.remove(context).unwrap_or_default();
        let entries = lines.into_iter().filter_map(|(id, line)| {
            let at = Moment::parse(&line.at)?;
            let silence = line.state;
            Some((Name::from(id), SilenceEntry { silence, at }))
        });
        Ok(Self(entries.collect()))
    }

    /// The state file's text with one finding's entry of `context` changed and expired entries removed.
    ///
    /// # Errors
    /// The text is not a valid state file.
    pub fn written(
        text: &str,
        context: &str,
        id: &str,
        entry: Option<SilenceEntry>,
        now: Moment,
    ) -> Result<String, String> {
        let mut file = file(text)?;
        let lines = file.context.entry(context.to_owned()).or_default();
        match entry {
            Some(entry) => {
                let (state, at) = (entry.silence, entry.at.rfc3339());
                lines.insert(id.to_owned(), SilenceLine { state, at });
            }
            None => {
                lines.remove(id);
            }
        }
        for lines in file.context.values_mut() {
            // Whether a finding still lasts is unknown here: both kinds are dropped after a while.
            lines.retain(|_, line| {
                Moment::parse(&line.at).is_some_and(|at| now < at.plus(MUTED_FOR * 4))
            });
        }
        file.context.retain(|_, lines| !lines.is_empty());
        let text = serde_json::to_string_pretty(&file).expect("has text keys");
        Ok(text + "\n")
    }
}

fn file(text: &str) -> Result<SilenceFile, String> {
    if text.trim().is_empty() {
        return Ok(SilenceFile {
            version: 1,
            context: BTreeMap::new(),
        });
    }
    let file: SilenceFile = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if file.version == 1 {
        Ok(file)
    } else {
        Err(format!("version {} is not known here", file.version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::facts;
    use std::time::Duration;

    #[test]
    fn a_mute_runs_out_and_what_comes_back_is_news() {
        let facts = facts();
        let finding = &facts.fleet.findings[0];
        let now = facts.now;
        let mut silences = Silences::default();
        assert_eq!(silences.of(finding, now), None);
        let entry = |silence| Some(SilenceEntry { silence, at: now });
        silences.set(finding.id.clone(), entry(Silence::Muted));
        assert_eq!(silences.of(finding, now), Some(Silence::Muted));
        assert_eq!(silences.of(finding, now.plus(MUTED_FOR)), None);
        silences.set(finding.id.clone(), entry(Silence::Acknowledged));
        assert_eq!(silences.of(finding, now), Some(Silence::Acknowledged));
        let again = Finding {
            since: now.plus(Duration::from_secs(1)),
            ..finding.clone()
        };
        assert_eq!(silences.of(&again, now.plus(Duration::from_secs(2))), None);
        silences.set(finding.id.clone(), None);
        assert_eq!(silences, Silences::default());
    }

    #[test]
    fn the_silence_log_of_a_record_applies_as_of_each_moment() {
        let at = |second: i64| Moment::from_seconds(1_800_000_000 + second);
        let log = [
            Silences::logged("a", Some(Silence::Muted), at(10)),
            "half a li\n".to_owned(),
            Silences::logged("a", None, at(30)),
            // One that was set before the log began.
            Silences::logged("b", Some(Silence::Acknowledged), at(5)),
        ]
        .concat();
        let known = |second| {
            let silences = Silences::by_log(&log, at(second));
            let all = silences
                .iter()
                .map(|(id, entry)| (id.to_string(), entry.silence));
            all.collect::<Vec<_>>()
        };
        let acked = ("b".to_owned(), Silence::Acknowledged);
        assert_eq!(known(4), []);
        assert_eq!(known(9), std::slice::from_ref(&acked));
        assert_eq!(known(29), [("a".to_owned(), Silence::Muted), acked.clone()]);
        assert_eq!(known(31), [acked]);
    }

    #[test]
    fn the_file_keeps_other_clusters_and_forgets_what_ran_out() {
        let at = Moment::from_seconds(1_800_000_000);
        let entry = |silence| Some(SilenceEntry { silence, at });
        let one = Silences::written("", "prod", "xid-79 n/gpu3", entry(Silence::Muted), at);
        let two = Silences::written(
            &one.expect("is ours"),
            "lab",
            "a",
            entry(Silence::Acknowledged),
            at,
        )
        .expect("is ours");
        let prod = Silences::read(&two, "prod").expect("is ours");
        assert_eq!(prod.0.len(), 1);
        assert_eq!(Silences::read(&two, "lab").expect("is ours").0.len(), 1);
        assert_eq!(Silences::read(&two, "else"), Ok(Silences::default()));
        let later = at.plus(MUTED_FOR * 5);
        let three = Silences::written(&two, "lab", "a", None, later).expect("is ours");
        assert_eq!(three, "{\n  \"version\": 1,\n  \"context\": {}\n}\n");
        assert!(Silences::read("{\"version\": 2}", "x").is_err());
        assert!(Silences::read("nonsense", "x").is_err());
    }
}
