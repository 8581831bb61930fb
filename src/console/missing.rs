//! What is missing for a complete view of the fleet, and the fix of each.

use model::base::{DeviceAmount, SmallSort};
use model::fleet::accelerator::Vendor;
use model::fleet::observe::{LostKind, SourceState, Table};
use model::fleet::{Fleet, TableState};
use table::kinds::sources::message;
use table::{Facts, READ_PROMETHEUS};

use super::text::counted;

/// Something that is missing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    /// A few words, for a line of the frame.
    pub title: String,
    /// What cannot be seen without it, and why.
    pub why: String,
    /// Commands or settings that fix it, most likely first.
    pub mends: Vec<String>,
    /// True when nothing can be seen at all.
    pub grave: bool,
    /// True when it is shown on request only, not above every view: the header counts it.
    pub quiet: bool,
    /// It is what the user may see and no fault: the line is muted.
    pub by_rights: bool,
}

/// Everything that is missing, most severe first. `fault` is why no session could be opened.
pub fn missing(facts: &Facts, fault: Option<&str>) -> Vec<Missing> {
    if let Some(fault) = fault {
        return vec![no_session(fault)];
    }
    let fleet = &facts.fleet;
    if !fleet.is_complete() {
        return Vec::new();
    }
    let mut all = Vec::new();
    let outage = outage(fleet);
    let reached = outage.is_none();
    all.extend(outage.or_else(|| unreadable(fleet)));
    all.extend(not_visible(fleet));
    let blind = all.iter().any(|missing| missing.grave);
    // While the API server does not answer, requests through it say nothing about the other causes.
    if !blind && reached {
        all.extend(no_devices(fleet));
        all.extend(no_exporters(facts).or_else(|| some_lost(facts)));
        all.extend(no_prices(facts));
    }
    all
}

fn no_session(fault: &str) -> Missing {
    let (title, mends) = if fault.starts_with("no cluster:") || fault.contains("no such file") {
        (
            "no kubeconfig",
            vec![
                "export KUBECONFIG=FILE, or stokehold --kubeconfig FILE",
                "your provider writes one: `aws eks update-kubeconfig`, `gcloud container clusters get-credentials`, `az aks get-credentials`",
            ],
        )
    } else if fault.contains("context") {
        (
            "no such context",
            vec![
                "kubectl config get-contexts   lists them",
                "stokehold --context NAME      uses one of them",
            ],
        )
    } else {
        (
            "no session",
            vec!["kubectl cluster-info   checks whether kubectl can connect"],
        )
    };
    Missing {
        title: title.to_owned(),
        why: fault.to_owned(),
        mends: mends.into_iter().map(str::to_owned).collect(),
        grave: true,
        quiet: false,
        by_rights: false,
    }
}

/// True when no table is known, and none ever was.
fn is_blind(fleet: &Fleet) -> bool {
    let live = |known: &TableState| matches!(known, TableState::Live);
    !fleet.known.values().any(live) && fleet.nodes.is_empty() && fleet.jobs.is_empty()
}

/// Everything that RBAC hides, as one message for all kinds.
fn not_visible(fleet: &Fleet) -> Option<Missing> {
    let title = fleet.not_visible()?;
    let help = fleet.rights_help();
    let mut mends = vec![format!("{help}   (an administrator applies it)")];
    if fleet.may_read_more() && !fleet.confined_to().is_empty() {
        mends.push(String::from(
            "stokehold -n NAMESPACE,NAMESPACE   reads others, where you have access",
        ));
    } else if fleet.confined_to().is_empty() {
        mends.push(String::from(
            "stokehold -n NAMESPACE   reads only a namespace that is visible to you",
        ));
    }
    Some(Missing {
        title,
        why: String::from(
            "shown as –; totals, reasons, suggestions and alerts cover only what is visible",
        ),
        mends,
        grave: is_blind(fleet),
        quiet: false,
        by_rights: !fleet.confined_to().is_empty(),
    })
}

/// An outage of the API server, as one message for all tables.
fn outage(fleet: &Fleet) -> Option<Missing> {
    let outage = fleet.outage()?;
    let help = fleet.rights_help();
    let mends = match outage.kind {
        LostKind::Unreachable => vec![
            "kubectl cluster-info   checks whether kubectl can connect",
            "check the VPN, the proxy and the address in the kubeconfig",
        ],
        LostKind::Login => vec![
            "log in as your provider asks: `aws sso login`, `gcloud auth login`, `az login`, `kubelogin`",
            "kubectl get nodes   checks whether the login works",
        ],
        LostKind::Rights => vec![&*help],
    };
    Some(Missing {
        title: outage.title().to_owned(),
        why: outage.message.to_owned(),
        mends: mends.into_iter().map(str::to_owned).collect(),
        grave: is_blind(fleet),
        quiet: false,
        by_rights: false,
    })
}

/// Individual tables that fail for different reasons.
fn unreadable(fleet: &Fleet) -> Option<Missing> {
    let lost = fleet.known.iter().filter_map(|(table, known)| match known {
        TableState::Lost(lost) => Some((table.name(), lost.message.as_str())),
        _ => None,
    });
    let lost: Vec<(&str, &str)> = lost.collect();
    let (_, why) = *lost.first()?;
    let tables: Vec<&str> = lost.iter().map(|(table, _)| *table).collect();
    Some(Missing {
        title: format!("{} cannot be read", tables.join(", ")),
        why: why.to_owned(),
        mends: vec![String::from(
            "press 0: each source, its last answer and its error",
        )],
        grave: is_blind(fleet),
        quiet: false,
        by_rights: false,
    })
}

