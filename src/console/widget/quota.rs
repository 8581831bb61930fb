//! A quota bar: nominal quota in use, borrowed beyond it, and unused.

use super::bar::EMPTY;
use crate::painter::Painter;
use table::cell::QuotaUse;
use table::role::Role;

/// Cells of the bar.
pub const BAR: u16 = 10;

/// Cells for nominal quota in use and for borrowed quota; any use above 0 gets at least one.
fn cells(quota: &QuotaUse) -> (u16, u16) {
    let used = quota.used.unwrap_or(0);
    let whole = quota.nominal.unwrap_or(used).max(used);
    if whole == 0 {
        return (0, 0);
    }
    let share = |part: u64| {
        let cells = (part as f64 / whole as f64 * f64::from(BAR)).round() as u16;
        if part > 0 { cells.clamp(1, BAR) } else { 0 }
    };
    let borrowed = share(quota.borrowed);
    let mut own = share(used.saturating_sub(quota.borrowed)).min(BAR - borrowed);
    // A quota that is not full must not look full.
    if used < whole && own + borrowed == BAR {
        own = own.saturating_sub(1);
    }
    (own, borrowed)
}

/// Paints the bar alone.
pub fn bar(painter: &mut Painter<'_>, x: u16, y: u16, quota: &QuotaUse) {
    let (own, borrowed) = cells(quota);
    let full = quota
        .used
        .is_some_and(|used| Some(used) >= quota.nominal && used > 0);
    let used_style = painter
        .render_style
        .fg(if full { Role::Text } else { Role::Muted });
    let borrowed_style = painter.render_style.fg(Role::Info);
    // Three quarters high where there are parts of blocks, so that bars on adjacent lines stay separate. Each part has a sign of its own.
    let thin = painter.render_style.half_blocks();
    let rest = painter.render_style.fg(Role::Faint);
    for at in 0..BAR {
        let (sign, style) = if at < own {
            (if thin { "▆" } else { "█" }, used_style)
        } else if at < own + borrowed {
            let ascii = painter.render_style.ascii;
            (if ascii { "+" } else { "▒" }, borrowed_style)
        } else {
            (if thin { EMPTY } else { "░" }, rest)
        };
        painter.sign(x + at, y, sign, style);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(nominal: u64, used: u64, borrowed: u64) -> QuotaUse {
        QuotaUse {
            nominal: Some(nominal),
            used: Some(used),
            borrowed,
            ..QuotaUse::default()
        }
    }

    #[test]
    fn a_bar_shows_own_borrowed_and_unused_quota() {
        assert_eq!(cells(&quota(512, 608, 96)), (8, 2));
        assert_eq!(cells(&quota(256, 128, 0)), (5, 0));
        assert_eq!(cells(&quota(64, 0, 0)), (0, 0));
        assert_eq!(cells(&quota(0, 0, 0)), (0, 0));
        assert_eq!(cells(&quota(1000, 999, 0)), (9, 0));
        assert_eq!(cells(&quota(1000, 1, 0)), (1, 0));
        assert_eq!(cells(&quota(0, 8, 8)), (0, 10));
        assert_eq!(quota(512, 608, 96).numbers(), "512+96/512");
        assert_eq!(QuotaUse::default().numbers(), "–");
    }
}
