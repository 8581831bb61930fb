//! Reads what the view in front wants, one want at a time: a new one ends the one before.

use kube::Client;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use model::object::{ObjectNews, ObjectPart, ObjectRequest};
use source::{fetch, logs};

/// Pieces of news that may wait for the screen; a log that fills them waits at the server.
const BACKLOG: usize = 16;

/// The one reading that is under way.
pub struct Reading {
    /// Nobody, for a record: it holds nothing of what is read here.
    client: Option<Client>,
    now: Option<(ObjectRequest, mpsc::Receiver<ObjectNews>, JoinHandle<()>)>,
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.end();
    }
}

impl Reading {
    /// Nothing is read yet.
    pub const fn new(client: Option<Client>) -> Self {
        Self { client, now: None }
    }

    fn end(&mut self) {
        if let Some((.., task)) = self.now.take() {
            task.abort();
        }
    }

    /// Reads this instead of what was read before. Must be called within a tokio runtime.
    pub fn want(&mut self, want: Option<ObjectRequest>) {
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

    /// The next piece of news; never comes while nothing is read.
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
