//! The fault of a source and its repair: one wording for every screen and command.

use crate::base::Moment;

use super::kinds::Table;
use super::observe::{SourceHealth, SourceState};
use crate::fleet::fleet::{Fleet, TableState};
use crate::fleet::node::Node;

/// Why a source fails, and the repair.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SourceFault {
    /// The source's node when that node is not ready, then the last failure; may be empty.
    pub cause: String,
    /// The repair, in the imperative; may be empty.
    pub repair: String,
}

impl SourceFault {
    /// The cause and the repair in one line.
    pub fn words(&self) -> String {
        let both = [self.cause.as_str(), self.repair.as_str()];
        let parts: Vec<&str> = both.into_iter().filter(|words| !words.is_empty()).collect();
        parts.join("; ")
    }
}

impl Fleet {
    /// The fault of a source. When the source's node is not ready, the node, that is the first cause, and the repair is that of the node.
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

    /// The moment since which a source fails; `true` when that moment is only this program's first sight of the failure. A source that
    /// never answered may have failed before: when its node is not ready, the source fails since the node does.
    pub fn fails_since(&self, source: &SourceHealth) -> Option<(Moment, bool)> {
        let seen = source.failing_since?;
        if source.last_ok.is_some() {
            return Some((seen, false));
        }
        let node = self.node_down(source).and_then(|node| node.ready_since);
        Some(node.map_or((seen, true), |since| (since, false)))
    }

    /// The node of a failing source, when that node is not ready; `None` also when the list of nodes is hidden or lost.
    pub fn node_down(&self, source: &SourceHealth) -> Option<&Node> {
        let fails = source.failing_since.is_some()
            || matches!(source.state, SourceState::Stale | SourceState::Lost);
        let is_seen = !self.is_hidden(Table::Nodes)
            && !matches!(self.visibility(Table::Nodes), TableState::Lost(_));
        let name = source.node.as_ref().filter(|_| fails && is_seen)?;
        let node = self.node(name)?;
        (node.ready != Some(true)).then_some(node)
    }
}

/// Splits the message `CAUSE; REPAIR (ANSWER)` into `CAUSE (ANSWER)` and `REPAIR`.
pub fn split(message: &str) -> (String, String) {
    let mut depth = 0_usize;
    let mut separator = None;
    for (index, character) in message.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ';' if depth == 0 && message[index..].starts_with("; ") => {
                separator = Some(index);
                break;
            }
            _ => {}
        }
    }
    let Some(separator) = separator else {
        return (message.to_owned(), String::new());
    };
    let (cause, repair) = (&message[..separator], &message[separator + 2..]);
    let answer_at = repair.ends_with(')').then(|| repair.find(" (")).flatten();
    match answer_at {
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
