//! The terminal's clipboard by OSC 52, through a terminal multiplexer where there is one.

use base64::Engine;

/// The multiplexer between this process and the terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Between {
    /// None that is known.
    Nothing,
    /// tmux: handles the sequence itself with `set-clipboard`, passes it through with `allow-passthrough`.
    Tmux,
    /// GNU screen: passes through the content of a device control string, in short pieces.
    Screen,
}

/// Longest piece that GNU screen passes through, bytes.
const PIECE: usize = 240;

impl Between {
    /// Detects the multiplexer from the environment. Older tmux settings have `TERM=screen`, so `TMUX` is checked first.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
        let term = variable("TERM").unwrap_or_default();
        if set("TMUX") || term.starts_with("tmux") {
            Self::Tmux
        } else if set("STY") || term == "screen" || term.starts_with("screen.") {
            Self::Screen
        } else {
            Self::Nothing
        }
    }
}

/// The bytes that put this text on the clipboard.
pub fn bytes(text: &str, between: Between) -> Vec<u8> {
    let coded = base64::engine::general_purpose::STANDARD.encode(text);
    let plain = format!("\x1b]52;c;{coded}\x07");
    match between {
        Between::Nothing => plain.into_bytes(),
        // Both ways, since we cannot query which one is enabled; setting the same text twice does no harm.
        Between::Tmux => {
            let inner = plain.replace('\x1b', "\x1b\x1b");
            format!("{plain}\x1bPtmux;{inner}\x1b\\").into_bytes()
        }
        Between::Screen => {
            let mut out = Vec::new();
            for piece in plain.as_bytes().chunks(PIECE) {
                out.extend_from_slice(b"\x1bP");
                out.extend_from_slice(piece);
                out.extend_from_slice(b"\x1b\\");
            }
            out
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Between {
        Between::of(|name| {
            let found = pairs.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn a_multiplexer_is_seen() {
        assert_eq!(of(&[("TERM", "xterm-256color")]), Between::Nothing);
        assert_eq!(
            of(&[
                ("TERM", "screen-256color"),
                ("TMUX", "/tmp/tmux-0/default,1,0")
            ]),
            Between::Tmux
        );
        assert_eq!(of(&[("TERM", "tmux-256color")]), Between::Tmux);
        assert_eq!(of(&[("TERM", "screen"), ("STY", "1.pts")]), Between::Screen);
        assert_eq!(of(&[("TMUX", "")]), Between::Nothing);
    }

    #[test]
    fn each_clipboard_result_has_its_own_message() {
        assert_eq!(bytes("a100", Between::Nothing), b"\x1b]52;c;YTEwMA==\x07");
        assert_eq!(
            bytes("a100", Between::Tmux),
            b"\x1b]52;c;YTEwMA==\x07\x1bPtmux;\x1b\x1b]52;c;YTEwMA==\x07\x1b\\"
        );
        let long = bytes(&"x".repeat(900), Between::Screen);
        let whole = String::from_utf8(long.clone()).expect("text");
        let carried = whole.replace("\x1bP", "").replace("\x1b\\", "");
        assert_eq!(
            carried.into_bytes(),
            bytes(&"x".repeat(900), Between::Nothing)
        );
        assert!(long.ends_with(b"\x1b\\"));
    }
}
