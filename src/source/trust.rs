//! CA certificates for clients outside the API server, and errors on machines without any.

use std::error::Error;

use reqwest::{Client, ClientBuilder};

use crate::kubeconfig::flat;

/// The fix for a machine without CA certificates, such as a container from scratch.
const FIX: &str =
    "install the package ca-certificates, or name a PEM file of CA certificates in SSL_CERT_FILE";

/// The error, with the fix if this machine has no CA certificates.
pub(crate) fn explained(error: &dyn Error) -> String {
    let text = flat(error);
    if text.contains("No CA certificates") {
        format!("this machine has no CA certificates; {FIX} ({text})")
    } else {
        text
    }
}

/// Builds a client for `url` that verifies servers by the CA certificates of this machine. Without any, it still reads plain HTTP.
///
/// # Errors
/// The missing prerequisite for HTTPS, and the fix.
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
    fn missing_ca_certificates_are_reported_with_the_package_to_install() {
        let missing = std::io::Error::other("No CA certificates were loaded from the system");
        let message = explained(&missing);
        assert!(message.contains("ca-certificates") && message.contains("SSL_CERT_FILE"));
        let other = explained(&std::io::Error::other("some other cause"));
        assert_eq!(other, "some other cause");
    }
}
