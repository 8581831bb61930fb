//! A receiver of notifications, over HTTP in this process.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long something may take to come on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(90);

/// A receiver, and the bodies that it was sent.
pub(super) struct Receiver {
    address: String,
    came: Arc<Mutex<Vec<Value>>>,
}

impl Receiver {
    /// One that always gives this answer; where it is empty it hangs.
    pub(super) fn new(answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("has one").to_string();
        let came = Arc::<Mutex<Vec<Value>>>::default();
        let seen = Arc::clone(&came);
        std::thread::spawn(move || {
            let mut hung = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let Some(body) = request(&stream) else {
                    continue;
                };
                seen.lock().expect("no panic").push(body);
                if answer.is_empty() {
                    hung.push(stream);
                    continue;
                }
                let answer =
                    format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        Self { address, came }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn came(&self) -> Vec<Value> {
        self.came.lock().expect("no panic").clone()
    }

    /// Waits until what came is as wanted.
    pub(super) fn until(&self, what: &str, wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let begun = Instant::now();
        loop {
            let came = self.came();
            if wanted(&came) {
                return came;
            }
            assert!(begun.elapsed() < PATIENCE, "{what}: {came:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// The body of a request.
fn request(stream: &TcpStream) -> Option<Value> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let line = line.trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse().ok()?;
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}
