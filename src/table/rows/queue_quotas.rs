//! Quotas of queues, by flavor: used, borrowed and left.

use std::collections::{BTreeMap, BTreeSet};

use model::base::quantities::grouped;
use model::base::{Name, SmallSort};
use model::fleet::queue::{Measure, Queue, QueueKind, Quota};

use super::queue_tree::QueueOrder;
use crate::Facts;
use crate::cell::QuotaUse as Bar;
use crate::cell::{Cell, Value};
use crate::column::{Column, Row};
use crate::role::Role;

/// A flavor, or one of its resources.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FlavorPart<'a> {
    flavor: &'a str,
    resource: Option<&'a str>,
}

impl<'a> FlavorPart<'a> {
    /// All resources of a flavor.
    fn whole(flavor: &'a str) -> Self {
        Self {
            flavor,
            resource: None,
        }
    }

    fn has(&self, quota: &Quota) -> bool {
        quota.measure == Measure::MilliDevices
            && quota.flavor.as_str() == self.flavor
            && self
                .resource
                .is_none_or(|resource| quota.resource.as_str() == resource)
    }

    /// `h100`, `mig-1g.10gb`, or `h100:rdma`; Volcano and KAI count devices of all models together.
    fn name(&self) -> String {
        let flavor = if self.flavor.is_empty() {
            "devices"
        } else {
            self.flavor
        };
        match self
            .resource
            .and_then(|resource| resource.rsplit('/').next())
        {
            None => flavor.to_owned(),
            // As reasons name it.
            Some(slice) if slice.starts_with("mig-") => slice.to_owned(),
            Some(resource) => format!("{flavor}:{resource}"),
        }
    }
}

/// Flavors; a flavor with several resources in a queue has one entry for each.
fn parts(facts: &Facts) -> Vec<FlavorPart<'_>> {
    let mut all = Vec::new();
    for flavor in flavors(facts) {
        let whole = FlavorPart::whole(flavor);
        let quotas = facts
            .fleet
            .queues
            .iter()
            .flat_map(|queue| queue.quotas.iter());
        let of: BTreeSet<&str> = quotas
            .filter(|quota| whole.has(quota))
            .map(|quota| quota.resource.as_str())
            .collect();
        // (Volcano and KAI count devices of all models together.)
        match of.len() {
            0 | 1 => all.push(whole),
            _ if flavor.is_empty() => all.push(whole),
            _ => all.extend(of.into_iter().map(|resource| FlavorPart {
                flavor,
                resource: Some(resource),
            })),
        }
    }
    all
}

/// A queue's device quota in a flavor, or in one of its resources.
fn quota_in(queue: &Queue, part: FlavorPart<'_>) -> Option<Bar> {
    let of: Vec<&Quota> = queue
        .quotas
        .iter()
        .filter(|quota| part.has(quota))
        .collect();
    if of.is_empty() {
        return None;
    }
    let whole = |amount: i64| u64::try_from(amount / 1000).unwrap_or(0);
    let sum = |pick: &dyn Fn(&Quota) -> Option<i64>| -> Option<u64> {
        of.iter()
            .map(|quota| pick(quota))
            .try_fold(0, |sum, one| Some(sum + whole(one?)))
    };
    Some(Bar {
        nominal: sum(&|quota| quota.nominal),
        used: sum(&|quota| quota.used),
        borrowed: sum(&|quota| quota.borrowed).unwrap_or(0),
        // Kueue's `flavorsReservation` less its `flavorsUsage`.
        not_admitted: sum(&|quota| Some((quota.reserved? - quota.used?).max(0))).unwrap_or(0),
    })
}

/// All device quotas of the queue with this index, as text: `h100 766/768, 0 left: other queues of its cohort
/// borrow 2`. The flavors with most devices first.
pub fn quota_words(facts: &Facts, at: usize) -> Vec<String> {
    let tree = QueueOrder::of(&facts.fleet.queues);
    let all = parts(facts).into_iter().filter_map(|part| {
        let bar = quota_in(facts.fleet.queues.get(at)?, part)?;
        let words = format!("{} {}{}", part.name(), bar.numbers(), bar.reserved_words());
        Some(match left_together(facts, &tree, &[at], part) {
            Some(Left::Devices(left, 0)) => format!("{words}, {} left", grouped(left as i64)),
            Some(Left::Devices(left, lent)) => format!(
                "{words}, {} left: other queues of its cohort borrow {}",
                grouped(left as i64),
                grouped(lent as i64)
            ),
            _ => words,
        })
    });
    all.collect()
}

