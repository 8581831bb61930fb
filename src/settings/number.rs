//! Value types of the settings, validated while the document is parsed, so that an error has a line number.

use std::fmt;
use std::time::Duration;

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize};

use model::base::Rate;
use model::base::quantities::parse_size;
use model::base::time::parse_span;
use model::fleet::node::Billing;
use model::fleet::pool::PoolMode;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $what:literal, $valid:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Debug, Serialize)]
        pub struct $name(f64);

        impl $name {
            pub const fn get(self) -> f64 {
                self.0
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let value = f64::deserialize(from)?;
                let valid: fn(f64) -> bool = $valid;
                if valid(value) {
                    Ok(Self(value))
                } else {
                    // (When only the upper bound is exceeded.)
                    let most = if value > MOST && valid(MOST) { " up to 1e12" } else { "" };
                    Err(D::Error::custom(format_args!(concat!("{} is not ", $what, "{}"), short_number(value), most)))
                }
            }
        }
    };
}

/// Upper bound of amounts and sizes: a larger value is a typing error.
const MOST: f64 = 1e12;

/// The number for an error message, in short form.
fn short_number(value: f64) -> String {
    match value.abs() > MOST {
        true => format!("{value:e}"),
        false => value.to_string(),
    }
}

number! {
    /// A share, 0 to 1.
    Ratio, "a ratio from 0 to 1", |value| (0.0..=1.0).contains(&value)
}
number! {
    /// A number above 0.
    Positive, "a number above 0", |value| value > 0.0 && value <= MOST
}
number! {
    /// A number that is not below 0.
    Amount, "a number from 0", |value| (0.0..=MOST).contains(&value)
}
number! {
    /// Power usage effectiveness (PUE): energy of the building divided by energy of the equipment.
    Pue, "a power usage effectiveness, which is from 1 up", |value| value >= 1.0 && value.is_finite()
}
number! {
    /// USD per hour, above 0. A price of zero is rejected, because it usually means unknown.
    Usd, "a sum above 0 USD an hour", |value| Rate::from_usd(value).is_some_and(|rate| rate > Rate::ZERO)
}

impl Usd {
    pub fn rate(self) -> Rate {
        Rate::from_usd(self.0).unwrap_or_default()
    }
}

/// A span of time: `"15m"`, `"1h30m"`, or a number of seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DurationSetting(Duration);

impl DurationSetting {
    pub const fn duration(self) -> Duration {
        self.0
    }
}

impl<'de> Deserialize<'de> for DurationSetting {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct SpanVisitor;
        impl Visitor<'_> for SpanVisitor {
            type Value = DurationSetting;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration such as \"90s\", \"15m\" or \"1h30m\"")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<DurationSetting, E> {
                parse_span(text).map(DurationSetting).ok_or_else(|| {
                    E::custom(format_args!(
                        "`{text}` is not a duration such as \"90s\", \"15m\" or \"1h30m\""
                    ))
                })
            }
            fn visit_i64<E: Error>(self, seconds: i64) -> Result<DurationSetting, E> {
                u64::try_from(seconds)
                    .map(|seconds| DurationSetting(Duration::from_secs(seconds)))
                    .map_err(|_| E::custom("a duration cannot be negative"))
            }
        }
        from.deserialize_any(SpanVisitor)
    }
}

/// A size in bytes: `"500M"`, `"4G"`; 1M at least.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size(u64);

impl Size {
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// Parses a size.
    ///
    /// # Errors
    /// The message describes the format.
    pub fn parse(text: &str) -> Result<Self, String> {
        parse_size(text)
            .filter(|bytes| *bytes >= 1 << 20)
            .map(Self)
            .ok_or_else(|| {
                format!("`{text}` is not a size such as \"500M\" or \"4G\", 1M at least")
            })
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text).map_err(D::Error::custom)
    }
}

/// One text or a list of texts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OneOrMany(pub Vec<String>);

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ListVisitor;
        impl<'de> Visitor<'de> for ListVisitor {
            type Value = OneOrMany;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of strings")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<OneOrMany, E> {
                Ok(OneOrMany(vec![text.to_owned()]))
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(
                self,
                mut items: A,
            ) -> Result<OneOrMany, A::Error> {
                let mut all = Vec::new();
                while let Some(item) = items.next_element()? {
                    all.push(item);
                }
                Ok(OneOrMany(all))
            }
        }
        from.deserialize_any(ListVisitor)
    }
}

/// Which colors to use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ColorChoice {
    /// What the terminal supports, no colors with NO_COLOR.
    Auto,
    /// What the terminal supports, even with NO_COLOR or into a pipe.
    Always,
    /// No colors.
    Never,
    /// 16 colors.
    #[serde(rename = "16")]
    #[value(name = "16")]
    Ansi16,
    /// 256 colors.
    #[serde(rename = "256")]
    #[value(name = "256")]
    Ansi256,
    /// 24-bit colors.
    True,
}

/// Connection to the exporters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScrapeMode {
    /// Through the API server if permitted, otherwise direct.
    Auto,
    /// Through the API server's pod proxy.
    Proxy,
    /// Directly at the pod IPs.
    Direct,
}

/// A pool's mode as written in the settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolModeSetting(pub PoolMode);

impl<'de> Deserialize<'de> for PoolModeSetting {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        match text.as_str() {
            "static" => Ok(Self(PoolMode::Static)),
            "dynamic" => Ok(Self(PoolMode::Dynamic)),
            _ => Err(D::Error::unknown_variant(&text, &["static", "dynamic"])),
        }
    }
}

/// A billing mode as written in the settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Paid(pub Billing);

impl<'de> Deserialize<'de> for Paid {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Billing::from_name(&text).map(Self).ok_or_else(|| {
            D::Error::unknown_variant(&text, &["on-demand", "spot", "reserved", "owned"])
        })
    }
}
