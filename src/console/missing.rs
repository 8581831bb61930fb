//! What is missing to see everything, and the mend of each: for the first minute of a bad day.

use model::fleet::accelerator::Vendor;
use model::fleet::observe::{LostKind, SourceState};
use model::fleet::{Fleet, Known};
use table::Facts;

use super::text::counted;

/// Something that is missing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    /// In a few words: a line of the frame.
    pub title: String,
    /// What is not seen for it, and why.
    pub why: String,
    /// Commands or settings that mend it, the likeliest first.
    pub mends: Vec<String>,
    /// Nothing at all can be seen.
    pub grave: bool,
    /// Told to who asks, not over every view: the header counts it.
    pub quiet: bool,
}

/// Everything that is missing, the worst first. `fault` is why no session could be opened, where none could.
pub fn missing(facts: &Facts, fault: Option<&str>) -> Vec<Missing> {
    if let Some(fault) = fault {
        return vec![no_session(fault)];
    }
    let fleet = &facts.fleet;
    if !fleet.is_complete() {
        return Vec::new();
    }
    let mut all = Vec::new();
    all.extend(refused(fleet));
    all.extend(unreachable(fleet));
    let blind = all.iter().any(|missing| missing.grave);
    if !blind {
        all.extend(no_devices(fleet));
        all.extend(no_exporters(fleet).or_else(|| some_lost(fleet)));
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
                "stokehold --context NAME      takes one of them",
            ],
        )
    } else {
        (
            "no session",
            vec!["kubectl cluster-info   says whether kubectl fares better"],
        )
    };
    Missing {
        title: title.to_owned(),
        why: fault.to_owned(),
        mends: mends.into_iter().map(str::to_owned).collect(),
        grave: true,
        quiet: false,
    }
}

/// Nothing is known of any table.
fn is_blind(fleet: &Fleet) -> bool {
    !fleet
        .known
        .values()
        .any(|known| matches!(known, Known::Live))
}

fn lost(fleet: &Fleet, kind: LostKind) -> Vec<(&'static str, &str)> {
    fleet
        .known
        .iter()
        .filter_map(|(table, known)| match known {
            Known::Lost(lost) if lost.kind == kind => Some((table.plural(), lost.message.as_str())),
            _ => None,
        })
        .collect()
}

fn refused(fleet: &Fleet) -> Option<Missing> {
    let lost = lost(fleet, LostKind::Rights);
    let (_, why) = *lost.first()?;
    let grave = is_blind(fleet);
    if !why.starts_with("403") {
        return Some(Missing {
            title: String::from("not logged in"),
            why: why.to_owned(),
            mends: vec![
                String::from(
                    "log in as your provider asks: `aws sso login`, `gcloud auth login`, `az login`, `kubelogin`",
                ),
                String::from("kubectl get nodes   says whether the login works"),
            ],
            grave,
            quiet: false,
        });
    }
    let tables: Vec<&str> = lost.iter().map(|(table, _)| *table).collect();
    Some(Missing {
        title: format!("no right to list {}", tables.join(", ")),
        why: why.to_owned(),
        mends: vec![
            String::from(
                "kubectl apply -f config/kubernetes/viewer.yaml   gives a role that reads what is shown here",
            ),
            String::from("stokehold -n NAMESPACE   looks only into a namespace that you may read"),
            format!(
                "kubectl auth can-i list {}   says what the server thinks",
                tables[0]
            ),
        ],
        grave,
        quiet: false,
    })
}

fn unreachable(fleet: &Fleet) -> Option<Missing> {
    let lost = lost(fleet, LostKind::Unreachable);
    let (_, why) = *lost.first()?;
    let tables: Vec<&str> = lost.iter().map(|(table, _)| *table).collect();
    let grave = is_blind(fleet);
    Some(Missing {
        title: if grave {
            String::from("the cluster does not answer")
        } else {
            format!("{} cannot be read", tables.join(", "))
        },
        why: why.to_owned(),
        mends: vec![
            String::from("kubectl cluster-info   says whether kubectl fares better"),
            String::from("check the VPN, the proxy and the address in the kubeconfig"),
        ],
        grave,
        quiet: false,
    })
}

