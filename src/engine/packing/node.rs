//! Idle resources of one node, their fragmentation, and the effect of a placement.

use super::WHOLE;
use super::demand::PackingDemand;

/// Idle resources of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Idle {
    /// Index of the node's kind.
    pub kind: usize,
    /// Idle CPU, in thousandths of a core.
    pub cpu: i64,
    /// Idle memory, in MiB.
    pub memory: i64,
    /// Idle thousandths of each device.
    pub left: Vec<i32>,
    /// Idle thousandths of all devices.
    pub gpu: i64,
    /// Number of fully idle devices.
    pub(super) free: u32,
    /// Per typical spec: devices with enough left.
    fit: Vec<i32>,
    /// Per typical spec: idle thousandths on devices that are too small for it.
    small: Vec<i32>,
    /// Fragments, in thousandths of a device times the number of typical pods.
    pub fragments: i64,
    /// GPU capacity without CPU.
    pub(super) unfed_cpu: i64,
    /// GPU capacity without memory.
    pub(super) unfed_memory: i64,
    /// Size classes that run here: bit 0 for shared pods, bit n for pods of n GPUs. Only [`super::Policy::GpuClustering`] reads it.
    pub sizes: u128,
}

impl Idle {
    /// A node with these idle resources, and no size class on it.
    pub fn new(kind: usize, cpu: i64, memory: i64, left: Vec<i32>, demand: &PackingDemand) -> Self {
        let fit = |want: &i32| left.iter().filter(|left| *left >= want).count() as i32;
        let small = |want: &i32| left.iter().filter(|left| *left < want).sum();
        let mut idle = Self {
            kind,
            cpu,
            memory,
            gpu: left.iter().map(|left| i64::from(*left)).sum(),
            free: left.iter().filter(|left| **left == WHOLE).count() as u32,
            fit: demand.milli.iter().map(fit).collect(),
            small: demand.milli.iter().map(small).collect(),
            left,
            fragments: 0,
            unfed_cpu: 0,
            unfed_memory: 0,
            sizes: 0,
        };
        idle.settle(demand);
        idle
    }

    fn settle(&mut self, demand: &PackingDemand) {
        self.fragments = self.fragments_after(demand, self.cpu, 0, &[]);
        self.unfed_cpu = demand.cpu_hinge.unfed(self.gpu, self.cpu);
        self.unfed_memory = demand.memory_hinge.unfed(self.gpu, self.memory);
    }

    /// Fragments with `cpu` idle and `milli` taken from each of the devices, which are given by their current idle amounts.
    ///
    /// For a spec that could run here, the devices that are too small are fragments; for a spec that could not,
    /// or that needs no GPU, all idle capacity is.
    pub(super) fn fragments_after(
        &self,
        demand: &PackingDemand,
        cpu: i64,
        milli: i32,
        from: &[i32],
    ) -> i64 {
        let idle = self.gpu - i64::from(milli) * from.len() as i64;
        let specs = demand.milli.len();
        let (wants, cores, counts) = (
            &demand.milli[..specs],
            &demand.cpu[..specs],
            &demand.count[..specs],
        );
        let need = &demand.need[self.kind][..specs];
        let (fits, smalls) = (&self.fit[..specs], &self.small[..specs]);
        let mut sum = 0;
        for spec in 0..specs {
            let want = wants[spec];
            let (mut fit, mut small) = (fits[spec], smalls[spec]);
            for &now in from {
                let after = now - milli;
                fit += i32::from(after >= want) - i32::from(now >= want);
                small += if after < want { after } else { 0 } - if now < want { now } else { 0 };
            }
            let runs = fit >= need[spec] && cpu >= cores[spec];
            sum += counts[spec] * if runs { i64::from(small) } else { idle };
        }
        sum
    }

    /// The devices for a pod that requests `milli` of each of `gpus`, the tightest first, the first among equals.
    /// For whole devices these are the first free ones.
    pub fn tightest(&self, gpus: u32, milli: i32) -> Vec<u32> {
        let enough = |device: &u32| self.left[*device as usize] >= milli;
        let mut devices: Vec<u32> = (0..self.left.len() as u32).filter(enough).collect();
        if milli < WHOLE {
            devices.sort_by_key(|device| self.left[*device as usize]);
        }
        devices.truncate(gpus as usize);
        devices
    }
}
