//! Which CA certificates a client outside the API server verifies with, and what becomes of it where this machine has none.

use std::error::Error;

use reqwest::{Client, ClientBuilder};

use crate::kubeconfig::flat;

/// What to do on a machine without CA certificates, such as a container from scratch.
const FIX: &str =
    "install the package ca-certificates, or name a PEM file of CA certificates in SSL_CERT_FILE";

/// What failed, with the fix where it is that this machine has no CA certificates.
pub(crate) fn explained(error: &dyn Error) -> String {
    let text = flat(error);
    if text.contains("No CA certificates") {
        format!("this machine has no CA certificates; {FIX} ({text})")
    } else {
        text
    }
}

/// Builds a client for `url` that verifies servers by the CA certificates of this machine. Without any, it still reads
/// plain HTTP.
///
/// # Errors
/// What is missing for HTTPS, and the fix.
pub fn client(url: &str, builder: impl Fn() -> ClientBuilder) -> Result<Client, String> {
    let built = builder().build().map_err(|error| explained(&error));
    if built.is_err() && url.starts_with("http://") {
        let plain = builder().tls_certs_only([]).build();
        return plain.map_err(|error| explained(&error));
    }
    built
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_certificates_is_told_what_to_install() {
        let missing = std::io::Error::other("No CA certificates were loaded from the system");
        let said = explained(&missing);
        assert!(said.contains("ca-certificates") && said.contains("SSL_CERT_FILE"));
        let other = explained(&std::io::Error::other("some other cause"));
        assert_eq!(other, "some other cause");
    }
}
