//! Money of which what is paid is not known is marked wherever it stands, and other money is not.

use std::sync::Arc;

use console::{AppOptions, render_text};
use model::base::Rate;
use model::cost::{LIST_NOTE, PoolPrice, PriceBook, Prices, SpendScope, spend_rates};
use model::fleet::accelerator::Catalog;
use table::Facts;
use table::navigation::ViewId;

use crate::frames::{LARGE, console};

/// The pool whose price the operator says.
const POOL: &str = "l4-serve";

/// The fleet at the list prices of the books, which have no commitment prices for its reserved pools, but for one pool.
fn listed(facts: &Facts) -> Facts {
    let price = PoolPrice::Rate(Rate::from_micros(1_000_000));
    let prices = Prices::new(PriceBook::embedded(), &Catalog::embedded()).with_pool(POOL, price);
    let spend_rates = Arc::new(spend_rates(&facts.fleet, &prices));
    Facts {
        spend_rates,
        ..facts.clone()
    }
}

fn shown(facts: &Facts, view: ViewId, size: (u16, u16)) -> String {
    let app = console(facts, view, size, AppOptions::default());
    render_text(&app, size.0, size.1)
}

#[test]
fn a_view_explains_the_mark_once_and_the_header_says_list() {
    let views = [
        ViewId::Pools,
        ViewId::Nodes,
        ViewId::Jobs,
        ViewId::Queues,
        ViewId::Cost,
    ];
    let facts = listed(&LARGE);
    let total = format!("rate ${}/h list", facts.spend_rates.total.rate.all);
    for view in views {
        let size = (200, 50);
        let marked = shown(&facts, view, size);
        assert!(
            marked
                .lines()
                .next()
                .is_some_and(|line| line.contains(&total)),
            "{marked}"
        );
        assert_eq!(marked.matches(LIST_NOTE).count(), 1, "{view:?}\n{marked}");
        let plain = shown(&LARGE, view, size);
        let head = plain.lines().next().unwrap_or_default();
        assert!(
            !head.contains("/h list") && !plain.contains(LIST_NOTE),
            "{plain}"
        );
    }
}

#[test]
fn a_pool_with_a_price_of_the_settings_has_no_mark() {
    let facts = listed(&LARGE);
    let rows = facts.spend_rates.rows[&SpendScope::Pool].iter();
    let marks: Vec<(&str, bool)> = rows
        .filter(|row| row.known().is_some())
        .map(|row| (row.name.as_str(), row.spend.rate.is_by_list()))
        .collect();
    assert!(
        marks.contains(&(POOL, false)) && marks.len() > 2,
        "{marks:?}"
    );
    assert!(
        marks.iter().all(|(pool, mark)| *mark != (*pool == POOL)),
        "{marks:?}"
    );
}
