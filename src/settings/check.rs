//! Checks on the merged settings: paths, and values that contradict each other.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use model::base::document::{DocumentFault, unknown};
use model::base::name::is_dns_label;
use model::cost::{PriceBook, Prices};
use model::fleet::accelerator::Catalog;

use super::address::not_a_receiver;
use super::origin::Layer;
use super::types::{RawSettings, Settings};

impl RawSettings {
    /// The first context whose section contains sections of contexts.
    pub(super) fn nested_context(&self) -> Option<&str> {
        self.context
            .iter()
            .find(|(_, section)| !section.context.is_empty())
            .map(|(name, _)| name.as_str())
    }
}

impl Settings {
    /// A fault for a key, at the place that set it.
    pub fn fault(&self, key: &str, message: impl Into<String>) -> DocumentFault {
        match self.origins.of(key) {
            Some(origin) => {
                DocumentFault::new(origin.place.clone(), key, message).at_line(origin.line)
            }
            None => DocumentFault::new("settings", key, message),
        }
    }

    /// A fault of one entry of an array of tables, at the line of that entry; `at` counts from 0.
    pub fn fault_of_item(&self, key: &str, at: usize, message: impl Into<String>) -> DocumentFault {
        let fault = self.fault(key, message);
        let origin = self.origins.of(key);
        match origin.and_then(|origin| origin.items.get(at)) {
            Some(line) => fault.at_line(Some(*line)),
            None => fault,
        }
    }

    /// Makes paths absolute: `~/` is the home directory, a relative path is relative to the file that contains it.
    pub(super) fn resolve(&mut self, home: Option<&Path>) {
        let base = |key: &str| {
            self.origins
                .of(key)
                .filter(|origin| !matches!(origin.layer, Layer::Environment | Layer::Flag))
                .and_then(|origin| Path::new(&origin.place).parent())
                .map(Path::to_path_buf)
        };
        let bases = [
            base("journal_dir"),
            base("log_file"),
            base("alerts_file"),
            base("keys_file"),
            base("themes_dir"),
            base("exporters_dir"),
            base("accelerators_file"),
            base("prometheus.bearer_file"),
            base("prometheus.ca_file"),
            base("record.dir"),
            base("record.remote_write.bearer_file"),
            base("record.remote_write.password_file"),
            base("record.remote_write.ca_file"),
        ];
        let (books, targets) = (base("prices.files"), base("scrape.target"));
        let receivers = base("notify");
        let whole = |path: &mut PathBuf, base: &Option<PathBuf>| {
            if let (Ok(rest), Some(home)) = (path.strip_prefix("~"), home) {
                *path = home.join(rest);
            } else if let Some(base) = base {
                *path = base.join(&*path);
            }
        };
        let single = [
            &mut self.journal_dir,
            &mut self.log_file,
            &mut self.alerts_file,
            &mut self.keys_file,
            &mut self.themes_dir,
            &mut self.exporters_dir,
            &mut self.accelerators_file,
            &mut self.prometheus.bearer_file,
            &mut self.prometheus.ca_file,
            &mut self.record.dir,
            &mut self.record.remote_write.bearer_file,
            &mut self.record.remote_write.password_file,
            &mut self.record.remote_write.ca_file,
        ];
        for (path, base) in single.into_iter().zip(&bases) {
            if let Some(path) = path {
                whole(path, base);
            }
        }
        for path in &mut self.prices.files {
            whole(path, &books);
        }
        for target in &mut self.scrape.target {
            for path in [&mut target.bearer_file, &mut target.ca_file]
                .into_iter()
                .flatten()
            {
                whole(path, &targets);
            }
        }
        for receiver in &mut self.notify {
            let files = [
                &mut receiver.url_file,
                &mut receiver.token_file,
                &mut receiver.ca_file,
            ];
            for path in files.into_iter().flatten() {
                whole(path, &receivers);
            }
        }
    }

