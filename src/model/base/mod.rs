//! Words that every room shares: moments, amounts, money, names. Holds no fleet and does no I/O.

pub mod amount;
pub mod document;
pub mod failure;
pub mod money;
pub mod name;
pub mod quantities;
pub mod rng;
pub mod setters;
pub mod sorting;
pub mod time;
pub mod when;

pub use amount::DeviceAmount;
pub use failure::{Exit, Failure};
pub use money::Rate;
pub use name::{Name, Names, ObjectKey, natural};
pub use sorting::SmallSort;
pub use time::{Age, Moment};
pub use when::When;
