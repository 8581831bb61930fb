//! Errors of requests to the API server, with messages that contain the repair.

use std::time::Duration;

use kube::runtime::watcher;

use model::base::name::printable;
use model::fleet::observe::{LostKind, Table};
use model::fleet::visibility::{HELP, viewer_of};

use super::counting_layer::{NotKubernetes, ResponseTimeout};
use super::gate::Refused;
use super::limits::{TooLarge, TooSlow, cause};
use super::login::LoginFailed;

/// A request that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApiError {
    pub what: What,
    /// What failed, and the repair.
    pub message: String,
    pub retry_after: Option<Duration>,
}

/// Kinds of failure that are handled differently.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// 401: the credentials are not accepted.
    Unknown,
    /// 403: the user is not authorized.
    Forbidden,
    /// 404: it does not serve this.
    Missing,
    /// 410: the revision to continue from has expired.
    Expired,
    /// 400, 405 or 422: the server does not support the request.
    Misunderstood,
    /// 429, 503 or 504: it is busy.
    Busy,
    /// One object could not be parsed.
    Garbled,
    /// Everything else: no answer, or an invalid one.
    Unreachable,
}

/// The receiver of what a task sends is closed: the task ends.
pub(crate) struct ChannelClosed;

impl What {
    /// Whether rights or the connection are missing.
    pub const fn lost_kind(self) -> LostKind {
        match self {
            Self::Unknown => LostKind::Login,
            Self::Forbidden => LostKind::Rights,
            _ => LostKind::Unreachable,
        }
    }
}

impl ApiError {
    /// The failure of a watcher of `table`.
    pub fn of_watcher(table: Table, error: &watcher::Error) -> Self {
        match error {
            watcher::Error::InitialListFailed(error) => Self::of_client(table, "list", error),
            watcher::Error::WatchStartFailed(error) => Self::of_client(table, "watch", error),
            watcher::Error::WatchFailed(kube::Error::SerdeError(error)) => Self {
                what: What::Garbled,
                message: format!("an event of {} could not be read: {error}", table.name()),
                retry_after: None,
            },
            // Any JSON object parses as a Status; one without a code is an invalid event.
            watcher::Error::WatchFailed(kube::Error::Api(status)) if status.code == 0 => Self {
                what: What::Garbled,
                message: format!("an event of {} is of no known form", table.name()),
                retry_after: None,
            },
            watcher::Error::WatchFailed(error) => Self::of_client(table, "watch", error),
            watcher::Error::WatchError(status) => Self::of_status(table, "watch", status),
            watcher::Error::NoResourceVersion => Self {
                what: What::Garbled,
                message: format!(
                    "an event of {} came without a resourceVersion",
                    table.name()
                ),
                retry_after: None,
            },
        }
    }

