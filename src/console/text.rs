//! Text as cells: cleaned of what could rewrite a screen, measured, cut between graphemes, reduced to ASCII.

pub use model::base::quantities::counted;

use std::borrow::Cow;

use ratatui::buffer::CellWidth;
use unicode_segmentation::UnicodeSegmentation;

use model::base::Rate;
use model::base::name::printable;
use model::cost::Money;

/// Placeholder for an unknown value.
pub const UNKNOWN: &str = "–";

/// The text as it may be painted: without control characters and, on an ASCII screen, without anything else
/// than ASCII. Signs of ours have ASCII twins; other text falls back to `?`, one a cell.
pub fn clean(text: &str, ascii: bool) -> Cow<'_, str> {
    if text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return Cow::Borrowed(text);
    }
    let safe = printable(text);
    if !ascii {
        return safe;
    }
    let mut out = String::with_capacity(safe.len());
    for grapheme in safe.graphemes(true) {
        match twin(grapheme) {
            Some(twin) => out.push_str(twin),
            None if grapheme.is_ascii() => out.push_str(grapheme),
            // Braille: a dot where there is any.
            None if grapheme == "\u{2800}" => out.push(' '),
            None if ("\u{2801}"..="\u{28ff}").contains(&grapheme) => out.push('.'),
            None => (0..width(grapheme)).for_each(|_| out.push('?')),
        }
    }
    Cow::Owned(out)
}

/// The ASCII replacement of a sign that the console uses.
fn twin(sign: &str) -> Option<&'static str> {
    Some(match sign {
        "–" | "·" | "─" | "━" | "═" => "-",
        "┄" => ".",
        "…" => "..",
        "×" | "✗" => "x",
        "°" => "C",
        "●" => "*",
        "◐" => "%",
        "○" => "o",
        "□" => "=",
        "▲" => "!",
        "▸" | "▶" | "→" => ">",
        "▾" | "↓" => "v",
        "↑" => "^",
        "←" | "↶" => "<",
        "≥" => ">=",
        "│" | "▏" | "▌" | "┃" => "|",
        "╭" | "╮" | "╰" | "╯" | "┼" => "+",
        "█" | "▀" | "▆" | "■" | "▓" => "#",
        "░" | "▒" => ".",
        "✓" => "+",
        "±" => "~",
        "∞" => "inf",
        "⌈" | "⌊" => "[",
        "⌉" | "⌋" => "]",
        _ => return None,
    })
}

/// Cells that the text takes.
pub fn width(text: &str) -> usize {
    if text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return text.len();
    }
    text.graphemes(true)
        .map(|grapheme| usize::from(grapheme.cell_width()))
        .sum()
}

/// The text in at most `max` cells; a longer one ends in an ellipsis. Never splits a grapheme.
pub fn cut(text: &str, max: usize, ascii: bool) -> Cow<'_, str> {
    if width(text) <= max {
        return Cow::Borrowed(text);
    }
    let dots = if ascii { ".." } else { "…" };
    if max < width(dots) {
        return Cow::Borrowed("");
    }
    let room = max - width(dots);
    let (mut end, mut used) = (0, 0);
    for (at, grapheme) in text.grapheme_indices(true) {
        let cells = usize::from(grapheme.cell_width());
        if used + cells > room {
            break;
        }
        used += cells;
        end = at + grapheme.len();
    }
    Cow::Owned(format!("{}{dots}", &text[..end]))
}

/// The text in at most `max` cells, cut in the middle: the end of a name distinguishes it from similar names.
pub fn cut_middle(text: &str, max: usize, ascii: bool) -> Cow<'_, str> {
    let dots = if ascii { ".." } else { "…" };
    if width(text) <= max || max < 8 {
        return cut(text, max, ascii);
    }
    let room = max - width(dots);
    let head = cut(text, room / 3 + width(dots), ascii).into_owned();
    let mut tail = text.len();
    let mut used = width(&head);
    for (at, grapheme) in text.grapheme_indices(true).rev() {
        used += usize::from(grapheme.cell_width());
        if used > max {
            break;
        }
        tail = at;
    }
    Cow::Owned(format!("{head}{}", &text[tail..]))
}

/// True for the parts of one number, whose digits stand in groups: `$2` and `202/h`, `0.4` and `%`.
fn is_one_number(one: &str, next: &str) -> bool {
    let is_digit = |sign: &char| sign.is_ascii_digit();
    let ends = one.chars().rev().take_while(is_digit).count();
    let is_group = ends <= 3 && next.chars().take_while(is_digit).count() == 3;
    ends > 0 && (is_group || next.starts_with('%'))
}

