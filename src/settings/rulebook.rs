//! Rules, thresholds, prices and dialects, built from the settings and the files that they name.

use std::sync::Arc;

use exporter::Dialects;
use model::base::document::{DocumentFault, line_of};
use model::cost::{PriceBook, Prices};
use model::fleet::accelerator::Catalog;
use model::fleet::policy::Policy;
use model::fleet::thresholds::Thresholds;

use super::types::Settings;

/// Contents of the files that the settings name, each with its path.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Texts {
    pub accelerators: Option<(String, String)>,
    pub alerts: Option<(String, String)>,
    pub books: Vec<(String, String)>,
    pub dialects: Vec<(String, String)>,
}

/// Rules, thresholds, prices and dialects, ready for use.
#[derive(Clone, Debug)]
pub struct Rulebook {
    pub catalog: Arc<Catalog>,
    /// Pools, teams, queues, idleness.
    pub policy: Arc<Policy>,
    /// Thresholds at which findings fire and resolve.
    pub thresholds: Arc<Thresholds>,
    pub prices: Arc<Prices>,
    pub dialects: Arc<Dialects>,
}

impl Rulebook {
    /// Combines the texts with the built-in data.
    ///
    /// # Errors
    /// All faults in all texts, each with file and line.
    pub fn new(settings: &Settings, texts: &Texts) -> Result<Self, Vec<DocumentFault>> {
        let mut faults = Vec::new();
        let catalog = match &texts.accelerators {
            None => Catalog::embedded(),
            Some((path, text)) => match Catalog::embedded().with(text) {
                Ok(catalog) => Arc::new(catalog),
                Err(error) => {
                    let line = error.span().map(|span| line_of(text, span.start));
                    faults.push(DocumentFault::new(path, "", error.message()).at_line(line));
                    Catalog::embedded()
                }
            },
        };
        let mut thresholds = Thresholds::default();
        if let Some((path, text)) = &texts.alerts {
            match Thresholds::default().with(text, path) {
                Ok(merged) => thresholds = merged,
                Err(bad) => faults
                    .push(DocumentFault::new(bad.origin, "", bad.message).at_line(Some(bad.line))),
            }
        }
        let mut books = Vec::new();
        for (path, text) in &texts.books {
            match PriceBook::parse(text, path) {
                Ok(book) => books.push(book),
                Err(fault) => faults.push(fault),
            }
        }
        let prices = settings.prices(books, &catalog).unwrap_or_else(|fault| {
            faults.push(fault);
            Prices::default()
        });
        let extra: Vec<(&str, &str)> = texts
            .dialects
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        let dialects = Dialects::with(&extra).unwrap_or_else(|wrong| {
            // Messages about dialects already contain file and line.
            faults.extend(
                wrong
                    .into_iter()
                    .map(|problem| match problem.split_once(": ") {
                        Some((place, message)) => DocumentFault::new(place, "", message),
                        None => DocumentFault::new("exporters", "", problem),
                    }),
            );
            Dialects::builtin()
        });
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(Self {
            policy: Arc::new(settings.policy(Arc::clone(&catalog))),
            catalog,
            thresholds: Arc::new(thresholds),
            prices: Arc::new(prices),
            dialects: Arc::new(dialects),
        })
    }
}
