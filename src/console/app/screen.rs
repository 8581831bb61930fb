//! The app as the frame and the overlays see it.

use ratatui::layout::Rect;

use model::base::{Moment, Name, ObjectKey};
use table::navigation::{Selection, ViewId};
use table::timeline::Timeline;
use table::{Facts, Scope};

use super::App;
use crate::keys::Keymap;
use crate::missing::Missing;
use crate::painter::RenderStyle;
use crate::pod_access::PortForward;
use crate::screen::Screen;
use crate::summary::Summary;
use crate::theme::Theme;
use crate::view::view_trait::View;

impl Screen for App {
    fn facts(&self) -> &Facts {
        &self.facts
    }
    fn summary(&self) -> &Summary {
        &self.summary
    }
    fn scope(&self) -> &Scope {
        &self.scope
    }
    fn view(&self) -> &dyn View {
        self.view()
    }
    fn trail(&self) -> Vec<String> {
        self.trail()
    }
    fn notice(&self) -> Option<&str> {
        self.notice()
    }
    fn area(&self) -> Rect {
        self.area()
    }
    fn render_style(&self) -> &RenderStyle {
        &self.render_style
    }
    fn keys(&self) -> &Keymap {
        &self.options.keys
    }
    fn themes(&self) -> &[Theme] {
        &self.options.themes
    }
    fn kube_contexts(&self) -> &[Name] {
        &self.options.contexts
    }
    fn readonly_reason(&self) -> &str {
        &self.options.readonly_reason
    }
    fn filters(&self, view: ViewId) -> &[String] {
        self.memory.filters(view)
    }
    fn present(&self) -> Moment {
        self.present()
    }
    fn timeline(&self) -> Option<&Timeline> {
        self.timeline.as_ref()
    }
    fn is_frozen(&self) -> bool {
        self.is_frozen()
    }
    fn is_past(&self) -> bool {
        self.is_past()
    }
    fn leads_back(&self) -> bool {
        let view = self.view();
        self.is_frozen() || !self.is_at_top() || view.faults_only() || !view.filter().is_empty()
    }
    fn is_rewound(&self) -> bool {
        self.is_rewound()
    }
    fn missing(&self) -> Vec<Missing> {
        self.missing()
    }
    fn shows_missing(&self) -> bool {
        self.shows_missing()
    }
    fn is_unread(&self) -> bool {
        self.is_unread()
    }
    fn meant(&self) -> Vec<Selection> {
        self.meant()
    }
    fn port_forwards(&self) -> &[PortForward] {
        &self.port_forwards
    }
    fn port_forward_pod(&self) -> Result<ObjectKey, String> {
        self.port_forward_pod(&self.acted_on())
    }
}
