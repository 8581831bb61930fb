//! Setters of values that are built in constants.

/// Defines setters that take and return the value, each as `name(arguments) field = value, …;`.
#[macro_export]
macro_rules! setters {
    ($($(#[$doc:meta])* $vis:vis $name:ident($($value:ident: $kind:ty),*) $($field:ident = $set:expr),+;)+) => {
        $(
            $(#[$doc])*
            #[must_use]
            $vis const fn $name(mut self $(, $value: $kind)*) -> Self {
                $(self.$field = $set;)+
                self
            }
        )+
    };
}
