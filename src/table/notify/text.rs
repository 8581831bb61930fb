//! Messages as text, and as payloads for Slack incoming webhooks.

use serde_json::json;

use model::base::name::printable;
use model::fleet::finding::Severity;

use super::alertmanager::severity;
use super::entry::{AlertGroup, Entry, News};
use super::webhook::status;

/// The number of findings listed in a message, and the length in characters of the text about one.
const MOST: usize = 10;
const LONGEST: usize = 300;

/// The headline: `critical: xid-79, 12 findings in rack r7 (prod)`; `severity` gives the receiver's word for a severity.
pub(super) fn headline(
    cluster: &str,
    group: &AlertGroup,
    entries: &[&Entry],
    severity: fn(Severity) -> &'static str,
) -> String {
    let worst = entries.iter().map(|entry| entry.alert.finding.severity);
    let level = match (group.news, worst.min()) {
        (News::Firing, Some(worst)) => severity(worst),
        _ => status(group, entries),
    };
    let code = &group.code;
    let what = match entries {
        [one] => object(one),
        _ => {
            let count = entries.len();
            match &group.place {
                Some((kind, name)) => format!("{count} findings in {kind} {name}"),
                None => format!("{count} findings"),
            }
        }
    };
    format!("{level}: {code}, {what} ({cluster})")
}

/// An object with its location: `Device gpu-07/gpu3, node gpu-07, rack r7, pool h100`.
fn object(entry: &Entry) -> String {
    let (subject, place) = (&entry.alert.finding.subject, &entry.alert.place);
    let mut words = format!("{} ", subject.kind);
    if !subject.key.namespace.is_empty() {
        words.push_str(&subject.key.namespace);
        words.push('/');
    }
    words.push_str(&subject.key.name);
    let own = subject.kind.to_ascii_lowercase();
    for (kind, part) in [("rack", &place.rack), ("pool", &place.pool)] {
        if let Some(name) = part.as_ref().filter(|_| own != kind) {
            words.push_str(&format!(", {kind} {name}"));
        }
    }
    words
}

/// The text for a Slack incoming webhook.
pub(super) fn slack(cluster: &str, group: &AlertGroup, entries: &[&Entry]) -> String {
    let mut lines = vec![headline(cluster, group, entries, severity)];
    let one = entries.len() == 1;
    if group.news == News::Firing {
        for entry in entries.iter().take(MOST) {
            let finding = &entry.alert.finding;
            let about = match one {
                true => finding.message.clone(),
                false => format!("{}: {}", object(entry), finding.message),
            };
            let acknowledged = match entry.alert.acknowledged {
                true => " (acknowledged)",
                false => "",
            };
            let about = clipped(&about);
            lines.push(match one {
                true => format!("{about}{acknowledged}"),
                false => format!("- {about}{acknowledged}"),
            });
        }
        let repair = &entries[0].alert.finding.repair;
        let same = |entry: &&Entry| entry.alert.finding.repair == *repair;
        let more = entries.len().saturating_sub(MOST);
        if more > 0 {
            lines.push(format!("and {more} more"));
        }
        if !repair.is_empty() && entries.iter().all(same) {
            lines.push(format!("Repair: {}", clipped(repair)));
        }
        if let [entry] = entries {
            let since = entry.alert.finding.since.rfc3339();
            let words = match entry.alert.finding.first_seen {
                true => "First seen",
                false => "Since",
            };
            lines.push(format!("{words} {since}"));
        }
    }
    let lines: Vec<String> = lines.iter().map(|line| escaped(line)).collect();
    json!({ "text": lines.join("\n") }).to_string()
}

fn clipped(text: &str) -> String {
    let mut out = text.to_owned();
    if let Some((at, _)) = text.char_indices().nth(LONGEST) {
        out.truncate(at);
        out.push('…');
    }
    out
}

/// Escapes a text: no control characters, no markup, no mentions
/// (<https://api.slack.com/reference/surfaces/formatting#escaping>; Mattermost accepts `@channel` without brackets).
fn escaped(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for c in printable(line).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '@' => out.push_str("@\u{200b}"),
            c => out.push(c),
        }
    }
    out
}
