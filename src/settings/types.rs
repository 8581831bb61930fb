//! The settings themselves, and for each section the raw layer in which everything may be absent.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::budget::BudgetSettings;
use super::engine::{EngineSettings, RouteSettings};
use super::notify::NotifySettings;
use super::number::{
    Amount, ColorChoice, Mode, OneOrMany, Paid, Positive, Pue, Ratio, ScrapeMode, Size, Span, Usd,
};
use super::origin::Origins;
use super::place::{Matcher, ServicePath};
use super::service::ServiceSettings;

/// Declares a section twice: as it is once merged, and as one layer of it, where anything may be absent and
/// nothing unknown may stand.
macro_rules! section {
    (
        $(#[$doc:meta])* $name:ident, $raw:ident {
            $($(#[$field_doc:meta])* $field:ident: $ty:ty $(= $raw_ty:ty)?,)*
        } $(only raw { $($extra:ident: $extra_ty:ty,)* })?
    ) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Debug, Deserialize)]
        pub struct $name { $($(#[$field_doc])* pub $field: $ty,)* }

        /// One layer of the section of the same name.
        #[derive(Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        #[allow(dead_code, reason = "parsed to be checked; values are merged by key")]
        pub(super) struct $raw { $($(#[$field_doc])* $field: Option<section!(@raw $ty $(, $raw_ty)?)>,)* $($(pub(super) $extra: $extra_ty,)*)? }
    };
    (@raw $ty:ty, $raw_ty:ty) => { $raw_ty };
    (@raw $ty:ty) => { $ty };
}

section! {
    /// Every setting, merged and checked.
    Settings, RawSettings {
        /// Theme by name.
        theme: String,
        /// Draw with ASCII only.
        ascii: bool,
        /// Which colors to use.
        color: ColorChoice,
        /// How often the console redraws what has changed.
        refresh: Span,
        /// Take mouse events.
        mouse: bool,
        /// Whether writing to clusters is allowed.
        write: bool,
        /// Forbids writing, whatever `write` says. What the machine's file forbids, nobody else allows.
        forbid_write: bool,
        /// Where the journal of changes is kept; the platform's place for state when absent.
        journal_dir: Option<PathBuf>,
        /// Where to log; nowhere when absent.
        log_file: Option<PathBuf>,
        /// Alert thresholds of the user's own.
        alerts_file: Option<PathBuf>,
        /// Keys of the user's own.
        keys_file: Option<PathBuf>,
        /// Themes of the user's own.
        themes_dir: Option<PathBuf>,
        /// Exporter dialects of the user's own.
        exporters_dir: Option<PathBuf>,
        /// Accelerators of the user's own.
        accelerators_file: Option<PathBuf>,
        /// What to show.
        scope: Scope = RawScope,
        /// Labels that carry meaning.
        labels: Labels = RawLabels,
        /// When a held device does no work.
        idle: Idle = RawIdle,
        /// How exporters are read.
        scrape: Scrape = RawScrape,
        /// Readings from Prometheus.
        prometheus: Prometheus = RawPrometheus,
        /// What the console writes down of what it reads.
        record: Recording = RawRecording,
        /// What devices cost.
        prices: PriceSettings = RawPriceSettings,
        /// What energy costs and emits.
        #[serde(default)]
        cost: CostSettings = RawCostSettings,
        /// The pod behind a shell onto a node.
        shell: ShellSettings = RawShellSettings,
        /// Pools by node labels.
        #[serde(default)]
        pool: Vec<PoolSettings>,
        /// Teams.
        #[serde(default)]
        team: Vec<TeamSettings>,
        /// What parts of the fleet may cost in a period.
        #[serde(default)]
        budget: Vec<BudgetSettings>,
        /// What model servers promise; the first service that matches counts.
        #[serde(default)]
        service: Vec<ServiceSettings>,
        /// What `tco` compares with.
        #[serde(default)]
        tco: TcoSettings,
        /// Where `watch` sends findings.
        #[serde(default)]
        notify: Vec<NotifySettings>,
        /// How the engine decides.
        #[serde(default)]
        engine: EngineSettings,
        /// The admission of jobs without a queueing system.
        govern: GovernSettings = RawGovernSettings,
        /// Which flavors jobs prefer; the first route that matches counts.
        #[serde(default)]
        route: Vec<RouteSettings>,
        /// Where each value came from.
        #[serde(skip)]
        origins: Origins,
    } only raw {
        context: BTreeMap<String, RawSettings>,
    }
}

section! {
    /// What to show.
    Scope, RawScope {
        /// Only these namespaces; empty is all.
        namespaces: Vec<String>,
        /// Only this team.
        team: Option<String>,
    }
}

section! {
    /// For reports of the usage ledger: whose days and months they go by, and what energy costs and emits. What is not set is unknown
    /// there.
    #[derive(Default)]
    CostSettings, RawCostSettings {
        /// USD for a kWh.
        usd_per_kwh: Option<Positive>,
        /// Power usage effectiveness of the building.
        pue: Option<Pue>,
        /// Kilograms of CO2 equivalents for a kWh.
        kg_co2e_per_kwh: Option<Amount>,
        /// The IANA time zone whose midnight begins a day; UTC when absent.
        time_zone: Option<String>,
    }
}

section! {
    /// Labels that carry meaning; the first that is present wins.
    Labels, RawLabels {
        /// Node labels that name a pool.
        pool: Vec<String>,
        /// Node labels that stand for a rack.
        rack: Vec<String>,
        /// Labels that name a team.
        team: Vec<String>,
        /// Labels that name a queue.
        queue: Vec<String>,
    }
}

section! {
    /// When a held device does no work.
    Idle, RawIdle {
        /// Utilization below this.
        util_below: Ratio,
        /// Power below this many times the model's idle power.
        power_factor: Positive,
        /// Held for longer than this.
        grace: Span,
    }
}

section! {
    /// How exporters are read.
    Scrape, RawScrape {
        /// Road to the exporters.
        mode: ScrapeMode,
        /// Most requests a second through the API server's proxy.
        per_second: Positive,
        /// So many more at once for exporters that were never asked.
        burst: u32,
        /// Most requests under way at one time.
        in_flight: std::num::NonZeroU32,
        /// How long one page may take.
        timeout: Span,
        /// Exporters that no pod of the cluster serves.
        #[serde(default)]
        target: Vec<ScrapeTarget>,
    }
}

section! {
    /// Readings from Prometheus.
    Prometheus, RawPrometheus {
        /// Its address.
        url: Option<String>,
        /// Its service, asked through the API server.
        service: Option<ServicePath>,
        /// Look for one among the cluster's services.
        discover: bool,
        /// Label matchers that every query carries.
        #[serde(default)]
        matcher: Matcher,
        /// Headers to send.
        #[serde(default)]
        headers: BTreeMap<String, String>,
        /// File that holds a bearer token.
        bearer_file: Option<PathBuf>,
        /// File that holds the CA of its certificate.
        ca_file: Option<PathBuf>,
        /// How often it is asked.
        interval: Span,
        /// Most requests a minute.
        per_minute: Positive,
        /// How long one answer may take.
        timeout: Span,
        /// How far back the past is filled in.
        history: Span,
        /// Hours of usage are read from it where this machine has no ledger.
        usage: bool,
    }
}

section! {
    /// What the console writes down of what it reads, for `replay`, `diff` and `get --at`.
    Recording, RawRecording {
        /// The console records while it runs.
        enabled: bool,
        /// The directory; one for the context in the state directory when absent.
        dir: Option<PathBuf>,
        /// How long what was recorded is kept.
        keep: Span,
        /// How large the record may grow.
        max_size: Size,
        /// What the cluster is called among metrics; as the context when absent.
        cluster: Option<String>,
        /// What the recorder is called among metrics; as the machine when absent.
        name: Option<String>,
        /// Metrics of usage tell jobs apart.
        job_metrics: bool,
        /// Where metrics are sent.
        remote_write: RemoteWriteSettings = RawRemoteWriteSettings,
    }
}

section! {
    /// Where `record` sends metrics, by Prometheus remote write.
    RemoteWriteSettings, RawRemoteWriteSettings {
        /// The receiver's address.
        url: Option<String>,
        /// Headers to send.
        #[serde(default)]
        headers: BTreeMap<String, String>,
        /// File that holds a bearer token.
        bearer_file: Option<PathBuf>,
        /// User of basic authentication.
        username: Option<String>,
        /// File that holds the password.
        password_file: Option<PathBuf>,
        /// File that holds the CA of its certificate.
        ca_file: Option<PathBuf>,
        /// How often samples are sent.
        interval: Span,
        /// How long one answer may take.
        timeout: Span,
    }
}

section! {
    /// The admission of jobs without a queueing system, by `govern`.
    GovernSettings, RawGovernSettings {
        /// Namespace of the ConfigMap `stokehold-queues`.
        namespace: String,
        /// Most writes a second.
        per_second: Positive,
        /// How long a job that writes checkpoints has for another one before it is preempted.
        checkpoint_grace: Span,
        /// How long a preempted job waits at least before it is admitted again; twice as long after each further time.
        backoff: Span,
    }
}

section! {
    /// The pod behind a shell onto a node.
    ShellSettings, RawShellSettings {
        /// Its image; has `sh` and `chroot`.
        image: String,
        /// The namespace that it is made in.
        namespace: String,
    }
}

section! {
    /// What devices cost.
    PriceSettings, RawPriceSettings {
        /// The provider of nodes that do not tell theirs.
        provider: Option<String>,
        /// Price books of the user's own.
        files: Vec<PathBuf>,
        /// Prices by machine type or class, before any book.
        #[serde(default, rename = "override")]
        overrides: Vec<PriceOverride>,
        /// How machines of one's own are written off.
        owned: OwnedDefaults = RawOwnedDefaults,
    }
}

section! {
    /// How machines of one's own are written off, unless a pool says otherwise.
    OwnedDefaults, RawOwnedDefaults {
        /// Years.
        years: Positive,
        /// Share of the price that is left afterwards.
        residual: Ratio,
        /// Network, storage and spares as a share of the price.
        overhead: Amount,
        /// Power usage effectiveness.
        pue: Positive,
        /// USD for a kWh.
        usd_per_kwh: Amount,
        /// Space and staff, USD an hour for a machine.
        other_usd_per_hour: Amount,
    }
}

/// An exporter that no pod of the cluster serves.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScrapeTarget {
    /// Its name under `sources`.
    pub name: String,
    /// Address of its page.
    pub url: String,
    /// The node that the page is about, where the page does not say.
    pub node: Option<String>,
    /// Headers to send.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// File that holds a bearer token.
    pub bearer_file: Option<PathBuf>,
    /// File that holds the CA of its certificate.
    pub ca_file: Option<PathBuf>,
}

/// A price by machine type or class.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceOverride {
    /// Machine type.
    pub instance: Option<String>,
    /// Class.
    pub class: Option<String>,
    /// Only for nodes paid in this way.
    pub billing: Option<Paid>,
    /// USD an hour for a device.
    pub usd_per_device_hour: Usd,
}

/// A pool.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolSettings {
    /// Its name.
    pub name: String,
    /// Node labels that must all match; an empty value means present.
    #[serde(rename = "match", deserialize_with = "not_empty")]
    pub labels: BTreeMap<String, String>,
    /// Static or dynamic.
    pub mode: Option<Mode>,
    /// How its hours are paid.
    pub billing: Option<Paid>,
    /// The team that owns it.
    pub owner: Option<String>,
    /// Fewest nodes.
    pub min: Option<u32>,
    /// Most nodes.
    pub max: Option<u32>,
    /// What its devices cost.
    pub price: Option<PoolPriceSettings>,
}

fn not_empty<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    let labels = BTreeMap::deserialize(from)?;
    if labels.is_empty() {
        return Err(D::Error::custom(
            "a pool that matches no label would take every node; name at least one label",
        ));
    }
    Ok(labels)
}

/// What the devices of a pool cost.
#[derive(Clone, PartialEq, Debug)]
pub enum PoolPriceSettings {
    /// USD an hour for a device.
    Rate(Usd),
    /// A factor on the list price.
    Multiplier(Positive),
    /// Machines of one's own.
    Owned(OwnedSettings),
}

impl<'de> Deserialize<'de> for PoolPriceSettings {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Raw {
            usd_per_device_hour: Option<Usd>,
            multiplier: Option<Positive>,
            owned: Option<OwnedSettings>,
        }
        let raw = Raw::deserialize(from)?;
        match (raw.usd_per_device_hour, raw.multiplier, raw.owned) {
            (Some(usd), None, None) => Ok(Self::Rate(usd)),
            (None, Some(factor), None) => Ok(Self::Multiplier(factor)),
            (None, None, Some(owned)) => Ok(Self::Owned(owned)),
            _ => Err(D::Error::custom(
                "a price is one of usd_per_device_hour, multiplier and owned",
            )),
        }
    }
}

