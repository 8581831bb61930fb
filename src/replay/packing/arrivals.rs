//! The order in which pods arrive, and how many: shuffled, then topped up (or thinned) to a load.

use engine::rng::Rng;

use crate::ratio::Ratio;

use super::TracePod;

/// Indices into `pods` in order of arrival, as published: by name, shuffled, then drawn again from the whole
/// list until the next one would exceed `load` of `capacity`; or with random pods removed
/// while the list exceeds it. A load of 0 leaves the list unchanged.
pub(super) fn arrivals(pods: &[TracePod], capacity: i64, load: Ratio, rng: &mut Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..pods.len()).collect();
    order.sort_by(|&a, &b| pods[a].cmp(&pods[b]));
    let list = order.clone();
    rng.shuffle(&mut order);
    if load.is_zero() {
        return order;
    }
    let target = load.of(capacity);
    let mut asked: i64 = pods.iter().map(TracePod::gpu).sum();
    while asked > target {
        // Keep the order, so that only the load differs.
        let gone = order.remove(rng.below(order.len()));
        asked -= pods[gone].gpu();
    }
    // A list without GPU requests would never reach the load.
    if asked == 0 {
        return order;
    }
    loop {
        let next = list[rng.below(list.len())];
        // The published check counts a pod of several GPUs as one.
        if asked + i64::from(pods[next].milli) > target {
            return order;
        }
        order.push(next);
        asked += pods[next].gpu();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods() -> Vec<TracePod> {
        let pod = |at: usize| TracePod {
            name: format!("p{at:03}"),
            cpu: 1,
            memory: 1,
            gpus: (at % 3) as u32,
            milli: if at.is_multiple_of(3) { 0 } else { 1_000 },
            models: Vec::new(),
        };
        (0..90).map(pod).collect()
    }

    fn requested_milli(pods: &[TracePod], order: &[usize]) -> i64 {
        order.iter().map(|&at| pods[at].gpu()).sum()
    }

    #[test]
    fn the_load_is_met_from_above_and_from_below() {
        let pods = pods();
        assert_eq!(pods.iter().map(TracePod::gpu).sum::<i64>(), 90_000);
        let of = |load: u64| arrivals(&pods, 100_000, Ratio::millionths(load), &mut Rng::new(3));
        let plain = of(0);
        assert_eq!((plain.len(), requested_milli(&pods, &plain)), (90, 90_000));
        let more = requested_milli(&pods, &of(1_300_000));
        assert!((129_000..=131_000).contains(&more), "{more}");
        let fewer = requested_milli(&pods, &of(500_000));
        assert!((48_000..=50_000).contains(&fewer), "{fewer}");
        // The first ninety come in the same order at any load above the list's own.
        assert_eq!(of(1_300_000)[..90], plain[..]);
        assert_ne!(
            of(0),
            arrivals(&pods, 100_000, Ratio::millionths(0), &mut Rng::new(4))
        );
    }

    #[test]
    fn a_list_without_gpus_ends() {
        let mut pods = pods();
        pods.retain(|pod| pod.gpus == 0);
        assert_eq!(
            arrivals(&pods, 100_000, Ratio::WHOLE, &mut Rng::new(3)).len(),
            30
        );
    }
}
