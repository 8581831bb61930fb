//! Where the operator is: the view in front, the tabs behind it, the way back.

use crate::console::commands::Command;
use crate::console::overlay::Overlay;
use crate::console::view::logs::LogView;
use crate::console::view::paper::PaperView;
use crate::console::view::{self, Lens, Place, View, ViewId};

use super::App;

impl App {
    /// The view in front.
    pub fn view(&self) -> &dyn View {
        match self.stack.last() {
            Some(view) => view.as_ref(),
            None => self.tabs[slot(self.tab)]
                .as_deref()
                .expect("the shown tab's view is made before it is shown"),
        }
    }

    pub(super) fn view_mut(&mut self) -> &mut Box<dyn View> {
        match self.stack.last_mut() {
            Some(view) => view,
            None => self.tabs[slot(self.tab)]
                .as_mut()
                .expect("the shown tab's view is made before it is shown"),
        }
    }

    /// Views on the way back, the tab's own first.
    pub fn trail(&self) -> Vec<String> {
        let tab = self.tabs[slot(self.tab)].as_deref();
        tab.into_iter()
            .chain(self.stack.iter().map(|view| view.as_ref()))
            .map(View::trail)
            .filter(|trail| !trail.is_empty())
            .collect()
    }

    /// Shows the view behind a tab.
    pub(super) fn show(&mut self, id: ViewId) {
        if id != self.tab {
            self.last = self.tab;
        }
        self.tab = id;
        self.stack.clear();
        // A team sees its own jobs and devices; what is shared stays whole.
        let lens = match (&self.options.team, id) {
            (Some(team), ViewId::Jobs | ViewId::Devices) => Lens::Team(team.clone()),
            _ => Lens::All,
        };
        let slot = &mut self.tabs[slot(id)];
        if slot.is_none() {
            *slot = Some(view::open(id, lens));
        }
        self.enter();
    }

    /// Brings the view in front up to date: while it was behind, it took nothing.
    pub(super) fn enter(&mut self) {
        self.fit();
        self.refresh(true);
    }

    pub(super) fn go(&mut self, to: Place) {
        match to {
            Place::Part(id, lens) => {
                let view = view::open(id, lens);
                self.stack.push(view);
                self.enter();
            }
            Place::Facts(picked) => self.overlay = Overlay::Facts(picked, 0),
            Place::Paper(sort, picked) => {
                let id = self.view().id();
                let paper = PaperView::new(id, picked, sort, &self.facts);
                self.stack.push(Box::new(paper));
                self.enter();
            }
            Place::Logs(picked) => {
                let logs = LogView::new(self.view().id(), picked, &self.facts);
                self.stack.push(Box::new(logs));
                self.enter();
            }
        }
    }

    /// Drops the filter, then the faults-only look, then goes back up.
    pub(super) fn back(&mut self) {
        let facts = self.facts.clone();
        let view = self.view_mut();
        if !view.filter().is_empty() {
            // An empty filter is always understood.
            let _ = view.set_filter("", &facts);
        } else if view.faults_only() {
            let body = self.body();
            self.view_mut().on(Command::Faults, &facts, body);
        } else if self.stack.pop().is_some() {
            self.enter();
        }
    }
}

pub(super) fn slot(id: ViewId) -> usize {
    ViewId::ALL
        .iter()
        .position(|known| *known == id)
        .expect("the list holds every view")
}