fn no_devices(fleet: &Fleet) -> Option<Missing> {
    let none = fleet.known(model::fleet::observe::Table::Nodes).is_known()
        && !fleet.nodes.is_empty()
        && fleet.devices().next().is_none();
    none.then(|| Missing {
        title: String::from("no node offers an accelerator"),
        why: format!(
            "{} listed, and none of them has a resource such as nvidia.com/gpu, amd.com/gpu or google.com/tpu",
            counted(fleet.nodes.len() as u64, "node")
        ),
        mends: vec![
            String::from("install the device plugin or the GPU operator of your vendor"),
            String::from("kubectl get nodes -o custom-columns=NAME:.metadata.name,GPU:.status.allocatable.nvidia\\.com/gpu"),
        ],
        grave: false,
        quiet: false,
    })
}

fn no_exporters(fleet: &Fleet) -> Option<Missing> {
    let vendor = fleet.devices().next().map(|(_, device)| device.vendor)?;
    let exporters: Vec<_> = fleet
        .sources
        .iter()
        .filter(|source| source.kind.as_str() != "kubernetes")
        .collect();
    let failing = exporters
        .iter()
        .all(|source| source.state == SourceState::Lost);
    if !failing {
        return None;
    }
    let hidden = "utilisation, memory, heat, power and faults are unknown";
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
                String::from("press 0: each source with its last answer and what failed"),
                String::from(
                    "a scrape through the API server needs `get` on pods/proxy; with `scrape.mode = \"direct\"` it needs none",
                ),
            ],
            grave: false,
            quiet: false,
        });
    }
    let install = match vendor {
        Vendor::Amd => "install AMD's device-metrics-exporter, or the AMD GPU operator with it",
        Vendor::Google => {
            "on GKE the TPU device plugin serves metrics; allow its port, or name it in [[scrape.target]]"
        }
        Vendor::Nvidia => {
            "helm install dcgm-exporter gpu-helm-charts/dcgm-exporter, or the GPU operator, which brings it"
        }
        _ => "install the metrics exporter of the vendor",
    };
    Some(Missing {
        title: String::from("no exporter found"),
        why: format!("{hidden}; no pod here serves readings that a dialect knows"),
        mends: vec![
            install.to_owned(),
            String::from("an exporter outside of the cluster: [[scrape.target]] in stokehold.toml"),
            String::from("stokehold exporter list   names the dialects that are known"),
        ],
        grave: false,
        quiet: false,
    })
}

/// Some sources do not answer, others do.
fn some_lost(fleet: &Fleet) -> Option<Missing> {
    let silent = |source: &&model::fleet::observe::SourceHealth| source.state == SourceState::Lost;
    let lost: Vec<_> = fleet.sources.iter().filter(silent).collect();
    let first = lost.first()?;
    let said = match (first.message.is_empty(), first.last_ok) {
        (false, _) => first.message.clone(),
        (true, None) => String::from("it has never answered"),
        (true, Some(_)) => String::from("it answers no more"),
    };
    let more = match lost.len() {
        1 => String::new(),
        count => format!("; and {} more", count - 1),
    };
    Some(Missing {
        title: format!(
            "{} of {} not answering",
            lost.len(),
            counted(fleet.sources.len() as u64, "source")
        ),
        why: format!(
            "what only they tell is old or unknown; {}: {said}{more}",
            first.name
        ),
        mends: vec![String::from(
            "press 0: each source with its last answer and what failed",
        )],
        grave: false,
        quiet: true,
    })
}

fn no_prices(facts: &Facts) -> Option<Missing> {
    let burn = &facts.burn;
    if burn.unpriced == 0 || burn.devices == 0 {
        return None;
    }
    let mut classes: Vec<&str> = burn
        .prices
        .iter()
        .filter(|group| group.price.is_none())
        .map(|group| group.class.as_str())
        .collect();
    classes.sort_unstable();
    classes.dedup();
    let of = if classes.is_empty() {
        String::new()
    } else {
        format!(" ({})", classes.join(", "))
    };
    Some(Missing {
        title: if burn.unpriced == burn.devices {
            String::from("no price for any device")
        } else {
            format!(
                "no price for {}",
                counted(u64::from(burn.unpriced), "device")
            )
        },
        why: format!("their money is left out of every sum{of}"),
        mends: vec![
            String::from(
                "stokehold.toml: [[prices.override]] with the class and usd_per_device_hour",
            ),
            String::from("prices.files names a price book of your own"),
        ],
        grave: false,
        quiet: false,
    })
}
