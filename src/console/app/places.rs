//! Navigation: the front view, the tabs, and the back and forward history.

use std::collections::VecDeque;

use crate::commands::Command;
use crate::overlay::Overlay;
use crate::view;
use crate::view::view_trait::View;
use model::cost::SpendScope;
use model::fleet::job::JobKey;
use table::navigation::{Destination, RowScope, Selection, ViewId};

use super::App;

/// Length of the history.
const STOPS: usize = 32;
/// Drilled-down views kept in memory, besides the tabs.
const KEPT: usize = 8;

/// A tab and the views drilled into from it.
type Stop = (ViewId, Vec<Destination>);

/// The views and the navigation history.
pub(super) struct Places {
    /// The tabs' views, created when first opened.
    tabs: Vec<Option<Box<dyn View>>>,
    tab: ViewId,
    /// The views drilled into, above the tab.
    stack: Vec<(Destination, Box<dyn View>)>,
    /// History before the current stop, the latest last.
    behind: Vec<Stop>,
    /// History after the current stop, the nearest last.
    ahead: Vec<Stop>,
    /// Where the first view above the tab was opened from, if from elsewhere: going up from it leads back there.
    origin: Option<Stop>,
    kept: VecDeque<(Destination, Box<dyn View>)>,
}

impl Places {
    pub(super) fn new(tab: ViewId) -> Self {
        let mut places = Self {
            tabs: ViewId::ALL.iter().map(|_| None).collect(),
            tab,
            stack: Vec::new(),
            behind: Vec::new(),
            ahead: Vec::new(),
            origin: None,
            kept: VecDeque::new(),
        };
        places.open_tab(tab);
        places
    }

    fn front(&self) -> &dyn View {
        match self.stack.last() {
            Some((_, view)) => view.as_ref(),
            None => self.tabs[slot(self.tab)]
                .as_deref()
                .expect("the shown tab's view is made before it is shown"),
        }
    }

    fn front_mut(&mut self) -> &mut Box<dyn View> {
        match self.stack.last_mut() {
            Some((_, view)) => view,
            None => self.tabs[slot(self.tab)]
                .as_mut()
                .expect("the shown tab's view is made before it is shown"),
        }
    }

    fn open_tab(&mut self, tab: ViewId) {
        self.tabs[slot(tab)].get_or_insert_with(|| view::open(tab, RowScope::All));
    }

    fn here(&self) -> Stop {
        let path = self.stack.iter().map(|(place, _)| place.clone());
        (self.tab, path.collect())
    }

    /// Records the current stop before navigating away.
    fn push_history(&mut self) {
        let here = self.here();
        self.behind.push(here);
        if self.behind.len() > STOPS {
            self.behind.remove(0);
        }
        self.ahead.clear();
    }

    /// Stores the drilled-down views from index `from` on.
    fn keep(&mut self, from: usize) {
        for left in self.stack.drain(from.min(self.stack.len())..) {
            self.kept.retain(|(place, _)| *place != left.0);
            self.kept.push_back(left);
        }
        while self.kept.len() > KEPT {
            self.kept.pop_front();
        }
    }

    /// Shows a tab's own view.
    fn show_tab(&mut self, tab: ViewId) {
        self.keep(0);
        self.origin = None;
        self.tab = tab;
        self.open_tab(tab);
    }

    /// Opens a stop: views that are still kept reappear as they were left.
    fn travel(&mut self, (tab, path): Stop) {
        let shared = if tab == self.tab {
            let known = self.stack.iter().map(|(place, _)| place);
            known.zip(&path).take_while(|(a, b)| a == b).count()
        } else {
            0
        };
        self.keep(shared);
        self.origin = None;
        self.tab = tab;
        self.open_tab(tab);
        for place in path.into_iter().skip(shared) {
            let kept = self.kept.iter().position(|(known, _)| *known == place);
            let view = match kept.and_then(|at| self.kept.remove(at)) {
                Some((_, view)) => Some(view),
                None => view::at(&place),
            };
            self.stack.extend(view.map(|view| (place, view)));
        }
    }
}

