//! Changes of one cause as one row: 22 jobs that one job preempted, 12 nodes that joined a pool, a finding on three nodes.

use std::collections::BTreeMap;

use model::base::quantities::{counted, first_named};
use model::base::{Age, Name, SmallSort};
use model::fleet::finding::Severity;

use super::{Dated, FleetChange, FleetChangeKind, FleetChanges, Topic};

/// Changes of one cause are one row where each came at most this long before the next.
const CLOSE: Age = Age::from_seconds(120);

/// The number of objects named in the detail of a row.
const NAMED: usize = 6;

/// The places of the changes that are one row each, in the order of their latest change. `changes` are the newest first.
pub(super) fn groups(changes: &[FleetChange]) -> Vec<Vec<u32>> {
    let mut groups: Vec<Vec<u32>> = Vec::new();
    let mut open: BTreeMap<(FleetChangeKind, &Name), usize> = BTreeMap::new();
    for (place, change) in changes.iter().enumerate() {
        // A node that fails is one event with the findings about it.
        let event = match (change.topic, change.event) {
            (Topic::Node, FleetChangeKind::NotReady) => FleetChangeKind::Began,
            (_, event) => event,
        };
        let key = (event, &change.cause);
        let known = open.get(&key).copied().filter(|group| {
            let last = groups[*group].last().map(|last| &changes[*last as usize]);
            last.is_some_and(|last| !change.cause.is_empty() && is_close(last, change))
        });
        match known {
            Some(group) => groups[group].push(place as u32),
            None => {
                open.insert(key, groups.len());
                groups.push(vec![place as u32]);
            }
        }
    }
    for group in &mut groups {
        // The node that failed stands for the findings about it.
        group.small_sort_by_key(|place| changes[*place as usize].topic == Topic::Finding);
    }
    groups
}

fn is_close(later: &FleetChange, earlier: &FleetChange) -> bool {
    match (later.at.map(Dated::at), earlier.at.map(Dated::at)) {
        (Some(later), Some(earlier)) => later.since(earlier) <= CLOSE,
        (later, earlier) => later == earlier,
    }
}

/// Changes of one cause, which are one row of a table; never empty.
#[derive(Clone, Copy, Debug)]
pub struct CauseGroup<'a> {
    changes: &'a [FleetChange],
    places: &'a [u32],
}

impl<'a> CauseGroup<'a> {
    /// The group of one change.
    pub fn single(change: &'a FleetChange) -> Self {
        Self {
            changes: std::slice::from_ref(change),
            places: &[0],
        }
    }

    /// Its changes; the first stands for all.
    pub fn all(self) -> impl Iterator<Item = &'a FleetChange> {
        self.places
            .iter()
            .map(move |place| &self.changes[*place as usize])
    }

    /// The change that stands for all.
    pub fn first(self) -> &'a FleetChange {
        &self.changes[self.places[0] as usize]
    }

    /// Time of the latest of its changes.
    pub fn at(self) -> Option<Dated> {
        self.all()
            .filter_map(|change| change.at)
            .max_by_key(|dated| dated.at())
    }

    /// The heaviest weight of its changes.
    pub fn weight(self) -> Option<Severity> {
        self.all().filter_map(FleetChange::weight).min()
    }

    /// Its changes of the same topic as the first: a node that failed is one node, however many findings are about it.
    fn own(self) -> impl Iterator<Item = &'a FleetChange> {
        let topic = self.first().topic;
        self.all().filter(move |change| change.topic == topic)
    }

    /// The objects in words: `nlp/llm-70b-sft`, `22 jobs`.
    pub fn subject(self) -> String {
        let subjects = self.subjects();
        match (subjects.as_slice(), self.first().topic) {
            ([one], _) => one.clone(),
            (many, Topic::Finding) => counted(many.len() as u64, "object"),
            (many, topic) => counted(many.len() as u64, topic.name()),
        }
    }

    /// The names of its objects, each once.
    fn subjects(self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for name in self.own().map(FleetChange::subject) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The team of all of them; `None` where there is none, or several.
    pub fn team(self) -> Option<&'a Name> {
        let team = self.first().team.as_ref()?;
        self.all()
            .all(|change| change.team.as_ref() == Some(team))
            .then_some(team)
    }

    /// What is known of the changes in words, then the names of the objects where there are several.
    pub fn detail(self) -> String {
        let mut details: Vec<&str> = Vec::new();
        for change in self.own().filter(|change| !change.detail.is_empty()) {
            if !details.contains(&change.detail.as_str()) {
                details.push(&change.detail);
            }
        }
        let subjects = self.subjects();
        if subjects.len() < 2 {
            return details.join("; ");
        }
        let named = first_named(&subjects, NAMED);
        match details.as_slice() {
            [] => named,
            [only] => format!("{only}: {named}"),
            [first, ..] if self.first().topic == Topic::Finding => {
                let code = first.split(':').next().unwrap_or(first);
                format!("{code}: {named}")
            }
            _ => named,
        }
    }
}

impl FleetChanges {
    /// Number of rows: changes of one cause that came close together are one.
    pub fn rows(&self) -> usize {
        self.groups.len()
    }

    /// The changes of a row.
    pub fn row(&self, place: usize) -> Option<CauseGroup<'_>> {
        let places = self.groups.get(place)?;
        Some(CauseGroup {
            changes: &self.changes,
            places,
        })
    }
}
