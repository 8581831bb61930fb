//! MIG: what a profile takes of a device, and how many instances fit on one.
//!
//! Source: NVIDIA's MIG user guide (tables of profiles) and the default configuration of `NVIDIA/mig-parted`, which the tests
//! also use.

use model::fleet::accelerator::mig_compute_slices;
use model::fleet::device::Device;

/// The resource `nvidia.com/mig-1g.10gb` and the device resource that it divides.
pub(crate) fn mig_profile(resource: &str) -> Option<&str> {
    resource.strip_prefix("nvidia.com/mig-")
}

/// A MIG profile: `1g.10gb`, `1g.20gb`, `1g.10gb+me`, `1c.3g.40gb`. Resource names write the plus as a dot.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct MigProfile {
    /// Compute slices of a whole GPU instance.
    compute: u32,
    /// Memory, in the GB of the profile's name.
    memory_gb: u32,
    /// Number of slices of the compute instance, where the instance is divided further.
    part: Option<u32>,
    /// `me`, `me.all`, `gfx`, `-me`; empty for none.
    extra: String,
}

impl MigProfile {
    /// The profile that a text begins with: `1g.10gb`, the slice `1g.10gb-7`, the product suffix `4g.40gb-SHARED`.
    pub(crate) fn of(text: &str) -> Option<Self> {
        let number = |text: &str| text.parse::<u32>().ok().filter(|n| (1..=1024).contains(n));
        let (part, rest) = match text.split_once("c.") {
            Some((part, rest)) => (Some(number(part)?), rest),
            None => (None, text),
        };
        let (compute, rest) = rest.split_once("g.")?;
        let (memory, rest) = rest.split_once("gb")?;
        let extra = match rest.strip_prefix(['+', '.']) {
            Some(extra) => {
                let extra = extra.split('-').next().unwrap_or_default();
                extra
                    .strip_suffix("shared")
                    .unwrap_or(extra)
                    .trim_end_matches('.')
            }
            None if rest == "-me" || rest.starts_with("-me-") || rest.starts_with("-me.") => "-me",
            None if rest.is_empty() || rest.starts_with('-') => "",
            None => return None,
        };
        Some(Self {
            compute: number(compute)?,
            memory_gb: number(memory)?,
            part,
            extra: extra.to_owned(),
        })
    }

    /// The profile of this name in any of its notations; an unknown profile takes a whole GPU.
    pub(crate) fn named(text: &str) -> Self {
        Self::of(text).unwrap_or_else(|| Self {
            compute: 0,
            memory_gb: 0,
            part: None,
            extra: text.to_owned(),
        })
    }

    /// As NVIDIA writes it.
    pub(crate) fn name(&self) -> String {
        if self.compute == 0 {
            return self.extra.clone();
        }
        let part = self
            .part
            .map_or_else(String::new, |part| format!("{part}c."));
        let extra = match self.extra.as_str() {
            "" => String::new(),
            "-me" => String::from("-me"),
            extra => format!("+{extra}"),
        };
        format!("{part}{}g.{}gb{extra}", self.compute, self.memory_gb)
    }

    /// True for an instance with the media engines of a GPU, of which one GPU has one such instance.
    fn is_only_one(&self) -> bool {
        self.extra.starts_with("me")
    }
}

/// What a GPU is divided into: compute slices, memory slices, and the GB of one memory slice.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct MigGrid {
    compute: u32,
    memory: u32,
    /// GB of one memory slice; unknown where neither the GPU's memory nor its profiles are known.
    unit_gb: Option<f64>,
}

impl MigGrid {
    /// Of a GPU of this class and memory, on which there are these profiles.
    pub(crate) fn of<'p>(
        class: Option<&str>,
        memory_gib: Option<f64>,
        profiles: impl Iterator<Item = &'p MigProfile> + Clone,
    ) -> Self {
        // The A30 and the RTX PRO boards have four slices of each; without a class their profiles decide.
        let of_four = match class {
            Some(class) => mig_compute_slices(class) == 4,
            None => profiles.clone().any(|one| {
                let quarter = [(1, 6), (2, 12), (4, 24), (2, 48), (4, 96)];
                quarter.contains(&(one.compute, one.memory_gb)) || one.extra == "gfx"
            }),
        };
        let (compute, memory) = if of_four { (4, 4) } else { (7, 8) };
        let mut grid = Self {
            compute,
            memory,
            unit_gb: None,
        };
        let of_profiles = || {
            profiles
                .filter(|one| one.compute > 0)
                .map(|one| f64::from(one.memory_gb) / f64::from(grid.of_table(one.compute)))
                .min_by(f64::total_cmp)
        };
        grid.unit_gb = memory_gib
            .filter(|gib| *gib > 0.0)
            .map(|gib| gib / f64::from(memory))
            .or_else(of_profiles);
        grid
    }

    /// Of this device, on which there are these profiles.
    pub(crate) fn of_device<'p>(
        device: &Device,
        profiles: impl Iterator<Item = &'p MigProfile> + Clone,
    ) -> Self {
        let known = device.class.as_str() != "unknown";
        Self::of(known.then_some(device.class.as_str()), None, profiles)
    }

    /// Memory slices of an instance with this many compute slices.
    fn of_table(&self, compute: u32) -> u32 {
        match (self.memory, compute) {
            (8, 3) => 4,
            (8, 7) => 8,
            (all, compute) => compute.clamp(1, all),
        }
    }

    /// What an instance of a profile takes.
    fn takes(&self, profile: &MigProfile) -> MigCapacity {
        if profile.compute == 0 {
            return MigCapacity {
                only_one: 0,
                ..self.whole()
            };
        }
        let mut memory = self.of_table(profile.compute);
        // One compute slice has one memory slice or two: `1g.10gb` and `1g.20gb` of an A100 with 80 GB.
        if profile.compute == 1
            && let Some(unit) = self.unit_gb
            && f64::from(profile.memory_gb) > 1.5 * unit
        {
            memory = 2;
        }
        // A compute instance takes its part of the GPU instance.
        let part = profile.part.filter(|part| *part < profile.compute);
        MigCapacity {
            compute: part.unwrap_or(profile.compute),
            memory: part.map_or(memory, |part| memory * part / profile.compute),
            only_one: u32::from(profile.is_only_one()),
        }
    }

    /// Compute slices of a whole GPU.
    pub(crate) fn compute(&self) -> u32 {
        self.compute
    }

    /// Compute slices that an instance of a profile takes.
    pub(crate) fn compute_of(&self, profile: &MigProfile) -> u32 {
        self.takes(profile).compute
    }

    /// What a whole GPU has.
    pub(crate) fn whole(&self) -> MigCapacity {
        MigCapacity {
            compute: self.compute,
            memory: self.memory,
            only_one: 1,
        }
    }
}

