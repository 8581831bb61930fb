//! What a device costs an hour: the operator's word first, then the price books, else unknown.

use std::collections::HashMap;
use std::sync::Arc;

use rustc_hash::FxBuildHasher;

use crate::base::{Name, Rate};
use crate::fleet::device::Device;
use crate::fleet::node::{Billing, Node};
use crate::fleet::rules::accelerator::Catalog;

use super::book::{BookRow, MARKET, PriceBook, Purchase};
use super::spend_rates::PriceGroup;

type Map<K, V> = HashMap<K, V, FxBuildHasher>;

/// The price of one device, with where it comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Price {
    pub rate: Rate,
    /// Book and row, or the setting.
    pub source: Name,
    /// The date of the price; `None` for the operator's own.
    pub as_of: Option<Name>,
    /// True for the list price of another billing than the device's, or for a device whose billing is unknown: the price paid is unknown.
    pub is_stand_in: bool,
    /// Of a spot device: the price of the same hour on demand, by an override for on-demand hours or the price book; `None` where
    /// none is known, and where the rate is itself the on-demand price because no spot price is known.
    pub on_demand: Option<Rate>,
}

impl Price {
    /// The operator's own price; `what` names the setting.
    fn of_settings(rate: Rate, what: &str) -> Self {
        Self {
            rate,
            source: Name::from(format!("settings: {what}")),
            as_of: None,
            is_stand_in: false,
            on_demand: None,
        }
    }
}

/// What bought machines cost, per machine.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Owned {
    /// Purchase price of a machine with its devices, USD.
    pub capex_usd: f64,
    /// Years over which it is written off.
    pub years: f64,
    /// Share of the price that it is worth afterwards, 0 to 1.
    pub residual: f64,
    /// Network, storage and spares as a share of the price.
    pub overhead: f64,
    /// Power drawn by a machine, kW.
    pub kw: f64,
    /// Power usage effectiveness of the building.
    pub pue: f64,
    /// USD for a kWh.
    pub usd_per_kwh: f64,
    /// Space and staff, USD an hour for a machine.
    pub other_usd_per_hour: f64,
}

impl Owned {
    /// USD an hour of one of a machine's devices:
    /// `(capex (1 + overhead) (1 - residual) / (years 8760) + kw pue usd_per_kwh + other) / devices`.
    pub fn usd_per_device_hour(&self, devices: u32) -> Option<f64> {
        if devices == 0 || self.years <= 0.0 {
            return None;
        }
        let written_off = self.bought_usd() * (1.0 - self.residual) / (self.years * 8760.0);
        Some((written_off + self.running_usd_per_hour()) / f64::from(devices))
    }

    /// USD that a machine costs with its surroundings (network, storage, spares): `capex (1 + overhead)`.
    pub fn bought_usd(&self) -> f64 {
        self.capex_usd * (1.0 + self.overhead)
    }

    /// USD an hour that a machine costs while it runs: `kw pue usd_per_kwh + other`.
    pub fn running_usd_per_hour(&self) -> f64 {
        self.kw * self.pue * self.usd_per_kwh + self.other_usd_per_hour
    }
}

/// What the operator says of a pool's price.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PoolPrice {
    /// USD an hour for a device.
    Rate(Rate),
    /// A factor on the list price; an override is taken as it is.
    Multiplier(f64),
    /// Machines of one's own.
    Owned(Owned),
}

/// What the operator says of a machine type or a class.
#[derive(Clone, PartialEq, Debug)]
pub struct Override {
    /// Machine type, or any.
    pub instance: Option<String>,
    pub class: Option<String>,
    pub billing: Option<Billing>,
    /// Money an hour for a device.
    pub rate: Rate,
}

/// A book with its rows found by machine type and by class.
#[derive(Clone, Debug)]
struct BookIndex {
    provider: Name,
    rows: Vec<BookRow>,
    by_instance: Map<String, Vec<usize>>,
    by_class: Map<String, Vec<usize>>,
}

