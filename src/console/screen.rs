//! What the frame and the overlays see of the console: they read it, and change nothing.

use ratatui::layout::Rect;

use model::base::{Moment, Name, ObjectKey};
use table::navigation::{Selection, ViewId};
use table::timeline::Timeline;
use table::{Facts, Scope};

use super::keys::Keymap;
use super::missing::Missing;
use super::painter::RenderStyle;
use super::pod_access::PortForward;
use super::summary::Summary;
use super::theme::Theme;
use super::view::view_trait::View;

/// The console as it is drawn.
pub trait Screen {
    /// The facts on screen; their rates are those of the scope.
    fn facts(&self) -> &Facts;
    /// Figures of these facts, for the header.
    fn summary(&self) -> &Summary;
    /// The part of the fleet that every view keeps to.
    fn scope(&self) -> &Scope;
    /// The view in front.
    fn view(&self) -> &dyn View;
    /// Breadcrumbs, the tab's own first.
    fn trail(&self) -> Vec<String>;
    /// The message in the last line.
    fn notice(&self) -> Option<&str>;
    /// The whole screen, in cells.
    fn area(&self) -> Rect;
    fn render_style(&self) -> &RenderStyle;
    fn keys(&self) -> &Keymap;
    /// The themes that can be chosen.
    fn themes(&self) -> &[Theme];
    /// The contexts of the kubeconfig.
    fn kube_contexts(&self) -> &[Name];
    /// Why the console is read-only, in a few words.
    fn readonly_reason(&self) -> &str;
    /// The filters used in a view, the latest last.
    fn filters(&self, view: ViewId) -> &[String];
    /// The current time, also while an earlier moment is shown.
    fn present(&self) -> Moment;
    /// Replay state, where a record is shown.
    fn timeline(&self) -> Option<&Timeline>;
    /// True while frozen, or while the past is shown.
    fn is_frozen(&self) -> bool;
    /// True while readings of the past are shown.
    fn is_past(&self) -> bool;
    /// True where there is a present, a filter or a place above to go back to.
    fn leads_back(&self) -> bool;
    /// True while the record of the cluster is shown instead of its session.
    fn is_rewound(&self) -> bool;
    /// Missing data and connections, most severe first.
    fn missing(&self) -> Vec<Missing>;
    /// True where the reason of missing data is drawn in place of the view.
    fn shows_missing(&self) -> bool;
    /// True where the view depends on lists that are still being read.
    fn is_unread(&self) -> bool;
    /// The selected objects: the marked ones, or the one under the cursor.
    fn meant(&self) -> Vec<Selection>;
    /// The port-forwards that run.
    fn port_forwards(&self) -> &[PortForward];
    /// The selected pod, where a port can be forwarded to it; otherwise why none can.
    fn port_forward_pod(&self) -> Result<ObjectKey, String>;
}
