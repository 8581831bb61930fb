//! The usage ledger on disk: one SQLite file beside the segments of a record, written by the recorder, read by any number.
//!
//! An hour that is open is replaced as a whole each time it is written; one that is closed is never written again, which the
//! file itself refuses. The rollback journal, not WAL: a reader needs no more than to read, and the writer is done in
//! milliseconds once a minute.

mod fault;
mod query;
mod store;

pub use fault::UsageFault;
pub use query::Coverage;
pub use store::{FILE, UsageFile};