impl BookIndex {
    fn new(book: PriceBook, catalog: &Catalog) -> Self {
        let mut index = Self {
            provider: Name::from(book.provider),
            rows: book.prices,
            by_instance: Map::default(),
            by_class: Map::default(),
        };
        for (at, row) in index.rows.iter().enumerate() {
            if row.usd_per_device_hour().is_none() {
                continue;
            }
            if let Some(instance) = &row.instance {
                let rows = index.by_instance.entry(instance.clone()).or_default();
                rows.push(at);
            }
            let class = catalog
                .find(&row.accelerator)
                .or_else(|| catalog.of_class(&row.accelerator))
                .map_or(row.accelerator.as_str(), |known| known.class.as_str());
            let rows = index.by_class.entry(class.to_owned()).or_default();
            rows.push(at);
        }
        index
    }
}

/// Every price that is known, ready to be asked.
#[derive(Clone, Debug, Default)]
pub struct Prices {
    books: Vec<BookIndex>,
    /// Provider by scheme of `spec.providerID`.
    schemes: Map<String, usize>,
    /// The provider of nodes that do not say.
    provider: Option<usize>,
    market: Option<usize>,
    pools: Map<String, PoolPrice>,
    overrides: Vec<Override>,
}

impl Prices {
    /// Prices out of books, the first of a provider first. The catalogue tells which class a row is about.
    pub fn new(books: Vec<PriceBook>, catalog: &Catalog) -> Self {
        let mut prices = Self::default();
        for book in books {
            let at = prices.books.len();
            for scheme in &book.schemes {
                prices.schemes.entry(scheme.clone()).or_insert(at);
            }
            if book.provider == MARKET {
                prices.market = prices.market.or(Some(at));
            }
            prices.books.push(BookIndex::new(book, catalog));
        }
        prices
    }

