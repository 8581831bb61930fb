//! What a color means: the roles that cells have and themes paint.

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
    /// Behind everything.
    Background = "background";
    /// Behind the first and last line and inside popups; the empty part of a bar.
    Panel = "panel";
    /// Behind the selected row.
    Selection = "selection";
    /// Words and numbers.
    Text = "text";
    /// Names and what must be read first.
    Title = "title";
    /// Labels and second lines.
    Muted = "muted";
    /// Decoration that tells nothing by itself.
    Faint = "faint";
    /// Lines round panels.
    Border = "border";
    /// Keys, money, the open tab, bars.
    Accent = "accent";
    /// Well.
    Ok = "ok";
    /// Look at it.
    Warn = "warn";
    /// Act on it.
    Crit = "crit";
    /// Good to know.
    Info = "info";
    /// Brackets round the device under the cursor.
    Mark = "mark";
    /// An idle allocated device.
    IdleDevice = "idle_device";
    /// Idle cost.
    IdleMoney = "idle_money";
}
