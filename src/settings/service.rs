//! `[[service]]`: latency objectives of model servers, for goodput.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use model::base::document;
use model::fleet::policy::ServiceRule;
use model::fleet::served_model::Objectives;

use super::number::OneOrMany;

/// Maximum latency objective, seconds.
const LONGEST: f64 = 3600.0;

/// Latency objectives of a service.
#[derive(Clone, PartialEq, Debug)]
pub struct ServiceSettings {
    /// The models and workloads that it applies to.
    pub wanted: ServiceMatch,
    /// Time to first token (TTFT).
    pub ttft: Option<LatencySetting>,
    /// Time per output token (TPOT), the mean of a request.
    pub tpot: Option<LatencySetting>,
}

/// Models and workloads to match: all given conditions must match, and any item of a list. A trailing `*` matches any suffix.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceMatch {
    pub namespace: OneOrMany,
    pub name: OneOrMany,
    pub model: OneOrMany,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawService {
    #[serde(rename = "match", default)]
    wanted: ServiceMatch,
    ttft: Option<LatencySetting>,
    tpot: Option<LatencySetting>,
}

impl<'de> Deserialize<'de> for ServiceSettings {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        document::whole(from, |raw: RawService| {
            if raw.ttft.is_none() && raw.tpot.is_none() {
                return Err(
                    "a service has no latency target: give ttft, tpot or both, such as ttft = \"800ms\""
                        .to_owned(),
                );
            }
            Ok(Self {
                wanted: raw.wanted,
                ttft: raw.ttft,
                tpot: raw.tpot,
            })
        })
    }
}

impl ServiceSettings {
    pub(super) fn rule(&self) -> ServiceRule {
        ServiceRule {
            namespaces: self.wanted.namespace.0.clone(),
            names: self.wanted.name.0.clone(),
            models: self.wanted.model.0.clone(),
            objectives: Objectives {
                ttft: self.ttft.map(LatencySetting::seconds),
                tpot: self.tpot.map(LatencySetting::seconds),
            },
        }
    }
}

/// A latency: `"800ms"`, `"1.5s"`, or a number of seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LatencySetting(f64);

impl LatencySetting {
    pub const fn seconds(self) -> f64 {
        self.0
    }

    fn of(seconds: f64) -> Option<Self> {
        (seconds > 0.0 && seconds <= LONGEST).then_some(Self(seconds))
    }

    fn parse(text: &str) -> Option<Self> {
        let (number, by) = match text.strip_suffix("ms") {
            Some(number) => (number, 1000.0),
            None => (text.strip_suffix('s')?, 1.0),
        };
        Self::of(number.trim().parse::<f64>().ok()? / by)
    }
}

impl<'de> Deserialize<'de> for LatencySetting {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct LatencyVisitor;
        impl Visitor<'_> for LatencyVisitor {
            type Value = LatencySetting;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a latency above 0 and up to one hour, such as \"800ms\" or \"1.5s\"")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<LatencySetting, E> {
                LatencySetting::parse(text)
                    .ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
            fn visit_f64<E: Error>(self, number: f64) -> Result<LatencySetting, E> {
                LatencySetting::of(number)
                    .ok_or_else(|| E::invalid_value(serde::de::Unexpected::Float(number), &self))
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<LatencySetting, E> {
                self.visit_f64(number as f64)
            }
        }
        from.deserialize_any(LatencyVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Inputs, Layer, SettingsText, load};
    use model::base::ObjectKey;

    fn service(text: &str) -> Result<ServiceRule, String> {
        let inputs = Inputs {
            files: vec![SettingsText {
                layer: Layer::User,
                path: "/home/me/stokehold.toml".into(),
                text: format!("[[service]]\n{text}\n"),
            }],
            ..Inputs::default()
        };
        match load(&inputs) {
            Ok(settings) => Ok(settings.service[0].rule()),
            Err(faults) => Err(faults.iter().map(ToString::to_string).collect()),
        }
    }

    #[test]
    fn a_service_is_matched_by_namespace_name_and_model() {
        let rule = service(
            "match = { namespace = [\"prod\", \"eu-*\"], name = \"chat-*\", model = \"llama*\" }\nttft = \"800ms\"\ntpot = 0.05",
        )
        .expect("is right");
        let wanted = Objectives {
            ttft: Some(0.8),
            tpot: Some(0.05),
        };
        assert_eq!(rule.objectives, wanted);
        let covers = |namespace: &str, name: &str, model| {
            rule.covers(&ObjectKey::new(namespace, name), model)
        };
        assert!(covers("prod", "chat-large", Some("llama-3")));
        assert!(covers("eu-1", "chat-small", Some("llama-3")));
        assert!(!covers("us", "chat-large", Some("llama-3")));
        assert!(!covers("prod", "ranker", Some("llama-3")));
        assert!(!covers("prod", "chat-large", Some("qwen")));
        assert!(!covers("prod", "chat-large", None), "unknown is no match");
        let all = service("ttft = \"2s\"").expect("is right");
        assert!(all.covers(&ObjectKey::new("a", "b"), None));
    }

    #[test]
    fn what_is_wrong_is_reported() {
        for (text, wanted) in [
            ("match = { name = \"a\" }", "no latency target"),
            ("ttft = \"fast\"", "a latency above 0"),
            ("ttft = \"0ms\"", "a latency above 0"),
            ("tpot = -1", "a latency above 0"),
            ("tpot = \"2h\"", "a latency above 0"),
            ("ttft = \"1s\"\nmatch = { team = \"a\" }", "team"),
            ("ttft = \"1s\"\nname = \"a\"", "name"),
        ] {
            let message = service(text).expect_err(text);
            assert!(message.contains(wanted), "{text}: {message}");
        }
    }
}
