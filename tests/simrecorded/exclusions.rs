//! What the simulated cluster answers differently on purpose, each with its reason.

use super::differences::Difference;

/// One exclusion. `*` stands for any text.
struct Excuse {
    /// `GROUP/NAME` of the recordings.
    recording: &'static str,
    /// Which differences; `*` alone for the recording as a whole.
    path: &'static str,
    /// Why the two may differ here.
    why: &'static str,
}

const fn excuse(recording: &'static str, path: &'static str, why: &'static str) -> Excuse {
    Excuse { recording, path, why }
}

const EXCUSES: &[Excuse] = &[];

/// The exclusions of one group, and which of them were needed.
pub struct Excuses {
    group: String,
    needed: Vec<(&'static Excuse, bool)>,
}

impl Excuses {
    pub fn of(group: &str) -> Self {
        let prefix = format!("{group}/");
        let own = |excuse: &&'static Excuse| excuse.recording.starts_with(&prefix);
        Self {
            group: group.to_owned(),
            needed: EXCUSES.iter().filter(own).map(|excuse| (excuse, false)).collect(),
        }
    }

    /// The differences of a recording that no exclusion speaks of.
    pub fn judge(&mut self, name: &str, found: Vec<Difference>) -> Vec<Difference> {
        let recording = format!("{}/{name}", self.group);
        found
            .into_iter()
            .filter(|difference| {
                let excuse = self.needed.iter_mut().find(|(excuse, _)| {
                    like(excuse.recording, &recording) && like(excuse.path, &difference.path)
                });
                match excuse {
                    Some((_, needed)) => {
                        *needed = true;
                        false
                    }
                    None => true,
                }
            })
            .collect()
    }

    /// The exclusions that excused nothing.
    pub fn needless(&self) -> Vec<String> {
        let unneeded = self.needed.iter().filter(|(_, needed)| !needed);
        unneeded
            .map(|(excuse, _)| {
                format!("the exclusion of {} of {} is needless: take it out ({})", excuse.path, excuse.recording, excuse.why)
            })
            .collect()
    }
}

/// True when a text is what a pattern says, whose `*` stand for any text.
fn like(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(tail) = text.strip_prefix(head) else {
        return false;
    };
    (0..=tail.len()).filter(|at| tail.is_char_boundary(*at)).any(|at| like(rest, &tail[at..]))
}

#[test]
fn patterns_stand_for_what_they_say() {
    assert!(like("a/*", "a/b/c") && like("*", "") && like("/a[*]/b", "/a[x]/b"));
    assert!(!like("/a[*]/b", "/a[x]/bc") && !like("a", "ab"));
}
