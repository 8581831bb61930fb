//! A console without its terminal: keys go in, the session's news too, and what it asks for is carried out by the same code as
//! on a terminal.

use std::sync::Arc;
use std::time::Duration;

use console::{App, AppOptions, Effect, Key, KeyPress, Msg, msg, render_text};
use model::base::Name;
use stokehold::runtime::connection::{Connections, Open, Opened};
use stokehold::runtime::screen::effects::{deliver, message, perform};
use stokehold::runtime::session::{self, ClusterTarget};

use super::stage::{settings, setup, ticking};
use super::*;

/// The screen of these tests.
pub const SIZE: (u16, u16) = (160, 50);

/// How long anything may take to come to the screen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A console on a simulated cluster.
pub struct Keyboard {
    /// What is on screen.
    pub app: App,
    connections: Connections,
    /// How far its clock is ahead: keys may be typed faster than a person types them.
    ahead: Duration,
    /// Set once it has asked to leave.
    pub has_left: bool,
    /// Where its journal is, as long as it is open.
    _folder: Option<tempfile::TempDir>,
}

impl Keyboard {
    /// Opens it; `flags` are settings, as (flag, key, value). Returns once the fleet has been read.
    pub async fn open(service: &Service, flags: &[(&str, &str, &str)]) -> Self {
        let folder = tempfile::TempDir::new().expect("a folder");
        let mut keyboard = Self::open_with(service, flags, folder.path()).await;
        keyboard._folder = Some(folder);
        keyboard
    }

    /// The same with a journal that outlives it.
    pub async fn open_with(
        service: &Service,
        flags: &[(&str, &str, &str)],
        folder: &std::path::Path,
    ) -> Self {
        Self::open_on(ClusterTarget::Running(service.clone()), flags, folder).await
    }

    /// The same on another target.
    pub async fn open_on(
        target: ClusterTarget,
        flags: &[(&str, &str, &str)],
        folder: &std::path::Path,
    ) -> Self {
        let place = folder.display().to_string();
        let mut all = flags.to_vec();
        all.push(("--journal-dir", "journal_dir", &place));
        let setup = setup(settings(&all));
        let open: Arc<Open> = Arc::new(move |_| {
            let session = session::console(&setup, target.clone())?;
            let about = msg::SessionInfo {
                context: session.context.clone(),
                contexts: vec![Name::new("demo")],
                namespaces: Vec::new(),
                notice: None,
            };
            Ok(Opened { session, about })
        });
        let mut app = App::new(AppOptions::default());
        app.picture([Msg::Resize(SIZE.0, SIZE.1)]);
        let mut keyboard = Self {
            app,
            connections: Connections::begin(open, ticking()),
            ahead: Duration::ZERO,
            has_left: false,
            _folder: None,
        };
        keyboard
            .until("the fleet", |it| it.app.facts().fleet.is_complete())
            .await;
        keyboard
            .until("what may be done", |it| {
                it.app.facts().acts.may != table::actions::May::Unknown
            })
            .await;
        keyboard
    }

    /// What is on screen.
    pub fn text(&self) -> String {
        render_text(&self.app, SIZE.0, SIZE.1)
    }

    fn send(&mut self, msg: Msg) {
        let (connections, has_left) = (&mut self.connections, &mut self.has_left);
        let done: Result<(), std::convert::Infallible> = deliver(&mut self.app, msg, |effect| {
            *has_left |= effect == Effect::Quit;
            Ok(perform(connections, effect))
        });
        let Ok(()) = done;
    }

    /// The time passes, as it does on a terminal.
    fn tick(&mut self) {
        let now = self.connections.now().plus(self.ahead);
        self.send(Msg::Tick(now));
    }

    /// Lets its own clock go ahead.
    pub fn wait(&mut self, span: Duration) {
        self.ahead += span;
    }

    /// Takes what the session says within a moment.
    pub async fn listen(&mut self, moment: Duration) {
        if let Ok(news) = tokio::time::timeout(moment, self.connections.news()).await
            && let Some(message) = message(news)
        {
            // What is said is said now, not when the time was told last: on a fast cluster it is over soon.
            self.tick();
            self.send(message);
        }
        self.tick();
    }

    /// Listens until this is so.
    pub async fn until(&mut self, what: &str, so: impl Fn(&Self) -> bool) {
        let begun = tokio::time::Instant::now();
        while !so(self) {
            assert!(
                begun.elapsed() < PATIENCE,
                "{what} never came\n{}",
                self.text()
            );
            self.listen(Duration::from_millis(250)).await;
        }
    }

    /// Listens until these words are on screen.
    pub async fn sees(&mut self, words: &str) {
        self.until(words, |it| it.text().contains(words)).await;
    }

    /// One key.
    pub fn key(&mut self, press: KeyPress) {
        self.tick();
        self.send(Msg::Key(press));
    }

    /// Keys, one after the other; a line end is enter.
    pub fn press(&mut self, keys: &str) {
        for c in keys.chars() {
            self.key(match c {
                '\n' => KeyPress::plain(Key::Enter),
                '\u{1b}' => KeyPress::plain(Key::Esc),
                '\t' => KeyPress::plain(Key::Tab),
                c => KeyPress::char(c),
            });
        }
    }

    /// Confirms the plan that is on screen (typing what must be typed) and waits until it is carried out.
    pub async fn confirm(&mut self) {
        self.begin().await;
        self.sees("done; U undoes it").await;
    }

    /// Confirms the plan that is on screen, and does not wait for what comes of it.
    pub async fn begin(&mut self) {
        // What comes sooner was typed for something else.
        tokio::time::sleep(Duration::from_millis(400)).await;
        let typed = typed(&self.text());
        self.press("\n");
        if let Some(words) = typed {
            self.press(&words);
            // It asks for a reason, once.
            self.press("\n\n");
        }
    }
}

/// What must be typed, as the dialog says it.
fn typed(screen: &str) -> Option<String> {
    let (before, _) = screen.split_once(" to confirm")?;
    let (_, words) = before.rsplit_once("type ")?;
    Some(words.to_owned())
}
