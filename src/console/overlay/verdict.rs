//! What a key in an overlay leads to, and what the palette offers.

use crate::action_keys::{ActionName, ActionRequest, ConfirmedPlan};
use crate::clipboard::As;
use crate::commands::{Command, Context};
use crate::msg::Switch;
use crate::pod_access::Ports;
use crate::view::scroll::PopupScroll;
use model::base::{Moment, Name, ObjectKey, When};
use table::navigation::{Destination, Selection, ViewId};

/// Where text is typed.
pub(super) const PROMPT: &[Context] = &[Context::Prompt, Context::Anywhere];
/// In a plan, while no field has the focus.
pub(super) const PLAN: &[Context] = &[Context::Plan, Context::Anywhere];

/// The result of a key in an overlay.
pub enum Verdict {
    Stay,
    Close,
    /// Copy this name; stay open.
    Copy(String),
    /// Close and copy the selection in this form.
    CopyAs(As),
    /// Apply this filter; stay open or not.
    Filter(String, bool),
    /// Toggle this column; stay open.
    Column(usize),
    Navigation(Navigation),
    /// Carry out this plan; stay open.
    Carry(Box<ConfirmedPlan>),
    /// Continue this run; stay open.
    GoOn(String),
    /// Close and stop this run after its current step.
    Stop(String),
    /// Leave the console; its run goes on.
    Leave,
    /// Close and plan this.
    ActionRequest(ActionRequest),
    /// Close and read this about the object.
    Read(Command, Selection),
}

/// A navigation or a command from the palette or a dialog.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Navigation {
    Command(Command),
    /// Switch to this theme.
    Theme(String),
    Object(Selection),
    /// Plan this action for an object.
    Action(ActionName, Selection),
    /// An action in the words of `stokehold plan`.
    TypedAction(String),
    /// Open this destination, with a filter unless it is empty.
    Destination(Destination, String),
    /// Set the scope's team, or clear it.
    Team(Option<Name>),
    /// Sort the view by this column.
    Sort(usize),
    /// Open the palette with this text.
    Palette(String),
    Switch(Switch),
    /// Open this view and switch the session.
    There(ViewId, Switch),
    /// Show the changes from then to the moment on screen.
    Diff(When),
    /// Jump to this moment of the record.
    Time(Moment),
    /// Jump to this moment of the cluster's record.
    Rewind(When),
    /// Return from the record to the session.
    Live,
    /// Show the what-if result of these changes.
    WhatIf(Name),
    /// Forward a port to this pod.
    PortForward(ObjectKey, Ports),
    /// Stop the port-forward with this number.
    StopPortForward(u64),
}

/// A line of the palette: its words, what it is, and where it leads.
#[derive(Clone)]
pub(super) struct Offer {
    pub(super) label: String,
    pub(super) doc: String,
    pub(super) go: Navigation,
}

/// Scrolls a popup, or closes it.
pub(super) fn scrolled(scroll: &mut PopupScroll, command: Option<Command>) -> Verdict {
    match command {
        Some(Command::Close) => return Verdict::Close,
        Some(command) => scroll.on(command),
        None => false,
    };
    Verdict::Stay
}
