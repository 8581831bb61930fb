//! The thresholds, durations and clear levels of the checks: `config/alerts.toml`, with the user's file over it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::base::time::parse_span;

use super::xid::{Xid, XidSeverity, XidTable};
use crate::fleet::finding::Severity;

/// When a check speaks, and how loudly.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    /// Whether it runs at all.
    pub enabled: bool,
    /// Severity of its findings, unless a finding states its own.
    pub severity: Severity,
    /// How long it must be true before it is a finding (`for`).
    pub hold: Duration,
    /// The level at which it begins.
    pub threshold: f64,
    /// The level at which it ends.
    pub clear: f64,
    /// True when it begins above its threshold, false when below.
    pub above: bool,
    /// A span that the check itself explains.
    pub window: Duration,
    /// Devices that must be known before it judges.
    pub devices: u32,
    /// The absolute limit where nothing better is known.
    pub fallback: f64,
    /// How far below a hard limit the alarm lies.
    pub approach: f64,
}

impl Rule {
    /// What a check's table need not spell out.
    const NEUTRAL: Self = Self {
        enabled: true,
        severity: Severity::Warn,
        hold: Duration::ZERO,
        threshold: 1.0,
        clear: 0.0,
        above: true,
        window: Duration::ZERO,
        devices: 0,
        fallback: f64::INFINITY,
        approach: 0.0,
    };
}

/// A fault in a file of thresholds: place, fault, and the fix.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadThresholds {
    /// The file, as the user knows it.
    pub origin: String,
    /// Line of the file, from 1.
    pub line: usize,
    /// The fault and the fix.
    pub message: String,
}

impl fmt::Display for BadThresholds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.origin, self.line, self.message)
    }
}

impl std::error::Error for BadThresholds {}

/// The rules of all checks.
#[derive(Clone, PartialEq, Debug)]
pub struct Thresholds {
    rules: BTreeMap<String, Rule>,
    /// Keys that a check's table may have: the keys of the embedded file.
    keys: BTreeMap<String, Vec<String>>,
    /// What XID codes mean.
    pub xid: XidTable,
}

/// The file that comes with the program.
pub const EMBEDDED: &str = include_str!("../../../../config/alerts.toml");

static BASE: LazyLock<Thresholds> = LazyLock::new(|| {
    let mut base = Thresholds {
        rules: BTreeMap::new(),
        keys: BTreeMap::new(),
        xid: XidTable::embedded(),
    };
    base.merge(EMBEDDED, "alerts.toml", true)
        .expect("the embedded alerts.toml is checked by a test");
    base
});

impl Default for Thresholds {
    fn default() -> Self {
        BASE.clone()
    }
}

/// Checks of readings that vary, whose `for` is part of their meaning: a device that is idle now has not been idle for half an
/// hour, and a device that is slower than its gang at one moment does not delay it.
pub const LASTING: &[&str] = &[
    "busy-unallocated",
    "gang-stalled",
    "idle-allocated",
    "memory-saturated",
    "objective-missed",
    "power-capped",
    "straggler",
];

impl Thresholds {
    /// These thresholds with what `text` (TOML) says in their place, key by key. `origin` names the file in an error.
    ///
    /// # Errors
    /// On text that is no TOML, an unknown check or key (with the nearest spelling), a value of the wrong
    /// type, or a clear level on the wrong side of its threshold.
    pub fn with(mut self, text: &str, origin: &str) -> Result<Self, BadThresholds> {
        self.merge(text, origin, false)?;
        Ok(self)
    }

    /// The rule of a check; a disabled one for an unknown code.
    pub fn rule(&self, code: &str) -> &Rule {
        const OFF: &Rule = &Rule {
            enabled: false,
            ..Rule::NEUTRAL
        };
        self.rules.get(code).unwrap_or(OFF)
    }

    /// These thresholds without the wait in which a reading may still be noise: what is true at the first look is a finding.
    /// For a single look, which has no past to judge by; one that keeps looking would flutter. A check that is about how long
    /// something lasts waits all the same, or a single look would count what the console does not.
    #[must_use]
    pub fn at_once(&self) -> Self {
        let mut all = self.clone();
        for (_, rule) in all
            .rules
            .iter_mut()
            .filter(|(code, _)| !LASTING.contains(&code.as_str()))
        {
            rule.hold = Duration::ZERO;
        }
        all
    }

    /// Every check that has a rule, in name order.
    pub fn codes(&self) -> impl Iterator<Item = &str> {
        self.rules.keys().map(String::as_str)
    }

