//! The last line: available keys, available actions, and a notice while it is current.

use ratatui::layout::Rect;

use model::base::SmallSort;
use model::base::quantities::grouped;
use plan::actions::Availability;
use table::role::Role;

use super::action_keys;
use super::commands::{Command, Context};
use super::does::does;
use super::msg::Key;
use super::overlay::Overlay;
use super::painter::Painter;
use super::screen::Screen;
use super::view::subject;

pub(super) fn draw_hints(
    screen: &dyn Screen,
    overlay: &Overlay,
    painter: &mut Painter<'_>,
    line: Rect,
) {
    painter.background(line, Role::Panel);
    let right = match screen.notice() {
        Some(notice) => (notice.to_owned(), Role::Info),
        None => {
            let (shown, total) = screen.view().counts();
            let mut words = if shown == total {
                String::new()
            } else {
                format!("{} of {}", grouped(shown as i64), grouped(total as i64))
            };
            let marked = screen
                .view()
                .table()
                .map_or(0, |table| table.table_model.marked().len());
            let role = if marked > 0 { Role::Mark } else { Role::Muted };
            if marked > 0 {
                let gap = if words.is_empty() { "" } else { "   " };
                words = format!("{} marked{gap}{words}", grouped(marked as i64));
            }
            (words, role)
        }
    };
    let style = painter.render_style.fg(right.1);
    // A notice takes precedence over hints.
    let room = match screen.notice() {
        Some(_) => line.width.saturating_sub(2),
        None => line.width / 2,
    };
    let used = painter.text_right(
        line.right().saturating_sub(1),
        line.y,
        room,
        &right.0,
        style,
    );
    let end = line.right().saturating_sub(used + 3);
    let mut hints: Vec<(u8, String, &'static str)> = Vec::new();
    let contexts: &[Context] = match overlay {
        Overlay::None => screen.view().contexts(),
        overlay => overlay
            .contexts(&screen.facts().acts.may)
            .unwrap_or_default(),
    };
    for context in contexts {
        for (spec, keys) in screen.keys().listed(*context) {
            if spec.hint == 0
                || hints.iter().any(|(_, _, title)| *title == spec.title)
                || !overlay.does(spec.command, screen)
                || (matches!(overlay, Overlay::None) && !does(screen, spec.command))
            {
                continue;
            }
            // For closing a dialog, esc is named before other keys.
            let esc = keys.iter().find(|press| press.key == Key::Esc);
            let shown = match spec.command {
                Command::Close => esc.or(keys.first()),
                _ => keys.first(),
            };
            if let Some(key) = shown {
                hints.push((spec.hint, key.to_string(), spec.title));
            }
        }
    }
    hints.small_sort_by_key(|(rank, ..)| *rank);
    // The help key leads to all others: it is never dropped.
    let help = hints
        .iter()
        .position(|(_, _, title)| *title == Command::Help.spec().title)
        .map(|at| hints.remove(at));
    let mut x = line.x + 1;
    let action_hints = action_hints(screen, overlay);
    let (hints_width, why) = match &action_hints {
        Some((keys, why)) => (
            keys.iter()
                .map(|(key, title, _)| painter.width(key) + painter.width(title) + 3)
                .sum::<u16>()
                + 3,
            why.clone(),
        ),
        None => (0, None),
    };
    // Actions use the space that the most important hints leave; disabled ones show the reason.
    let gap = if line.width >= 120 { 3 } else { 2 };
    let room_of =
        |(_, key, title): &(u8, String, &str)| painter.width(key) + 1 + painter.width(title) + gap;
    let help_width = help.as_ref().map_or(0, room_of);
    let least = hints.iter().take(3).map(room_of).sum::<u16>() + help_width;
    let reason = why
        .filter(|_| screen.notice().is_none() && right.0.is_empty())
        .map(|(of, refusal)| {
            let whole = format!("{of}{refusal}");
            let all = x + least + hints_width + painter.width(&whole) + 3;
            if all <= line.right() { whole } else { refusal }
        });
    let reason_width = reason.as_ref().map_or(0, |why| painter.width(why) + 3);
    let shows = action_hints.is_some() && x + least + hints_width <= end;
    let end = if shows { end - hints_width } else { end };
    let last = if shows && x + least + hints_width + reason_width <= line.right() {
        end.saturating_sub(reason_width)
    } else {
        end
    };
    let end = last;
    let fitting = hints
        .iter()
        .scan(x + help_width, |used, hint| {
            *used += room_of(hint);
            Some((hint, *used))
        })
        .take_while(|(_, used)| *used <= end + gap)
        .map(|(hint, _)| hint);
    let shown: Vec<_> = fitting.chain(&help).collect();
    for (_, key, title) in shown {
        let width = painter.width(key) + 1 + painter.width(title);
        if x + width > end {
            break;
        }
        let (bold, muted) = (
            painter.render_style.bold(Role::Accent),
            painter.render_style.fg(Role::Muted),
        );
        x += painter.pieces(
            x,
            line.y,
            width,
            &[(key, bold), (" ", muted), (title, muted)],
        ) + gap;
    }
    if let Some((keys, _)) = action_hints.filter(|_| shows) {
        draw_action_hints(
            painter,
            line,
            x,
            &keys,
            reason.as_deref().filter(|_| reason_width > 0),
        );
    }
}

/// An action key, its action, and whether it is allowed.
type ActionHint = (String, &'static str, bool);

/// The disabled keys, where not all are, and the reason.
type Greyed = (String, String);

/// The action keys that fit the selected object, and why some are disabled.
fn action_hints(
    screen: &dyn Screen,
    overlay: &Overlay,
) -> Option<(Vec<ActionHint>, Option<Greyed>)> {
    if !matches!(overlay, Overlay::None) {
        return None;
    }
    let selection = subject::meant(screen.facts(), screen.view().selection(screen.facts())?);
    let mut why: Option<(String, Vec<String>)> = None;
    let keys: Vec<ActionHint> = action_keys::fitting(&selection)
        .filter_map(|command| {
            let idle = match action_keys::availability(command, &selection, screen.facts()) {
                Availability::Hidden => return None,
                Availability::Idle(why) => Some(why),
                Availability::Available => None,
            };
            let key = screen.keys().keys(Context::Global, command);
            let barred = action_keys::barred(command, screen.facts()).or(idle);
            let key = key.first()?.to_string();
            let free = barred.is_none();
            // One reason is shown: the first, with its keys.
            match (&mut why, barred) {
                (Some((reason, of)), Some(barred)) if *reason == barred => of.push(key.clone()),
                (None, Some(barred)) => why = Some((barred, vec![key.clone()])),
                _ => {}
            }
            Some((key, action_keys::title(command, &selection), free))
        })
        .collect();
    let why = why.map(|(reason, of)| match of.len() == keys.len() {
        true => (String::new(), reason),
        false => (format!("{}: ", of.join(" ")), reason),
    });
    (!keys.is_empty()).then_some((keys, why))
}

fn draw_action_hints(
    painter: &mut Painter<'_>,
    line: Rect,
    from: u16,
    keys: &[ActionHint],
    why: Option<&str>,
) {
    let (bold, muted) = (
        painter.render_style.bold(Role::Accent),
        painter.render_style.fg(Role::Muted),
    );
    let grey = painter.render_style.fg(Role::Muted);
    painter.sign(from, line.y, "│", painter.render_style.fg(Role::Border));
    let mut x = from + 2;
    for (key, title, free) in keys {
        let style = if *free { bold } else { grey };
        let left = line.right().saturating_sub(x + 1);
        // A hint that does not fit is left out as a whole.
        if painter.width(key) + 1 + painter.width(title) > left {
            painter.text_in_role(x, line.y, left.min(1), "…", Role::Muted);
            return;
        }
        x += painter.pieces(
            x,
            line.y,
            left,
            &[(key, style), (" ", muted), (title, muted)],
        ) + 2;
    }
    let left = line.right().saturating_sub(x + 1);
    // A truncated reason is useless.
    let fits = |why: &&str| left >= 16 || painter.width(why) <= left;
    if let Some(why) = why.filter(fits) {
        painter.text_right(line.right().saturating_sub(1), line.y, left, why, muted);
    }
}
