//! The letter and the color of a team, the same in every picture.

use std::collections::BTreeSet;

use table::Facts;
use usage::Period;

/// All teams by name, those of jobs and those of the last 30 days: the place of a team is its letter and its color.
pub struct TeamLetters<'a>(Vec<&'a str>);

impl<'a> TeamLetters<'a> {
    pub fn of(facts: &'a Facts) -> Self {
        let mut all: BTreeSet<&str> = BTreeSet::new();
        for job in facts.fleet.jobs.iter() {
            all.insert(&job.team);
            let others = job.pods.iter().filter(|pod| pod.team != job.team);
            all.extend(others.map(|pod| pod.team.as_str()));
        }
        let mut periods = facts.usage.periods.iter();
        let days = periods.find(|sums| sums.period == Period::Days30);
        let sums = days.into_iter().flat_map(|sums| sums.of_scope(None));
        all.extend(sums.filter_map(|sum| Some(sum.names.first()?.as_str())));
        all.remove("");
        Self(all.into_iter().collect())
    }

    /// The place of a team; `None` for what belongs to none.
    pub fn place(&self, team: &str) -> Option<usize> {
        self.0.binary_search(&team).ok()
    }

    /// The name of the team of a place.
    pub fn name(&self, place: usize) -> &'a str {
        self.0.get(place).copied().unwrap_or_default()
    }
}

/// The letter of a place; beyond the alphabet capitals, then again from the first.
pub fn letter(place: usize) -> char {
    let mut all = ('a'..='z').chain('A'..='Z').cycle();
    all.nth(place % 52).unwrap_or('?')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_team_has_a_letter_of_its_own_while_there_are_letters() {
        let letters: BTreeSet<char> = (0..52).map(letter).collect();
        assert_eq!(letters.len(), 52);
        assert_eq!([letter(0), letter(26), letter(52)], ['a', 'A', 'a']);
    }
}
