//! The merged settings, and for each section the raw layer in which every field is optional.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::{Deserializer, Error};

use model::base::document;

use super::budget::BudgetSettings;
use super::engine::{EngineSettings, RouteSettings};
use super::notify::NotifySettings;
use super::number::{
    Amount, ColorChoice, DurationSetting, OneOrMany, Paid, PoolModeSetting, Positive, Pue, Ratio,
    ScrapeMode, Size, Usd,
};
use super::origin::Origins;
use super::place::{Matcher, ServicePath};
use super::service::ServiceSettings;

/// Declares a section twice: as merged settings, and as one layer in which every field is optional and unknown keys are rejected.
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
        theme: String,
        /// Draw with ASCII only.
        ascii: bool,
        /// Which colors to use.
        color: ColorChoice,
        /// Interval at which the console redraws changes.
        refresh: DurationSetting,
        mouse: bool,
        /// Whether writing to clusters is allowed.
        write: bool,
        /// Forbids writing, whatever `write` says. Only the machine's file can lift its own prohibition.
        forbid_write: bool,
        /// Directory of the journal; the platform's state directory when absent.
        journal_dir: Option<PathBuf>,
        /// Log file; no log when absent.
        log_file: Option<PathBuf>,
        /// File with the user's alert thresholds.
        alerts_file: Option<PathBuf>,
        /// File with the user's key bindings.
        keys_file: Option<PathBuf>,
        /// Directory with the user's themes.
        themes_dir: Option<PathBuf>,
        /// Directory with the user's exporter dialects.
        exporters_dir: Option<PathBuf>,
        /// File with the user's accelerators.
        accelerators_file: Option<PathBuf>,
        scope: Scope = RawScope,
        /// Labels that carry meaning.
        labels: Labels = RawLabels,
        /// When an allocated device counts as idle.
        idle: Idle = RawIdle,
        /// How exporters are scraped.
        scrape: Scrape = RawScrape,
        prometheus: Prometheus = RawPrometheus,
        record: Recording = RawRecording,
        prices: PriceSettings = RawPriceSettings,
        /// Energy cost and emissions.
        #[serde(default)]
        cost: CostSettings = RawCostSettings,
        /// The pod that provides a shell on a node.
        shell: ShellSettings = RawShellSettings,
        /// Pools by node labels.
        #[serde(default)]
        pool: Vec<PoolSettings>,
        #[serde(default)]
        team: Vec<TeamSettings>,
        /// Budgets of parts of the fleet.
        #[serde(default)]
        budget: Vec<BudgetSettings>,
        /// Latency objectives of model servers; the first matching service applies.
        #[serde(default)]
        service: Vec<ServiceSettings>,
        #[serde(default)]
        tco: TcoSettings,
        /// Where `watch` sends findings.
        #[serde(default)]
        notify: Vec<NotifySettings>,
        /// Options of the engine.
        #[serde(default)]
        engine: EngineSettings,
        /// Admission of jobs without a queueing system.
        govern: GovernSettings = RawGovernSettings,
        /// Flavor preferences of jobs; the first matching route applies.
        #[serde(default)]
        route: Vec<RouteSettings>,
        /// The user's directory for state; `None` for a user without a home directory.
        #[serde(skip)]
        state_dir: Option<PathBuf>,
        /// Origin of each value.
        #[serde(skip)]
        origins: Origins,
    } only raw {
        context: BTreeMap<String, RawSettings>,
    }
}

section! {
    Scope, RawScope {
        /// Only these namespaces; all when empty.
        namespaces: Vec<String>,
        team: Option<String>,
    }
}

