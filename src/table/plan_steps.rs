//! Phrases that the steps of a plan have in common: shown once, not in each step.

use std::collections::BTreeMap;

use model::plan::{Plan, Step, Verb};

/// A step's verb on a screen; in JSON it is [`Verb::word`].
pub fn verb_title(verb: Verb) -> &'static str {
    match verb {
        Verb::Reprioritise => "priority",
        other => other.word(),
    }
}

/// The least number of steps of a verb whose common phrases are shown once.
const SEVERAL: usize = 3;

/// For each verb of at least three steps: the phrases that all of them have, in the order of the first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CommonPhrases(BTreeMap<Verb, Vec<String>>);

impl CommonPhrases {
    /// Of the phrases that `phrases` gives for each step.
    pub fn of(plan: &Plan, phrases: impl Fn(&Step) -> Vec<String>) -> Self {
        let mut steps: BTreeMap<Verb, Vec<&Step>> = BTreeMap::new();
        for step in &plan.steps {
            steps.entry(step.verb).or_default().push(step);
        }
        let common = steps.into_iter().filter_map(|(verb, steps)| {
            let (first, rest) = steps.split_first()?;
            if rest.len() + 1 < SEVERAL {
                return None;
            }
            let mut common = phrases(first);
            for step in rest {
                let own = phrases(step);
                common.retain(|phrase| own.contains(phrase));
            }
            (!common.is_empty()).then_some((verb, common))
        });
        Self(common.collect())
    }

    /// The phrases of a step that are its own.
    pub fn rest(&self, step: &Step, mut phrases: Vec<String>) -> Vec<String> {
        if let Some(common) = self.0.get(&step.verb) {
            phrases.retain(|phrase| !common.contains(phrase));
        }
        phrases
    }

    /// A sentence for each verb: `each suspend: Kueue: active = false; ignores PodDisruptionBudgets`.
    pub fn sentences(&self) -> impl Iterator<Item = String> {
        let all = self.0.iter();
        all.map(|(verb, phrases)| format!("each {}: {}", verb_title(*verb), phrases.join("; ")))
    }
}