    /// The failure of a request for `table`.
    pub fn of_client(table: Table, verb: &str, error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_status(table, verb, status),
            kube::Error::SerdeError(error) => Self::unreachable(format!(
                "the answer to {verb} {} is not what a Kubernetes API sends ({error}); check the server's address in the kubeconfig",
                table.name()
            )),
            other => Self::of_transport(other),
        }
    }

    /// The failure of a request that got no answer from Kubernetes.
    pub fn of_transport(error: &kube::Error) -> Self {
        if let Some(large) = cause::<TooLarge>(error) {
            return Self::unreachable(format!(
                "{large}, and was not read to its end; does something else answer in the API server's place?"
            ));
        }
        if let Some(slow) = cause::<TooSlow>(error) {
            return Self::unreachable(format!(
                "{slow}; is the server overloaded, or the way to it very slow?"
            ));
        }
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
        let mut last = error.to_string();
        while let Some(at) = cause {
            if let Some(failed) = at.downcast_ref::<LoginFailed>() {
                return Self {
                    what: What::Unknown,
                    message: failed.to_string(),
                    retry_after: None,
                };
            }
            if let Some(refused) = at.downcast_ref::<Refused>() {
                return Self::unreachable(refused.to_string());
            }
            if let Some(silent) = at.downcast_ref::<ResponseTimeout>() {
                return Self::unreachable(format!(
                    "{silent}; is it overloaded, or does something else listen at its address?"
                ));
            }
            if let Some(page) = at.downcast_ref::<NotKubernetes>() {
                return Self::unreachable(format!(
                    "{page}; a proxy or login page answers in the API server's place: check the address, the proxy and the VPN"
                ));
            }
            if let Some(io) = at.downcast_ref::<std::io::Error>()
                && let Some(words) = of_io(io)
            {
                return Self::unreachable(words);
            }
            last = at.to_string();
            cause = at.source();
        }
        Self::unreachable(of_text(&clipped(&last)))
    }

    /// The failure that the API server describes.
    pub fn of_status(table: Table, verb: &str, status: &kube::core::Status) -> Self {
        let place = table.api();
        let resource = match place.group {
            "" => table.plural().to_owned(),
            group => format!("{}.{group}", table.plural()),
        };
        let detail = message_in_brackets(&status.message);
        let narrower = if place.namespaced {
            let role = viewer_of(&["NAMESPACE"]);
            format!(", or give -n NAMESPACE, with the role of {role}")
        } else {
            String::new()
        };
        let (what, message) = match status.code {
            401 => (
                What::Unknown,
                format!(
                    "401: the API server does not accept our credentials{detail}; log in again (the user of the current context), or check that the token has not expired"
                ),
            ),
            403 => (
                What::Forbidden,
                format!(
                    "403: may not {verb} {resource}{detail}; {HELP}: it has the verbs list and watch on {resource}{narrower}"
                ),
            ),
            404 => (
                What::Missing,
                format!("404: the server does not serve {resource}"),
            ),
            410 => (
                What::Expired,
                format!("410: {resource} must be listed again"),
            ),
            400 | 405 | 406 | 415 | 422 => (
                What::Misunderstood,
                format!(
                    "{}: the server does not understand how we {verb} {resource}{detail}",
                    status.code
                ),
            ),
            429 => (
                What::Busy,
                format!("429: the API server throttles us{detail}; we wait as long as it asks"),
            ),
            503 | 504 => (
                What::Busy,
                format!(
                    "{}: the API server is not available{detail}; it may be starting or overloaded",
                    status.code
                ),
            ),
            code => (
                What::Unreachable,
                format!(
                    "{code}: the API server failed to {verb} {resource}{detail}; its log says why"
                ),
            ),
        };
        let seconds = status
            .details
            .as_ref()
            .map_or(0, |details| u64::from(details.retry_after_seconds));
        Self {
            what,
            message,
            retry_after: (seconds > 0).then(|| Duration::from_secs(seconds.min(300))),
        }
    }

    /// No answer, or an invalid one.
    pub fn unreachable(message: String) -> Self {
        Self {
            what: What::Unreachable,
            message,
            retry_after: None,
        }
    }
}

/// The server's message, in brackets; a page of HTML is omitted.
fn message_in_brackets(message: &str) -> String {
    let text = message.trim();
    if text.is_empty() {
        String::new()
    } else if text.starts_with('<') {
        " (in HTML: not the API server itself, but something before it)".to_owned()
    } else {
        format!(" ({})", clipped(text))
    }
}

/// One line of bounded length without control characters.
pub fn clipped(text: &str) -> String {
    const LONGEST: usize = 200;
    let line = text.trim().lines().next().unwrap_or("");
    let mut out = printable(line).into_owned();
    if let Some((at, _)) = out.char_indices().nth(LONGEST) {
        out.truncate(at);
        out.push('…');
    }
    out
}

const REFUSED: &str = "connection refused: nothing listens at the server's address; is the API server up, and the address in the kubeconfig right?";
const CLOSED: &str =
    "the connection was closed before an answer came; is the API server restarting?";
const LATE: &str =
    "no answer in time; is the server's address reachable from here (VPN, firewall)?";

fn of_io(error: &std::io::Error) -> Option<String> {
    use std::io::ErrorKind;
    let words = match error.kind() {
        ErrorKind::ConnectionRefused => REFUSED,
        ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::BrokenPipe
        | ErrorKind::UnexpectedEof => CLOSED,
        ErrorKind::TimedOut => LATE,
        ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable => {
            "no route to the server's address; is the network or VPN up?"
        }
        _ => return None,
    };
    Some(words.to_owned())
}