/// Names and uses of all device quotas of the queue or cohort with this index, the flavors with most devices first.
pub fn quota_uses(facts: &Facts, at: usize) -> Vec<(String, Bar)> {
    let all = parts(facts).into_iter();
    all.filter_map(|part| Some((part.name(), quota_at(facts, at, part)?)))
        .collect()
}

/// Flavors with devices, those with most of them first.
fn flavors(facts: &Facts) -> Vec<&Name> {
    let mut sums: Vec<(&Name, i64)> = Vec::new();
    for queue in facts.fleet.queues.iter() {
        for quota in &queue.quotas {
            if quota.measure != Measure::MilliDevices {
                continue;
            }
            let amount = quota.nominal.unwrap_or(0).max(quota.used.unwrap_or(0));
            match sums.iter_mut().find(|(known, _)| *known == &quota.flavor) {
                Some((_, sum)) => *sum += amount,
                None => sums.push((&quota.flavor, amount)),
            }
        }
    }
    sums.small_sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    sums.into_iter().map(|(flavor, _)| flavor).collect()
}

/// The column of the quotas of the nth flavor of all.
pub const fn flavor<const NTH: usize>(id: &'static str, drop: u8) -> Column {
    Column::number(id, "QUOTA", drop, 14, quota::<NTH>)
        .titled(flavor_title::<NTH>)
        .left()
        .rare()
        .on_screen()
}

/// The title of the nth column of quotas: its flavor.
fn flavor_title<const NTH: usize>(facts: &Facts) -> String {
    let flavor = flavors(facts).get(NTH).copied();
    match (flavor, &facts.part) {
        (None, _) => String::new(),
        (Some(flavor), None) => format!("{} used/quota", FlavorPart::whole(flavor).name()),
        // The other columns are scoped to a team or to namespaces; this one covers the whole queue.
        (Some(flavor), Some(_)) => {
            format!("QUEUE {} used/quota", FlavorPart::whole(flavor).name())
        }
    }
}

/// The quota of the nth flavor; flavors without a column are in the column of the rest.
fn quota<const NTH: usize>(facts: &Facts, row: Row) -> Cell<'_> {
    let flavor = flavors(facts).get(NTH).copied();
    let own = flavor.and_then(|flavor| quota_at(facts, row.1 as usize, FlavorPart::whole(flavor)));
    match own {
        Some(bar) => Cell::new(Value::Quota(Box::new(bar))),
        None if NTH == 0 && has_no_quota(facts, row.1 as usize) => {
            Cell::text("no quota").role(Role::Muted)
        }
        None => Cell::new(Value::Empty),
    }
}

/// True for a known queue that has no quota of devices, nor a queue below it.
fn has_no_quota(facts: &Facts, at: usize) -> bool {
    let is_own = |quota: &Quota| quota.measure == Measure::MilliDevices;
    let known = facts.fleet.queues.get(at);
    known.is_some_and(|queue| !queue.quotas.iter().any(is_own)) && quota_uses(facts, at).is_empty()
}

/// The queues of these rows whose quotas are all of flavors outside `shown`, places as in [`flavor`].
pub fn without_column(facts: &Facts, rows: &[Row], shown: &[usize]) -> Vec<Name> {
    let flavors = flavors(facts);
    let is_shown = |name: &Name| shown.iter().any(|nth| flavors.get(*nth) == Some(&name));
    let queues = &facts.fleet.queues;
    let known = rows
        .iter()
        .filter_map(|row| Some((row.1 as usize, queues.get(row.1 as usize)?)));
    let hidden = known.filter(|(at, _)| {
        let has = |flavor: &&&Name| quota_at(facts, *at, FlavorPart::whole(flavor)).is_some();
        let mut own = flavors.iter().filter(has).peekable();
        own.peek().is_some() && !own.any(|name| is_shown(name))
    });
    hidden.map(|(_, queue)| queue.name().clone()).collect()
}

/// What is left of each quota of a row: `a100 3, l4 0; h100 lent`. Borrowing may add more. Quota that others have
/// borrowed is not left.
pub fn left(facts: &Facts, row: Row) -> Cell<'_> {
    let at = row.1 as usize;
    Cell::text(
        match facts.fleet.queues.get(at).map(|queue| queue.key.kind) {
            Some(QueueKind::Queue) => left_of(facts, &[at]),
            _ => left_of_each(facts, |part| Some(Left::of(&quota_at(facts, at, part)?))),
        },
    )
}

/// What these queues have left together, in the same words.
pub fn left_of(facts: &Facts, queues: &[usize]) -> String {
    let tree = QueueOrder::of(&facts.fleet.queues);
    left_of_each(facts, |part| left_together(facts, &tree, queues, part))
}

