//! Marks of money whose price paid is unknown, so that a list price is used instead ([`Money::is_by_list`]).

use model::cost::{LIST_MARK, LIST_NOTE, Money, PriceGroup};

use crate::text::usd;

/// The part of a rate that is list prices in place of what is paid, USD/h.
pub(crate) fn list_usd(rate: Option<Money>) -> Option<f64> {
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

/// The note for a printed table in which an amount has the mark.
pub fn note(printed: &str) -> Option<&'static str> {
    let mut words = printed.split_whitespace();
    let is_marked = words.any(|word| {
        let amount = word
            .trim_end_matches([')', ';', ','])
            .strip_suffix(LIST_MARK);
        // Of `$1 204*` the last word has digits alone.
        let is_digits =
            |amount: &str| !amount.is_empty() && amount.bytes().all(|digit| digit.is_ascii_digit());
        amount.is_some_and(|amount| amount.contains('$') || is_digits(amount))
    });
    is_marked.then_some(LIST_NOTE)
}

/// How old the list prices of a fleet are, the oldest and the newest: `list prices of 2026 to 2026-07-20`.
pub fn dated(prices: &[PriceGroup]) -> String {
    let date = |group: &'_ PriceGroup| group.price.as_ref()?.as_of.clone();
    let dates = || prices.iter().filter_map(date);
    match (dates().min(), dates().max()) {
        (Some(first), Some(last)) if first == last => format!("list prices of {first}"),
        (Some(first), Some(last)) => format!("list prices of {first} to {last}"),
        _ => String::from(UNDATED),
    }
}

/// The same in short.
pub const UNDATED: &str = "list prices";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_its_note_only_where_an_amount_is_marked() {
        assert_eq!(
            (marked(Some(12.0), true), marked(Some(12.0), false)),
            ("$12*".to_owned(), "$12".to_owned())
        );
        assert_eq!(marked(None, true), usd(None));
        assert_eq!(note("a  $12*\nb  $3"), Some(LIST_NOTE));
        assert_eq!(note("4 jobs ($12* lost), ($3/h*), it"), Some(LIST_NOTE));
        assert_eq!(note("fleet  $9 481 369*  $3"), Some(LIST_NOTE));
        assert_eq!(note("a*  $12\n*  $3"), None);
    }
}
