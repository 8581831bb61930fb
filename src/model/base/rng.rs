//! Randomness from a seed: the same numbers on every machine and in every version of this program.

/// A seeded generator (SplitMix64: Steele, Lea and Flood, OOPSLA 2014). Not for secrets.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any of 2^64 numbers.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, each as likely as the next but for a part in 2^64 / `bound`; 0 where nothing is below it.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }

    /// Puts a slice into random order, every order as likely as the next.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_the_published_ones() {
        // The first outputs of SplitMix64 for seed 1234567, as its authors' test vector has them.
        let mut rng = Rng::new(1_234_567);
        let first = [rng.next_u64(), rng.next_u64(), rng.next_u64()];
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn every_order_of_three_comes_about_as_often() {
        let mut rng = Rng::new(7);
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..6_000 {
            let mut order = [0, 1, 2];
            rng.shuffle(&mut order);
            *seen.entry(order).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 6);
        assert!(
            seen.values().all(|&count| (900..1_100).contains(&count)),
            "{seen:?}"
        );
    }

    #[test]
    fn nothing_is_below_nothing() {
        assert_eq!(Rng::new(1).below(0), 0);
        assert_eq!(Rng::new(1).below(1), 0);
    }
}
