//! What is idle on one node, how much of it is fragments, and what a placement would make of that.

use super::demand::Demand;
use super::{Node, WHOLE};

/// The idle part of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Idle {
    /// Index of the node's kind.
    pub(super) kind: usize,
    /// CPU.
    pub(super) cpu: i64,
    /// Memory.
    pub(super) memory: i64,
    /// Each device.
    pub(super) left: Vec<i32>,
    /// All devices together.
    pub(super) gpu: i64,
    /// Devices that nothing runs on.
    pub(super) free: u32,
    /// Per typical spec: devices with enough left.
    fit: Vec<i32>,
    /// Per typical spec: what is left on the devices with too little.
    small: Vec<i32>,
    /// Fragments, in thousandths of a device times the number of typical pods.
    pub(super) fragments: i64,
    /// GPU without CPU.
    pub(super) unfed_cpu: i64,
    /// GPU without memory.
    pub(super) unfed_memory: i64,
    /// Size classes that run here: bit 0 for shared pods, bit n for pods of n GPUs.
    pub(super) sizes: u128,
}

impl Idle {
    /// All of a node.
    pub(super) fn new(node: &Node, kind: usize, demand: &Demand) -> Self {
        let gpus = node.gpus as usize;
        let mut idle = Self {
            kind,
            cpu: node.cpu,
            memory: node.memory,
            left: vec![WHOLE; gpus],
            gpu: i64::from(node.gpus) * i64::from(WHOLE),
            free: node.gpus,
            fit: vec![node.gpus as i32; demand.milli.len()],
            small: vec![0; demand.milli.len()],
            fragments: 0,
            unfed_cpu: 0,
            unfed_memory: 0,
            sizes: 0,
        };
        idle.settle(demand);
        idle
    }

    /// A node of which something is taken, by what is left.
    pub(crate) fn used(
        kind: usize,
        cpu: i64,
        memory: i64,
        left: Vec<i32>,
        demand: &Demand,
    ) -> Self {
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

    /// What is left of each device.
    pub(crate) fn left(&self) -> &[i32] {
        &self.left
    }

    /// What is left of a device.
    pub(crate) fn left_of(&self, device: u32) -> i32 {
        self.left[device as usize]
    }

    fn settle(&mut self, demand: &Demand) {
        self.fragments = self.fragments_after(demand, self.cpu, 0, &[]);
        self.unfed_cpu = demand.cpu_hinge.unfed(self.gpu, self.cpu);
        self.unfed_memory = demand.memory_hinge.unfed(self.gpu, self.memory);
    }

    /// Fragments with `cpu` left and `milli` taken from each of some devices, given by what they have now.
    ///
    /// For a spec that could run here, the devices too small for it are fragments; for one that could not,
    /// or that needs no GPU, all that is idle.
    pub(super) fn fragments_after(
        &self,
        demand: &Demand,
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

    /// Takes a pod: `milli` of each of these devices.
    pub(super) fn take(
        &mut self,
        demand: &Demand,
        cpu: i64,
        memory: i64,
        milli: i32,
        devices: &[u32],
    ) {
        self.cpu -= cpu;
        self.memory -= memory;
        for &device in devices {
            let now = self.left[device as usize];
            let after = now - milli;
            self.left[device as usize] = after;
            self.gpu -= i64::from(milli);
            self.free -= u32::from(now == WHOLE);
            for (spec, &want) in demand.milli.iter().enumerate() {
                self.fit[spec] += i32::from(after >= want) - i32::from(now >= want);
                self.small[spec] +=
                    if after < want { after } else { 0 } - if now < want { now } else { 0 };
            }
        }
        match (devices.len(), milli) {
            (0, _) => {}
            (1, milli) if milli < WHOLE => self.sizes |= 1,
            (gpus, _) => self.sizes |= 1 << gpus.min(127),
        }
        self.settle(demand);
    }

    /// The devices of a pod that asks for `milli` of each of `gpus`, the tightest first, the first of equals.
    /// Of whole devices those are the first free ones.
    pub(super) fn tightest(&self, gpus: u32, milli: i32) -> Vec<u32> {
        let enough = |device: &u32| self.left[*device as usize] >= milli;
        let mut devices: Vec<u32> = (0..self.left.len() as u32).filter(enough).collect();
        if milli < WHOLE {
            devices.sort_by_key(|device| self.left[*device as usize]);
        }
        devices.truncate(gpus as usize);
        devices
    }
}
