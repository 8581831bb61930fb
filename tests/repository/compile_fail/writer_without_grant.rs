//! error[E0308]: a writer cannot be built without a grant.
use stokehold::exec::{Writer, WritingClient};
use stokehold::plan::grant::Grant;

pub fn writer(_grant: &Grant, client: WritingClient) -> Writer {
    Writer::new(&(), client)
    //~ Writer::new(_grant, client)
}
