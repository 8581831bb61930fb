//! What bounds a job: a verdict over half an hour of what its devices' parts did, with the evidence beside it.
//!
//! The rules and their order are those of KempnerPulse (its own docs/classification.md), whose thresholds go back to NVIDIA's DCGM guide; what
//! has no such source is marked as ours.

use rustc_hash::FxHashMap;

use crate::base::Age;

use super::job::JobKey;
use super::rules::accelerator::Vendor;

/// What a profile looks back on.
pub const WINDOW: Age = Age::from_seconds(1800);
/// So much of the window must be known, 0 to 1.
pub const KNOWN: f64 = 0.8;

/// Every device of the job is used less, 0 to 1: ours.
pub const IDLE_BELOW: f64 = 0.05;
/// Window over which a stop is detected: ours.
pub const STOPPED_FOR: Age = Age::from_seconds(300);
/// It has stopped: over that time no device of the job was used more than this, 0 to 1, and before it more. Ours.
pub const STOPPED_BELOW: f64 = 0.1;
/// It has not stopped while that is this share of its mean, which is above [`STOPPED_BELOW`], or more: it does little all the time. Ours.
pub const STOPPED_SHARE: f64 = 0.5;
/// Waits for input: SM activity below this, 0 to 1.
pub const INPUT_SM_BELOW: f64 = 0.3;
/// Waits for input: PCIe traffic of at least this, bytes a second.
pub const INPUT_PCIE: f64 = 1e9;
/// Bound by memory: DRAM activity of at least this, 0 to 1.
pub const MEMORY_DRAM: f64 = 0.5;
/// Bound by memory: SM activity below this, 0 to 1.
pub const MEMORY_SM_BELOW: f64 = 0.5;
/// Tensor cores are used: tensor activity of at least this, 0 to 1.
pub const TENSOR_USED: f64 = 0.15;
/// Tensor cores are used: SM activity of at least this, 0 to 1.
pub const TENSOR_USED_SM: f64 = 0.4;
/// Computes without tensor cores: SM activity of at least this, 0 to 1.
pub const COMPUTE_SM: f64 = 0.8;
/// Computes without tensor cores: tensor activity below this, 0 to 1.
pub const COMPUTE_TENSOR_BELOW: f64 = 0.05;
/// Bound by communication: traffic of at least this share of what the model's links carry, 0 to 1.
pub const LINK_SHARE: f64 = 0.4;
/// Bound by communication: the SM activity of the job's devices on a node varies together by at least this over time (standard
/// deviation), 0 to 1: ours.
pub const DIP: f64 = 0.08;
/// Bound by communication: so much of the devices' variation is common to those on a node, 0 to 1: ours.
pub const TOGETHER: f64 = 0.5;
/// A square wave is low below this utilization and high above [`SWING_HIGH`], 0 to 1: ours.
pub const SWING_LOW: f64 = 0.15;
pub const SWING_HIGH: f64 = 0.4;
/// Each of the two ends of a square wave holds at least this share of the time: ours.
pub const SWING_SHARE: f64 = 0.2;
/// What lies between the two ends holds at most this share of the time: ours.
pub const SWING_BETWEEN: f64 = 0.15;
/// A square wave changes ends at least so often in the window: ours.
pub const SWING_TURNS: u32 = 4;
/// At least this share of a job's devices swings: ours.
pub const SWING_DEVICES: f64 = 0.5;

/// The bottleneck of a job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Bottleneck {
    /// Its devices are idle.
    Idle,
    /// It waits for its input.
    Input,
    /// By the bandwidth of device memory.
    Memory,
    /// By tensor cores, which it uses: as it should be.
    Tensor,
    /// By the multiprocessors, and tensor cores do nothing.
    Compute,
    /// By the traffic that its devices send each other.
    Communication,
    /// By no single thing.
    Mixed,
}

crate::words! {
    impl Bottleneck {
        /// As in the JSON contract and in the column BOUND BY.
        pub fn name(self) {
            Idle => "idle",
            Input => "input",
            Memory => "memory",
            Tensor => "tensor",
            Compute => "compute",
            Communication => "communication",
            Mixed => "mixed",
        }
    }
}