    /// Values that contradict each other.
    pub(super) fn contradictions(&self) -> Vec<DocumentFault> {
        let mut faults = Vec::new();
        let mut blame = |key: &str, message: String| faults.push(self.fault(key, message));
        for (key, span) in [
            ("refresh", self.refresh),
            ("scrape.timeout", self.scrape.timeout),
            ("prometheus.timeout", self.prometheus.timeout),
            ("prometheus.interval", self.prometheus.interval),
            ("record.keep", self.record.keep),
            (
                "record.remote_write.interval",
                self.record.remote_write.interval,
            ),
            (
                "record.remote_write.timeout",
                self.record.remote_write.timeout,
            ),
        ] {
            if span.duration().is_zero() {
                blame(key, "must be longer than 0s".to_owned());
            }
        }
        if let Some(url) = &self.prometheus.url
            && !url.starts_with("http://")
            && !url.starts_with("https://")
        {
            blame(
                "prometheus.url",
                "must start with http:// or https://".to_owned(),
            );
        }
        let remote = &self.record.remote_write;
        if let Some(why) = remote.url.as_deref().and_then(not_a_receiver) {
            blame("record.remote_write.url", why);
        }
        if remote.username.is_some() != remote.password_file.is_some() {
            let message = "username and password_file go together".to_owned();
            blame("record.remote_write.username", message);
        }
        // Both become arguments of kubectl.
        let image = &self.shell.image;
        if image.is_empty() || image.starts_with('-') || image.contains(char::is_whitespace) {
            blame("shell.image", format!("`{image}` is not an image"));
        }
        let govern = &self.govern;
        if !is_dns_label(&govern.namespace) {
            let message = format!("`{}` is not a namespace", govern.namespace);
            blame("govern.namespace", message);
        }
        if !(1.0..=100.0).contains(&govern.per_second.get()) {
            let message = "must be from 1 to 100 writes a second".to_owned();
            blame("govern.per_second", message);
        }
        if !is_dns_label(&self.shell.namespace) {
            let message = format!("`{}` is not a namespace", self.shell.namespace);
            blame("shell.namespace", message);
        }
        faults.extend(self.wrong_elements());
        faults.extend(self.wrong_routes());
        faults
    }

    /// Entries of arrays of tables that are wrong alone or beside an earlier one, each with its line.
    fn wrong_elements(&self) -> Vec<DocumentFault> {
        let mut faults = Vec::new();
        let mut blame = |key, at, message| faults.push(self.fault_of_item(key, at, message));
        for (at, name) in repeated(self.pool.iter().map(|pool| &pool.name)) {
            blame("pool", at, format!("two pools are named `{name}`"));
        }
        for (at, pool) in self.pool.iter().enumerate() {
            if let (Some(min), Some(max)) = (pool.min, pool.max)
                && min > max
            {
                let message = format!("pool `{}`: min {min} is above max {max}", pool.name);
                blame("pool", at, message);
            }
        }
        let targets = &self.scrape.target;
        for (at, name) in repeated(targets.iter().map(|target| &target.name)) {
            blame(
                "scrape.target",
                at,
                format!("two targets are named `{name}`"),
            );
        }
        for (at, target) in targets.iter().enumerate() {
            if !target.url.starts_with("http://") && !target.url.starts_with("https://") {
                let message = "url must start with http:// or https://";
                let message = format!("target `{}`: {message}", target.name);
                blame("scrape.target", at, message);
            }
        }
        for (at, name) in repeated(self.budget.iter().map(|budget| &budget.name)) {
            blame("budget", at, format!("two budgets are named `{name}`"));
        }
        for (at, name) in repeated(self.notify.iter().map(|receiver| &receiver.name)) {
            blame("notify", at, format!("two receivers are named `{name}`"));
        }
        for (at, rule) in self.prices.overrides.iter().enumerate() {
            if rule.instance.is_none() && rule.class.is_none() {
                let message = "an override needs an instance, a class, or both";
                blame("prices.override", at, message.to_owned());
            }
        }
        faults
    }

    /// All prices: the operator's own `books` first, then the embedded ones. An unknown provider is an error that names
    /// the nearest known one.
    pub fn prices(
        &self,
        books: Vec<PriceBook>,
        catalog: &Catalog,
    ) -> Result<Prices, DocumentFault> {
        let books = books.into_iter().chain(PriceBook::embedded()).collect();
        let mut prices = Prices::new(books, catalog);
        if let Some(provider) = self.prices.provider.as_deref() {
            let known: Vec<&str> = prices.providers().collect();
            if !known.contains(&provider) {
                let message = unknown("provider", provider, &known);
                return Err(self.fault("prices.provider", message));
            }
            prices = prices.with_provider(provider);
        }
        for rule in &self.prices.overrides {
            prices = prices.with_override(rule.rule());
        }
        for pool in &self.pool {
            if let Some(price) = &pool.price {
                prices = prices.with_pool(&pool.name, price.of(&self.prices.owned));
            }
        }
        Ok(prices)
    }
}

/// The names that an earlier entry has already, each with its position from 0.
fn repeated<'a>(names: impl Iterator<Item = &'a String>) -> impl Iterator<Item = (usize, &'a str)> {
    let mut seen = BTreeSet::new();
    names
        .enumerate()
        .filter(move |(_, name)| !seen.insert(*name))
        .map(|(at, name)| (at, name.as_str()))
}