/// The text wrapped into lines of at most `max` cells, between words where possible, never within a number.
pub fn wrap(text: &str, max: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let max = max.max(1);
    let words: Vec<&str> = text.split_whitespace().collect();
    for words in words.chunk_by(|one, next| is_one_number(one, next)) {
        let word = words.join(" ");
        // Text from the cluster may contain anything.
        let clean = printable(&word);
        let mut word: &str = &clean;
        loop {
            let gap = usize::from(!line.is_empty());
            if width(&line) + gap + width(word) <= max {
                if gap == 1 {
                    line.push(' ');
                }
                line.push_str(word);
                break;
            }
            if !line.is_empty() {
                lines.push(std::mem::take(&mut line));
                continue;
            }
            // A word longer than a line is broken where the line ends.
            let (mut end, mut used) = (0, 0);
            for (at, grapheme) in word.grapheme_indices(true) {
                used += usize::from(grapheme.cell_width());
                if used > max && end > 0 {
                    break;
                }
                end = at + grapheme.len();
                if used > max {
                    break;
                }
            }
            lines.push(word[..end].to_owned());
            word = &word[end..];
            if word.is_empty() {
                break;
            }
        }
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines
}

/// The text broken after every `max` cells, blanks included: for text that is already laid out.
pub fn fold(text: &str, max: usize) -> Vec<String> {
    let max = max.max(1);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for grapheme in text.graphemes(true) {
        let cells = usize::from(grapheme.cell_width());
        if used + cells > max && used > 0 {
            lines.push(String::new());
            used = 0;
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(grapheme);
        }
        used += cells;
    }
    lines
}

/// Money an hour: `$12/h`, or a dash where it is not known.
pub fn per_hour(money: Option<Money>) -> String {
    money.map_or_else(|| String::from(UNKNOWN), Money::per_hour)
}

/// Rate in $/h without its unit: `$12`, or a dash where it is unknown.
pub fn dollars(money: Option<Money>) -> String {
    money.map_or_else(|| String::from(UNKNOWN), Money::dollars)
}

/// A point of a curve of money, USD, written as every rate is.
pub fn dollars_of(usd: f64) -> String {
    dollars(Rate::from_usd(usd).map(Money::known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_word_is_wrapped_and_not_passed_on() {
        let lines = wrap("quota \u{1b}[2J\u{9b}31m of nlp", 8).join(" ");
        assert!(!lines.chars().any(char::is_control), "{lines:?}");
    }

    #[test]
    fn text_is_cut_between_graphemes() {
        assert_eq!(cut("llm-70b-sft", 20, false), "llm-70b-sft");
        assert_eq!(cut("llm-70b-sft", 6, false), "llm-7…");
        assert_eq!(cut("llm-70b-sft", 6, true), "llm-..");
        assert_eq!(cut("日本語です", 6, false), "日本…");
        assert_eq!(cut("e\u{301}e\u{301}e\u{301}", 2, false), "e\u{301}…");
        assert_eq!(cut("abc", 0, false), "");
        for max in 0..12 {
            assert!(width(&cut("日本語 👩‍👩‍👧 text", max, false)) <= max);
        }
    }

    #[test]
    fn a_name_cut_in_the_middle_keeps_its_end() {
        assert_eq!(
            cut_middle("lab/job-roofline-12ab", 21, false),
            "lab/job-roofline-12ab"
        );
        assert_eq!(
            cut_middle("lab/job-roofline-12ab", 14, false),
            "lab/…line-12ab"
        );
        assert_eq!(
            cut_middle("lab/job-roofline-12ab", 14, true),
            "lab/..ine-12ab"
        );
        assert_eq!(cut_middle("lab/job-roofline", 5, false), "lab/…");
        for max in 0..24 {
            assert!(width(&cut_middle("日本語 👩‍👩‍👧 text and more", max, false)) <= max);
        }
    }

    #[test]
    fn hostile_text_is_disarmed_and_ascii_is_ascii() {
        assert!(!clean("a\u{1b}[2J", false).contains('\u{1b}'));
        assert_eq!(clean("71° ▲", true), "71C !");
        assert_eq!(clean("≥80 ↶", true), ">=80 <");
        assert_eq!(clean("日本", true), "????");
    }

    #[test]
    fn text_wraps_at_words_and_breaks_long_ones() {
        assert_eq!(wrap("drain, then reboot", 8), ["drain,", "then", "reboot"]);
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("日本語", 1), ["日", "本", "語"]);
        assert_eq!(wrap("", 5), [""]);
        // The digits of a number stay together.
        assert_eq!(wrap("costs $2 202/h*", 9), ["costs", "$2 202/h*"]);
        assert_eq!(wrap("of 1024 100 are", 8), ["of 1024", "100 are"]);
        assert_eq!(wrap("of it (0.4 %)", 11), ["of it", "(0.4 %)"]);
    }

    #[test]
    fn folding_keeps_every_blank() {
        assert_eq!(fold("a  bc", 3), ["a  ", "bc"]);
        assert_eq!(fold("", 3), [""]);
        assert_eq!(fold("日本語", 5), ["日本", "語"]);
    }
}
