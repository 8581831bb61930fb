//! Lenient reading of JSON: a struct reads only its declared fields, and a field of an unexpected type counts as absent.
//! Only a JSON syntax error is an error.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Reads YAML through JSON: a YAML deserializer for each type would add much to the size of the program.
///
/// # Errors
/// The text is not YAML, or not of this type: the first line of the message.
pub(crate) fn yaml<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    let first = |error: &dyn fmt::Display| {
        let words = error.to_string();
        words.lines().next().unwrap_or_default().to_owned()
    };
    let value: serde_json::Value = serde_saphyr::from_str(text).map_err(|error| first(&error))?;
    serde_json::from_value(value).map_err(|error| first(&error))
}

/// Completes a visitor: any shape that it does not handle itself is skipped and gives the default.
macro_rules! else_default {
    (@scalar $($name:ident: $ty:ty),*) => {
        $(fn $name<E: serde::de::Error>(self, _: $ty) -> Result<Self::Value, E> {
            Ok(Default::default())
        })*
    };
    (@bool) => { $crate::lenient_json::else_default!(@scalar visit_bool: bool); };
    (@numbers) => { $crate::lenient_json::else_default!(@scalar visit_i64: i64, visit_u64: u64, visit_f64: f64); };
    (@str) => { $crate::lenient_json::else_default!(@scalar visit_str: &str); };
    (@null) => {
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("any value")
        }
        fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
            Ok(Default::default())
        }
        fn visit_none<E: serde::de::Error>(self) -> Result<Self::Value, E> {
            Ok(Default::default())
        }
        fn visit_some<D: serde::Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
            from.deserialize_any(self)
        }
    };
    (@seq) => {
        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            while seq.next_element::<serde::de::IgnoredAny>()?.is_some() {}
            Ok(Default::default())
        }
    };
    (@map) => {
        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            while map.next_entry::<serde::de::IgnoredAny, serde::de::IgnoredAny>()?.is_some() {}
            Ok(Default::default())
        }
    };
}

/// Declares a struct that takes only the named fields out of a JSON object, each leniently; the last of
/// two equal keys wins, as in the API server's own decoder. Anything but an object gives the default.
macro_rules! partial {
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $ty:ty = $key:literal,)* }) => {
        $(#[$meta])*
        #[derive(Default, Clone, Debug)]
        pub struct $name { $($(#[$field_meta])* pub $field: $ty,)* }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                struct Fields;
                impl<'de> serde::de::Visitor<'de> for Fields {
                    type Value = $name;
                    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<$name, A::Error> {
                        let mut out = $name::default();
                        while let Some(key) = map.next_key::<$crate::lenient_json::JsonKey<'de>>()? {
                            match key.as_str() {
                                $($key => out.$field = map.next_value()?,)*
                                _ => {
                                    map.next_value::<serde::de::IgnoredAny>()?;
                                }
                            }
                        }
                        Ok(out)
                    }
                    $crate::lenient_json::else_default!(@bool);
                    $crate::lenient_json::else_default!(@numbers);
                    $crate::lenient_json::else_default!(@str);
                    $crate::lenient_json::else_default!(@null);
                    $crate::lenient_json::else_default!(@seq);
                }
                from.deserialize_any(Fields)
            }
        }
    };
}

pub(crate) use {else_default, partial};

/// A key of a JSON object, borrowed from the input where it can be.
pub struct JsonKey<'a>(Cow<'a, str>);

impl JsonKey<'_> {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for JsonKey<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = JsonKey<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }
            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<JsonKey<'de>, E> {
                Ok(JsonKey(Cow::Borrowed(text)))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<JsonKey<'de>, E> {
                Ok(JsonKey(Cow::Owned(text.to_owned())))
            }
        }
        from.deserialize_str(KeyVisitor)
    }
}

/// Reads a type from JSON of any shape: what the given methods of a visitor take, and its default from the named other shapes.
macro_rules! lenient {
    ($type:ty $(, $element:ident)?; else $($other:ident)*; $($methods:tt)*) => {
        impl<'de $(, $element: Deserialize<'de>)?> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                struct Lenient<T>(PhantomData<T>);
                impl<'de $(, $element: Deserialize<'de>)?> Visitor<'de> for Lenient<$type> {
                    type Value = $type;
                    $($methods)*
                    $(else_default!(@$other);)*
                }
                from.deserialize_any(Lenient(PhantomData))
            }
        }
    };
}

/// A text; empty when absent (the API means the same by both).
#[derive(Default, Clone, PartialEq, Eq, Debug)]
pub struct Text(Box<str>);

impl Text {
    /// The text, `None` when empty.
    pub fn get(&self) -> Option<&str> {
        (!self.0.is_empty()).then_some(&*self.0)
    }

    /// The time that it contains in RFC 3339.
    pub fn moment(&self) -> Option<model::base::Moment> {
        self.get().and_then(model::base::Moment::parse)
    }
}

impl std::ops::Deref for Text {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

lenient! {
    Text; else bool numbers null seq map;
    fn visit_str<E: Error>(self, text: &str) -> Result<Text, E> {
        Ok(Text(text.into()))
    }
}

/// A whole number, where one is given.
#[derive(Default, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Whole(pub Option<i64>);

impl Whole {
    /// The number as a count: 0 for negative numbers, `u32::MAX` for numbers that do not fit.
    pub fn count(self) -> Option<u32> {
        self.0
            .map(|number| u32::try_from(number.max(0)).unwrap_or(u32::MAX))
    }

