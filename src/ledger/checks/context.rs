//! What the checks remember between two runs, and where a check puts its verdicts during one.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use model::base::{Age, Moment, Name, ObjectKey};
use model::fleet::device::Device;
use model::fleet::finding::{FIRST_READINGS, Finding, Severity, Subject};
use model::fleet::fleet::Fleet;
use model::fleet::idle::IdleSince;
use model::fleet::job::JobKey;
use model::fleet::thresholds::{Rule, Thresholds};

use super::{PATIENCE, Verdict};
use crate::checks::devices::under_used::WindowMean;

/// State that checks keep between runs. Its size follows the number of findings, not the fleet, except for a few numbers a device.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(
    into = "BTreeMap<String, CheckState>",
    from = "BTreeMap<String, CheckState>"
)]
pub struct CheckStates {
    check_states: FxHashMap<&'static str, CheckState>,
    /// Devices that were not read, or too long ago, at the run before.
    pub(super) stale: Vec<Name>,
}

impl From<CheckStates> for BTreeMap<String, CheckState> {
    fn from(state: CheckStates) -> Self {
        let states = state.check_states.into_iter();
        states.map(|(code, one)| (code.to_owned(), one)).collect()
    }
}

/// A check that this version does not have is forgotten.
impl From<BTreeMap<String, CheckState>> for CheckStates {
    fn from(mut states: BTreeMap<String, CheckState>) -> Self {
        let known = super::codes().filter_map(|code| Some((code, states.remove(code)?)));
        Self {
            check_states: known.collect(),
            stale: Vec::new(),
        }
    }
}

impl CheckStates {
    /// The part that the next program takes over: start times of firing findings and last values of counters. `at` is the time of
    /// saving. Means over a window begin anew.
    #[must_use]
    pub fn handed_on(self, at: Moment) -> Self {
        let states = self.check_states.into_iter();
        Self {
            check_states: states
                .map(|(code, state)| (code, state.handed_on(at)))
                .collect(),
            stale: Vec::new(),
        }
    }

    /// Opens a check for one run, with its state from earlier runs.
    pub(super) fn open<'a>(
        &mut self,
        code: &'static str,
        fleet: &'a Fleet,
        now: Moment,
        (thresholds, stale): (&'a Thresholds, &'a [Name]),
    ) -> CheckContext<'a> {
        let mut check_state = self.check_states.remove(code).unwrap_or_default();
        check_state.run = check_state.run.wrapping_add(1);
        if now.since(check_state.recalled_at) > Age::from(PATIENCE) {
            check_state.recalled.clear();
        }
        if fleet.is_complete() {
            check_state.begun.get_or_insert(now);
        }
        CheckContext {
            code,
            rule: thresholds.rule(code),
            thresholds,
            fleet,
            now,
            check_state,
            tally: FxHashMap::default(),
            walks_devices: false,
            stale,
            blind: Vec::new(),
            found: Vec::new(),
        }
    }

    /// Keeps the state of the checks that ran; drops that of disabled checks.
    pub(super) fn put_back(&mut self, check_states: Vec<(&'static str, CheckState)>) {
        self.check_states = check_states.into_iter().collect();
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct CheckState {
    /// Number of the current run: entries that the run does not touch have ended.
    run: u32,
    entries: FxHashMap<Name, FindingCandidate>,
    /// Last values of counters and sticky gauges, by device.
    pub(super) memory: FxHashMap<Name, LastValue>,
    /// Means over a window, by job.
    pub(super) means: FxHashMap<Name, WindowMean>,
    /// Start times of findings that an earlier program showed and this one has not seen yet.
    #[serde(skip_serializing_if = "FxHashMap::is_empty")]
    recalled: FxHashMap<Name, Moment>,
    /// When that program last confirmed them; they expire [`PATIENCE`] later.
    recalled_at: Moment,
    /// The first run of this program with every list read.
    begun: Option<Moment>,
    /// Subjects of which too little was known at the run before.
    #[serde(skip)]
    blind: Vec<Name>,
}

impl CheckState {
    fn handed_on(self, at: Moment) -> Self {
        let shown = self.entries.into_iter();
        let shown = shown.filter(|(_, entry)| entry.shown && !entry.told);
        let fresh = shown.map(|(key, entry)| (key, entry.first));
        // Taken over from a still earlier program and not seen again yet.
        let older = at.since(self.recalled_at) <= Age::from(PATIENCE);
        let older = self.recalled.into_iter().filter(|_| older);
        Self {
            memory: self.memory,
            recalled: older.chain(fresh).collect(),
            recalled_at: at,
            ..Self::default()
        }
    }
}

/// Something that is, or may become, a finding.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct FindingCandidate {
    run: u32,
    /// Since when it has been true.
    first: Moment,
    /// Something other than our own watching says so.
    told: bool,
    /// Its subject was known before, and it was not true then.
    #[serde(default)]
    watched: bool,
    /// It has lasted long enough to be shown.
    shown: bool,
    /// Since when nothing is known about it.
    gap: Option<Moment>,
    /// The finding as last made: it is shown for as long as nothing is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last: Option<LastFound>,
}

/// The last verdict of a check on one subject.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct LastFound {
    finding: Finding,
    group: Option<FindingGroup>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cause: Option<Name>,
}

