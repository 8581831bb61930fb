//! Moments in a plan's JSON: RFC 3339 in whole seconds.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

use crate::base::Moment;

pub(crate) fn serialize<S: Serializer>(at: &Moment, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&at.rfc3339())
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Moment, D::Error> {
    let text = String::deserialize(from)?;
    Moment::parse(&text).ok_or_else(|| {
        D::Error::custom(format!("`{text}` is not a time like 2026-11-21T06:40:00Z"))
    })
}

/// The same where it may be unknown.
pub(super) mod optional {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(
        at: &Option<Moment>,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        match at {
            Some(at) => super::serialize(at, out),
            None => out.serialize_none(),
        }
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Moment>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| {
            Moment::parse(&text).ok_or_else(|| {
                D::Error::custom(format!("`{text}` is not a time like 2026-11-21T06:40:00Z"))
            })
        })
        .transpose()
    }
}