    fn merge(&mut self, text: &str, origin: &str, base: bool) -> Result<(), BadThresholds> {
        let bad = |at: usize, message: String| BadThresholds {
            origin: origin.to_owned(),
            line: text.as_bytes()[..at.min(text.len())]
                .iter()
                .filter(|byte| **byte == b'\n')
                .count()
                + 1,
            message,
        };
        let table = DeTable::parse(text).map_err(|error| {
            bad(
                error.span().map_or(0, |span| span.start),
                error.message().to_owned(),
            )
        })?;
        for (check, value) in table.get_ref() {
            let (name, at) = (check.get_ref().as_ref(), check.span().start);
            let Some(settings) = value.get_ref().as_table() else {
                return Err(bad(at, format!("`{name}` must be a table: [{name}]")));
            };
            if base {
                self.rules.insert(name.to_owned(), Rule::NEUTRAL);
            }
            let Some(old) = self.rules.get(name).cloned() else {
                let nearest = nearest(name, self.codes());
                return Err(bad(at, format!("there is no check `{name}`{nearest}")));
            };
            let mut rule = old.clone();
            for (key, value) in settings {
                let (word, at) = (key.get_ref().as_ref(), key.span().start);
                if name == "xid" && word == "code" {
                    self.merge_codes(value).map_err(|(at, why)| bad(at, why))?;
                    continue;
                }
                if base {
                    self.keys
                        .entry(name.to_owned())
                        .or_default()
                        .push(word.to_owned());
                } else if !self.keys[name].iter().any(|known| known == word) {
                    let nearest = nearest(word, self.keys[name].iter().map(String::as_str));
                    return Err(bad(at, format!("[{name}] has no key `{word}`{nearest}")));
                }
                set(&mut rule, word, value.get_ref())
                    .map_err(|why| bad(value.span().start, format!("[{name}] {word}: {why}")))?;
            }
            let has = |word: &str| settings.keys().any(|key| key.get_ref().as_ref() == word);
            if base {
                rule.above = rule.clear <= rule.threshold;
            } else if has("threshold") && !has("clear") {
                rule.clear = rule.threshold + (old.clear - old.threshold);
            }
            if (rule.above && rule.clear > rule.threshold)
                || (!rule.above && rule.clear < rule.threshold)
            {
                let side = if rule.above { "above" } else { "below" };
                return Err(bad(
                    at,
                    format!(
                        "[{name}] clear = {} lies {side} threshold = {}: it would never end",
                        rule.clear, rule.threshold
                    ),
                ));
            }
            self.rules.insert(name.to_owned(), rule);
        }
        Ok(())
    }

    fn merge_codes(&mut self, value: &Spanned<DeValue<'_>>) -> Result<(), (usize, String)> {
        let wants = "[xid.code.N] needs a number N and a table";
        let codes = value
            .get_ref()
            .as_table()
            .ok_or_else(|| (value.span().start, wants.to_owned()))?;
        for (key, value) in codes {
            let at = key.span().start;
            let (Ok(code), Some(settings)) =
                (key.get_ref().parse::<u32>(), value.get_ref().as_table())
            else {
                return Err((at, wants.to_owned()));
            };
            let mut xid = Xid::clone(&self.xid.get(code));
            for (key, value) in settings {
                let (word, at) = (key.get_ref().as_ref(), value.span().start);
                let text = value
                    .get_ref()
                    .as_str()
                    .ok_or_else(|| (at, format!("[xid.code.{code}] {word} must be a string")))?;
                match word {
                    "meaning" => xid.meaning = text.to_owned(),
                    "repair" => xid.repair = text.to_owned(),
                    "severity" => {
                        xid.severity = match text {
                            "crit" => XidSeverity::Crit,
                            "warn" => XidSeverity::Warn,
                            "info" => XidSeverity::Info,
                            "app" => XidSeverity::App,
                            _ => {
                                return Err((
                                    at,
                                    format!("`{text}` is not a severity: crit, warn, info or app"),
                                ));
                            }
                        };
                    }
                    _ => {
                        let nearest = nearest(word, ["severity", "meaning", "repair"].into_iter());
                        return Err((
                            key.span().start,
                            format!("[xid.code.{code}] has no key `{word}`{nearest}"),
                        ));
                    }
                }
            }
            self.xid.set(xid);
        }
        Ok(())
    }
}

fn set(rule: &mut Rule, key: &str, value: &DeValue<'_>) -> Result<(), String> {
    match key {
        "enabled" => rule.enabled = value.as_bool().ok_or("must be true or false")?,
        "severity" => {
            rule.severity = match value.as_str() {
                Some("crit") => Severity::Crit,
                Some("warn") => Severity::Warn,
                Some("info") => Severity::Info,
                _ => return Err(String::from("must be \"crit\", \"warn\" or \"info\"")),
            }
        }
        "for" => rule.hold = span(value)?,
        "window" => rule.window = span(value)?,
        "threshold" => rule.threshold = number(value)?,
        "clear" => rule.clear = number(value)?,
        "fallback" => rule.fallback = number(value)?,
        "approach" => rule.approach = number(value)?,
        "devices" => {
            let count = number(value)?;
            if count.fract() != 0.0 || !(0.0..=1e6).contains(&count) {
                return Err(String::from("must be a whole number of devices"));
            }
            rule.devices = count as u32;
        }
        _ => return Err(String::from("is not a key of any check")),
    }
    Ok(())
}

