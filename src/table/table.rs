//! Text tables: columns aligned for any display width, no trailing spaces, no control characters.

use unicode_width::UnicodeWidthStr;

use model::base::name::printable;

/// Headers of a table being printed, with the column widths for later lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    titles: Vec<(&'static str, bool)>,
    widths: Vec<usize>,
}

impl Layout {
    /// A layout for these titles, each right-aligned or not, wide enough for all lines.
    pub fn new<'a>(
        titles: Vec<(&'static str, bool)>,
        lines: impl IntoIterator<Item = &'a Vec<String>>,
    ) -> Self {
        let mut widths: Vec<usize> = titles.iter().map(|(title, _)| title.width()).collect();
        for line in lines {
            for (width, cell) in widths.iter_mut().zip(line) {
                *width = (*width).max(cell.width());
            }
        }
        Self { titles, widths }
    }

    /// The line of titles.
    pub fn header(&self) -> String {
        let titles: Vec<String> = self
            .titles
            .iter()
            .map(|(title, _)| (*title).into())
            .collect();
        self.line(&titles)
    }

    /// One line. A cell wider than its column shifts the rest.
    pub fn line(&self, cells: &[String]) -> String {
        let mut out = String::new();
        for ((cell, width), (_, right)) in cells.iter().zip(&self.widths).zip(&self.titles) {
            if !out.is_empty() {
                out.push_str("   ");
            }
            let gap = " ".repeat(width.saturating_sub(cell.width()));
            if *right {
                out.push_str(&gap);
                out.push_str(cell);
            } else {
                out.push_str(cell);
                out.push_str(&gap);
            }
        }
        out.truncate(out.trim_end_matches(' ').len());
        out.push('\n');
        out
    }
}

/// A whole table, `titled` with the line of titles.
pub fn text_table<'a>(
    titles: Vec<(&'static str, bool)>,
    lines: impl IntoIterator<Item = &'a Vec<String>> + Clone,
    titled: bool,
) -> String {
    let layout = Layout::new(titles, lines.clone());
    let rows = lines.into_iter().map(|line| layout.line(line));
    let header = titled.then(|| layout.header());
    header.into_iter().chain(rows).collect()
}

/// A text as one cell: a single line without control characters; `-` when nothing remains.
pub fn cell(text: &str) -> String {
    let one_line: String = if text.contains(['\n', '\r', '\t']) {
        text.split_whitespace().collect::<Vec<&str>>().join(" ")
    } else {
        text.to_owned()
    };
    let clean = printable(one_line.trim());
    if clean.is_empty() {
        super::text::UNKNOWN.to_owned()
    } else {
        clean.into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[[&str; 3]]) -> String {
        let titles = vec![("NAME", false), ("UTIL", true), ("WHY", false)];
        let lines: Vec<Vec<String>> = rows
            .iter()
            .map(|row| row.iter().map(|text| cell(text)).collect())
            .collect();
        text_table(titles, &lines, true)
    }

    #[test]
    fn columns_stand_in_line_and_lines_end_with_their_text() {
        assert_eq!(
            table(&[["h100-train", "7%", ""], ["l4", "100%", "quota"]]),
            "NAME         UTIL   WHY\n\
             h100-train     7%   -\n\
             l4           100%   quota\n"
        );
    }

    #[test]
    fn wide_letters_count_double_and_combining_ones_not_at_all() {
        let text = table(&[
            ["訓練-プール", "1%", "x"],
            ["e\u{301}te\u{301}", "2%", "x"],
            ["🔥", "3%", "x"],
        ]);
        let columns: Vec<usize> = text
            .lines()
            .map(|line| line.split('%').next().unwrap_or_default().width())
            .collect();
        assert_eq!(columns[1..], [columns[1]; 3], "{text}");
    }

    #[test]
    fn nothing_hostile_reaches_a_terminal() {
        let text = table(&[[
            "a\u{1b}]0;x\u{7}b",
            "\u{9b}31m",
            "two\nlines\tand \u{202e}back\u{0}",
        ]]);
        assert_eq!(text.lines().count(), 2);
        assert!(
            text.chars()
                .all(|c| c == '\n' || !model::base::name::is_hostile(c)),
            "{text:?}"
        );
        assert!(
            text.contains("two lines and \u{fffd}back\u{fffd}"),
            "{text:?}"
        );
    }
}
