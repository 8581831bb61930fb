//! Where the operator is: the view in front, the tabs behind it, the way back and the way taken.

use std::collections::VecDeque;

use crate::commands::Command;
use crate::overlay::Overlay;
use crate::view::{self, Destination, RowScope, View, ViewId};
use model::fleet::job::JobKey;

use super::App;

/// Stops that are remembered.
const STOPS: usize = 32;
/// Views that are kept as they were left, beside the tabs.
const KEPT: usize = 8;

/// A tab and what was drilled into from it.
type Stop = (ViewId, Vec<Destination>);

/// The views and the way that was taken through them.
pub(super) struct Places {
    /// The views behind the tabs, made when first opened.
    tabs: Vec<Option<Box<dyn View>>>,
    tab: ViewId,
    /// Views that were drilled into, above the tab.
    stack: Vec<(Destination, Box<dyn View>)>,
    /// Where the operator was before, the latest last.
    behind: Vec<Stop>,
    /// Where the operator was before going back, the nearest last.
    ahead: Vec<Stop>,
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
            kept: VecDeque::new(),
        };
        places.make(tab);
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

    fn make(&mut self, tab: ViewId) {
        self.tabs[slot(tab)].get_or_insert_with(|| view::open(tab, RowScope::All));
    }

    fn here(&self) -> Stop {
        let path = self.stack.iter().map(|(place, _)| place.clone());
        (self.tab, path.collect())
    }

    /// Notes where the operator stands, before going elsewhere.
    fn leave(&mut self) {
        let here = self.here();
        self.behind.push(here);
        if self.behind.len() > STOPS {
            self.behind.remove(0);
        }
        self.ahead.clear();
    }

    /// Puts the views above the first `from` drilled ones aside.
    fn keep(&mut self, from: usize) {
        for left in self.stack.drain(from.min(self.stack.len())..) {
            self.kept.retain(|(place, _)| *place != left.0);
            self.kept.push_back(left);
        }
        while self.kept.len() > KEPT {
            self.kept.pop_front();
        }
    }

    /// Goes to a stop: its views stand as they were left, as far as they are kept.
    fn travel(&mut self, (tab, path): Stop) {
        let shared = if tab == self.tab {
            let known = self.stack.iter().map(|(place, _)| place);
            known.zip(&path).take_while(|(a, b)| a == b).count()
        } else {
            0
        };
        self.keep(shared);
        self.tab = tab;
        self.make(tab);
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
    /// The view in front.
    pub fn view(&self) -> &dyn View {
        self.places.front()
    }

    pub(super) fn view_mut(&mut self) -> &mut Box<dyn View> {
        self.places.front_mut()
    }

    /// Views on the way back, the tab's own first.
    pub fn trail(&self) -> Vec<String> {
        let tab = self.places.tabs[slot(self.places.tab)].as_deref();
        let views = tab
            .into_iter()
            .chain(self.places.stack.iter().map(|(_, view)| view.as_ref()));
        let mut trail: Vec<String> = Vec::new();
        for words in views.map(View::trail).filter(|words| !words.is_empty()) {
            // What the stop before has named is not named again.
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

    /// Shows the view behind a tab, all of its rows: the same keys after it then mean the same each time.
    pub(super) fn show(&mut self, id: ViewId) {
        if id != self.places.tab || !self.places.stack.is_empty() {
            self.places.leave();
        }
        self.places.keep(0);
        self.places.tab = id;
        self.places.make(id);
        self.enter();
        if self.view().faults_only() {
            self.all_rows();
        }
        // The newest run stands on top: it is what `U` is for.
        if id == ViewId::Plans {
            let (facts, body) = (self.facts.clone(), self.body());
            self.view_mut().on(Command::Top, &facts, body);
        }
    }

    /// Ends the faults-only look of the view in front.
    fn all_rows(&mut self) {
        let (facts, body) = (self.facts.clone(), self.body());
        self.view_mut().on(Command::Faults, &facts, body);
    }

    /// Brings the view in front up to date: while it was behind, it took nothing.
    pub(super) fn enter(&mut self) {
        self.recall_columns();
        self.fit();
        self.refresh(true);
    }

    /// Goes to a place: a view above this one, or something over it.
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
            self.places.leave();
            self.places.stack.push((to, view));
            self.enter();
        }
    }

    /// Goes to the jobs whose devices are idle; from there to the devices.
    pub(super) fn waste(&mut self) {
        let by_job = Destination::Part(ViewId::Cost, RowScope::Idle);
        let here = self.places.stack.last().map(|(place, _)| place);
        self.go(match here == Some(&by_job) {
            true => Destination::Part(ViewId::Devices, RowScope::Idle),
            false => by_job,
        });
    }

    /// Goes to the job that waits longest; from there to the one that waits longest after it.
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

    /// Goes up from a view that was drilled into; false at the top.
    pub(super) fn up(&mut self) -> bool {
        let depth = self.places.stack.len();
        if depth == 0 {
            return false;
        }
        self.places.leave();
        self.places.keep(depth - 1);
        self.enter();
        true
    }

    /// True where nothing is opened from the view in front.
    pub(super) fn is_at_top(&self) -> bool {
        self.places.stack.is_empty()
    }

    /// Goes where the operator was before, and the next time back again.
    pub(super) fn last(&mut self) {
        if let Some(stop) = self.places.behind.pop() {
            self.places.leave();
            self.places.travel(stop);
            self.enter();
        }
    }

    /// Goes one step back on the way that was taken, or forward on it again.
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
            self.notify(format!("the way {end} here"));
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

    /// Forgets every view: what they stood on belongs to another cluster.
    pub(super) fn start_over(&mut self) {
        self.places = Places::new(self.places.tab);
        self.enter();
    }

    /// Back to the present, then drops the filter, then the faults-only look, then goes back up.
    pub(super) fn back(&mut self) {
        let facts = self.facts.clone();
        if self.is_past() {
            self.live();
        } else if !self.view().filter().is_empty() {
            // An empty filter is always understood.
            let _ = self.view_mut().set_filter("", &facts);
        } else if self.view().faults_only() {
            self.all_rows();
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