section! {
    /// For reports of the usage ledger: the time zone of days and months, and energy cost and emissions. Values that are
    /// not set are unknown.
    #[derive(Default)]
    CostSettings, RawCostSettings {
        /// Price of electricity, USD per kWh.
        usd_per_kwh: Option<Positive>,
        /// Power usage effectiveness of the building.
        pue: Option<Pue>,
        /// Kilograms of CO2 equivalents per kWh.
        kg_co2e_per_kwh: Option<Amount>,
        /// IANA time zone whose midnight starts a day; UTC when absent.
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
    /// When an allocated device counts as idle.
    Idle, RawIdle {
        util_below: Ratio,
        /// Power below this many times the model's idle power.
        power_factor: Positive,
        /// Idle for longer than this.
        grace: DurationSetting,
    }
}

section! {
    /// How exporters are scraped.
    Scrape, RawScrape {
        /// Connection to the exporters.
        mode: ScrapeMode,
        /// Maximum requests per second through the API server's proxy.
        per_second: Positive,
        /// Additional burst for exporters that were never scraped.
        burst: u32,
        in_flight: std::num::NonZeroU32,
        /// Timeout of one scrape.
        timeout: DurationSetting,
        /// Exporters that do not run in a pod of the cluster.
        #[serde(default)]
        target: Vec<ScrapeTarget>,
    }
}

section! {
    Prometheus, RawPrometheus {
        url: Option<String>,
        /// Its service, queried through the API server.
        service: Option<ServicePath>,
        /// Look for one among the cluster's services.
        discover: bool,
        /// Label matchers that are added to every query.
        #[serde(default)]
        matcher: Matcher,
        #[serde(default)]
        headers: BTreeMap<String, String>,
        /// File that contains a bearer token.
        bearer_file: Option<PathBuf>,
        /// File that contains the CA certificate.
        ca_file: Option<PathBuf>,
        interval: DurationSetting,
        /// Maximum requests per minute.
        per_minute: Positive,
        /// Timeout of one request.
        timeout: DurationSetting,
        /// How far back history is filled in.
        history: DurationSetting,
        /// Reads hours of usage from Prometheus when this machine has no usage ledger.
        usage: bool,
    }
}

section! {
    /// Recording of observations, for `replay`, `diff` and `get --at`.
    Recording, RawRecording {
        /// The console records while it runs.
        enabled: bool,
        /// The directory; one per context in the state directory when absent.
        dir: Option<PathBuf>,
        keep: DurationSetting,
        max_size: Size,
        /// Value of the cluster label in metrics; the context name when absent.
        cluster: Option<String>,
        /// Name of the recorder in metrics; the host name when absent.
        name: Option<String>,
        /// Usage metrics have a label for the job.
        job_metrics: bool,
        /// Remote-write receiver of the metrics.
        remote_write: RemoteWriteSettings = RawRemoteWriteSettings,
    }
}

section! {
    /// Receiver of `record`'s metrics, by Prometheus remote write.
    RemoteWriteSettings, RawRemoteWriteSettings {
        url: Option<String>,
        #[serde(default)]
        headers: BTreeMap<String, String>,
        /// File that contains a bearer token.
        bearer_file: Option<PathBuf>,
        /// User name for basic authentication.
        username: Option<String>,
        /// File that contains the password.
        password_file: Option<PathBuf>,
        /// File that contains the CA certificate.
        ca_file: Option<PathBuf>,
        /// Interval at which samples are sent.
        interval: DurationSetting,
        /// Timeout of one request.
        timeout: DurationSetting,
    }
}

section! {
    /// Admission by `govern` of jobs without a queueing system.
    GovernSettings, RawGovernSettings {
        /// Namespace of the ConfigMap `stokehold-queues`.
        namespace: String,
        /// Maximum writes per second.
        per_second: Positive,
        /// How long a job that writes checkpoints may take for another checkpoint before it is preempted.
        checkpoint_grace: DurationSetting,
        /// Minimum time before a preempted job is admitted again; doubles with each further preemption.
        backoff: DurationSetting,
    }
}

section! {
    /// The pod that provides a shell on a node.
    ShellSettings, RawShellSettings {
        /// Its image; must contain `sh` and `chroot`.
        image: String,
        /// Namespace of the pod.
        namespace: String,
    }
}

section! {
    PriceSettings, RawPriceSettings {
        /// Provider of nodes that do not report one.
        provider: Option<String>,
        /// The user's own price books.
        files: Vec<PathBuf>,
        /// Prices by machine type or class, which take precedence over all books.
        #[serde(default, rename = "override")]
        overrides: Vec<PriceOverride>,
        /// Depreciation of owned machines.
        owned: OwnedDefaults = RawOwnedDefaults,
    }
}

section! {
    /// Depreciation of owned machines, unless a pool overrides it.
    OwnedDefaults, RawOwnedDefaults {
        /// Time over which a machine is depreciated, years.
        years: Positive,
        /// Residual value as a share of the price.
        residual: Ratio,
        /// Network, storage and spares as a share of the price.
        overhead: Amount,
        pue: Positive,
        /// Price of electricity, USD per kWh.
        usd_per_kwh: Amount,
        /// Space and staff, USD per hour and machine.
        other_usd_per_hour: Amount,
    }
}

/// An exporter that does not run in a pod of the cluster.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScrapeTarget {
    /// Its name under `sources`.
    pub name: String,
    /// Address of its page.
    pub url: String,
    /// The node that the page describes, when the page does not name it.
    pub node: Option<String>,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// File that contains a bearer token.
    pub bearer_file: Option<PathBuf>,
    /// File that contains the CA certificate.
    pub ca_file: Option<PathBuf>,
}

