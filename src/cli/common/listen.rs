//! Listen addresses of the command line: `HOST:PORT`, `:PORT`, `PORT`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};

/// The valid forms, for errors.
const FORMS: &str = "write ADDRESS:PORT, such as 127.0.0.1:9845, [::1]:9845 or localhost:9845, or :PORT for all interfaces";

/// The address that a flag names. Without a host it is every interface of the machine, as in Go's `net.Listen`: `:9845`, `9845`.
/// Of the addresses of a host name, the first of IPv4 counts, also as there. Port 0 picks a free one.
///
/// # Errors
/// The text has none of these forms, or the host name has no address.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
    // An IPv6 address without brackets has no certain port.
    if host.contains([':', '[', ']']) {
        return Err(format!("no address and port: {FORMS}"));
    }
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    if !digits {
        return Err(format!("no port: {FORMS}"));
    }
    let port: u16 = port
        .parse()
        .map_err(|_| format!("port {port} is above 65535"))?;
    if host.is_empty() {
        return Ok(SocketAddr::new(all_interfaces(), port));
    }
    let known = (host, port)
        .to_socket_addrs()
        .map_err(|error| format!("cannot resolve {host}: {error}"))?;
    let known: Vec<SocketAddr> = known.collect();
    let first = known.iter().find(|address| address.is_ipv4());
    first
        .or(known.first())
        .copied()
        .ok_or_else(|| format!("{host} has no address"))
}

/// `::` where it takes connections over IPv4, too; otherwise (IPv6 is off, or sockets take one of them alone) `0.0.0.0`.
fn all_interfaces() -> IpAddr {
    let takes_both = || {
        let port = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).ok();
        let held = port.as_ref()?.local_addr().ok()?.port();
        // Where the first socket has the port of IPv4, too, no second one gets it.
        UdpSocket::bind((Ipv4Addr::UNSPECIFIED, held)).err()
    };
    match takes_both() {
        Some(_) => Ipv6Addr::UNSPECIFIED.into(),
        None => Ipv4Addr::UNSPECIFIED.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_as_go_takes_them() {
        for text in ["127.0.0.1:9845", "0.0.0.0:0", "[::1]:9845", "[::]:9845"] {
            let read = address(text).map(|read| read.to_string());
            assert_eq!(read.as_deref(), Ok(text));
        }
        for text in [":9845", "9845"] {
            let read = address(text).expect(text);
            assert!(read.ip().is_unspecified() && read.port() == 9845, "{read}");
        }
        assert_eq!(address(":0").expect("picks one").port(), 0);
        let local = address("localhost:9845").expect("every machine has it");
        assert!(local.ip().is_loopback() && local.port() == 9845, "{local}");
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_forms() {
        for (text, expected) in [
            ("here", "no port: write ADDRESS:PORT"),
            ("localhost", "no port"),
            ("127.0.0.1", "no port"),
            ("localhost:", "no port"),
            ("localhost:http", "no port"),
            (":+1", "no port"),
            ("", "no port"),
            (":", "no port"),
            ("::1:9845", "no address and port: write"),
            ("[::1]", "no address and port"),
            ("http://a:9845", "no address and port"),
            ("localhost:65536", "port 65536 is above 65535"),
            ("99999", "port 99999 is above 65535"),
        ] {
            let why = address(text).expect_err(text);
            assert!(why.starts_with(expected), "{text}: {why}");
        }
    }
}
