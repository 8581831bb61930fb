//! `get` and the console, compared on the fleets of the frames.

use table::Facts;

use crate::cells;
use crate::frames::{EMPTY, LARGE, PARTLY, PAST, SMALL, UNKNOWN};
use crate::scoped;
use crate::served::served;

#[test]
fn get_and_the_console_show_the_same_in_every_cell() {
    cells::compare(&[
        ("small", &SMALL),
        ("large", &LARGE),
        ("past", &PAST),
        ("partly", &PARTLY),
        ("empty", &EMPTY),
        ("unknown", &UNKNOWN),
        ("served", &served(&SMALL)),
    ]);
}

#[test]
fn get_and_the_console_show_the_same_of_a_team() {
    let all: Vec<Facts> = scoped::teams(&served(&SMALL))
        .into_iter()
        .chain(scoped::teams(&LARGE).into_iter().take(3))
        .collect();
    let fleets: Vec<(&str, &Facts)> = all.iter().map(|facts| ("a team", facts)).collect();
    cells::compare(&fleets);
}

#[test]
fn what_teams_have_adds_up_to_the_fleet() {
    scoped::add_up(&LARGE);
}
