//! The tabs: the views that a digit opens, those that another key opens, and the breadcrumbs beside them.

use ratatui::layout::Rect;

use table::navigation::ViewId;
use table::role::Role;

use super::commands::{COMMANDS, Command, Context};
use super::painter::Painter;
use super::screen::Screen;

/// Width of a tab that is a digit alone, cells.
const DIGIT_TAB: u16 = 3;

/// The position of each tab: view, column and width.
fn tab_places(parts: &[(String, Role)], line: Rect) -> Vec<(ViewId, u16, u16)> {
    let tabs = ViewId::ALL.len() as u16;
    let whole: u16 = ViewId::ALL
        .iter()
        .map(|id| id.name().len() as u16 + 4)
        .sum();
    // The text on the right says why less is shown: it takes precedence over names and spacing.
    let right: usize = parts
        .iter()
        .map(|(words, _)| words.chars().count() + 3)
        .sum();
    let width = line.width.saturating_sub(right.min(40) as u16);
    let short = whole >= width;
    // Short names where full names do not fit beside that text; digits where short names do not fit either.
    let brief: u16 = ViewId::ALL
        .iter()
        .map(|id| id.short_name().len() as u16 + 3)
        .sum();
    // A blank at the left, and one after the open tab.
    let brief = short && usize::from(brief) + 2 + right <= usize::from(line.width);
    let gap = (width.saturating_sub(whole + 1) / tabs).min(3);
    let mut x = line.x + 1;
    let mut places = Vec::new();
    for id in ViewId::ALL {
        // The same whichever is open: tabs stand still.
        let width = match (short, brief) {
            (false, _) => id.name().len() as u16 + 4,
            (true, true) => id.short_name().len() as u16 + 3,
            (true, false) => DIGIT_TAB,
        };
        places.push((*id, x, width));
        x += width + if short { 0 } else { gap };
    }
    places
}

/// The tab at a mouse press in this line.
pub fn tab_at(screen: &dyn Screen, line: Rect, x: u16) -> Option<ViewId> {
    tab_places(&header_texts(screen), line)
        .into_iter()
        .find(|(_, from, width)| (*from..from + width).contains(&x))
        .map(|(id, ..)| id)
}

/// The text beside the tabs: the breadcrumbs, and what is left out.
fn header_texts(screen: &dyn Screen) -> Vec<(String, Role)> {
    let mut right: Vec<(String, Role)> = Vec::new();
    let trail = screen.trail();
    if !trail.is_empty() {
        right.push((trail.join(" ▸ "), Role::Title));
    }
    if screen.view().faults_only() {
        right.push((String::from("faults only"), Role::Crit));
    }
    if !screen.view().filter().is_empty() {
        right.push((format!("/ {}", screen.view().filter()), Role::Accent));
    }
    right
}

/// Draws the tabs, the views that other keys open, and the breadcrumbs at the right.
pub fn draw_tabs(screen: &dyn Screen, painter: &mut Painter<'_>, line: Rect) {
    let right = header_texts(screen);
    let mut end = line.x;
    // On a narrow screen only the open view shows its name, behind the digits.
    let mut behind = String::new();
    for (id, x, width) in tab_places(&right, line) {
        let open = id == screen.view().id();
        let name = match usize::from(width).saturating_sub(id.name().len()) {
            4.. => id.name(),
            _ if width > DIGIT_TAB => id.short_name(),
            _ => "",
        };
        let digit = id.digit().to_string();
        if open {
            let words = match name {
                "" => format!(" {digit} "),
                name => format!(" {digit} {name} "),
            };
            if name.is_empty() {
                behind = format!("{digit} {}", id.name());
            }
            // It may cover the blank before the next one.
            painter.text(x, line.y, width + 1, &words, painter.render_style.tab());
        } else {
            let digit_style = painter.render_style.fg(Role::Muted);
            let name_style = painter.render_style.fg(Role::Muted);
            painter.pieces(
                x + 1,
                line.y,
                width - 1,
                &[(&digit, digit_style), (" ", name_style), (name, name_style)],
            );
        }
        end = x + width;
    }
    if !behind.is_empty() {
        end += 1;
        end += painter.text_in_role(end, line.y, line.width, &behind, Role::Title) + 1;
    }
    let texts: u16 = right
        .iter()
        .map(|(words, _)| painter.width(words) + 3)
        .sum();
    let room = line.right().saturating_sub(end + 1 + texts);
    end += draw_kinds(screen, painter, Rect::new(end, line.y, room, 1));
    let mut edge = line.right().saturating_sub(1);
    for (words, role) in right.iter().rev() {
        let room = edge.saturating_sub(end + 2);
        if room < 4 {
            break;
        }
        // Where the breadcrumbs do not fit, only the last one is shown.
        let words = match words.rsplit_once(" ▸ ") {
            Some((_, end)) if painter.width(words) > room => end,
            _ => words.as_str(),
        };
        let used = painter.text_right(edge, line.y, room, words, painter.render_style.fg(*role));
        edge = edge.saturating_sub(used + 3);
    }
}

/// The views that have a key and no tab: with their names, or their keys alone. Returns the cells used.
fn draw_kinds(screen: &dyn Screen, painter: &mut Painter<'_>, room: Rect) -> u16 {
    let key = |command| {
        screen
            .keys()
            .keys(Context::Global, command)
            .first()
            .copied()
    };
    let kinds = COMMANDS.iter().filter_map(|spec| match spec.command {
        Command::Kind(_) => Some((key(spec.command)?.to_string(), spec.title)),
        _ => None,
    });
    let kinds: Vec<(String, &str)> = kinds.collect();
    let (Some((first, _)), Some((last, _))) = (kinds.first(), kinds.last()) else {
        return 0;
    };
    let named = kinds.iter().map(|(key, name)| format!("{key} {name}"));
    let named = named.collect::<Vec<_>>().join("  ");
    let all = [named, format!("{first}–{last}")];
    let fits = all.iter().find(|words| painter.width(words) < room.width);
    fits.map_or(0, |words| {
        1 + painter.text_in_role(room.x + 1, room.y, room.width, words, Role::Muted)
    })
}
