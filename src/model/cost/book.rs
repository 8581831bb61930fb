//! Price books: dated list prices of one provider, by machine type and by class of accelerator.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::base::document::{self, DocumentFault};

/// What a book may claim for one device, USD an hour. Catalogues write 0 or sums like 700 where nothing is
/// published; both mean unknown.
pub const PLAUSIBLE_USD: std::ops::RangeInclusive<f64> = 0.01..=150.0;

/// The books that come with the program: text and name of each.
const EMBEDDED: &[(&str, &str)] = &[
    ("aws", include_str!("../../../config/prices/aws.toml")),
    ("azure", include_str!("../../../config/prices/azure.toml")),
    ("crusoe", include_str!("../../../config/prices/crusoe.toml")),
    ("gcp", include_str!("../../../config/prices/gcp.toml")),
    (
        "hyperstack",
        include_str!("../../../config/prices/hyperstack.toml"),
    ),
    ("lambda", include_str!("../../../config/prices/lambda.toml")),
    ("market", include_str!("../../../config/prices/market.toml")),
    ("nebius", include_str!("../../../config/prices/nebius.toml")),
    ("verda", include_str!("../../../config/prices/verda.toml")),
];

/// The book of last resort: medians over the market.
pub const MARKET: &str = "market";

/// How an hour is bought.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purchase {
    OnDemand,
    /// Cheap, and taken back at will.
    Spot,
}

impl Purchase {
    /// As the books spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OnDemand => "on-demand",
            Self::Spot => "spot",
        }
    }
}

/// One price of a machine, or of devices alone where no machine is named.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BookRow {
    /// Machine type as the node label spells it.
    #[serde(default)]
    pub instance: Option<String>,
    /// Accelerator, in words that the catalogue knows.
    pub accelerator: String,
    /// Devices that the price is for.
    pub devices: u32,
    /// Region; absent when the price holds everywhere.
    #[serde(default)]
    pub region: Option<String>,
    /// How it is bought.
    pub purchase: Purchase,
    /// USD an hour for the machine, or for `devices` devices.
    pub usd_per_hour: f64,
    /// The date of the price, or the known part of the date.
    pub as_of: String,
    #[serde(default)]
    pub source: String,
    /// What to know before trusting it.
    #[serde(default)]
    pub note: Option<String>,
}

impl BookRow {
    /// USD an hour of one device; `None` when the book says nothing believable.
    pub fn usd_per_device_hour(&self) -> Option<f64> {
        let usd = self.usd_per_hour / f64::from(self.devices);
        (self.devices > 0 && usd.is_finite() && PLAUSIBLE_USD.contains(&usd)).then_some(usd)
    }
}

/// The prices of one provider.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceBook {
    pub provider: String,
    /// Schemes of `spec.providerID` that mean this provider.
    #[serde(default)]
    pub schemes: Vec<String>,
    #[serde(default)]
    pub prices: Vec<BookRow>,
    /// Where they come from, in full.
    #[serde(default)]
    pub sources: BTreeMap<String, String>,
}

impl PriceBook {
    /// Parses a book; a mistake names `place`, line, key and the nearest spelling.
    pub fn parse(text: &str, place: &str) -> Result<Self, DocumentFault> {
        document::parse(text, place)
    }

    /// The books that come with the program, by name.
    pub fn embedded() -> Vec<Self> {
        EMBEDDED
            .iter()
            .map(|(name, text)| {
                Self::parse(text, name).expect("a test parses every embedded price book")
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_book_is_whole_dated_and_believable() {
        let books = PriceBook::embedded();
        assert_eq!(books.len(), EMBEDDED.len());
        for (book, (name, _)) in books.iter().zip(EMBEDDED) {
            assert_eq!(book.provider, *name);
            assert!(!book.prices.is_empty(), "{name}");
            for row in &book.prices {
                assert!(row.usd_per_device_hour().is_some(), "{name}: {row:?}");
                assert!(row.as_of.starts_with("20"), "{name}: {row:?}");
                assert!(book.sources.contains_key(&row.source), "{name}: {row:?}");
            }
        }
    }

    #[test]
    fn placeholders_are_unknown() {
        let row = |usd_per_hour, devices| BookRow {
            instance: None,
            accelerator: "H100".into(),
            devices,
            region: None,
            purchase: Purchase::Spot,
            usd_per_hour,
            as_of: "2026-01-01".into(),
            source: String::new(),
            note: None,
        };
        assert_eq!(row(16.0, 8).usd_per_device_hour(), Some(2.0));
        for (usd, devices) in [(0.0, 1), (700.0, 1), (f64::NAN, 1), (-3.0, 1), (3.0, 0)] {
            assert_eq!(row(usd, devices).usd_per_device_hour(), None);
        }
    }

    #[test]
    fn a_book_with_a_misspelt_key_is_refused_by_line() {
        let text = "provider = \"x\"\nprices = [\n { accelerator = \"L4\", device = 1 },\n]\n";
        let fault = PriceBook::parse(text, "mine.toml").expect_err("is misspelt");
        assert_eq!(
            fault.to_string(),
            "mine.toml:3: prices.device: unknown key `device`; did you mean `devices`?"
        );
    }
}