/// The last value of a counter or a sticky gauge.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct LastValue {
    pub(super) value: f64,
    /// The earlier value that it is compared with.
    pub(super) base: f64,
    /// When `base` was last the value, or when the value last changed since then.
    pub(super) changed: Moment,
    /// When `value` was read.
    pub(super) read: Moment,
}

/// Counts for one subject during the walk over the devices.
#[derive(Clone, Debug)]
pub(super) struct SubjectTally {
    /// The job, where the subject is one.
    pub(super) job: Option<JobKey>,
    /// Class of its devices.
    pub(super) class: Name,
    /// Devices that the check is about.
    pub(super) count: u32,
    /// Devices of which too little is known.
    pub(super) unknown: u32,
    pub(super) most: f64,
    /// Of idle devices the one that is idle longest.
    pub(super) idle: Option<IdleSince>,
    /// Ids of the devices that the check is about, where the finding names them.
    pub(super) devices: Vec<Name>,
}

impl SubjectTally {
    pub(super) fn new(job: Option<JobKey>, class: &Name) -> Self {
        Self {
            job,
            class: class.clone(),
            count: 0,
            unknown: 0,
            most: f64::NEG_INFINITY,
            idle: None,
            devices: Vec::new(),
        }
    }
}

/// Three or more findings with one code and one group become one: the group's subject, and what to say after their number.
pub(super) type FindingGroup = (Subject, Cow<'static, str>);

/// A finding, and the finding that it may be merged into.
#[derive(Clone, Debug)]
pub(super) struct MergeableFinding {
    /// The check that found it.
    pub(super) check: &'static str,
    pub(super) finding: Finding,
    /// The finding that it may be merged into.
    pub(super) group: Option<FindingGroup>,
    /// The device whose fault causes it, where that has a finding of its own.
    pub(super) cause: Option<Name>,
}

/// What a check has to say, before id and time are added.
pub(super) struct FindingDraft {
    subject: Subject,
    code: Option<Name>,
    detail: Option<Name>,
    severity: Option<Severity>,
    value: Option<f64>,
    threshold: Option<f64>,
    message: String,
    repair: String,
    group: Option<FindingGroup>,
    cause: Option<Name>,
    members: Vec<Name>,
    at_least: bool,
}

impl FindingDraft {
    /// A sentence about a subject, and what to do.
    pub(super) fn new(subject: Subject, message: String, repair: impl Into<String>) -> Self {
        Self {
            subject,
            code: None,
            detail: None,
            severity: None,
            value: None,
            threshold: None,
            message,
            repair: repair.into(),
            group: None,
            cause: None,
            members: Vec::new(),
            at_least: false,
        }
    }

    pub(super) fn value(mut self, value: f64) -> Self {
        self.value = Some(value);
        self
    }

    /// The threshold that it passed.
    pub(super) fn threshold(mut self, threshold: f64) -> Self {
        self.threshold = Some(threshold);
        self
    }

    /// A code of its own (`xid-79`).
    pub(super) fn code(mut self, code: String) -> Self {
        self.code = Some(Name::from(code));
        self
    }

    /// Distinguishes it from other findings with this code and subject.
    pub(super) fn detail(mut self, detail: &Name) -> Self {
        self.detail = Some(detail.clone());
        self
    }

    /// A severity of its own.
    pub(super) fn severity(mut self, severity: Severity) -> Self {
        self.severity = Some(severity);
        self
    }

    /// The device whose fault causes this, if another finding reports that fault: one repair then serves both.
    pub(super) fn caused_by(mut self, device: Option<&Name>) -> Self {
        self.cause = device.cloned();
        self
    }

    /// True where it may have begun earlier than its `since` says.
    pub(super) fn at_least(mut self, at_least: bool) -> Self {
        self.at_least = at_least;
        self
    }

    /// The names of the objects that it counts.
    pub(super) fn members(mut self, members: &[Name]) -> Self {
        self.members = members.to_vec();
        self
    }

    /// Under what, and with which words after their number, three or more of these become one.
    pub(super) fn group(mut self, subject: Subject, words: &'static str) -> Self {
        self.group = Some((subject, words.into()));
        self
    }
}

/// One check's place during one run.
pub(super) struct CheckContext<'a> {
    pub(super) code: &'static str,
    pub(super) rule: &'a Rule,
    pub(super) thresholds: &'a Thresholds,
    pub(super) fleet: &'a Fleet,
    pub(super) now: Moment,
    pub(super) check_state: CheckState,
    /// Counter for this run.
    pub(super) tally: FxHashMap<Name, SubjectTally>,
    /// It runs for each device.
    pub(super) walks_devices: bool,
    /// Devices that were not read at the run before.
    stale: &'a [Name],
    /// Subjects of which too little is known in this run.
    blind: Vec<Name>,
    found: Vec<MergeableFinding>,
}

