//! What a color means: the roles that cells have and themes paint.

use model::fleet::finding::Severity;

macro_rules! roles {
    ($($(#[$doc:meta])* $variant:ident = $name:literal;)*) => {
        /// What a color means. Nothing is painted but by a role.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum Role { $($(#[$doc])* $variant,)* }

        impl Role {
            /// Every role, in the order of the enum.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// As a theme file spells it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

roles! {
    Background = "background";
    /// Behind the first and last line and inside popups.
    Panel = "panel";
    /// Behind the selected row.
    Selection = "selection";
    Text = "text";
    /// Names and what must be read first.
    Title = "title";
    /// Labels and second lines.
    Muted = "muted";
    /// Decoration that tells nothing by itself.
    Faint = "faint";
    Border = "border";
    /// What the user has chosen or can press: the cursor, the open tab, keys. No data is painted with it, and no state.
    Accent = "accent";
    Ok = "ok";
    Warn = "warn";
    Crit = "crit";
    Info = "info";
    /// Brackets round the device under the cursor.
    Mark = "mark";
    /// An idle allocated device.
    IdleDevice = "idle_device";
    IdleMoney = "idle_money";
}

impl Role {
    /// The color of a severity.
    pub const fn of_severity(severity: Severity) -> Self {
        match severity {
            Severity::Crit => Self::Crit,
            Severity::Warn => Self::Warn,
            Severity::Info => Self::Info,
        }
    }
}
