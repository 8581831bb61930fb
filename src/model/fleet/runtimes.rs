//! How long past jobs ran, by what they have in common: what a forecast knows of a job that says nothing of itself.
//!
//! A job belongs to several groups, the narrowest first: runs of the same name but for what numbers them, jobs of its team
//! of the same size on the same class and on any, all jobs of that size on that class and on any, all jobs on that class, and all
//! jobs. The narrowest of which enough is known speaks for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::{Name, SmallSort};

use super::job::Job;

/// Tenths of the past runs of a group, in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tenths {
    /// Runs that they were made of.
    pub count: u32,
    /// A tenth were shorter.
    pub p10_ms: i64,
    pub p50_ms: i64,
    /// Nine tenths were shorter.
    pub p90_ms: i64,
}

impl Tenths {
    /// Of runs in any order, in milliseconds; `None` without one.
    pub fn of(runs: impl Iterator<Item = i64>) -> Option<Self> {
        let mut sorted: Vec<i64> = runs.collect();
        sorted.small_sort();
        let at = |percent: usize| {
            let rank = (sorted.len() * percent).div_ceil(100).max(1) - 1;
            sorted.get(rank).copied()
        };
        Some(Self {
            count: u32::try_from(sorted.len()).unwrap_or(u32::MAX),
            p10_ms: at(10)?,
            p50_ms: at(50)?,
            p90_ms: at(90)?,
        })
    }
}

/// Runtimes of past runs, by group. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Runtimes(Arc<BTreeMap<Name, Tenths>>);

impl FromIterator<(Name, Tenths)> for Runtimes {
    fn from_iter<I: IntoIterator<Item = (Name, Tenths)>>(groups: I) -> Self {
        Self(Arc::new(groups.into_iter().collect()))
    }
}

impl Runtimes {
    /// True where nothing was learned between the two.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Every group of which enough is known, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &Tenths)> {
        self.0.iter()
    }

    /// The group that represents a job, and its runtimes.
    pub fn of(&self, job: &Job) -> Option<(&Name, &Tenths)> {
        groups(job, job.class.as_deref())
            .iter()
            .find_map(|group| self.0.get_key_value(group.as_str()))
    }
}

/// The groups of a job, the narrowest first: with one class, or with all where its class is not known.
pub fn groups(job: &Job, class: Option<&str>) -> Vec<String> {
    let size = match job.devices_requested {
        0..=1 => "1",
        2..=8 => "2-8",
        9..=64 => "9-64",
        _ => "65+",
    };
    let on: Vec<&str> = class.into_iter().chain(["any"]).collect();
    let own = format!(
        "{} {}/{}",
        job.id.kind,
        job.id.key.namespace,
        stem(&job.id.key.name)
    );
    let of_team = on
        .iter()
        .map(|on| format!("team {} on {size} {on}", job.team));
    let of_size = on.iter().map(|on| format!("all on {size} {on}"));
    let of_all = on.iter().map(|on| format!("all on {on}"));
    [own]
        .into_iter()
        .chain(of_team)
        .chain(of_size)
        .chain(of_all)
        .collect()
}

/// A name without what numbers it: `sweep-0412` and `sweep-9f3a` are runs of `sweep`.
fn stem(name: &str) -> &str {
    let Some((stem, last)) = name.rsplit_once('-') else {
        return name;
    };
    let counts = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    let digit = last.bytes().any(|byte| byte.is_ascii_digit());
    let drawn = last.len() >= 4 && digit && last.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if !stem.is_empty() && (counts || drawn) {
        stem
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stem_is_the_name_without_its_number() {
        for (name, expected) in [
            ("sweep-0412", "sweep"),
            ("dpo-34b-1d09", "dpo-34b"),
            ("llm-70b", "llm-70b"),
            ("train-eval", "train-eval"),
            ("run-7", "run"),
            ("alone", "alone"),
            ("-12", "-12"),
        ] {
            assert_eq!(stem(name), expected);
        }
    }
}
