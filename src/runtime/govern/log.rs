//! Log lines of `govern`, in `key=value` form.

use model::base::Moment;
use model::base::name::printable;
use plan::govern::PlannedWrite;

/// A line of the log: `at=… action=admit job=nlp/train …`.
pub(super) fn line(at: Moment, fields: &[(&str, &str)]) -> String {
    let mut out = format!("at={}", at.rfc3339());
    for (key, value) in fields {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:".contains(c);
        let value = printable(value);
        match !value.is_empty() && value.chars().all(plain) {
            true => out.push_str(&format!(" {key}={value}")),
            false => out.push_str(&format!(" {key}={value:?}")),
        }
    }
    out
}

pub(super) fn logged(at: Moment, write: &PlannedWrite, outcome: &str, why: &str) -> String {
    let level = match outcome {
        "refused" | "unknown" | "busy" => "warn",
        _ => "info",
    };
    let devices = write.devices.to_string();
    line(
        at,
        &[
            ("level", level),
            ("action", write.purpose.word()),
            ("outcome", outcome),
            ("kind", &write.job.kind),
            ("job", &write.job.key.to_string()),
            ("queue", &write.queue),
            ("devices", &devices),
            ("reason", why),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_can_be_read_by_programs() {
        let at = Moment::from_seconds(0);
        let entry = line(
            at,
            &[
                ("job", "nlp/train"),
                ("reason", "it \"waits\""),
                ("queue", ""),
            ],
        );
        assert_eq!(
            entry,
            "at=1970-01-01T00:00:00Z job=nlp/train reason=\"it \\\"waits\\\"\" queue=\"\""
        );
    }
}
