//! What an address in the settings has to be.

/// Why an address is no remote-write receiver; `None` when it is valid.
pub fn not_a_receiver(url: &str) -> Option<String> {
    not_an_address(url).or_else(|| {
        host(url).contains('@').then(|| {
            "must not hold a user or password; use username and password_file under [record.remote_write]".to_owned()
        })
    })
}

/// Why a text is not an HTTP address; `None` when it is valid.
pub fn not_an_address(url: &str) -> Option<String> {
    match url.split_once("://") {
        Some(("http" | "https", _)) if host(url).is_empty() => Some("names no host".to_owned()),
        Some(("http" | "https", _)) => None,
        _ => Some("must start with http:// or https://".to_owned()),
    }
}

/// Host and port of an address, including user information.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}
