//! Who has the plane: tests that only look share it, so do tests that act on objects of their own, and one that breaks something
//! has it alone. First come, first served: who waits is not overtaken by others of another sort.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What a test does to the plane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sort {
    /// It looks, often at the whole fleet.
    Looks,
    /// It acts on a node, a namespace and queues of its own, and looks at nothing else.
    Acts,
    /// It breaks something.
    Breaks,
}

#[derive(Default)]
struct Queue {
    /// The sort that has the plane, and how many of it.
    at: Option<(Sort, usize)>,
    /// Who waits, in the order in which they came.
    waiting: VecDeque<(u64, Sort)>,
    next: u64,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue {
    at: None,
    waiting: VecDeque::new(),
    next: 0,
});
static CHANGED: Condvar = Condvar::new();

/// The plane, until the value ends.
#[must_use]
pub struct Turn {
    sort: Sort,
    asked: Instant,
    since: Instant,
}

fn queue() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take(sort: Sort) -> Turn {
    let asked = Instant::now();
    let mut queue = queue();
    let own = queue.next;
    queue.next += 1;
    queue.waiting.push_back((own, sort));
    loop {
        let first = queue.waiting.front().is_some_and(|(id, _)| *id == own);
        let among = match queue.at {
            None => Some(1),
            Some((there, many)) if there == sort && sort != Sort::Breaks => Some(many + 1),
            Some(_) => None,
        };
        if let (true, Some(many)) = (first, among) {
            queue.waiting.pop_front();
            queue.at = Some((sort, many));
            // The next in the queue may be of the same sort.
            CHANGED.notify_all();
            let since = Instant::now();
            return Turn { sort, asked, since };
        }
        queue = CHANGED.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
}

impl Turn {
    /// How long who waited and had the plane: where the time of the suite goes.
    fn note(&self) -> std::io::Result<()> {
        let mut path = super::plane::folder();
        path.push("turns.log");
        let mut file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(path)?;
        let name = std::thread::current();
        let (waited, had) = (self.since - self.asked, self.since.elapsed());
        writeln!(
            file,
            "{:6.1} s after {:6.1} s  {:?}  {}",
            had.as_secs_f64(),
            waited.as_secs_f64(),
            self.sort,
            name.name().unwrap_or("?")
        )
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Of no matter to the tests.
        let _ = self.note();
        let mut queue = queue();
        queue.at = match queue.at {
            Some((sort, many)) if many > 1 => Some((sort, many - 1)),
            _ => None,
        };
        CHANGED.notify_all();
    }
}

/// The plane for a test that only looks.
pub fn calm() -> Turn {
    take(Sort::Looks)
}

/// The plane for a test that acts on what it alone has.
pub fn acts() -> Turn {
    take(Sort::Acts)
}

/// The plane for a test that breaks something.
pub fn alone() -> Turn {
    take(Sort::Breaks)
}
