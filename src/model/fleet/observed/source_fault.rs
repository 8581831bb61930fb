//! What is wrong with a source, and the repair: one wording for every screen and command.

use crate::base::Moment;

use super::kinds::Table;
use super::observe::{SourceHealth, SourceState};
use crate::fleet::fleet::{Fleet, TableState};
use crate::fleet::node::Node;

/// What is wrong, and what to do about it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SourceFault {
    /// Where its node is not ready that first, then what failed last; may be empty.
    pub cause: String,
    /// In the imperative; may be empty.
    pub repair: String,
}

impl SourceFault {
    /// Both in one line.
    pub fn words(&self) -> String {
        let both = [self.cause.as_str(), self.repair.as_str()];
        let told: Vec<&str> = both.into_iter().filter(|words| !words.is_empty()).collect();
        told.join("; ")
    }
}

impl Fleet {
    /// What is wrong with a source: that its node is not ready is the cause of all else.
    pub fn source_fault(&self, source: &SourceHealth, now: Moment) -> SourceFault {
        let (cause, repair) = split(&source.message);
        let Some(node) = self.node_down(source) else {
            return SourceFault { cause, repair };
        };
        let since = node
            .ready_since
            .map_or_else(String::new, |since| format!(" for {}", now.since(since)));
        let words = format!("its node {} is not ready{since}", node.name());
        SourceFault {
            cause: match cause.is_empty() {
                true => words,
                false => format!("{words}; {cause}"),
            },
            repair: String::from("check kubelet, network and power of its node"),
        }
    }

    /// Since when a source fails. One that never answered may have failed before this program first asked: it fails for as long as
    /// its node has been down. `true` where neither tells, and the moment is that of our first sight.
    pub fn fails_since(&self, source: &SourceHealth) -> Option<(Moment, bool)> {
        let seen = source.failing_since?;
        if source.last_ok.is_some() {
            return Some((seen, false));
        }
        let node = self.node_down(source).and_then(|node| node.ready_since);
        Some(node.map_or((seen, true), |since| (since, false)))
    }

    /// The node of a source that fails, where that is not ready.
    pub fn node_down(&self, source: &SourceHealth) -> Option<&Node> {
        let fails = source.failing_since.is_some()
            || matches!(source.state, SourceState::Stale | SourceState::Lost);
        let is_seen = !self.is_hidden(Table::Nodes)
            && !matches!(self.known(Table::Nodes), TableState::Lost(_));
        let name = source.node.as_ref().filter(|_| fails && is_seen)?;
        let node = self.node(name)?;
        (node.ready != Some(true)).then_some(node)
    }
}

/// `what failed; what to do (what was answered)` as `what failed (what was answered)` and `what to do`.
pub fn split(message: &str) -> (String, String) {
    let mut depth = 0_usize;
    let mut at = None;
    for (place, letter) in message.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ';' if depth == 0 && message[place..].starts_with("; ") => {
                at = Some(place);
                break;
            }
            _ => {}
        }
    }
    let Some(at) = at else {
        return (message.to_owned(), String::new());
    };
    let (cause, repair) = (&message[..at], &message[at + 2..]);
    let answered = repair.ends_with(')').then(|| repair.find(" (")).flatten();
    match answered {
        Some(from) => (
            format!("{cause}{}", &repair[from..]),
            repair[..from].to_owned(),
        ),
        None => (cause.to_owned(), repair.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_a_cause_and_a_repair() {
        let both = |message| {
            let (cause, repair) = split(message);
            format!("{cause}|{repair}")
        };
        assert_eq!(
            both("503: no way to the pod; check its port (dial tcp: refused; twice)"),
            "503: no way to the pod (dial tcp: refused; twice)|check its port"
        );
        assert_eq!(both("no answer (a; b)"), "no answer (a; b)|");
        assert_eq!(both("gone; ask (or wait"), "gone|ask (or wait");
        assert_eq!(both(""), "|");
    }
}