impl Bottleneck {
    /// The same as a sentence about the job.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Idle => "its devices are idle",
            Self::Input => "its devices wait for data",
            Self::Memory => "device memory bandwidth limits it",
            Self::Tensor => "it uses tensor cores",
            Self::Compute => "it computes without tensor cores",
            Self::Communication => "its devices wait for each other over NVLink or xGMI",
            Self::Mixed => "no single resource limits it",
        }
    }
}

/// Why there is no verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotJudged {
    /// It holds only slices, no whole device: readings of a device do not distinguish its holders.
    Slices,
    /// Less than four fifths of the window are known.
    Short,
    /// It worked in the window, and has stopped: what bounded it is over.
    Stopped,
    /// Only utilization is known, where what follows from its exporter is missing.
    UtilizationOnly,
    /// These of SM, tensor and memory activity and PCIe traffic are not known.
    Missing {
        sm: bool,
        tensor: bool,
        dram: bool,
        pcie: bool,
    },
}

impl NotJudged {
    /// Why, in a few words.
    pub fn words(self) -> String {
        match self {
            Self::Slices => {
                String::from("it uses device slices, and only whole devices are profiled")
            }
            Self::Short => format!(
                "less than {:.0} of the last {} min have readings",
                KNOWN * WINDOW.seconds() as f64 / 60.0,
                WINDOW.seconds() / 60
            ),
            Self::Stopped => format!(
                "no activity: below {:.0} % for {} min",
                STOPPED_BELOW * 100.0,
                STOPPED_FOR.seconds() / 60
            ),
            Self::UtilizationOnly => String::from("utilization only"),
            Self::Missing {
                sm,
                tensor,
                dram,
                pcie,
            } => {
                let named = [
                    (sm, "SM activity"),
                    (tensor, "tensor activity"),
                    (dram, "memory activity"),
                    (pcie, "PCIe traffic"),
                ];
                let named: Vec<&str> = named
                    .into_iter()
                    .filter_map(|(missing, name)| missing.then_some(name))
                    .collect();
                format!("missing metrics: {}", named.join(", "))
            }
        }
    }

    /// What would make a verdict possible; `None` where only time does, or nothing is known to.
    pub fn mend(self, vendor: Vendor) -> Option<String> {
        let (sm, tensor, dram, pcie) = match self {
            Self::Slices | Self::Short | Self::Stopped => return None,
            Self::UtilizationOnly => (true, true, true, true),
            Self::Missing {
                sm,
                tensor,
                dram,
                pcie,
            } => (sm, tensor, dram, pcie),
        };
        let lines = |all: &[(bool, &str)]| {
            let wanted = all
                .iter()
                .filter_map(|(missing, name)| missing.then_some(*name));
            wanted.collect::<Vec<_>>().join(", ")
        };
        match vendor {
            Vendor::Nvidia => Some(format!(
                "add {} to the counters of dcgm-exporter",
                lines(&[
                    (sm, "DCGM_FI_PROF_SM_ACTIVE"),
                    (tensor, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"),
                    (dram, "DCGM_FI_PROF_DRAM_ACTIVE"),
                    (
                        pcie,
                        "DCGM_FI_PROF_PCIE_TX_BYTES, DCGM_FI_PROF_PCIE_RX_BYTES"
                    ),
                ])
            )),
            // (It reports no PCIe traffic.)
            Vendor::Amd if sm || tensor || dram => Some(format!(
                "add {} to the fields of AMD's device metrics exporter",
                lines(&[
                    (sm, "GPU_PROF_SM_ACTIVE"),
                    (tensor, "GPU_PROF_TENSOR_ACTIVE_PERCENT"),
                    (dram, "GPU_UMC_ACTIVITY"),
                ])
            )),
            _ => None,
        }
    }
}

/// Means over the window and over the job's devices.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Evidence {
    /// Utilization, 0 to 1.
    pub util: Option<f64>,
    /// The greatest of utilization, SM and tensor activity of the busiest device, 0 to 1; `None` if a device reports none of them.
    pub util_most: Option<f64>,
    /// The same over the last [`STOPPED_FOR`], of SM activity where that is known; `None` where more than a
    /// quarter of its devices have not been read.
    pub most_lately: Option<f64>,
    /// SM activity, 0 to 1.
    pub sm: Option<f64>,
    /// Tensor activity, 0 to 1.
    pub tensor: Option<f64>,
    /// Memory activity, 0 to 1.
    pub dram: Option<f64>,
    /// PCIe bytes a second of a device.
    pub pcie: Option<f64>,
    /// NVLink bytes a second of a device.
    pub link: Option<f64>,
    /// The same as a share of what the model's links carry, 0 to 1.
    pub link_share: Option<f64>,
    /// Standard deviation over time of the SM activity that its devices on a node have in common, or of all its devices if each
    /// is on a node of its own, 0 to 1.
    pub dip: Option<f64>,
    /// Share of the devices' variation that is this common one, 0 to 1.
    pub together: Option<f64>,
    /// Share of its devices whose utilization is a square wave, 0 to 1.
    pub swinging: Option<f64>,
    /// 95th percentile of memory in use, of the device with the most, 0 to 1.
    pub memory_p95: Option<f64>,
    /// 95th percentile of SM activity, of the device with the most, 0 to 1.
    pub sm_p95: Option<f64>,
    /// Devices that were used for less than [`IDLE_BELOW`] of the time.
    pub idle_devices: u32,
}