    /// The names of the providers that have a book.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        self.books.iter().map(|book| book.provider.as_str())
    }

    /// These prices, with a provider for nodes that do not say whose they are. An unknown name changes nothing.
    #[must_use]
    pub fn with_provider(mut self, provider: &str) -> Self {
        self.provider = self
            .books
            .iter()
            .position(|book| book.provider.as_str() == provider);
        self
    }

    /// These prices, with the operator's word on a pool.
    #[must_use]
    pub fn with_pool(mut self, pool: &str, price: PoolPrice) -> Self {
        self.pools.insert(pool.to_owned(), price);
        self
    }

    /// These prices, with the operator's word on a machine type or a class; the first that fits wins.
    #[must_use]
    pub fn with_override(mut self, rule: Override) -> Self {
        self.overrides.push(rule);
        self
    }

    /// The price of a device of `node`; `None` when not known.
    pub fn price(&self, node: &Node, device: &Device) -> Option<Price> {
        let mut price = self.paid(node, device)?;
        if node.billing == Some(Billing::Spot) {
            price.on_demand = self.on_demand(node, device);
        }
        Some(price)
    }

    /// The price paid, without the on-demand price.
    fn paid(&self, node: &Node, device: &Device) -> Option<Price> {
        match self.pools.get(node.pool.as_str()) {
            Some(PoolPrice::Rate(rate)) => {
                let what = format!("rate of pool {}", node.pool);
                Some(Price::of_settings(*rate, &what))
            }
            Some(PoolPrice::Owned(owned)) => {
                let devices = node.devices.len() as u32;
                let usd = owned.usd_per_device_hour(devices.max(1))?;
                let what = format!("amortization of pool {}", node.pool);
                Some(Price::of_settings(Rate::from_usd(usd)?, &what))
            }
            Some(PoolPrice::Multiplier(factor)) => {
                let list = self.listed(node, device)?;
                // An override is the operator's own price: the factor is for list prices.
                if list.as_of.is_none() {
                    return Some(list);
                }
                Some(Price {
                    rate: Rate::from_usd(list.rate.usd() * factor)?,
                    source: Name::from(format!(
                        "settings: {factor} of list, pool {}; {}",
                        node.pool, list.source
                    )),
                    as_of: list.as_of,
                    // The factor gives the price paid, relative to the price of the pool's own billing.
                    is_stand_in: list.is_stand_in && node.billing == Some(Billing::Spot),
                    on_demand: None,
                })
            }
            None => self.listed(node, device),
        }
    }

    /// The price by machine type and class: the operator's overrides, then the books.
    fn listed(&self, node: &Node, device: &Device) -> Option<Price> {
        let billing = node.billing.unwrap_or(Billing::OnDemand);
        if let Some(rule) = self.rule(node, device, billing) {
            return Some(Price::of_settings(rule.rate, "price override"));
        }
        let wanted = match billing {
            Billing::Spot => [Some(Purchase::Spot), Some(Purchase::OnDemand)],
            Billing::OnDemand | Billing::Reserved | Billing::Owned => {
                [Some(Purchase::OnDemand), None]
            }
        };
        let (book, row, by_instance) = self.row(node, device, wanted)?;
        priced(book, row, node.billing, by_instance, node)
    }

    /// The first override that fits.
    fn rule(&self, node: &Node, device: &Device, billing: Billing) -> Option<&Override> {
        let instance = node.instance_type.as_deref();
        self.overrides.iter().find(|rule| {
            rule.instance
                .as_deref()
                .is_none_or(|wanted| instance == Some(wanted))
                && rule
                    .class
                    .as_deref()
                    .is_none_or(|class| device.class.eq_ignore_ascii_case(class))
                && rule.billing.is_none_or(|wanted| wanted == billing)
        })
    }

    /// The row of the books for a device, of the first of these purchases that a book has; whether it is of the machine type.
    fn row(
        &self,
        node: &Node,
        device: &Device,
        wanted: [Option<Purchase>; 2],
    ) -> Option<(&BookIndex, &BookRow, bool)> {
        let instance = node.instance_type.as_deref();
        let books = self
            .book_index(node)
            .into_iter()
            .chain(self.market)
            .map(|at| &self.books[at]);
        for book in books {
            for purchase in wanted.into_iter().flatten() {
                let by_instance = instance
                    .and_then(|instance| book.by_instance.get(instance))
                    .and_then(|rows| pick(book, rows, purchase, node));
                let row = by_instance.or_else(|| {
                    book.by_class
                        .get(device.class.as_str())
                        .and_then(|rows| pick(book, rows, purchase, node))
                });
                if let Some(row) = row {
                    return Some((book, row, by_instance.is_some()));
                }
            }
        }
        None
    }

    /// What an hour of such a device would cost bought in this way: by an override, else by the books; `None` where neither says. What
    /// the operator says of its pool is how it is paid now, and is left out.
    pub fn offer(&self, node: &Node, device: &Device, purchase: Purchase) -> Option<Price> {
        let billing = match purchase {
            Purchase::OnDemand => Billing::OnDemand,
            Purchase::Spot => Billing::Spot,
        };
        // An override without a billing is the price paid an hour.
        let says = |rule: &&Override| rule.billing.is_some() || purchase == Purchase::OnDemand;
        if let Some(rule) = self.rule(node, device, billing).filter(says) {
            return Some(Price::of_settings(rule.rate, "price override"));
        }
        let (book, row, by_instance) = self.row(node, device, [Some(purchase), None])?;
        priced(book, row, Some(billing), by_instance, node)
    }

    /// What the operator says that a reserved hour of such a device costs.
    pub fn reserved(&self, node: &Node, device: &Device) -> Option<Rate> {
        let rule = self.rule(node, device, Billing::Reserved);
        let rule = rule.filter(|rule| rule.billing == Some(Billing::Reserved));
        rule.map(|rule| rule.rate)
    }

    /// What the machines of a pool cost, where the operator says that they are bought.
    pub fn owned(&self, pool: &str) -> Option<&Owned> {
        match self.pools.get(pool) {
            Some(PoolPrice::Owned(owned)) => Some(owned),
            _ => None,
        }
    }

    /// The price of a device of a class that need not be in the fleet: by the book of the settings' provider, else the market's, else the
    /// first that has it; of several rows the one in the middle.
    pub fn of_class(&self, class: &str, purchase: Purchase) -> Option<Price> {
        let first = self.provider.into_iter().chain(self.market);
        let mut books = first.chain(0..self.books.len()).map(|at| &self.books[at]);
        books.find_map(|book| {
            let rows = book.by_class.get(class)?.iter().map(|at| &book.rows[*at]);
            let mut rows: Vec<(f64, &BookRow)> = rows
                .filter(|row| row.purchase == purchase)
                .filter_map(|row| Some((row.usd_per_device_hour()?, row)))
                .collect();
            rows.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (usd, row) = rows.get(rows.len().checked_sub(1)? / 2)?;
            Some(Price {
                rate: Rate::from_usd(*usd)?,
                source: Name::from(format!(
                    "{} {} {}",
                    book.provider,
                    row.instance.as_deref().unwrap_or(&row.accelerator),
                    row.purchase.name()
                )),
                as_of: Some(Name::new(&row.as_of)),
                is_stand_in: false,
                on_demand: None,
            })
        })
    }

    /// On-demand price of an hour of a spot device. An override that is not for on-demand hours does not count.
    fn on_demand(&self, node: &Node, device: &Device) -> Option<Rate> {
        let own = self.pools.contains_key(node.pool.as_str())
            || self.rule(node, device, Billing::Spot).is_some();
        let spot = [Some(Purchase::Spot), Some(Purchase::OnDemand)];
        let is_spot = |purchase| purchase == Purchase::Spot;
        // Without a spot price, the on-demand price is used: the saving is unknown.
        let paid =
            own || (self.row(node, device, spot)).is_some_and(|(_, row, _)| is_spot(row.purchase));
        if !paid {
            return None;
        }
        let rule = self.rule(node, device, Billing::OnDemand);
        if let Some(rule) = rule.filter(|rule| rule.billing.is_some()) {
            return Some(rule.rate);
        }
        let (_, row, _) = self.row(node, device, [Some(Purchase::OnDemand), None])?;
        Rate::from_usd(row.usd_per_device_hour()?)
    }

    /// The book of a node: by its provider id, else the setting, else the only one that knows its machine type.
    fn book_index(&self, node: &Node) -> Option<usize> {
        let by_scheme = node
            .seen
            .provider_id
            .as_deref()
            .and_then(|id| id.split_once("://"))
            .and_then(|(scheme, _)| self.schemes.get(scheme))
            .copied();
        by_scheme.or(self.provider).or_else(|| {
            let instance = node.instance_type.as_deref()?;
            self.books
                .iter()
                .position(|book| book.by_instance.contains_key(instance))
        })
    }
}