impl CheckContext<'_> {
    /// Takes a verdict about the subject `key`. A subject without a verdict in a run has ended.
    pub(super) fn report(
        &mut self,
        key: &Name,
        verdict: Verdict,
        draft: impl FnOnce(f64) -> FindingDraft,
    ) {
        self.report_with_start(key, verdict, None, draft);
    }

    /// As [`CheckContext::report`], where something better than our own watching says since when.
    pub(super) fn report_with_start(
        &mut self,
        key: &Name,
        verdict: Verdict,
        since: Option<Moment>,
        draft: impl FnOnce(f64) -> FindingDraft,
    ) {
        let (now, run) = (self.now, self.check_state.run);
        let recalled = match verdict {
            // A finding that has ended meanwhile begins anew.
            Verdict::Firing(_) | Verdict::Ok => self.check_state.recalled.remove(key),
            Verdict::Unknown | Verdict::Held(_) => None,
        };
        let (value, begins) = match verdict {
            Verdict::Ok => return,
            Verdict::Unknown => return self.report_unknown(key),
            Verdict::Firing(value) => (value, true),
            Verdict::Held(value) => (value, false),
        };
        if begins && !self.check_state.entries.contains_key(key) {
            let entry = FindingCandidate {
                run,
                first: now,
                told: false,
                watched: self.is_watched(key),
                shown: false,
                gap: None,
                last: None,
            };
            self.check_state.entries.insert(key.clone(), entry);
        }
        let Some(entry) = self.check_state.entries.get_mut(key) else {
            return;
        };
        if !begins && !entry.shown {
            return;
        }
        entry.run = run;
        if let Some(gap) = entry.gap.take()
            && !entry.shown
        {
            // Time in which nothing was known does not count towards `for`.
            let blind = now.since(gap).millis();
            entry.first = entry.first.plus(std::time::Duration::from_millis(blind));
        }
        if let Some(first) = recalled {
            entry.first = entry.first.min(first);
            entry.watched = false;
        }
        // A clock that went back must not leave a beginning in the future.
        entry.first = since.unwrap_or(entry.first).min(now);
        entry.told = since.is_some();
        entry.shown = entry.shown || now.since(entry.first) >= Age::from(self.rule.hold);
        if entry.shown {
            let mut last = finish(self.code, self.rule, entry.first, draft(value));
            last.finding.first_seen |= !entry.told;
            last.finding.at_least |= !entry.told && !entry.watched;
            self.found.push(last.clone().of(self.code));
            entry.last = Some(last);
        }
    }

    /// The subject `key` is unknown now: its last verdict stays valid for a while.
    pub(super) fn report_unknown(&mut self, key: &Name) {
        let (now, run) = (self.now, self.check_state.run);
        let Some(entry) = self.check_state.entries.get_mut(key) else {
            // Of devices there is one list for all checks.
            if !self.walks_devices {
                self.blind.push(key.clone());
            }
            return;
        };
        let since = entry.gap.unwrap_or(now).min(now);
        entry.gap = Some(since);
        if now.since(since) > Age::from(PATIENCE) {
            return;
        }
        entry.run = run;
        if let Some(last) = entry.last.as_ref().filter(|_| entry.shown) {
            self.found.push(last.clone().of(self.code));
        }
    }

    /// What the check knows by this job's name and a word of its own is unknown now.
    pub(super) fn report_unknown_of(&mut self, job: &JobKey) {
        if self.check_state.entries.is_empty() {
            return;
        }
        let prefix = format!("{} ", job_name(job));
        let all = self.check_state.entries.keys();
        let these = all.filter(|key| key.starts_with(&prefix));
        let these: Vec<Name> = these.cloned().collect();
        for key in these {
            self.report_unknown(&key);
        }
    }

    /// True when the subject `key` was known at the run before, after the first readings: what begins now was not so then.
    fn is_watched(&self, key: &Name) -> bool {
        let begun = self.check_state.begun;
        begun.is_some_and(|begun| self.now.since(begun) >= Age::from(FIRST_READINGS))
            && !self.check_state.blind.contains(key)
            && !self.stale.iter().any(|device| key.starts_with(&**device))
    }

    /// The state without ended entries, and the findings.
    pub(super) fn close(mut self) -> (CheckState, Vec<MergeableFinding>) {
        let (now, run) = (self.now, self.check_state.run);
        self.check_state.blind = self.blind;
        let forget = Age::from_seconds(24 * 3600);
        self.check_state.entries.retain(|_, entry| entry.run == run);
        self.check_state
            .memory
            .retain(|_, memory| now.since(memory.read) < forget);
        (self.check_state, self.found)
    }
}

