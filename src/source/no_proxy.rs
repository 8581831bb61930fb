//! The HTTP proxy between this program and a server, from the environment.

use std::net::IpAddr;

use http::Uri;

use super::kubeconfig::Environment;

/// The environment's proxy for `server`, with the rules of Go programs: HTTPS_PROXY (or
/// HTTP_PROXY for plain HTTP), unless NO_PROXY names the host or the host is this machine.
///
/// # Errors
/// A proxy that is not a URL.
pub fn proxy_of(server: &Uri, environment: &Environment) -> Result<Option<Uri>, String> {
    let read = |name: &str| {
        (environment)(name)
            .and_then(|value| value.into_string().ok())
            .filter(|value| !value.is_empty())
    };
    let (upper, lower) = match server.scheme_str() {
        Some("http") => ("HTTP_PROXY", "http_proxy"),
        _ => ("HTTPS_PROXY", "https_proxy"),
    };
    let Some(proxy) = read(upper).or_else(|| read(lower)) else {
        return Ok(None);
    };
    let host = server.host().unwrap_or("").trim_matches(['[', ']']);
    let list = read("NO_PROXY")
        .or_else(|| read("no_proxy"))
        .unwrap_or_default();
    if is_local(host)
        || list
            .split(',')
            .any(|rule| spares(rule.trim(), host, server.port_u16()))
    {
        return Ok(None);
    }
    let url = if proxy.contains("://") {
        proxy.clone()
    } else {
        format!("http://{proxy}")
    };
    url.parse::<Uri>()
        .ok()
        .filter(|url| url.host().is_some())
        .map(Some)
        .ok_or_else(|| format!("{upper} is \"{proxy}\", which is not a URL"))
}

fn is_local(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// True when a rule of NO_PROXY covers the host: `*`, an address, a network, a name or the end of one, each
/// with or without a port.
fn spares(rule: &str, host: &str, port: Option<u16>) -> bool {
    if rule.is_empty() {
        return false;
    }
    if rule == "*" {
        return true;
    }
    let address = host.parse::<IpAddr>().ok();
    if let Some((network, bits)) = rule.split_once('/') {
        return address.is_some_and(|address| within(address, network, bits));
    }
    if let Ok(known) = rule.trim_matches(['[', ']']).parse::<IpAddr>() {
        return address == Some(known);
    }
    let (name, rule_port) = match rule.rsplit_once(':') {
        Some((name, number)) => (name, number.parse::<u16>().ok()),
        None => (rule, None),
    };
    if rule_port.is_some() && rule_port != port {
        return false;
    }
    if let Ok(known) = name.parse::<IpAddr>() {
        return address == Some(known);
    }
    let name = name.trim_start_matches('*').to_ascii_lowercase();
    let host = host.to_ascii_lowercase();
    match name.strip_prefix('.') {
        Some(_) => host.ends_with(&name),
        None => host == name || host.ends_with(&format!(".{name}")),
    }
}

fn within(address: IpAddr, network: &str, bits: &str) -> bool {
    let (Ok(network), Ok(bits)) = (network.parse::<IpAddr>(), bits.parse::<u32>()) else {
        return false;
    };
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(n)) if bits <= 32 => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            u32::from(a) & mask == u32::from(n) & mask
        }
        (IpAddr::V6(a), IpAddr::V6(n)) if bits <= 128 => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            u128::from(a) & mask == u128::from(n) & mask
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::sync::Arc;

    use super::*;

    fn resolved_proxy(
        server: &str,
        variables: &'static [(&'static str, &'static str)],
    ) -> Result<Option<String>, String> {
        let environment: Environment = Arc::new(|name| {
            variables
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| OsString::from(value))
        });
        proxy_of(&server.parse().expect("a URL"), &environment)
            .map(|proxy| proxy.map(|url| url.to_string()))
    }

    #[test]
    fn no_proxy_spares_the_server() {
        const VIA: (&str, &str) = ("HTTPS_PROXY", "http://p:3128");
        assert_eq!(
            resolved_proxy("https://api.corp:6443", &[VIA]),
            Ok(Some("http://p:3128/".into()))
        );
        assert_eq!(resolved_proxy("https://api.corp:6443", &[]), Ok(None));
        assert_eq!(resolved_proxy("http://api.corp", &[VIA]), Ok(None));
        assert_eq!(resolved_proxy("https://127.0.0.1:6443", &[VIA]), Ok(None));
        assert_eq!(resolved_proxy("https://localhost:6443", &[VIA]), Ok(None));
        assert_eq!(
            resolved_proxy("https://api.corp:6443", &[VIA, ("NO_PROXY", "x, .corp")]),
            Ok(None)
        );
        assert_eq!(
            resolved_proxy("https://api.corp:6443", &[VIA, ("no_proxy", "corp")]),
            Ok(None)
        );
        assert_eq!(
            resolved_proxy("https://api.corp:6443", &[VIA, ("NO_PROXY", "corp:443")]),
            Ok(Some("http://p:3128/".into()))
        );
        assert_eq!(
            resolved_proxy("https://apicorp", &[VIA, ("NO_PROXY", "corp")]),
            Ok(Some("http://p:3128/".into()))
        );
        assert_eq!(
            resolved_proxy("https://10.1.2.3", &[VIA, ("NO_PROXY", "10.0.0.0/8")]),
            Ok(None)
        );
        assert_eq!(
            resolved_proxy(
                "https://11.1.2.3",
                &[VIA, ("NO_PROXY", "10.0.0.0/8,10.1.0.0/99")]
            ),
            Ok(Some("http://p:3128/".into()))
        );
        assert_eq!(
            resolved_proxy("https://[fd00::1]:6443", &[VIA, ("NO_PROXY", "fd00::/8")]),
            Ok(None)
        );
        assert_eq!(
            resolved_proxy("https://a", &[VIA, ("NO_PROXY", "*")]),
            Ok(None)
        );
        assert_eq!(
            resolved_proxy("https://a", &[("https_proxy", "p:3128")]),
            Ok(Some("http://p:3128/".into()))
        );
        assert!(resolved_proxy("https://a", &[("HTTPS_PROXY", "::")]).is_err());
    }
}
