//! How money is marked of which what is paid is not known, since a list price stands in for it ([`Money::is_by_list`]).

use model::cost::{LIST_MARK, LIST_NOTE, Money, Spend};

use super::text::usd;

/// Which amounts of a row with several have the mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ListMarks {
    pub rate: bool,
    /// The part of free devices.
    pub free: bool,
    /// The part of allocated devices that are idle.
    pub idle_allocated: bool,
}

impl ListMarks {
    /// The marks of a spend rate.
    pub fn of(spend: Option<Spend>) -> Self {
        let is_marked = |of: fn(&Spend) -> Option<Money>| {
            spend.as_ref().and_then(of).is_some_and(Money::is_by_list)
        };
        Self {
            rate: is_marked(|spend| Some(spend.rate)),
            free: is_marked(|spend| spend.free),
            idle_allocated: is_marked(|spend| spend.idle_allocated),
        }
    }
}

/// The part of a rate that is list prices in place of what is paid, USD/h.
pub(super) fn list_usd(rate: Option<Money>) -> Option<f64> {
    rate.map(|rate| rate.by_list.usd())
}

/// A cell: `$9042`, and `$9042*` where `is_by_list`.
pub fn marked(value: Option<f64>, is_by_list: bool) -> String {
    let mut text = usd(value);
    if value.is_some() && is_by_list {
        text.push_str(LIST_MARK);
    }
    text
}

/// A cell of a rate with its part by list.
pub(super) fn rate_cell(rate: Option<f64>, by_list: Option<f64>) -> String {
    marked(rate, by_list > Some(0.0))
}

/// The note for a printed table in which an amount has the mark.
pub fn note(printed: &str) -> Option<&'static str> {
    let mut words = printed.split_whitespace();
    let is_marked = words.any(|word| {
        word.contains('$') && word.trim_end_matches([')', ';', ',']).ends_with(LIST_MARK)
    });
    is_marked.then_some(LIST_NOTE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_its_note_only_where_an_amount_is_marked() {
        assert_eq!(
            (
                rate_cell(Some(12.0), Some(3.0)),
                rate_cell(Some(12.0), Some(0.0))
            ),
            ("$12*".to_owned(), "$12".to_owned())
        );
        assert_eq!(rate_cell(None, None), usd(None));
        assert_eq!(note("a  $12*\nb  $3"), Some(LIST_NOTE));
        assert_eq!(note("4 jobs ($12* lost), ($3/h*), it"), Some(LIST_NOTE));
        assert_eq!(note("a*  $12\n*  $3"), None);
    }
}
