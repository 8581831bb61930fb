//! Startup options of the console.

use crate::color::ColorDepth;
use crate::keys::Keymap;
use crate::theme::Theme;
use model::base::Name;
use table::navigation::ViewId;

#[derive(Clone, Debug)]
pub struct AppOptions {
    pub theme: Theme,
    /// Further themes in the palette.
    pub themes: Vec<Theme>,
    /// Color depth of the terminal.
    pub depth: ColorDepth,
    pub ascii: bool,
    pub keys: Keymap,
    /// Name of the context, until facts arrive.
    pub context: Name,
    /// Why the console is read-only, in a few words.
    pub readonly_reason: String,
    /// The team of the scope; `None` for all.
    pub team: Option<Name>,
    /// The namespaces of the scope; empty for all.
    pub namespaces: Vec<Name>,
    pub contexts: Vec<Name>,
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
