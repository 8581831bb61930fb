//! A node's devices: the resources that it offers, their slices and shares, their readings, and their holders.

pub(super) mod consumed;
pub(super) mod dra_devices;
pub(super) mod fractions;
pub(super) mod hami;
pub(super) mod join;
pub(super) mod limits;
pub(super) mod mig;
pub(super) mod models;
pub(super) mod offer;
pub(super) mod readings;
pub(super) mod requests;
pub(super) mod slice_shares;
pub(super) mod slicing;
