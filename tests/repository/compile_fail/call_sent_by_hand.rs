//! error[E0624]: a writer sends nothing by itself: calls come from a run.
use stokehold::cluster::mutations::Call;
use stokehold::exec::Writer;

pub async fn send(writer: &Writer, call: &Call) {
    let _ = writer.send(call).await;
    //~ let _ = writer.read(&call.object).await;
}
