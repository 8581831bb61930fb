//! The placement policies by name.

use std::fmt;
use std::str::FromStr;

use model::base::document::unknown;

/// How the node of a pod is chosen. Scores are whole numbers; ties go to the first node in the run's order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PackingPolicy {
    /// Least left over, CPU and GPU weighed alike.
    BestFit,
    /// Shared GPUs first, then free GPUs of used nodes, then free nodes.
    GpuPacking,
    /// Pods of one size class together.
    GpuClustering,
    /// Least aligned demand and supply, after Tetris.
    DotProduct,
    /// Any node on which it fits.
    Random,
    /// Fragmentation gradient descent: "Beware of Fragmentation", USENIX ATC 2023.
    Fgd,
    /// Stokehold's: fragmentation gradient, GPU capacity left without CPU or memory, demand for the
    /// node's type, and best fit.
    Stokehold,
}

impl PackingPolicy {
    /// Every policy, the published ones first.
    pub const ALL: [Self; 7] = [
        Self::BestFit,
        Self::GpuPacking,
        Self::GpuClustering,
        Self::DotProduct,
        Self::Random,
        Self::Fgd,
        Self::Stokehold,
    ];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::BestFit => "best-fit",
            Self::GpuPacking => "gpu-packing",
            Self::GpuClustering => "gpu-clustering",
            Self::DotProduct => "dot-product",
            Self::Random => "random",
            Self::Fgd => "fgd",
            Self::Stokehold => "stokehold",
        }
    }
}

impl fmt::Display for PackingPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PackingPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|policy| policy.name() == text)
            .ok_or_else(|| unknown("packing policy", text, &Self::ALL.map(Self::name)))
    }
}
