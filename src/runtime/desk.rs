//! The console without its terminal: what the session says becomes messages, and effects are carried out on the session.

use console::deeds::Made;
use console::{App, Effect, Msg};

use super::deeds::{Deed, Deeds};
use super::looking::{Looking, News};

/// News of a session as the screen takes it; nothing when there is nothing new to show.
pub fn message(news: News) -> Option<Msg> {
    match news {
        News::Facts(latest) => latest.map(|facts| Msg::Facts((*facts).clone())),
        News::Answers(answers) => Some(Msg::Answers(answers)),
        News::Deed(Deed::Acts(acts)) => Some(Msg::Acts(acts)),
        News::Deed(Deed::Made(number, made)) => Some(Msg::Made(number, made)),
        News::Deed(Deed::Began(number, run)) => Some(Msg::Began(number, run)),
        News::Session(about) => Some(Msg::Session(about)),
        News::NoSession(why) => Some(Msg::NoSession(why)),
        News::Read(want, news) => Some(Msg::Read(want, news)),
    }
}

/// What carries out deeds in the session that runs.
fn hands(looking: &mut Looking) -> Option<&mut Deeds> {
    looking.session.as_mut()?.deeds.as_mut()
}

/// Carries out an effect on the session. Those that are about a terminal or a file (leaving, the clipboard, pictures, what
/// was muted) are not for here, and nothing comes of them.
pub fn obey(app: &mut App, looking: &mut Looking, effect: Effect) {
    match effect {
        Effect::Switch(switch) => looking.switch(&switch),
        Effect::Refresh => {
            if let Some(deeds) = hands(looking) {
                deeds.look();
            }
            app.update(Msg::Notice(String::from(
                "sources are read at their own pace, never faster; ages show how old each is",
            )));
        }
        Effect::Plan(ask) => match hands(looking) {
            Some(deeds) => deeds.plan(ask),
            None => {
                let why = String::from("no cluster is connected");
                app.update(Msg::Made(ask.number, Made::Failed(why)));
            }
        },
        Effect::CarryOut(order) => match hands(looking) {
            Some(deeds) => deeds.carry_out(*order),
            None => {
                let why = String::from("no cluster is connected");
                app.update(Msg::Began(order.number, Err(why)));
            }
        },
        Effect::GoOn(run) => {
            if let Some(deeds) = hands(looking) {
                deeds.go_on(run);
            }
        }
        Effect::Stop(run) => {
            if !hands(looking).is_some_and(|deeds| deeds.stop(&run)) {
                let words = format!("{run} is not carried out by this console");
                app.update(Msg::Notice(words));
            }
        }
        Effect::Read(want) => {
            if let Some(session) = &mut looking.session {
                session.reading.want(want);
            }
        }
        Effect::OnScreen(nodes) => {
            let Some(session) = &looking.session else {
                return;
            };
            let nodes = nodes.into_iter().collect();
            session.on_screen.send_if_modified(|shown| {
                let differs = *shown != nodes;
                if differs {
                    *shown = nodes;
                }
                differs
            });
        }
        Effect::Quit
        | Effect::Suspend
        | Effect::Redraw
        | Effect::Copy(_)
        | Effect::Hush(..)
        | Effect::SavePicture(_) => {}
    }
}
