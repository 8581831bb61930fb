//! `[[notify]]`: a receiver of findings, for `stokehold watch`.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde::de::Deserializer;

use model::base::document::{self, unknown};
use model::fleet::finding::{KINDS, Severity};
use model::notify::{NotifyFilter, ReceiverKind};

use super::address::not_an_address;
use super::number::{DurationSetting, OneOrMany};

/// Default timeout of an answer, and the bounds of the setting.
const TIMEOUT: Duration = Duration::from_secs(5);
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotifySettings {
    pub name: String,
    pub kind: ReceiverKind,
    /// Its address; absent when `url_file` is set.
    pub url: Option<String>,
    /// File that contains the address, for addresses that are secrets.
    pub url_file: Option<PathBuf>,
    /// File that contains a bearer token.
    pub token_file: Option<PathBuf>,
    /// File that contains the CA certificate.
    pub ca_file: Option<PathBuf>,
    /// Timeout of one request.
    pub timeout: Duration,
    /// The findings to send.
    pub filter: NotifyFilter,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawReceiver {
    name: String,
    kind: String,
    url: Option<String>,
    url_file: Option<PathBuf>,
    token_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    timeout: Option<DurationSetting>,
    min_severity: Option<String>,
    #[serde(default)]
    codes: OneOrMany,
    #[serde(default, rename = "match")]
    wanted: RawMatch,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawMatch {
    kind: OneOrMany,
    namespace: OneOrMany,
    pool: OneOrMany,
}

impl<'de> Deserialize<'de> for NotifySettings {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        document::whole(from, RawReceiver::checked)
    }
}

impl RawReceiver {
    fn checked(self) -> Result<NotifySettings, String> {
        let name = self.name;
        let wrong = |words: String| format!("receiver `{name}`: {words}");
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > 63 || !name.chars().all(plain) {
            return Err(wrong(
                "a name has 1 to 63 letters, digits, `-`, `_` and `.`".to_owned(),
            ));
        }
        let kinds = ReceiverKind::ALL.map(ReceiverKind::name);
        let kind = ReceiverKind::ALL
            .into_iter()
            .find(|kind| kind.name() == self.kind)
            .ok_or_else(|| wrong(unknown("kind", &self.kind, &kinds)))?;
        match (&self.url, &self.url_file) {
            (Some(url), None) => {
                if let Some(why) = not_in_settings(kind, url) {
                    return Err(wrong(why));
                }
            }
            (None, Some(_)) => {}
            _ => return Err(wrong("give one of url and url_file".to_owned())),
        }
        let timeout = self.timeout.map_or(TIMEOUT, DurationSetting::duration);
        if !(SHORTEST..=LONGEST).contains(&timeout) {
            return Err(wrong("timeout must be from 1s to 30s".to_owned()));
        }
        let severities = [Severity::Crit, Severity::Warn, Severity::Info];
        let min_severity = match &self.min_severity {
            None => Severity::Warn,
            Some(text) => severities
                .into_iter()
                .find(|severity| severity.name() == text)
                .ok_or_else(|| {
                    let names = severities.map(Severity::name);
                    wrong(format!(
                        "min_severity: {}",
                        unknown("severity", text, &names)
                    ))
                })?,
        };
        let is_other = |kind: &&String| !KINDS.contains(&kind.as_str());
        if let Some(other) = self.wanted.kind.0.iter().find(is_other) {
            return Err(wrong(format!("match: {}", unknown("kind", other, KINDS))));
        }
        Ok(NotifySettings {
            kind,
            url: self.url,
            url_file: self.url_file,
            token_file: self.token_file,
            ca_file: self.ca_file,
            timeout,
            filter: NotifyFilter {
                min_severity,
                codes: self.codes.0,
                kinds: self.wanted.kind.0,
                namespaces: self.wanted.namespace.0,
                pools: self.wanted.pool.0,
            },
            name,
        })
    }
}

/// Names of parameters whose values are secrets.
const SECRETS: &[&str] = &[
    "token",
    "key",
    "secret",
    "sig",
    "signature",
    "password",
    "auth",
    "code",
];
/// Prefixes of addresses that are themselves secrets.
const SECRET_PLACES: &[&str] = &[
    "hooks.slack.com/",
    "discord.com/api/webhooks/",
    "discordapp.com/api/webhooks/",
];

/// Why an address may not be written in the settings, and the fix; `None` when it may.
fn not_in_settings(kind: ReceiverKind, url: &str) -> Option<String> {
    const FIX: &str =
        "write the address into a file that others cannot read and name that in url_file";
    if let Some(why) = not_an_address(url) {
        return Some(format!("url {why}"));
    }
    let (_, rest) = url.split_once("://")?;
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let host = place.split(['/', '#']).next().unwrap_or_default();
    if host.contains('@') {
        return Some(format!(
            "url must not hold a user or password: use token_file, or {FIX}"
        ));
    }
    let is_secret = |pair: &str| {
        let name = pair.split('=').next().unwrap_or_default();
        let name = name.to_ascii_lowercase();
        SECRETS.iter().any(|secret| {
            name == *secret
                || name.ends_with(&format!("_{secret}"))
                || name == format!("api{secret}")
        })
    };
    if query.split('&').any(is_secret) {
        return Some(format!("url must not hold a token: {FIX}"));
    }
    let lower = place.to_ascii_lowercase();
    let known = SECRET_PLACES.iter().any(|start| lower.starts_with(start));
    if kind == ReceiverKind::Slack || known {
        return Some(format!(
            "the address of an incoming webhook is a secret: {FIX}"
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<NotifySettings, String> {
        toml::from_str::<NotifySettings>(text).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn a_receiver_has_a_kind_an_address_and_defaults() {
        let read = read("name = \"pager\"\nkind = \"alertmanager\"\nurl = \"http://am:9093\"")
            .expect("is right");
        assert_eq!(read.kind, ReceiverKind::Alertmanager);
        assert_eq!(read.timeout, Duration::from_secs(5));
        assert_eq!(read.filter.min_severity, Severity::Warn);
        assert!(read.filter.codes.is_empty());
    }

    #[test]
    fn an_error_names_the_fix() {
        for (text, expected) in [
            (
                "kind = \"slak\"\nurl = \"http://a\"",
                "did you mean `slack`",
            ),
            ("kind = \"webhook\"", "one of url and url_file"),
            (
                "kind = \"webhook\"\nurl = \"http://a\"\nurl_file = \"b\"",
                "one of url and url_file",
            ),
            ("kind = \"webhook\"\nurl = \"ftp://a\"", "http://"),
            ("kind = \"webhook\"\nurl = \"https:///x\"", "names no host"),
            (
                "kind = \"alertmanager\"\nurl = \"https://u:p@a\"",
                "use token_file",
            ),
            (
                "kind = \"webhook\"\nurl = \"https://a/b?x=1&api_key=2\"",
                "name that in url_file",
            ),
            (
                "kind = \"slack\"\nurl = \"https://chat/hooks/abc\"",
                "name that in url_file",
            ),
            (
                "kind = \"webhook\"\nurl = \"https://hooks.slack.com/services/T/B/x\"",
                "is a secret",
            ),
            (
                "kind = \"webhook\"\nurl = \"http://a\"\ntimeout = \"2m\"",
                "from 1s to 30s",
            ),
            (
                "kind = \"webhook\"\nurl = \"http://a\"\nmin_severity = \"warning\"",
                "valid: crit, warn, info",
            ),
            (
                "kind = \"webhook\"\nurl = \"http://a\"\nmatch = { kind = \"Devcie\" }",
                "did you mean `Device`",
            ),
            (
                "kind = \"webhook\"\nurl = \"http://a\"\ntoken = \"abc\"",
                "unknown field `token`",
            ),
        ] {
            let why = read(&format!("name = \"a\"\n{text}")).expect_err(text);
            assert!(why.contains(expected), "{text}: {why}");
        }
        assert!(read("name = \"a b\"\nkind = \"webhook\"\nurl = \"http://a\"").is_err());
    }
}
