//! One value of a page on its way into a reading.

use super::dialect::SamplePart;

/// No such place, pod, device or core.
pub(super) const NONE: u32 = u32::MAX;

/// One value on its way into a reading.
#[derive(Debug, Clone, Copy)]
pub(super) struct Contribution {
    pub place: u32,
    pub map: u16,
    pub rank: u16,
    pub pod: u32,
    pub core: u32,
    /// Its identity among the values reduced with it; of equal ones the last counts.
    pub item: u64,
    /// NaN when a later line took its place.
    pub value: f64,
    pub part: SamplePart,
    /// When the value was so, where the newest counts; of a bucket, its upper bound.
    pub moment: f64,
}
