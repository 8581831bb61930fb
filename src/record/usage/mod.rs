//! The usage ledger on disk: an SQLite file beside the segments of a record, with one writer (the recorder) and any number of
//! readers.
//!
//! An open hour is replaced as a whole each time it is written. A closed hour is never written again, which a trigger in the
//! file enforces. It uses the rollback journal, not WAL: readers need only read permission, and the writer needs a few
//! milliseconds once a minute.

mod fault;
mod query;
mod store;

pub use fault::UsageFault;
pub use query::ObservedRatio;
pub use store::{FILE, UsageFile};