impl App {
    pub fn view(&self) -> &dyn View {
        self.places.front()
    }

    pub(super) fn view_mut(&mut self) -> &mut Box<dyn View> {
        self.places.front_mut()
    }

    /// Breadcrumbs, the tab's own first.
    pub fn trail(&self) -> Vec<String> {
        let tab = self.places.tabs[slot(self.places.tab)].as_deref();
        let views = tab
            .into_iter()
            .chain(self.places.stack.iter().map(|(_, view)| view.as_ref()));
        let mut trail: Vec<String> = Vec::new();
        for words in views.map(View::trail).filter(|words| !words.is_empty()) {
            // A name from the previous breadcrumb is not repeated.
            let named = trail
                .last()
                .and_then(|last| words.strip_suffix(last.as_str()));
            let words = named.map_or(words.clone(), |rest| rest.trim_end().to_owned());
            if !words.is_empty() {
                trail.push(words);
            }
        }
        trail
    }

    /// Shows a tab with all of its rows, so that the same keys always lead to the same place.
    pub(super) fn show(&mut self, id: ViewId) {
        if id != self.places.tab || !self.places.stack.is_empty() {
            self.places.push_history();
        }
        self.places.show_tab(id);
        self.enter();
        if self.view().faults_only() {
            self.all_rows();
        }
        // The newest run is on top, where `U` applies to it.
        if id == ViewId::Plans {
            let (facts, body) = (self.facts.clone(), self.body());
            self.view_mut().on(Command::Top, &facts, body);
        }
    }

    /// Turns off faults-only in the front view.
    fn all_rows(&mut self) {
        let (facts, body) = (self.facts.clone(), self.body());
        self.view_mut().on(Command::Faults, &facts, body);
    }

    /// Remembers an accepted filter of the front view.
    pub(super) fn remember_filter(&mut self, words: &str) {
        let id = self.view().id();
        self.memory.remember(id, words);
    }

    /// Shows or hides a column of the front view.
    pub(super) fn toggle_column(&mut self, at: usize) {
        if let Some(table) = self.places.front_mut().table_mut() {
            self.memory.toggle_column(table, at);
        }
    }

    /// Applies the remembered columns to the front view.
    fn recall_columns(&mut self) {
        if let Some(table) = self.places.front_mut().table_mut() {
            self.memory.recall_columns(table);
        }
    }

    /// Updates the front view: views in the background do not receive facts.
    pub(super) fn enter(&mut self) {
        self.recall_columns();
        self.fit();
        self.refresh(true);
    }

    /// Opens a view of everything that is under a tab, as a digit opens a tab: it does not pile up on what is open, and going up from
    /// it leads back to what was.
    pub(super) fn open_whole(&mut self, tab: ViewId, rows: RowScope) {
        let to = Destination::Part(tab, rows);
        let here = self.places.stack.as_slice();
        let is_here = self.places.tab == tab && matches!(here, [(own, _)] if *own == to);
        if let Some(view) = view::at(&to).filter(|_| !is_here) {
            let origin = self.places.here();
            self.places.push_history();
            self.places.show_tab(tab);
            self.places.origin = Some(origin);
            self.places.stack.push((to, view));
        }
        self.enter();
    }

    /// Opens a destination: a view above this one, or an overlay.
    pub(super) fn go(&mut self, to: Destination) {
        if let Destination::Facts(selection) = to {
            self.overlay = Overlay::Facts(selection, Default::default());
        } else if self
            .places
            .stack
            .last()
            .is_some_and(|(here, _)| *here == to)
        {
            self.enter();
        } else if let Some(view) = view::at(&to) {
            self.places.push_history();
            self.places.stack.push((to, view));
            self.enter();
        }
    }