impl LastFound {
    fn of(self, check: &'static str) -> MergeableFinding {
        MergeableFinding {
            check,
            finding: self.finding,
            group: self.group,
            cause: self.cause,
        }
    }
}

fn finish(check: &'static str, rule: &Rule, since: Moment, draft: FindingDraft) -> LastFound {
    let code = draft.code.unwrap_or_else(|| Name::from(check));
    let id = match &draft.detail {
        Some(detail) => format!(
            "{code}:{}:{}:{detail}",
            draft.subject.kind, draft.subject.key
        ),
        None => format!("{code}:{}:{}", draft.subject.kind, draft.subject.key),
    };
    LastFound {
        finding: Finding {
            id: Name::from(id),
            severity: draft.severity.unwrap_or(rule.severity),
            code,
            subject: draft.subject,
            since,
            first_seen: draft.at_least,
            at_least: draft.at_least,
            value: draft.value,
            threshold: draft.threshold,
            message: draft.message,
            repair: draft.repair,
            members: draft.members.into(),
            also: Box::default(),
        },
        group: draft.group,
        cause: draft.cause,
    }
}

/// A subject without a namespace.
pub(super) fn subject(kind: &'static str, name: &Name) -> Subject {
    Subject {
        kind,
        key: ObjectKey::new("", name.clone()),
    }
}

pub(super) fn job_subject(job: &JobKey) -> Subject {
    Subject {
        kind: "Job",
        key: job.key.clone(),
    }
}

/// The name under which a job is remembered.
pub(super) fn job_name(job: &JobKey) -> Name {
    Name::from(format!("{}/{}", job.kind, job.key))
}

/// `1 device`, `3 devices`.
pub(super) fn counted(count: usize, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}

/// Who suffers with a device: `vision/clip-l-6 is on it`.
pub(super) fn on_it(device: &Device) -> String {
    let mut holders = device.holders();
    match (holders.next(), holders.count()) {
        (None, _) => String::from("no pod is on it"),
        (Some((pod, how)), 0) => format!("{}{} is on it", how.mark(), pod.key()),
        (Some(_), more) => format!("{} pods are on it", more + 1),
    }
}