/// The row of this purchase that fits the node best: its region, then a price of devices alone (where rows of
/// a class are looked at), then its number of devices. Of those that fit alike, the one in the middle, so that neither the cheapest nor the dearest shape speaks for a class.
fn pick<'a>(
    book: &'a BookIndex,
    rows: &[usize],
    purchase: Purchase,
    node: &Node,
) -> Option<&'a BookRow> {
    let fit = |row: &BookRow| {
        let region = match (&row.region, &node.region) {
            (Some(row), Some(node)) if row == node.as_str() => 2,
            (None, _) => 1,
            _ => 0,
        };
        (
            region,
            row.instance.is_none(),
            row.devices == node.devices.len() as u32,
        )
    };
    let mut rows: Vec<&BookRow> = rows
        .iter()
        .map(|at| &book.rows[*at])
        .filter(|row| row.purchase == purchase)
        .collect();
    let best = rows.iter().map(|row| fit(row)).max()?;
    rows.retain(|row| fit(row) == best);
    rows.sort_by(|a, b| {
        let usd = |row: &BookRow| row.usd_per_device_hour().unwrap_or(0.0);
        usd(a).total_cmp(&usd(b))
    });
    rows.get((rows.len() - 1) / 2).copied()
}

/// Remarks of a source that mean that its price stands in for the price paid ([`Price::is_stand_in`]). A pool's multiplier gives the
/// price paid but for the first, of spot devices.
pub const STAND_IN_REMARKS: [&str; 5] = [
    NO_SPOT_PRICE,
    NO_ON_DEMAND_PRICE,
    NO_COMMITMENT_PRICE,
    NO_AMORTIZATION,
    NO_BILLING,
];
const NO_SPOT_PRICE: &str = "no spot price known";
const NO_ON_DEMAND_PRICE: &str = "no on-demand price known";
const NO_COMMITMENT_PRICE: &str = "reserved: no commitment price in the price book";
const NO_AMORTIZATION: &str = "list price, no amortization known";
const NO_BILLING: &str = "list price, billing not known";