impl Evidence {
    /// True when the job does little all the time, so that `lately` is no stop: of the signal that [`Evidence::most_lately`] is of.
    fn does_little(&self, lately: f64) -> bool {
        let mean = self.sm.or(self.util).or(self.tensor);
        mean.is_some_and(|mean| mean >= STOPPED_BELOW && lately >= STOPPED_SHARE * mean)
    }
}

/// Readings of a job over half an hour.
#[derive(Clone, PartialEq, Debug)]
pub struct JobProfile {
    /// Whole devices that it holds.
    pub devices: u32,
    /// Share of the window in which something of each device was known, 0 to 1.
    pub known: f64,
    pub evidence: Evidence,
    pub verdict: Result<Bottleneck, NotJudged>,
}

/// The profiles of all jobs that hold devices.
pub type Profiles = FxHashMap<JobKey, JobProfile>;

/// The verdict on this evidence: the first rule that fits. Where a rule cannot be decided, none after it is asked.
///
/// # Errors
/// When what a rule needs is not known.
pub fn judge(known: f64, evidence: &Evidence) -> Result<Bottleneck, NotJudged> {
    let e = evidence;
    if known < KNOWN {
        return Err(NotJudged::Short);
    }
    if e.util_most.is_some_and(|most| most < IDLE_BELOW) {
        return Ok(Bottleneck::Idle);
    }
    if e.swinging.is_some_and(|share| share >= SWING_DEVICES) {
        return Ok(Bottleneck::Input);
    }
    if e.most_lately
        .is_some_and(|most| most < STOPPED_BELOW && !e.does_little(most))
        && e.util_most.is_some_and(|most| most >= STOPPED_BELOW)
    {
        return Err(NotJudged::Stopped);
    }
    let missing = |tensor: bool, dram: bool, pcie: bool| NotJudged::Missing {
        sm: e.sm.is_none(),
        tensor,
        dram,
        pcie,
    };
    let Some(sm) = e.sm else {
        return Err(match (e.tensor, e.dram) {
            (None, None) => NotJudged::UtilizationOnly,
            _ => missing(e.tensor.is_none(), e.dram.is_none(), false),
        });
    };
    if sm < INPUT_SM_BELOW {
        match e.pcie {
            Some(pcie) if pcie >= INPUT_PCIE => return Ok(Bottleneck::Input),
            Some(_) => {}
            None => return Err(missing(e.tensor.is_none(), e.dram.is_none(), true)),
        }
    }
    if sm < MEMORY_SM_BELOW {
        match e.dram {
            Some(dram) if dram >= MEMORY_DRAM => return Ok(Bottleneck::Memory),
            Some(_) => {}
            None => return Err(missing(e.tensor.is_none(), true, false)),
        }
    }
    let Some(tensor) = e.tensor else {
        return Err(missing(true, e.dram.is_none(), false));
    };
    if tensor >= TENSOR_USED && sm >= TENSOR_USED_SM {
        return Ok(Bottleneck::Tensor);
    }
    if sm >= COMPUTE_SM && tensor < COMPUTE_TENSOR_BELOW {
        return Ok(Bottleneck::Compute);
    }
    let reaches = |value: Option<f64>, least: f64| value.is_some_and(|value| value >= least);
    let dips = reaches(e.dip, DIP) && reaches(e.together, TOGETHER);
    if reaches(e.link_share, LINK_SHARE) && dips {
        return Ok(Bottleneck::Communication);
    }
    Ok(Bottleneck::Mixed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evidence of a job that is busy and fits no rule.
    fn mixed() -> Evidence {
        Evidence {
            util: Some(0.9),
            util_most: Some(0.9),
            sm: Some(0.55),
            tensor: Some(0.10),
            dram: Some(0.2),
            pcie: Some(1e8),
            link: Some(1e9),
            link_share: Some(0.1),
            dip: Some(0.0),
            together: Some(0.0),
            swinging: Some(0.0),
            ..Evidence::default()
        }
    }

    /// Values one percent below and above a threshold.
    fn sides(threshold: f64) -> (f64, f64) {
        (threshold * 0.99, threshold * 1.01)
    }

    fn bound(change: impl Fn(&mut Evidence)) -> Bottleneck {
        let mut evidence = mixed();
        change(&mut evidence);
        judge(1.0, &evidence).expect("is judged")
    }

    #[test]
    fn each_rule_holds_to_a_hundredth_of_its_threshold() {
        assert_eq!(bound(|_| ()), Bottleneck::Mixed);
        let (below, above) = sides(IDLE_BELOW);
        assert_eq!(bound(|e| e.util_most = Some(below)), Bottleneck::Idle);
        assert_eq!(bound(|e| e.util_most = Some(above)), Bottleneck::Mixed);

        let lately = |most: f64| {
            let evidence = Evidence {
                most_lately: Some(most),
                ..mixed()
            };
            judge(1.0, &evidence)
        };
        let (below, above) = sides(STOPPED_BELOW);
        assert_eq!(lately(below), Err(NotJudged::Stopped));
        assert_eq!(lately(above), Ok(Bottleneck::Mixed));
        // A value that was below the limit all the time, and is unchanged now, has not stopped.
        let little = |share: f64| {
            let mean = 0.12;
            let evidence = Evidence {
                sm: Some(mean),
                most_lately: Some(share * mean),
                ..mixed()
            };
            judge(1.0, &evidence)
        };
        let (below, above) = sides(STOPPED_SHARE);
        assert_eq!(little(below), Err(NotJudged::Stopped));
        assert_eq!(little(above), Ok(Bottleneck::Mixed));
        // A collective that hangs for the whole window is not work.
        let hangs = Evidence {
            util_most: Some(1.0),
            sm: Some(0.02),
            most_lately: Some(0.02),
            ..mixed()
        };
        assert_eq!(judge(1.0, &hangs), Err(NotJudged::Stopped));

        let input = |sm: f64, pcie: f64| {
            bound(|e| (e.sm, e.pcie, e.tensor) = (Some(sm), Some(pcie), Some(0.1)))
        };
        let (below, above) = sides(INPUT_SM_BELOW);
        assert_eq!(input(below, 2e9), Bottleneck::Input);
        assert_eq!(input(above, 2e9), Bottleneck::Mixed);
        let (below, above) = sides(INPUT_PCIE);
        assert_eq!(input(0.2, above), Bottleneck::Input);
        assert_eq!(input(0.2, below), Bottleneck::Mixed);
        let (below, above) = sides(SWING_DEVICES);
        assert_eq!(bound(|e| e.swinging = Some(above)), Bottleneck::Input);
        assert_eq!(bound(|e| e.swinging = Some(below)), Bottleneck::Mixed);

        let memory = |sm: f64, dram: f64| bound(|e| (e.sm, e.dram) = (Some(sm), Some(dram)));
        let (below, above) = sides(MEMORY_DRAM);
        assert_eq!(memory(0.45, above), Bottleneck::Memory);
        assert_eq!(memory(0.45, below), Bottleneck::Mixed);
        let (below, above) = sides(MEMORY_SM_BELOW);
        assert_eq!(memory(below, 0.6), Bottleneck::Memory);
        assert_eq!(memory(above, 0.6), Bottleneck::Mixed);

        let tensor = |sm: f64, tensor: f64| bound(|e| (e.sm, e.tensor) = (Some(sm), Some(tensor)));
        let (below, above) = sides(TENSOR_USED);
        assert_eq!(tensor(0.55, above), Bottleneck::Tensor);
        assert_eq!(tensor(0.55, below), Bottleneck::Mixed);
        let (below, above) = sides(TENSOR_USED_SM);
        assert_eq!(tensor(above, 0.3), Bottleneck::Tensor);
        assert_eq!(tensor(below, 0.3), Bottleneck::Mixed);

        let (below, above) = sides(COMPUTE_SM);
        assert_eq!(tensor(above, 0.01), Bottleneck::Compute);
        assert_eq!(tensor(below, 0.01), Bottleneck::Mixed);
        let (below, above) = sides(COMPUTE_TENSOR_BELOW);
        assert_eq!(tensor(0.9, below), Bottleneck::Compute);
        assert_eq!(tensor(0.9, above), Bottleneck::Mixed);

        let links = |share: f64, dip: f64, together: f64| {
            bound(|e| {
                (e.link_share, e.dip, e.together) = (Some(share), Some(dip), Some(together));
            })
        };
        let (below, above) = sides(LINK_SHARE);
        assert_eq!(links(above, 0.2, 0.9), Bottleneck::Communication);
        assert_eq!(links(below, 0.2, 0.9), Bottleneck::Mixed);
        let (below, above) = sides(DIP);
        assert_eq!(links(0.5, above, 0.9), Bottleneck::Communication);
        assert_eq!(links(0.5, below, 0.9), Bottleneck::Mixed);
        let (below, above) = sides(TOGETHER);
        assert_eq!(links(0.5, 0.2, above), Bottleneck::Communication);
        assert_eq!(links(0.5, 0.2, below), Bottleneck::Mixed);

        let (below, above) = sides(KNOWN);
        assert_eq!(judge(below, &mixed()), Err(NotJudged::Short));
        assert_eq!(judge(above, &mixed()), Ok(Bottleneck::Mixed));
    }

    #[test]
    fn what_is_not_known_is_never_taken_for_zero() {
        let only = Evidence {
            util: Some(0.9),
            util_most: Some(0.9),
            swinging: Some(0.0),
            ..Evidence::default()
        };
        assert_eq!(judge(1.0, &only), Err(NotJudged::UtilizationOnly));
        let mend = NotJudged::UtilizationOnly.mend(Vendor::Nvidia);
        assert!(mend.is_some_and(|mend| mend.contains("DCGM_FI_PROF_SM_ACTIVE")));
        // Idle and a square wave are seen by utilization alone.
        let idle = Evidence {
            util_most: Some(0.01),
            ..only
        };
        assert_eq!(judge(1.0, &idle), Ok(Bottleneck::Idle));
        let wave = Evidence {
            swinging: Some(1.0),
            ..only
        };
        assert_eq!(judge(1.0, &wave), Ok(Bottleneck::Input));
        // Each signal that a rule needs, taken away.
        let without = |change: &dyn Fn(&mut Evidence)| {
            let mut evidence = mixed();
            change(&mut evidence);
            judge(1.0, &evidence)
        };
        let no_dram = without(&|e| (e.dram, e.sm) = (None, Some(0.45)));
        assert!(matches!(
            no_dram,
            Err(NotJudged::Missing { dram: true, .. })
        ));
        let no_tensor = without(&|e| e.tensor = None);
        assert!(matches!(
            no_tensor,
            Err(NotJudged::Missing { tensor: true, .. })
        ));
        let no_pcie = without(&|e| (e.pcie, e.sm) = (None, Some(0.2)));
        assert!(matches!(
            no_pcie,
            Err(NotJudged::Missing { pcie: true, .. })
        ));
        let no_sm = without(&|e| e.sm = None);
        assert!(matches!(no_sm, Err(NotJudged::Missing { sm: true, .. })));
        // Memory activity decides nothing where the SMs are this busy.
        assert_eq!(
            without(&|e| (e.dram, e.sm, e.tensor) = (None, Some(0.7), Some(0.6))),
            Ok(Bottleneck::Tensor)
        );
        assert!(without(&|e| e.link_share = None) == Ok(Bottleneck::Mixed));
    }
}