/// Failures that differ only in their text.
fn of_text(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let any = |parts: &[&str]| parts.iter().any(|part| lower.contains(part));
    if any(&["connection refused"]) {
        REFUSED.to_owned()
    } else if any(&[
        "connection reset",
        "broken pipe",
        "unexpected eof",
        "connection closed",
        "end of file before",
    ]) {
        CLOSED.to_owned()
    } else if any(&["timed out", "deadline has elapsed"]) {
        LATE.to_owned()
    } else if lower.contains("dns error")
        || lower.contains("failed to lookup")
        || lower.contains("name or service not known")
    {
        format!(
            "the server's name does not resolve ({text}); check the address in the kubeconfig and the VPN"
        )
    } else if lower.contains("unknownissuer")
        || lower.contains("unknown issuer")
        || lower.contains("self-signed")
        || lower.contains("self signed")
    {
        format!(
            "the server's certificate is not signed by a CA that we trust ({text}); check certificate-authority in the kubeconfig"
        )
    } else if lower.contains("notvalidforname") || lower.contains("not valid for") {
        format!(
            "the server's certificate is for another name ({text}); check the address, or set tls-server-name in the kubeconfig"
        )
    } else if lower.contains("expired") && lower.contains("certificate") {
        format!(
            "a certificate has expired ({text}); renew the server's, or your client certificate"
        )
    } else if lower.contains("certificate")
        || lower.contains("tls")
        || lower.contains("handshake")
        || lower.contains("invalidcontenttype")
    {
        format!(
            "no TLS connection to the server ({text}); check https in the address and the certificates in the kubeconfig"
        )
    } else {
        format!("no answer from the API server: {text}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16, message: &str) -> kube::core::Status {
        kube::core::Status::failure(message, "").with_code(code)
    }

    #[test]
    fn every_status_names_its_mend() {
        for (code, what, words) in [
            (401, What::Unknown, "log in again"),
            (403, What::Forbidden, "verbs list and watch on jobs.batch"),
            (404, What::Missing, "does not serve jobs.batch"),
            (410, What::Expired, "listed again"),
            (429, What::Busy, "throttles"),
            (500, What::Unreachable, "its log says why"),
            (503, What::Busy, "starting or overloaded"),
        ] {
            let trouble = ApiError::of_status(Table::Jobs, "list", &status(code, "because"));
            assert_eq!(trouble.what, what, "{code}");
            assert!(trouble.message.contains(words), "{}", trouble.message);
        }
    }

    #[test]
    fn html_and_control_characters_stay_out_of_messages() {
        let html = ApiError::of_status(
            Table::Pods,
            "list",
            &status(502, "<html><body>Bad gateway</body>"),
        );
        assert!(
            html.message.contains("in HTML") && !html.message.contains('<'),
            "{}",
            html.message
        );
        let hostile = ApiError::of_status(Table::Pods, "list", &status(500, "a\u{1b}[2Jb\nsecond"));
        assert!(!hostile.message.contains('\u{1b}') && !hostile.message.contains("second"));
    }

    #[test]
    fn refused_connections_bad_names_and_bad_certificates_differ() {
        let refused = kube::Error::Service(Box::new(std::io::Error::from(
            std::io::ErrorKind::ConnectionRefused,
        )));
        assert!(
            ApiError::of_transport(&refused)
                .message
                .contains("nothing listens")
        );
        for (text, words) in [
            (
                "dns error: failed to lookup address information",
                "does not resolve",
            ),
            (
                "invalid peer certificate: UnknownIssuer",
                "not signed by a CA",
            ),
            (
                "invalid peer certificate: certificate not valid for name \"x\"",
                "another name",
            ),
            (
                "received corrupt message of type InvalidContentType",
                "no TLS connection",
            ),
            ("strange", "no answer from the API server: strange"),
        ] {
            let error = kube::Error::Service(text.into());
            let message = ApiError::of_transport(&error).message;
            assert!(message.contains(words), "{message}");
        }
    }
}
