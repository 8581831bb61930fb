//! Reads what the view in front needs, one request at a time: a new one cancels the previous one.

use kube::Client;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use model::object::{ObjectNews, ObjectPart, ObjectRequest};
use source::{fetch, logs};

/// Capacity of the news channel to the screen; when a log fills it, the read from the server waits.
const BACKLOG: usize = 16;

/// The read in progress.
pub struct ObjectReader {
    /// `None` for a record: it contains none of what is read here.
    client: Option<Client>,
    now: Option<(ObjectRequest, mpsc::Receiver<ObjectNews>, JoinHandle<()>)>,
}

impl Drop for ObjectReader {
    fn drop(&mut self) {
        self.end();
    }
}

impl ObjectReader {
    /// A reader without a request.
    pub const fn new(client: Option<Client>) -> Self {
        Self { client, now: None }
    }

    fn end(&mut self) {
        if let Some((.., task)) = self.now.take() {
            task.abort();
        }
    }

    /// Cancels the current read and starts this one. Must be called within a tokio runtime.
    pub fn set_request(&mut self, want: Option<ObjectRequest>) {
        self.end();
        let Some(want) = want else { return };
        let (out, news) = mpsc::channel(BACKLOG);
        let task = match self.client.clone() {
            Some(client) => tokio::spawn(read(client, want.part.clone(), out)),
            None => tokio::spawn(async move {
                let why = "a record holds no manifests, events or logs; open the console on the cluster for these";
                let _ = out.send(ObjectNews::Failed(why.to_owned())).await;
            }),
        };
        self.now = Some((want, news, task));
    }

    /// The next piece of news; pends forever while nothing is read.
    pub async fn next(&mut self) -> (ObjectRequest, ObjectNews) {
        loop {
            match &mut self.now {
                None => std::future::pending::<()>().await,
                Some((want, news, _)) => match news.recv().await {
                    Some(piece) => return (want.clone(), piece),
                    None => self.now = None,
                },
            }
        }
    }
}

async fn read(client: Client, part: ObjectPart, out: mpsc::Sender<ObjectNews>) {
    let news = match part {
        ObjectPart::Logs(want) => {
            logs::follow(client, want, out).await;
            return;
        }
        ObjectPart::Yaml(thing) => fetch::yaml(&client, &thing).await.map(ObjectNews::Text),
        ObjectPart::Events(things) => fetch::events(&client, &things)
            .await
            .map(|(events, more)| ObjectNews::Events(events, more)),
    };
    let _ = out.send(news.unwrap_or_else(ObjectNews::Failed)).await;
}
