//! Who has the plane: tests that only look share it, so do tests that act on objects of their own, and one that breaks something
//! has it alone. Who looks goes first and who breaks last, a sort at a time, so that the plane is seldom had by one alone. Who waits
//! for most of the time, and for nothing that others touch, does so beside both of the former.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What a test does to the plane.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Sort {
    /// It looks, often at the whole fleet.
    Looks,
    /// It acts on a node, a namespace and queues of its own, and looks at nothing else.
    Acts,
    /// It breaks something.
    Breaks,
}

/// Most tests that look or act at a time. Their programs share a few cores: with more of them, `get` misses its own time limits.
const MOST: usize = 3;

/// A sort of tests, those before that take minutes.
type Rank = (Sort, bool);

struct Queue {
    /// The sort that has the plane, and how many of it.
    at: Option<(Sort, usize)>,
    /// How many wait beside it.
    beside: usize,
    /// Who waits, by sort, and whether it is soon over.
    waiting: BTreeMap<Rank, usize>,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue {
    at: None,
    beside: 0,
    waiting: BTreeMap::new(),
});
static CHANGED: Condvar = Condvar::new();

/// The plane, until the value ends.
#[must_use]
pub struct PlaneTurn {
    /// Nothing for one that waits beside others.
    sort: Option<Sort>,
    asked: Instant,
    since: Instant,
}

fn queue() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    /// How many of a sort have the plane if one more of it takes it now; nothing where it may not. Those that take minutes go
    /// first, so that nobody is left alone with one of them at the end.
    fn with(&self, rank: Rank) -> Option<usize> {
        let sort = rank.0;
        let (there, many) = self.at.unwrap_or((sort, 0));
        let of_sort = |next: &&Rank| self.at.is_none() || next.0 == sort;
        let next = self.waiting.keys().find(of_sort);
        let may_share = match sort {
            Sort::Breaks => many == 0 && self.beside == 0,
            Sort::Looks | Sort::Acts => many < MOST,
        };
        let is_next = next.is_none_or(|next| rank <= *next);
        (there == sort && may_share && is_next).then_some(many + 1)
    }
}

fn take(sort: Sort, is_long: bool) -> PlaneTurn {
    let asked = Instant::now();
    let rank = (sort, !is_long);
    let mut queue = queue();
    *queue.waiting.entry(rank).or_default() += 1;
    loop {
        if let Some(many) = queue.with(rank) {
            queue.at = Some((sort, many));
            if let Some(waiting) = queue.waiting.get_mut(&rank) {
                *waiting -= 1;
            }
            queue.waiting.retain(|_, waiting| *waiting > 0);
            // The next may be of the same sort, and the last of those that take minutes.
            CHANGED.notify_all();
            let since = Instant::now();
            let sort = Some(sort);
            return PlaneTurn { sort, asked, since };
        }
        queue = CHANGED.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Held by tests that watch a program at rest, and by those that change which kinds the API server serves: one at a time.
pub fn at_rest() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The plane beside those that look or act.
pub fn beside() -> PlaneTurn {
    let asked = Instant::now();
    let mut queue = queue();
    while matches!(queue.at, Some((Sort::Breaks, _))) {
        queue = CHANGED.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
    queue.beside += 1;
    let since = Instant::now();
    PlaneTurn {
        sort: None,
        asked,
        since,
    }
}

/// Writes where the time of the suite goes. Of no matter to the tests.
fn note(line: &str) {
    let mut path = super::plane::folder();
    path.push("turns.log");
    let file = std::fs::File::options()
        .create(true)
        .append(true)
        .open(path);
    let name = std::thread::current();
    let name = name.name().unwrap_or("?");
    let _ = file.and_then(|mut file| writeln!(file, "{line}  {name}"));
}

/// A wait, noted at its end if it was a long one.
pub struct Wait(String, Instant);

impl Wait {
    /// It begins now.
    pub fn begins(what: &str) -> Self {
        Self(what.to_owned(), Instant::now())
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let lasted = self.1.elapsed().as_secs_f64();
        if lasted > 5.0 {
            note(&format!("{lasted:6.1} s for {}", self.0));
        }
    }
}

impl Drop for PlaneTurn {
    fn drop(&mut self) {
        let (waited, had) = (self.since - self.asked, self.since.elapsed());
        let sort = self
            .sort
            .map_or("Beside".to_owned(), |sort| format!("{sort:?}"));
        note(&format!(
            "{:6.1} s after {:6.1} s  {sort}",
            had.as_secs_f64(),
            waited.as_secs_f64(),
        ));
        let mut queue = queue();
        match (self.sort, queue.at) {
            (None, _) => queue.beside -= 1,
            (Some(_), Some((sort, many))) if many > 1 => queue.at = Some((sort, many - 1)),
            _ => queue.at = None,
        }
        CHANGED.notify_all();
    }
}

/// The plane for a test that only looks.
pub fn calm() -> PlaneTurn {
    take(Sort::Looks, false)
}

/// The plane for a test that acts on what it alone has.
pub fn acts() -> PlaneTurn {
    take(Sort::Acts, false)
}

/// The same, for minutes.
pub fn acts_for_long() -> PlaneTurn {
    take(Sort::Acts, true)
}

/// The plane for a test that breaks something.
pub fn alone() -> PlaneTurn {
    take(Sort::Breaks, false)
}