/// A price by machine type or class.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceOverride {
    pub instance: Option<String>,
    pub class: Option<String>,
    /// Applies only to nodes with this billing mode.
    pub billing: Option<Paid>,
    /// Price of a device, USD per device-hour.
    pub usd_per_device_hour: Usd,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolSettings {
    pub name: String,
    /// Node labels that must all match; an empty value means present.
    #[serde(rename = "match", deserialize_with = "not_empty")]
    pub labels: BTreeMap<String, String>,
    pub mode: Option<PoolModeSetting>,
    /// Billing mode of its nodes.
    pub billing: Option<Paid>,
    /// The team that owns it.
    pub owner: Option<String>,
    /// Minimum number of nodes.
    pub min: Option<u32>,
    /// Maximum number of nodes.
    pub max: Option<u32>,
    /// Price of its devices.
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

/// Price of a pool's devices.
#[derive(Clone, PartialEq, Debug)]
pub enum PoolPriceSettings {
    /// A fixed price, USD per device-hour.
    Rate(Usd),
    /// A factor on the list price.
    Multiplier(Positive),
    Owned(OwnedSettings),
}

impl<'de> Deserialize<'de> for PoolPriceSettings {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct RawPrice {
            usd_per_device_hour: Option<Usd>,
            multiplier: Option<Positive>,
            owned: Option<OwnedSettings>,
        }
        document::whole(from, |raw: RawPrice| {
            match (raw.usd_per_device_hour, raw.multiplier, raw.owned) {
                (Some(usd), None, None) => Ok(Self::Rate(usd)),
                (None, Some(factor), None) => Ok(Self::Multiplier(factor)),
                (None, None, Some(owned)) => Ok(Self::Owned(owned)),
                _ => Err("a price is one of usd_per_device_hour, multiplier and owned".to_owned()),
            }
        })
    }
}

/// Owned machines; absent values come from `prices.owned`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnedSettings {
    /// Price of a machine with its devices, USD.
    pub capex_usd: Positive,
    /// Power drawn by a machine, kW.
    pub kw: Amount,
    /// Time over which a machine is depreciated, years.
    pub years: Option<Positive>,
    /// Residual value as a share of the price.
    pub residual: Option<Ratio>,
    /// Network, storage and spares as a share of the price.
    pub overhead: Option<Amount>,
    pub pue: Option<Positive>,
    /// Price of electricity, USD per kWh.
    pub usd_per_kwh: Option<Amount>,
    /// Space and staff, USD per hour and machine.
    pub other_usd_per_hour: Option<Amount>,
}

/// Alternatives for `tco` that price books do not contain.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TcoSettings {
    /// Price of a reserved hour as a share of the on-demand price.
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
    /// Number of its devices.
    pub devices: NonZeroU32,
    pub machine: OwnedSettings,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TeamSettings {
    pub name: String,
    /// What belongs to the team.
    #[serde(rename = "match", deserialize_with = "says_something")]
    pub wanted: TeamMatch,
}

/// What belongs to a team: all given conditions must match, and any item of a list.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TeamMatch {
    /// Namespaces; a trailing `*` matches any suffix.
    pub namespace: OneOrMany,
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