    /// The number as seconds; `None` unless positive.
    pub fn seconds(self) -> Option<u64> {
        self.0
            .and_then(|number| u64::try_from(number).ok())
            .filter(|seconds| *seconds > 0)
    }

    /// The number where it fits.
    pub fn small(self) -> Option<i32> {
        self.0.and_then(|number| i32::try_from(number).ok())
    }
}

lenient! {
    Whole; else bool str null seq map;
    fn visit_i64<E: Error>(self, number: i64) -> Result<Whole, E> {
        Ok(Whole(Some(number)))
    }
    fn visit_u64<E: Error>(self, number: u64) -> Result<Whole, E> {
        Ok(Whole(i64::try_from(number).ok()))
    }
    fn visit_f64<E: Error>(self, number: f64) -> Result<Whole, E> {
        let exact = number.fract() == 0.0 && number.abs() < 9e15;
        Ok(Whole(exact.then_some(number as i64)))
    }
}

/// A number, whole or fractional; `None` when absent.
#[derive(Default, Clone, Copy, PartialEq, Debug)]
pub struct Real(pub Option<f64>);

impl Real {
    /// The number in thousandths; negative numbers (`-1` means unlimited) and numbers out of range are `None`.
    pub fn milli(self) -> Option<i64> {
        let milli = self.0? * 1000.0;
        (0.0..9e18).contains(&milli).then(|| milli.round() as i64)
    }
}

lenient! {
    Real; else bool str null seq map;
    fn visit_i64<E: Error>(self, number: i64) -> Result<Real, E> {
        Ok(Real(Some(number as f64)))
    }
    fn visit_u64<E: Error>(self, number: u64) -> Result<Real, E> {
        Ok(Real(Some(number as f64)))
    }
    fn visit_f64<E: Error>(self, number: f64) -> Result<Real, E> {
        Ok(Real(number.is_finite().then_some(number)))
    }
}

/// A boolean; `None` when absent.
#[derive(Default, Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionalBool(pub Option<bool>);

impl OptionalBool {
    /// True when it is present and true.
    pub fn is_set(self) -> bool {
        self.0 == Some(true)
    }
}

lenient! {
    OptionalBool; else numbers str null seq map;
    fn visit_bool<E: Error>(self, flag: bool) -> Result<OptionalBool, E> {
        Ok(OptionalBool(Some(flag)))
    }
}

/// A Kubernetes quantity, in thousandths. Custom resources keep it as the user wrote it: text or number.
#[derive(Default, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quantity(pub Option<i64>);

lenient! {
    Quantity; else bool null seq map;
    fn visit_str<E: Error>(self, text: &str) -> Result<Quantity, E> {
        Ok(Quantity(model::base::quantities::quantity_milli(text)))
    }
    fn visit_i64<E: Error>(self, number: i64) -> Result<Quantity, E> {
        Ok(Quantity(number.checked_mul(1000)))
    }
    fn visit_u64<E: Error>(self, number: u64) -> Result<Quantity, E> {
        Ok(Quantity(
            i64::try_from(number)
                .ok()
                .and_then(|number| number.checked_mul(1000)),
        ))
    }
    fn visit_f64<E: Error>(self, number: f64) -> Result<Quantity, E> {
        let milli = number * 1000.0;
        Ok(Quantity(
            (milli.is_finite() && milli.abs() < 9e18).then(|| milli.ceil() as i64),
        ))
    }
}

/// A list; empty when absent. Its elements are read leniently.
#[derive(Clone, Debug)]
pub struct List<T>(pub Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> std::ops::Deref for List<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

lenient! {
    List<T>, T; else bool numbers str null map;
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<List<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(element) = seq.next_element()? {
            all.push(element);
        }
        Ok(List(all))
    }
}

/// An object with arbitrary keys; empty when absent.
#[derive(Clone, Debug)]
pub struct Map<T>(pub Vec<(Box<str>, T)>);

impl<T> Default for Map<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Map<T> {
    /// The last value of `key`.
    pub fn get(&self, key: &str) -> Option<&T> {
        self.0
            .iter()
            .rev()
            .find(|(known, _)| &**known == key)
            .map(|(_, value)| value)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.0.iter().map(|(key, value)| (&**key, value))
    }
}

lenient! {
    Map<T>, T; else bool numbers str null seq;
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Map<T>, A::Error> {
        let mut all = Vec::new();
        while let Some((key, value)) = map.next_entry::<JsonKey<'de>, T>()? {
            all.push((Box::from(key.as_str()), value));
        }
        Ok(Map(all))
    }
}

/// An object that may be absent, where its absence has a meaning.
#[derive(Clone, Debug)]
pub struct Maybe<T>(pub Option<T>);

impl<T> Default for Maybe<T> {
    fn default() -> Self {
        Self(None)
    }
}

lenient! {
    Maybe<T>, T; else bool numbers str null seq;
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Maybe<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(|value| Maybe(Some(value)))
    }
}
