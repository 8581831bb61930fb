//! error[E0308]: a reading client cannot write, grant or not.
use stokehold::exec::{Writer, WritingClient};
use stokehold::plan::grant::Grant;
use stokehold::source::client::Connection;

pub fn writer(grant: &Grant, _reading: Connection, _writing: WritingClient) -> Writer {
    Writer::new(grant, _reading.client)
    //~ Writer::new(grant, _writing)
}