    /// Opens the jobs with idle devices; from there, the devices.
    pub(super) fn waste(&mut self) {
        let by_job = Destination::Part(ViewId::Cost, RowScope::Idle);
        let here = self.places.stack.last().map(|(place, _)| place);
        let is_by_job = here == Some(&by_job);
        // On a team, or on its page, those of this team.
        let team = match (self.view().selection(&self.facts), here) {
            _ if is_by_job => None,
            (Some(Selection::Cost(SpendScope::Team, team)), _) => Some(team),
            (_, Some(Destination::Part(ViewId::Cost, RowScope::Team(team)))) => Some(team.clone()),
            _ => None,
        };
        match is_by_job {
            true => self.go(Destination::Part(ViewId::Devices, RowScope::Idle)),
            false => self.open_whole(ViewId::Cost, RowScope::Idle),
        }
        if let Some(team) = team {
            // The rest of the fleet is a key away.
            self.filter(&format!("team={team}"));
        }
    }

    /// Opens the longest-waiting job; from there, the next one.
    pub(super) fn longest_wait(&mut self) {
        let jobs = &self.facts.fleet.jobs;
        let waiting = view::longest_waiting(&self.facts);
        let all: Vec<JobKey> = waiting
            .iter()
            .filter_map(|at| Some(jobs.get(*at as usize)?.id.clone()))
            .collect();
        let here = match self.places.stack.last() {
            Some((Destination::Part(ViewId::Jobs, RowScope::Job(id)), _)) => {
                all.iter().position(|known| known == id)
            }
            _ => None,
        };
        let Some(next) = all.get(here.map_or(0, |at| (at + 1) % all.len().max(1))) else {
            let known = self.facts.fleet.is_complete();
            let words = if known {
                "no job waits"
            } else {
                "not known yet"
            };
            self.notify(String::from(words));
            return;
        };
        let to = Destination::Part(ViewId::Jobs, RowScope::Job(next.clone()));
        if here.is_some() {
            self.up();
        }
        self.go(to);
    }

    /// Leaves a drilled-down view; false at the top.
    pub(super) fn up(&mut self) -> bool {
        let depth = self.places.stack.len();
        if depth == 0 {
            return false;
        }
        self.places.push_history();
        match self.places.origin.take_if(|_| depth == 1) {
            Some(origin) => self.places.travel(origin),
            None => self.places.keep(depth - 1),
        }
        self.enter();
        true
    }

    /// True on a tab's own view.
    pub(super) fn is_at_top(&self) -> bool {
        self.places.stack.is_empty()
    }

    /// Toggles between the current and the previous stop.
    pub(super) fn last(&mut self) {
        if let Some(stop) = self.places.behind.pop() {
            self.places.push_history();
            self.places.travel(stop);
            self.enter();
        }
    }

    /// Moves back or forward in the history.
    pub(super) fn along(&mut self, back: bool) {
        let places = &mut self.places;
        let here = places.here();
        let stop = if back {
            places.behind.pop()
        } else {
            places.ahead.pop()
        };
        let Some(stop) = stop else {
            let end = if back { "begins" } else { "ends" };
            self.notify(format!("the history {end} here"));
            return;
        };
        if back {
            places.ahead.push(here);
        } else {
            places.behind.push(here);
        }
        places.travel(stop);
        self.enter();
    }

    /// Drops every view: their objects belong to another cluster.
    pub(super) fn start_over(&mut self) {
        self.places = Places::new(self.places.tab);
        self.enter();
    }

    /// Returns to the present; otherwise drops the filter, otherwise faults-only, otherwise goes up; at the top it unfreezes the screen.
    pub(super) fn back(&mut self) {
        let facts = self.facts.clone();
        if self.is_past() {
            self.live();
        } else if !self.view().filter().is_empty() {
            // An empty filter always parses.
            let _ = self.view_mut().set_filter("", &facts);
        } else if self.view().faults_only() {
            self.all_rows();
        } else if self.is_frozen() && self.is_at_top() {
            self.live();
        } else {
            self.up();
        }
    }
}

fn slot(id: ViewId) -> usize {
    ViewId::ALL
        .iter()
        .position(|known| *known == id)
        .expect("the list holds every view")
}
