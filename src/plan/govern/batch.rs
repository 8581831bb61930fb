//! Which of the decided writes are sent before the next decision.

use super::{PlannedWrite, Purpose};

/// The first `most` of a decision's writes that are allowed, in their order: as long as there are both, half of them suspend new
/// jobs and half are the others, so that neither a burst of new jobs nor a burst of admissions holds the other up. Never less
/// than one of each.
pub fn batch(
    writes: &[PlannedWrite],
    most: usize,
    may: impl Fn(&PlannedWrite) -> bool,
) -> Vec<PlannedWrite> {
    let most = most.max(2);
    let enters = |write: &PlannedWrite| write.purpose == Purpose::Suspend;
    let allowed = || writes.iter().filter(|write| may(write));
    let others = allowed().filter(|write| !enters(write)).count();
    let new = allowed().filter(|write| enters(write)).count();
    let share = most / 2;
    // Writes that one kind leaves of its half go to the other.
    let mut new_left = most - others.min(share);
    let mut others_left = most - new.min(most - share);
    let picked = allowed().filter(|write| {
        let left = match enters(write) {
            true => &mut new_left,
            false => &mut others_left,
        };
        let fits = *left > 0;
        *left = left.saturating_sub(1);
        fits
    });
    picked.cloned().collect()
}
