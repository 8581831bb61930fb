//! Settings of a Prometheus: its service behind the API server, and label matchers.

use serde::Deserialize;
use serde::de::{Deserializer, Error};

use exporter::Matchers;

/// A service behind the API server: `namespace/name:port`, `namespace/https:name:port/prefix`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServicePath {
    pub namespace: String,
    pub name: String,
    /// Number or name of the service's port.
    pub port: String,
    /// True for HTTPS, false for plain HTTP.
    pub tls: bool,
    /// Prefix of the API paths; empty, or starts with `/` and does not end with one.
    pub prefix: String,
}

impl ServicePath {
    /// Parses `namespace/name:port`.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let invalid =
            || format!("`{text}` is not namespace/name:port, such as monitoring/prometheus:9090");
        let mut parts = text.trim().splitn(3, '/');
        let (Some(namespace), Some(service)) = (parts.next(), parts.next()) else {
            return Err(invalid());
        };
        let prefix = match parts.next().map(|rest| rest.trim_matches('/')) {
            None | Some("") => String::new(),
            Some(rest) => format!("/{rest}"),
        };
        let (tls, service) = match service.strip_prefix("https:") {
            Some(rest) => (true, rest),
            None => (false, service.strip_prefix("http:").unwrap_or(service)),
        };
        let (name, port) = service.split_once(':').ok_or_else(invalid)?;
        let is_name = |text: &str| {
            !text.is_empty()
                && text
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b))
        };
        let is_path = |text: &str| {
            text.bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-._/".contains(&b))
                && !text.contains("//")
                && !text.split('/').any(|part| matches!(part, "." | ".."))
        };
        if !is_name(namespace) || !is_name(name) || !is_name(port) || !is_path(&prefix) {
            return Err(invalid());
        }
        Ok(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            port: port.to_owned(),
            tls,
            prefix,
        })
    }
}

impl<'de> Deserialize<'de> for ServicePath {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

/// Label matchers as PromQL writes them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Matcher(pub Matchers);

impl<'de> Deserialize<'de> for Matcher {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Matchers::parse(&text).map(Self).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_read_as_kubectl_writes_them() {
        let path = ServicePath::parse("monitoring/prometheus:9090").expect("is right");
        assert_eq!(
            (&*path.namespace, &*path.name, &*path.port),
            ("monitoring", "prometheus", "9090")
        );
        assert_eq!((path.tls, &*path.prefix), (false, ""));
        let path = ServicePath::parse("obs/https:thanos:web/select/0/").expect("is right");
        assert_eq!(
            (path.tls, &*path.port, &*path.prefix),
            (true, "web", "/select/0")
        );
        for wrong in [
            "",
            "prometheus",
            "prometheus:9090",
            "a/b",
            "a/b:",
            "/b:1",
            "a/b:1/../x",
            "a/b%2f:1",
            "a/b:1/x//y",
        ] {
            let message = ServicePath::parse(wrong).expect_err(wrong);
            assert!(message.contains("namespace/name:port"), "{message}");
        }
    }
}