/// Why a list price differs from the price paid for a device of this billing; `None` where it is the price of that billing.
const fn other_billing(billing: Option<Billing>, price: Purchase) -> Option<&'static str> {
    match (billing, price) {
        (Some(Billing::Spot), Purchase::Spot) | (Some(Billing::OnDemand), Purchase::OnDemand) => {
            None
        }
        (Some(Billing::Spot), Purchase::OnDemand) => Some(NO_SPOT_PRICE),
        (Some(Billing::OnDemand), Purchase::Spot) => Some(NO_ON_DEMAND_PRICE),
        (Some(Billing::Reserved), _) => Some(NO_COMMITMENT_PRICE),
        (Some(Billing::Owned), _) => Some(NO_AMORTIZATION),
        (None, _) => Some(NO_BILLING),
    }
}

/// The price of a row of a book for a device of this billing.
fn priced(
    book: &BookIndex,
    row: &BookRow,
    billing: Option<Billing>,
    by_instance: bool,
    node: &Node,
) -> Option<Price> {
    let mut source = format!("{} ", book.provider);
    match (&row.instance, by_instance) {
        (Some(instance), true) => source.push_str(instance),
        _ => source.push_str(&row.accelerator),
    }
    if let Some(region) = &row.region {
        source.push(' ');
        source.push_str(region);
    }
    source.push(' ');
    source.push_str(row.purchase.name());
    let mut remarks: Vec<&str> = Vec::new();
    if !by_instance && node.instance_type.is_some() && book.provider.as_str() != MARKET {
        remarks.push("by class: the instance type is not in the price book");
    }
    let other = other_billing(billing, row.purchase);
    remarks.extend(other);
    remarks.extend(row.note.as_deref());
    if !remarks.is_empty() {
        source.push_str(" (");
        source.push_str(&remarks.join("; "));
        source.push(')');
    }
    Some(Price {
        rate: Rate::from_usd(row.usd_per_device_hour()?)?,
        source: Name::from(source),
        as_of: Some(Name::new(&row.as_of)),
        is_stand_in: other.is_some(),
        on_demand: None,
    })
}

/// Remembers the prices of a fleet while it is gone through: nodes of one kind ask once.
#[derive(Debug)]
pub struct PriceList<'a> {
    prices: &'a Prices,
    known: Map<PriceKey, Option<Arc<Price>>>,
}

/// Everything that a price depends on.
#[derive(PartialEq, Eq, Hash, Debug)]
struct PriceKey {
    pool: Name,
    scheme: Option<Name>,
    instance: Option<Name>,
    region: Option<Name>,
    billing: Option<Billing>,
    devices: usize,
    class: Name,
}

impl<'a> PriceList<'a> {
    /// A list without entries.
    pub fn new(prices: &'a Prices) -> Self {
        Self {
            prices,
            known: Map::default(),
        }
    }

    pub fn price(&mut self, node: &Node, device: &Device) -> Option<Arc<Price>> {
        let scheme = node.seen.provider_id.as_deref();
        let key = PriceKey {
            pool: node.pool.clone(),
            scheme: scheme
                .and_then(|id| id.split_once("://"))
                .map(|(scheme, _)| Name::new(scheme)),
            instance: node.instance_type.clone(),
            region: node.region.clone(),
            billing: node.billing,
            devices: node.devices.len(),
            class: device.class.clone(),
        };
        self.known
            .entry(key)
            .or_insert_with(|| self.prices.price(node, device).map(Arc::new))
            .clone()
    }

    /// What was asked, in a stable order.
    pub fn groups(self) -> Vec<PriceGroup> {
        let mut groups: Vec<PriceGroup> = self
            .known
            .into_iter()
            .map(|(key, price)| PriceGroup {
                pool: key.pool,
                class: key.class,
                instance_type: key.instance,
                region: key.region,
                billing: key.billing,
                price,
            })
            .collect();
        groups.sort_by(|a, b| {
            let key = |group: &PriceGroup| {
                (
                    group.pool.clone(),
                    group.class.clone(),
                    group.instance_type.clone(),
                    group.region.clone(),
                    group.billing,
                    group.price.as_ref().map(|price| price.rate),
                )
            };
            key(a).cmp(&key(b))
        });
        groups.dedup();
        groups
    }
}
