//! Ten thousand random keys: without the right to write nothing that could change anything reaches the API server, by its own
//! audit log; with it, the same keys do.

use std::collections::BTreeSet;
use std::time::Duration;

use console::{Key, KeyPress};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use sim::audit::AuditEntry;
use table::navigation::ViewId;

use super::keyboard::Keyboard;
use super::stage::{ticking, world};
use super::*;

/// Keys of a session.
const KEYS: usize = 10_000;

const CAPITALS: &[char] = &['P', 'X', 'A', 'D', 'C', 'H', 'R', 'B', 'U'];

/// A key: mostly what moves and opens, sometimes what plans, sometimes anything.
fn draw(rng: &mut Pcg64Mcg) -> KeyPress {
    const OFTEN: &[char] = &[
        'j', 'k', 'j', 'k', 'g', 'G', 's', 'l', 'd', 'z', '/', ':', '?', ' ', '-', 'f', '[', ']',
    ];
    match rng.random_range(0..1000) {
        0..20 => KeyPress::char(CAPITALS[rng.random_range(0..CAPITALS.len())]),
        20..120 => KeyPress::char(char::from(b'0' + rng.random_range(0..10_u8))),
        120..420 => KeyPress::char(OFTEN[rng.random_range(0..OFTEN.len())]),
        420..580 => KeyPress::plain(Key::Enter),
        580..780 => KeyPress::plain(Key::Esc),
        780..820 => KeyPress::plain(Key::Tab),
        820..860 => KeyPress::plain(
            [Key::Up, Key::Down, Key::Left, Key::Right, Key::PageDown][rng.random_range(0..5)],
        ),
        860..880 => KeyPress::ctrl(char::from(b'a' + rng.random_range(0..26_u8))),
        _ => KeyPress::char(char::from(rng.random_range(b' '..=b'~'))),
    }
}

/// Types the keys of a seed into a console; which views it saw, and which plans it asked for.
async fn type_all(
    service: &Service,
    flags: &[(&str, &str, &str)],
) -> (BTreeSet<ViewId>, BTreeSet<char>) {
    let mut keyboard = Keyboard::open(service, flags).await;
    let mut rng = Pcg64Mcg::seed_from_u64(10_000);
    let (mut views, mut capitals) = (BTreeSet::new(), BTreeSet::new());
    for count in 0..KEYS {
        let press = draw(&mut rng);
        if let Key::Char(c) = press.key
            && CAPITALS.contains(&c)
        {
            capitals.insert(c);
        }
        // A person's keys are a moment apart.
        keyboard.wait(Duration::from_millis(250));
        keyboard.key(press);
        views.insert(keyboard.app.view().id());
        if matches!(press.key, Key::Char(c) if CAPITALS.contains(&c)) {
            // A person waits for the plan.
            for _ in 0..100 {
                keyboard.listen(Duration::from_millis(100)).await;
                if !keyboard.text().contains("computing plan") {
                    break;
                }
            }
        }
        if count % 8 == 0 {
            keyboard.listen(Duration::from_millis(2)).await;
        }
        if count % 500 == 0 {
            assert!(!keyboard.text().is_empty());
        }
    }
    // What is on its way arrives.
    for _ in 0..40 {
        keyboard.listen(Duration::from_millis(25)).await;
    }
    (views, capitals)
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_keys_change_nothing_without_the_right_and_something_with_it() {
    for (user, flags, writes) in [
        (User::Viewer, &[("--readonly", "write", "false")][..], false),
        (User::Admin, &[("--write", "write", "true")][..], true),
    ] {
        let service = embed(Box::new(world(1, 12, true)), ticking(), 1.0, 1).expect("a cluster");
        let (views, capitals) = type_all(&service.clone().signed(user), flags).await;
        let audit = service.cluster().audit();
        let words = |entry: &AuditEntry| format!("{} {} {}", entry.method, entry.path, entry.code);
        let forbidden = audit.entries().filter(|entry| entry.is_reading());
        let forbidden: Vec<String> = forbidden.map(words).collect();
        assert!(forbidden.is_empty(), "{user:?} may not: {forbidden:?}");
        let mutating: Vec<String> = audit
            .entries()
            .filter(|entry| !entry.path.contains("/selfsubject"))
            .map(words)
            .collect();
        assert!(audit.entries().count() > 0, "rights were asked for");
        let changed = audit.entries().filter(|entry| entry.has_changed()).count();
        assert_eq!(capitals.len(), CAPITALS.len(), "{capitals:?}");
        for view in ViewId::ALL {
            assert!(views.contains(view), "{view:?} was never seen: {views:?}");
        }
        if writes {
            assert!(changed > 0, "{mutating:?}");
        } else {
            assert!(mutating.is_empty(), "{mutating:?}");
        }
    }
}