fn left_of_each(facts: &Facts, left: impl Fn(FlavorPart<'_>) -> Option<Left>) -> String {
    // A narrow column cuts the end, so flavors with quota left come first.
    let (mut some, mut none, mut lent) = (Vec::new(), Vec::new(), Vec::new());
    for part in parts(facts) {
        match left(part) {
            None | Some(Left::None) => {}
            Some(Left::Unknown) => some.push(format!("{} unknown", part.name())),
            Some(Left::Devices(0, 0)) => none.push(format!("{} 0", part.name())),
            // By its own numbers some quota is left, but other queues have borrowed it.
            Some(Left::Devices(0, _)) => lent.push(part.name().to_owned()),
            Some(Left::Devices(left, 0)) => {
                some.push(format!("{} {}", part.name(), grouped(left as i64)));
            }
            Some(Left::Devices(left, away)) => some.push(format!(
                "{} {} ({} lent)",
                part.name(),
                grouped(left as i64),
                grouped(away as i64)
            )),
        }
    }
    some.extend(none);
    let mut all = Vec::new();
    if !some.is_empty() {
        all.push(some.join(", "));
    }
    if !lent.is_empty() {
        all.push(format!("{} lent", lent.join(", ")));
    }
    all.join("; ")
}

/// What is left of a quota.
#[derive(Clone, Copy)]
enum Left {
    /// It has no bound.
    None,
    /// Its use is not known.
    Unknown,
    /// Available devices, and devices that other queues have borrowed in addition.
    Devices(u64, u64),
}

impl Left {
    fn of(bar: &Bar) -> Self {
        match (bar.nominal, bar.left()) {
            (None, _) => Self::None,
            (Some(_), None) => Self::Unknown,
            // A queue that borrows has 0 left.
            (Some(_), Some(left)) => Self::Devices(left, 0),
        }
    }
}

/// Quota of a flavor that these queues have left together: their own quotas, less what other queues of their cohorts borrow.
fn left_together(
    facts: &Facts,
    tree: &QueueOrder,
    queues: &[usize],
    part: FlavorPart<'_>,
) -> Option<Left> {
    let all = &facts.fleet.queues;
    let mut own: BTreeMap<usize, u64> = BTreeMap::new();
    for at in queues {
        let bar = quota_in(all.get(*at)?, part);
        match bar.map(|bar| Left::of(&bar)) {
            None | Some(Left::None) => {}
            Some(Left::Unknown) => return Some(Left::Unknown),
            Some(Left::Devices(left, _)) => *own.entry(tree.root(*at)).or_default() += left,
        }
    }
    if own.is_empty() {
        return None;
    }
    let (mut now, mut lent) = (0, 0);
    for (root, left) in own {
        // The quota of a root itself includes more than the quotas of its children.
        let whole = match quota_in(all.get(root)?, part) {
            Some(_) => None,
            None => quota_below(facts, tree, root, part),
        };
        let most = match whole.map(|bar| Left::of(&bar)) {
            Some(Left::Unknown) => return Some(Left::Unknown),
            Some(Left::Devices(most, _)) => most.min(left),
            _ => left,
        };
        now += most;
        lent += left - most;
    }
    Some(Left::Devices(now, lent))
}

/// A queue's quota of a flavor, by the queue's index; `None` where it has none. A cohort without its own quota has the sum
/// of its queues' quotas.
fn quota_at(facts: &Facts, at: usize, part: FlavorPart<'_>) -> Option<Bar> {
    let own = quota_in(facts.fleet.queues.get(at)?, part);
    own.or_else(|| quota_below(facts, &QueueOrder::of(&facts.fleet.queues), at, part))
}

/// The sum of the quotas of the queues below one.
fn quota_below(facts: &Facts, tree: &QueueOrder, at: usize, part: FlavorPart<'_>) -> Option<Bar> {
    let below = tree.below(at);
    let parts: Vec<Bar> = below
        .filter_map(|at| quota_in(facts.fleet.queues.get(at)?, part))
        .collect();
    if parts.is_empty() {
        return None;
    }
    let sum = |pick: &dyn Fn(&Bar) -> Option<u64>| -> Option<u64> {
        parts
            .iter()
            .map(pick)
            .try_fold(0, |sum, one| Some(sum + one?))
    };
    let (nominal, used) = (sum(&|bar| bar.nominal), sum(&|bar| bar.used));
    let borrowed = match (nominal, used) {
        (Some(nominal), Some(used)) => used.saturating_sub(nominal),
        _ => 0,
    };
    Some(Bar {
        nominal,
        used,
        borrowed,
        not_admitted: parts.iter().map(|bar| bar.not_admitted).sum(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::sample;
    use model::fleet::queue::{QueueKey, QueueSystem};

    use super::*;

    fn queue(kind: QueueKind, name: &str, used: Option<i64>) -> Arc<Queue> {
        let of = |used: i64| Quota {
            flavor: Name::new("h100"),
            measure: Measure::MilliDevices,
            nominal: Some(64_000),
            used: Some(used * 1_000),
            ..Quota::default()
        };
        Arc::new(Queue {
            key: QueueKey {
                system: QueueSystem::Kueue,
                kind,
                name: Name::new(name),
            },
            parent: (kind == QueueKind::Queue).then(|| Name::new("all")),
            quotas: used.map(of).into_iter().collect(),
            ..Queue::default()
        })
    }

    #[test]
    fn what_others_have_borrowed_is_not_left() {
        let mut facts = sample::facts();
        let fleet = Arc::make_mut(&mut facts.fleet);
        fleet.queues = Arc::from([
            queue(QueueKind::Cohort, "all", None),
            queue(QueueKind::Queue, "a", Some(40)),
            queue(QueueKind::Queue, "b", Some(78)),
            queue(QueueKind::Queue, "c", Some(60)),
        ]);
        // Of 192 in all 178 are in use: b has borrowed 14.
        assert_eq!(left_of(&facts, &[1]), "h100 14 (10 lent)");
        assert_eq!(
            quota_words(&facts, 1),
            ["h100 40/64, 14 left: other queues of its cohort borrow 10"]
        );
        assert_eq!(left_of(&facts, &[2]), "h100 0");
        assert_eq!(left_of(&facts, &[3]), "h100 4");
        assert_eq!(left_of(&facts, &[1, 3]), "h100 14 (14 lent)");
        assert_eq!(left(&facts, (0, 0)), Cell::text("h100 14"));
    }

    #[test]
    fn a_queue_whose_quota_has_no_column_is_named_and_one_without_quota_says_so() {
        let mut facts = sample::facts();
        let mut other = (*queue(QueueKind::Queue, "b", Some(4))).clone();
        let mut quotas = other.quotas.to_vec();
        quotas[0].flavor = Name::new("b200");
        quotas[0].nominal = Some(8_000);
        other.quotas = quotas.into();
        Arc::make_mut(&mut facts.fleet).queues = Arc::from([
            queue(QueueKind::Queue, "a", Some(40)),
            Arc::new(other),
            queue(QueueKind::Queue, "c", None),
        ]);
        let rows = [(0, 0), (1, 1), (2, 2)];
        assert_eq!(without_column(&facts, &rows, &[0]), [Name::new("b")]);
        assert!(without_column(&facts, &rows, &[0, 1]).is_empty());
        let none = Cell::text("no quota").role(Role::Muted);
        assert_eq!(quota::<0>(&facts, rows[2]), none);
        assert_eq!(quota::<1>(&facts, rows[2]), Cell::new(Value::Empty));
        assert_eq!(quota::<0>(&facts, rows[1]), Cell::new(Value::Empty));
    }

    #[test]
    fn what_workloads_reserve_before_they_are_admitted_is_not_left() {
        let mut facts = sample::facts();
        let mut one = (*queue(QueueKind::Queue, "a", Some(40))).clone();
        let mut quotas = one.quotas.to_vec();
        quotas[0].reserved = Some(48_000);
        one.quotas = quotas.into();
        Arc::make_mut(&mut facts.fleet).queues = Arc::from([Arc::new(one)]);
        assert_eq!(left_of(&facts, &[0]), "h100 16");
        assert_eq!(
            quota_words(&facts, 0),
            ["h100 40/64, 8 reserved and not admitted yet, 16 left"]
        );
    }

    #[test]
    fn each_resource_of_a_flavor_is_listed() {
        let mut facts = sample::facts();
        let mut two = (*queue(QueueKind::Queue, "a", Some(40))).clone();
        let mut quotas = two.quotas.to_vec();
        quotas[0].resource = Name::new("nvidia.com/mig-1g.10gb");
        quotas.push(Quota {
            resource: Name::new("nvidia.com/mig-3g.40gb"),
            used: Some(64_000),
            ..quotas[0].clone()
        });
        two.quotas = quotas.into();
        Arc::make_mut(&mut facts.fleet).queues = Arc::from([Arc::new(two.clone())]);
        assert_eq!(left_of(&facts, &[0]), "mig-1g.10gb 24, mig-3g.40gb 0");
        // Without flavors they are one.
        for quota in &mut two.quotas {
            quota.flavor = Name::default();
        }
        Arc::make_mut(&mut facts.fleet).queues = Arc::from([Arc::new(two)]);
        assert_eq!(left_of(&facts, &[0]), "devices 24");
    }
}
