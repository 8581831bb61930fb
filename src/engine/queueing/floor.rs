//! The nodes of one queue, and the room on them for a gang.

use super::NODE;

/// Devices that a gang holds on one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hold {
    /// Index of the node in its queue.
    pub node: usize,
    /// Devices.
    pub devices: u32,
}

/// Where a gang of so many devices would sit, given what is free on each node: up to a node's worth on one
/// node, the tightest; more on whole free nodes, the first ones, and the remainder on the tightest other.
/// Nothing where there is no such room.
pub(super) fn fit(free: &[u32], devices: u32) -> Option<Vec<Hold>> {
    let (whole, rest) = if devices <= NODE {
        (0, devices)
    } else {
        ((devices / NODE) as usize, devices % NODE)
    };
    let mut holds: Vec<Hold> = free
        .iter()
        .enumerate()
        .filter(|(_, free)| **free >= NODE)
        .take(whole)
        .map(|(node, _)| Hold {
            node,
            devices: NODE,
        })
        .collect();
    if holds.len() < whole {
        return None;
    }
    if rest > 0 {
        let taken = |node: usize| holds.iter().any(|hold| hold.node == node);
        let (node, _) = free
            .iter()
            .enumerate()
            .filter(|(node, free)| **free >= rest && !taken(*node))
            .min_by_key(|(node, free)| (**free, *node))?;
        holds.push(Hold {
            node,
            devices: rest,
        });
    }
    Some(holds)
}

/// Takes what a gang holds.
pub(super) fn take(free: &mut [u32], holds: &[Hold]) {
    for hold in holds {
        free[hold.node] -= hold.devices;
    }
}

/// Gives back what a gang held.
pub(super) fn give(free: &mut [u32], holds: &[Hold]) {
    for hold in holds {
        free[hold.node] += hold.devices;
    }
}