fn span(value: &DeValue<'_>) -> Result<Duration, String> {
    value
        .as_str()
        .and_then(parse_span)
        .ok_or_else(|| String::from("must be a duration such as \"90s\", \"10m\" or \"1h30m\""))
}

fn number(value: &DeValue<'_>) -> Result<f64, String> {
    let text = match value {
        DeValue::Integer(whole) if whole.radix() == 10 => whole.as_str(),
        DeValue::Float(real) => real.as_str(),
        _ => return Err(String::from("must be a number")),
    };
    text.parse::<f64>()
        .ok()
        .filter(|number| number.is_finite())
        .ok_or_else(|| String::from("must be a finite number"))
}

/// `; did you mean …?` when a known word is near, else the list of them.
fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    let best = known
        .iter()
        .map(|candidate| (strsim::jaro_winkler(word, candidate), *candidate))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(score, _)| *score > 0.75);
    match best {
        Some((_, candidate)) => format!("; did you mean `{candidate}`?"),
        None => format!("; there are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(text: &str) -> BadThresholds {
        Thresholds::default()
            .with(text, "mine.toml")
            .expect_err(text)
    }

    #[test]
    fn a_users_file_changes_what_it_names_and_nothing_else() {
        let base = Thresholds::default();
        let mine = base
            .clone()
            .with(
                "[heat]\nthreshold = 2\n[idle-allocated]\nfor = \"1h\"\n",
                "mine.toml",
            )
            .expect("good");
        let (old, new) = (base.rule("heat"), mine.rule("heat"));
        assert_eq!(new.threshold, 2.0);
        assert_eq!(new.clear - new.threshold, old.clear - old.threshold);
        assert_eq!((new.hold, new.severity), (old.hold, old.severity));
        assert_eq!(mine.rule("idle-allocated").hold, Duration::from_secs(3600));
        assert_eq!(mine.rule("throttling"), base.rule("throttling"));
    }

    #[test]
    fn levels_have_a_direction() {
        let base = Thresholds::default();
        assert!(base.rule("heat").above && base.rule("memory-saturated").above);
        assert!(!base.rule("under-used").above && !base.rule("straggler").above);
        assert!(!base.rule("no-such-check").enabled);
    }

    #[test]
    fn xid_codes_can_be_judged_anew() {
        let mine = Thresholds::default()
            .with(
                "[xid.code.94]\nseverity = \"crit\"\n[xid.code.9999]\nmeaning = \"ours\"\n",
                "m",
            )
            .expect("good");
        assert_eq!(mine.xid.get(94).severity, XidSeverity::Crit);
        assert_eq!(mine.xid.get(94).repair, XidTable::embedded().get(94).repair);
        assert_eq!(mine.xid.get(9999).meaning, "ours");
    }

    #[test]
    fn errors_name_file_line_and_mend() {
        for (text, line, needle) in [
            ("[heat]\nthreshhold = 2\n", 2, "did you mean `threshold`?"),
            ("\n[heet]\nthreshold = 2\n", 2, "did you mean `heat`?"),
            ("[throttling]\nthreshold = 3\n", 2, "has no key `threshold`"),
            ("[heat]\nfor = \"soon\"\n", 2, "duration"),
            ("[heat]\nthreshold = \"hot\"\n", 2, "must be a number"),
            ("[heat]\nthreshold = nan\n", 2, "finite"),
            ("[heat]\nclear = 9\n", 1, "would never end"),
            ("[under-used]\nclear = 0.05\n", 1, "would never end"),
            ("[heat]\nenabled = 1\n", 2, "true or false"),
            ("heat = 3\n", 1, "must be a table"),
            ("[heat\n", 1, ""),
            ("[heat]\nseverity = \"fatal\"\n", 2, "\"crit\""),
            ("[xid.code.x]\nseverity = \"crit\"\n", 1, "needs a number"),
            (
                "[xid.code.79]\nsevrity = \"crit\"\n",
                2,
                "did you mean `severity`?",
            ),
            (
                "[xid.code.79]\nseverity = \"bad\"\n",
                2,
                "crit, warn, info or app",
            ),
            ("[straggler]\ndevices = 1.5\n", 2, "whole number"),
        ] {
            let error = fails(text);
            assert_eq!(error.line, line, "{text}: {error}");
            assert!(error.to_string().starts_with("mine.toml:"), "{error}");
            assert!(error.message.contains(needle), "{text}: {error}");
        }
    }
}
