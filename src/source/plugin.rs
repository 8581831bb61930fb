//! Credential plugins (`exec` in a kubeconfig): run without the terminal, with their output parsed and errors explained.

use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::config::{ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::task::JoinHandle;

use model::base::Moment;

use super::api_error::clipped;
use super::login::LoginFailed;

/// Timeout of a plugin; it may have to query a cloud.
const PATIENCE: Duration = Duration::from_secs(60);

/// Timeout of a plugin that needs user input.
const HUMAN_PATIENCE: Duration = Duration::from_secs(300);

/// Largest output in bytes.
const LARGEST: usize = 1 << 20;

/// How long to wait for the rest of the output after a plugin has ended.
const LATE: Duration = Duration::from_millis(500);

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Credential {
    pub token: Option<String>,
    /// Client certificate and key, PEM.
    pub identity: Option<(String, String)>,
    pub expires: Option<Moment>,
}

#[derive(Deserialize)]
struct ExecCredential {
    status: Option<ExecCredentialStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredentialStatus {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
    expiration_timestamp: Option<String>,
}

/// Runs a credential plugin. With `interactive` it has the terminal (no screen may be up). Otherwise it has neither
/// terminal input nor output: its standard input is empty, and its standard error goes into the error.
///
/// # Errors
/// It does not exist, needs a terminal, fails, times out, or returns no credential.
pub async fn run(exec: &ExecConfig, interactive: bool) -> Result<Credential, LoginFailed> {
    let command = exec
        .command
        .as_deref()
        .filter(|command| !command.is_empty())
        .ok_or_else(|| {
            LoginFailed("the user's exec section names no command; check the kubeconfig".to_owned())
        })?;
    let fail = |words: String| LoginFailed(format!("credential plugin {command} {words}"));
    let wants_terminal = exec.interactive_mode == Some(ExecInteractiveMode::Always);
    if wants_terminal && !interactive {
        return Err(fail(
            "must ask on a terminal (interactiveMode: Always), which a console does not have; log in with kubectl first, or set interactiveMode to IfAvailable".to_owned(),
        ));
    }
    let interactive = interactive && exec.interactive_mode != Some(ExecInteractiveMode::Never);
    let mut child = started(exec, command, interactive).map_err(|error| {
        let hint = exec
            .install_hint
            .as_deref()
            .map(clipped)
            .unwrap_or_default();
        let mend = if hint.is_empty() {
            "install it, or put it in PATH".to_owned()
        } else {
            hint
        };
        fail(format!("cannot be run ({error}); {mend}"))
    })?;
    let out = child.stdout.take();
    let err = child.stderr.take();
    let limit = if interactive {
        HUMAN_PATIENCE
    } else {
        PATIENCE
    };
    let (out, err) = (PipeOutput::of(out), PipeOutput::of(err));
    let heard = async {
        let status = child.wait().await;
        status.map(|status| (status, out, err))
    };
    let (status, out, err) = tokio::time::timeout(limit, heard)
        .await
        .map_err(|_| {
            fail(format!(
                "did not finish within {} s; run it in a shell: it may wait for a login",
                limit.as_secs()
            ))
        })?
        .map_err(|error| fail(format!("cannot be waited for ({error})")))?;
    let (out, err) = (out.all().await, err.all().await);
    if !status.success() {
        let output = String::from_utf8_lossy(&err);
        let last = output
            .lines()
            .rev()
            .find(|line| !line.trim().is_empty())
            .unwrap_or("");
        let output = if last.is_empty() {
            "it printed nothing".to_owned()
        } else {
            clipped(last)
        };
        return Err(fail(format!(
            "failed ({status}): {output}; run it in a shell and log in"
        )));
    }
    let text = String::from_utf8_lossy(&out);
    // Parsed as YAML, which includes JSON, and converted.
    let answer = serde_saphyr::from_str::<Value>(&text).ok();
    let answer = answer.and_then(|value| serde_json::from_value::<ExecCredential>(value).ok());
    let answer = answer.ok_or_else(|| {
        fail("printed something that is not an ExecCredential; run it in a shell".to_owned())
    })?;
    let status = answer
        .status
        .ok_or_else(|| fail("gave an ExecCredential without a status; log in again".to_owned()))?;
    let credential = Credential {
        token: status.token.filter(|token| !token.is_empty()),
        identity: status.client_certificate_data.zip(status.client_key_data),
        expires: status
            .expiration_timestamp
            .as_deref()
            .and_then(Moment::parse),
    };
    if credential.token.is_none() && credential.identity.is_none() {
        return Err(fail(
            "gave neither a token nor a certificate; log in again".to_owned(),
        ));
    }
    Ok(credential)
}

fn started(
    exec: &ExecConfig,
    command: &str,
    interactive: bool,
) -> std::io::Result<tokio::process::Child> {
    let mut run = Command::new(command);
    run.args(exec.args.iter().flatten());
    for pair in exec.env.iter().flatten() {
        if let (Some(name), Some(value)) = (pair.get("name"), pair.get("value")) {
            run.env(name, value);
        }
    }
    let mut spec = serde_json::json!({"interactive": interactive});
    if exec.provide_cluster_info
        && let Some(cluster) = &exec.cluster
    {
        spec["cluster"] = serde_json::to_value(cluster).unwrap_or_default();
    }
    let request = serde_json::json!({
        "apiVersion": exec.api_version.as_deref().unwrap_or("client.authentication.k8s.io/v1"),
        "kind": "ExecCredential",
        "spec": spec,
    });
    run.env("KUBERNETES_EXEC_INFO", request.to_string());
    run.stdout(Stdio::piped()).kill_on_drop(true);
    if interactive {
        run.stdin(Stdio::inherit()).stderr(Stdio::inherit());
    } else {
        run.stdin(Stdio::null()).stderr(Stdio::piped());
        // In its own process group it cannot read the terminal, and keys for the console do not reach it.
        #[cfg(unix)]
        run.process_group(0);
    }
    run.spawn()
}

/// Output of a pipe, read on a task of its own.
struct PipeOutput {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl PipeOutput {
    fn of(pipe: Option<impl AsyncRead + Unpin + Send + 'static>) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&bytes);
        let reader = tokio::spawn(async move {
            let Some(mut pipe) = pipe else { return };
            let mut part = [0; 4096];
            while let Ok(read @ 1..) = pipe.read(&mut part).await {
                let mut bytes = into.lock().unwrap_or_else(PoisonError::into_inner);
                // Bytes beyond the limit are read and dropped, or the plugin would block forever.
                let room = LARGEST.saturating_sub(bytes.len());
                bytes.extend_from_slice(&part[..read.min(room)]);
            }
        });
        Self { bytes, reader }
    }

    /// All output up to the pipe's end. A helper process that the plugin left behind may keep the pipe open: then the output
    /// up to a moment after the plugin's end counts.
    async fn all(mut self) -> Vec<u8> {
        if tokio::time::timeout(LATE, &mut self.reader).await.is_err() {
            self.reader.abort();
        }
        std::mem::take(&mut *self.bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