/// Free capacity of a GPU, or the capacity that an instance uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MigCapacity {
    compute: u32,
    memory: u32,
    only_one: u32,
}

impl MigCapacity {
    /// Takes an instance of this profile; false, without a change, where it does not fit.
    pub(crate) fn take(&mut self, grid: &MigGrid, profile: &MigProfile) -> bool {
        let one = grid.takes(profile);
        let left = (
            self.compute.checked_sub(one.compute),
            self.memory.checked_sub(one.memory),
            self.only_one.checked_sub(one.only_one),
        );
        let (Some(compute), Some(memory), Some(only_one)) = left else {
            return false;
        };
        *self = Self {
            compute,
            memory,
            only_one,
        };
        true
    }
}

/// Lays instances out on GPUs with this much room: for each GPU the places in `all` of those that it gets. What fits nowhere
/// is left in `all`.
///
/// NVIDIA's default configurations cut all GPUs alike, so that is tried first; else the large ones are placed first.
pub(crate) fn lay_out(
    grid: &MigGrid,
    rooms: &mut [MigCapacity],
    all: &mut [(MigProfile, u32)],
) -> Vec<Vec<usize>> {
    let mut out: Vec<Vec<usize>> = vec![Vec::new(); rooms.len()];
    let count = u32::try_from(rooms.len()).unwrap_or(u32::MAX);
    if count == 0 {
        return out;
    }
    if let Some(share) = alike(grid, rooms, all, count) {
        rooms.fill(share);
        for (at, (_, left)) in all.iter_mut().enumerate() {
            for gpu in &mut out {
                gpu.extend((0..*left / count).map(|_| at));
            }
            *left = 0;
        }
        return out;
    }
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|at| {
        let one = grid.takes(&all[*at].0);
        std::cmp::Reverse((one.memory, one.compute, one.only_one))
    });
    for at in order {
        let (profile, left) = &mut all[at];
        for (room, gpu) in rooms.iter_mut().zip(&mut out) {
            while *left > 0 && room.take(grid, profile) {
                gpu.push(at);
                *left -= 1;
            }
        }
    }
    for gpu in &mut out {
        gpu.sort_unstable();
    }
    out
}

/// Instances that remain for each GPU if all GPUs are alike and get the same; `None` if that is impossible.
fn alike(
    grid: &MigGrid,
    rooms: &[MigCapacity],
    all: &[(MigProfile, u32)],
    count: u32,
) -> Option<MigCapacity> {
    let first = rooms.first()?;
    let mut left = *first;
    let same = rooms.iter().all(|room| room == first);
    let fits = |(profile, wanted): &(MigProfile, u32)| {
        wanted % count == 0 && (0..wanted / count).all(|_| left.take(grid, profile))
    };
    (same && all.iter().all(fits)).then_some(left)
}

/// How many GPUs these instances need, placed as [`lay_out`] does.
pub(crate) fn gpus_for(grid: &MigGrid, all: &[(MigProfile, u32)]) -> u32 {
    let sum = |of: fn(&MigCapacity) -> u32| -> u64 {
        let each = |(profile, count): &(MigProfile, u32)| {
            u64::from(of(&grid.takes(profile))) * u64::from(*count)
        };
        all.iter().map(each).sum()
    };
    let least = sum(|one| one.compute)
        .div_ceil(u64::from(grid.compute))
        .max(sum(|one| one.memory).div_ceil(u64::from(grid.memory)));
    let least = usize::try_from(least).unwrap_or(MOST_GPUS).min(MOST_GPUS);
    let enough = (least..=MOST_GPUS).find(|gpus| {
        let mut left = all.to_vec();
        lay_out(grid, &mut vec![grid.whole(); *gpus], &mut left);
        left.iter().all(|(_, count)| *count == 0)
    });
    u32::try_from(enough.unwrap_or(least)).unwrap_or(u32::MAX)
}

/// No machine has more GPUs than this.
const MOST_GPUS: usize = 256;
