//! error[E0308]: not even a dry run can be asked for without a grant.
use stokehold::exec::{Probe, WritingClient};
use stokehold::plan::grant::Grant;

pub fn probe(_grant: &Grant, client: WritingClient) -> Probe {
    Probe::new(&(), client)
    //~ Probe::new(_grant, client)
}
