//! The nodes of one queue, and placement of a gang on them.

use super::NODE;

/// Devices allocated to a gang on one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hold {
    /// Index of the node in its queue.
    pub node: usize,
    pub devices: u32,
}

/// Placement of a gang, given the free devices of each node: up to a node's worth goes on one node, the tightest fit; a
/// larger gang goes on the first whole free nodes, and the remainder on the tightest other node. None if it does not fit.
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

/// Allocates a gang's devices.
pub(super) fn take(free: &mut [u32], holds: &[Hold]) {
    for hold in holds {
        free[hold.node] -= hold.devices;
    }
}

/// Releases a gang's devices.
pub(super) fn give(free: &mut [u32], holds: &[Hold]) {
    for hold in holds {
        free[hold.node] += hold.devices;
    }
}