fn no_devices(fleet: &Fleet) -> Option<Missing> {
    let none = fleet
        .visibility(model::fleet::observe::Table::Nodes)
        .is_known()
        && !fleet.nodes.is_empty()
        && fleet.devices().next().is_none();
    none.then(|| Missing {
        title: String::from("no node offers an accelerator"),
        why: format!(
            "{} listed, and none has a resource such as nvidia.com/gpu, amd.com/gpu or google.com/tpu",
            counted(fleet.nodes.len() as u64, "node")
        ),
        mends: vec![
            String::from("install the device plugin or the GPU operator of your vendor"),
            String::from("kubectl get nodes -o custom-columns=NAME:.metadata.name,GPU:.status.allocatable.nvidia\\.com/gpu"),
        ],
        grave: false,
        quiet: false,
        by_rights: false,
    })
}

fn no_exporters(facts: &Facts) -> Option<Missing> {
    let fleet = &facts.fleet;
    let vendor = fleet.devices().next().map(|(_, device)| device.vendor)?;
    let hidden = "utilization, memory, temperature, power and faults are unknown";
    if let Some(title) = table::no_readings(facts) {
        return Some(Missing {
            title: title.to_owned(),
            why: hidden.to_owned(),
            mends: vec![READ_PROMETHEUS.to_owned()],
            grave: false,
            quiet: true,
            by_rights: false,
        });
    }
    let exporters: Vec<_> = fleet
        .sources
        .iter()
        .filter(|source| source.kind.as_str() != "kubernetes")
        .collect();
    let failing = exporters
        .iter()
        .all(|source| matches!(source.state, SourceState::Lost | SourceState::NotVisible));
    if !failing {
        return None;
    }
    if let Some(source) = exporters.first() {
        let why = if source.message.is_empty() {
            String::from("it does not answer")
        } else {
            source.message.clone()
        };
        return Some(Missing {
            title: String::from("no exporter answers"),
            why: format!("{hidden}; {}: {why}", source.name),
            mends: vec![
                String::from("press 0: each source, its last answer and its error"),
                String::from(
                    "a scrape through the API server needs `get` on pods/proxy; with `scrape.mode = \"direct\"` it needs none",
                ),
            ],
            grave: false,
            quiet: false,
            by_rights: false,
        });
    }
    let install = match vendor {
        Vendor::Amd => "install AMD's device-metrics-exporter, or the AMD GPU operator with it",
        Vendor::Google => {
            "on GKE the TPU device plugin serves metrics; allow its port, or name it in [[scrape.target]]"
        }
        Vendor::Nvidia => {
            "helm install dcgm-exporter gpu-helm-charts/dcgm-exporter, or the GPU operator, which includes it"
        }
        _ => "install the metrics exporter of the vendor",
    };
    Some(Missing {
        title: String::from("no exporter found"),
        why: format!("{hidden}; no visible pod matches a dialect"),
        mends: vec![
            install.to_owned(),
            String::from(
                "for an exporter outside the cluster, set [[scrape.target]] in stokehold.toml",
            ),
            String::from("stokehold exporter list   lists the known dialects"),
        ],
        grave: false,
        quiet: false,
        by_rights: false,
    })
}

/// Some sources do not answer, others do.
fn some_lost(facts: &Facts) -> Option<Missing> {
    let fleet = &facts.fleet;
    let silent = |source: &&model::fleet::observe::SourceHealth| source.state == SourceState::Lost;
    let lost: Vec<_> = fleet.sources.iter().filter(silent).collect();
    let first = lost.first()?;
    let state = match (first.message.is_empty(), first.last_ok) {
        (false, _) => message(facts, first).into_owned(),
        (true, None) => String::from("it has never answered"),
        (true, Some(_)) => String::from("it no longer answers"),
    };
    let more = match lost.len() {
        1 => String::new(),
        count => format!("; and {} more", count - 1),
    };
    Some(Missing {
        title: format!(
            "{} of {} unreachable",
            lost.len(),
            counted(fleet.sources.len() as u64, "source")
        ),
        why: format!(
            "values that only they report are stale or unknown; {}: {state}{more}",
            first.name
        ),
        mends: vec![String::from(
            "press 0: each source, its last answer and its error",
        )],
        grave: false,
        quiet: true,
        by_rights: false,
    })
}

fn no_prices(facts: &Facts) -> Option<Missing> {
    let burn = &facts.spend_rates;
    // The class of devices on hidden nodes is unknown, so their price is not missing.
    if burn.unpriced == 0 || burn.devices.is_zero() || facts.fleet.is_hidden(Table::Nodes) {
        return None;
    }
    let mut classes: Vec<&str> = burn
        .prices
        .iter()
        .filter(|group| group.price.is_none())
        .map(|group| group.class.as_str())
        .collect();
    classes.small_sort();
    classes.dedup();
    let of = if classes.is_empty() {
        String::new()
    } else {
        format!(" ({})", classes.join(", "))
    };
    Some(Missing {
        title: if DeviceAmount::whole(burn.unpriced) >= burn.devices {
            String::from("no price for any device")
        } else {
            format!(
                "no price for {}",
                counted(u64::from(burn.unpriced), "device")
            )
        },
        why: format!("their cost is not in the totals{of}"),
        mends: vec![
            String::from(
                "stokehold.toml: [[prices.override]] with the class and usd_per_device_hour",
            ),
            String::from("or set prices.files to your own price book"),
        ],
        grave: false,
        quiet: false,
        by_rights: false,
    })
}
