//! What the console is started with.

use crate::color::ColorDepth;
use crate::keys::Keymap;
use crate::theme::Theme;
use crate::view::ViewId;
use model::base::Name;

/// What the console is started with.
#[derive(Clone, Debug)]
pub struct AppOptions {
    /// The look.
    pub theme: Theme,
    /// Other looks that the palette offers.
    pub themes: Vec<Theme>,
    /// Colors of the terminal.
    pub depth: ColorDepth,
    /// Only ASCII signs.
    pub ascii: bool,
    /// The keys.
    pub keys: Keymap,
    /// The context's name, until facts bring their own.
    pub context: Name,
    /// Why nothing can be changed, in a few words.
    pub readonly_reason: String,
    /// The team that is looked at; `None` is all.
    pub team: Option<Name>,
    /// Only these namespaces; empty is all.
    pub namespaces: Vec<Name>,
    /// Every context that could be chosen.
    pub contexts: Vec<Name>,
    /// The view to begin with.
    pub view: ViewId,
}

impl Default for AppOptions {
    fn default() -> Self {
        Self {
            theme: Theme::ember(),
            themes: Theme::names()
                .filter_map(|name| Theme::builtin(name).ok())
                .collect(),
            depth: ColorDepth::True,
            ascii: false,
            keys: Keymap::builtin(),
            context: Name::new("–"),
            readonly_reason: String::from("read-only"),
            team: None,
            namespaces: Vec::new(),
            contexts: Vec::new(),
            view: ViewId::Fleet,
        }
    }
}