/// Machines of one's own: what is not said comes from `prices.owned`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnedSettings {
    /// Price of a machine with its devices, USD.
    pub capex_usd: Positive,
    /// Power drawn by a machine, kW.
    pub kw: Amount,
    /// Years over which it is written off.
    pub years: Option<Positive>,
    /// Share of the price that is left afterwards.
    pub residual: Option<Ratio>,
    /// Network, storage and spares as a share of the price.
    pub overhead: Option<Amount>,
    /// Power usage effectiveness.
    pub pue: Option<Positive>,
    /// USD for a kWh.
    pub usd_per_kwh: Option<Amount>,
    /// Space and staff, USD an hour for a machine.
    pub other_usd_per_hour: Option<Amount>,
}

/// What the price books do not know of ways to pay for devices.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TcoSettings {
    /// A reserved hour as a share of the price on demand.
    pub reserved: Option<Ratio>,
    /// Machines that could be bought.
    pub owned: Vec<TcoMachine>,
}

/// A machine that could be bought.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcoMachine {
    /// Class of its devices.
    pub class: String,
    /// Its devices.
    pub devices: NonZeroU32,
    /// What it costs.
    pub machine: OwnedSettings,
}

/// A team.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TeamSettings {
    /// Its name.
    pub name: String,
    /// What belongs to it.
    #[serde(rename = "match", deserialize_with = "says_something")]
    pub wanted: TeamMatch,
}

/// What belongs to a team: all that is said must hold, of a list any item.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TeamMatch {
    /// Namespaces; `*` at the end stands for any tail.
    pub namespace: OneOrMany,
    /// Queues.
    pub queue: OneOrMany,
    /// Labels of the workload or pod.
    pub label: BTreeMap<String, String>,
}

fn says_something<'de, D: Deserializer<'de>>(from: D) -> Result<TeamMatch, D::Error> {
    let wanted = TeamMatch::deserialize(from)?;
    if wanted == TeamMatch::default() {
        return Err(D::Error::custom(
            "a team that matches nothing in particular would take every job; name a namespace, queue or label",
        ));
    }
    Ok(wanted)
}
