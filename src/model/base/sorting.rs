//! Sorting in little code. The sorter of the standard library is some five kilobytes of machine code for each type and order; a program
//! with hundreds of both is megabytes larger for it. Here places are sorted, by one sorter for all types, and then the items are
//! moved. Equal items keep their order. For what runs in the innermost loops, the standard library's is quicker.

use std::cmp::Ordering;

/// Stable sorting of a slice.
pub trait SmallSort<T> {
    fn small_sort(&mut self)
    where
        T: Ord;

    fn small_sort_by(&mut self, order: impl FnMut(&T, &T) -> Ordering);

    /// As [`slice::sort_by_key`]: the key is made at each comparison.
    fn small_sort_by_key<K: Ord>(&mut self, key: impl FnMut(&T) -> K);
}

impl<T> SmallSort<T> for [T] {
    fn small_sort(&mut self)
    where
        T: Ord,
    {
        self.small_sort_by(T::cmp);
    }

    fn small_sort_by(&mut self, mut order: impl FnMut(&T, &T) -> Ordering) {
        if self.len() < 2 {
            return;
        }
        let mut from: Vec<usize> = (0..self.len()).collect();
        sort_places(&mut from, &mut |a, b| order(&self[a], &self[b]));
        // Each cycle of the permutation, one after the other.
        for start in 0..from.len() {
            let mut at = start;
            while from[at] != at {
                let source = std::mem::replace(&mut from[at], at);
                if source == start {
                    break;
                }
                self.swap(at, source);
                at = source;
            }
        }
    }

    fn small_sort_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K) {
        self.small_sort_by(|a, b| key(a).cmp(&key(b)));
    }
}

#[inline(never)]
fn sort_places(places: &mut [usize], order: &mut dyn FnMut(usize, usize) -> Ordering) {
    places.sort_by(|a, b| order(*a, *b));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_the_standard_librarys_order(items in prop::collection::vec((0_u8..20, any::<u16>()), 0..200)) {
            let (mut own, mut std) = (items.clone(), items.clone());
            own.small_sort_by(|a, b| b.0.cmp(&a.0));
            std.sort_by_key(|item| std::cmp::Reverse(item.0));
            prop_assert_eq!(&own, &std);
            own.small_sort_by_key(|item| item.0);
            std.sort_by_key(|item| item.0);
            prop_assert_eq!(&own, &std);
            own.small_sort();
            std.sort();
            prop_assert_eq!(own, std);
        }
    }
}
