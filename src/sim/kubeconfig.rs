//! The kubeconfig of the simulated cluster: one context for each of its users.

use std::io;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::users::{User, Users};

/// The kubeconfig text for a server at `url` whose certificate this CA (PEM) has signed; of a server without a certificate, none.
pub fn render(url: &str, ca_pem: &str, users: &Users) -> String {
    let ca = match ca_pem {
        "" => String::new(),
        pem => format!("    certificate-authority-data: {}\n", STANDARD.encode(pem)),
    };
    let mut text = format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: sim\n  cluster:\n    server: {url}\n{ca}contexts:\n"
    );
    for user in User::ALL {
        let name = user.name();
        text.push_str(&format!(
            "- name: {name}\n  context:\n    cluster: sim\n    user: {name}\n"
        ));
        if let (User::Team, Some(namespace)) = (user, users.team_namespaces().first()) {
            text.push_str(&format!("    namespace: {namespace}\n"));
        }
    }
    text.push_str(&format!(
        "current-context: {}\nusers:\n",
        User::Admin.name()
    ));
    for user in User::ALL {
        text.push_str(&format!(
            "- name: {}\n  user:\n    token: {}\n",
            user.name(),
            users.token(user)
        ));
    }
    text
}

/// Writes the kubeconfig, readable only by its owner (mode 0600), completely or not at all.
///
/// # Errors
/// Those of the file system.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    use std::io::Write;
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = Path::new(&partial);
    // A leftover of an earlier run may have other rights.
    match std::fs::remove_file(partial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(partial)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(partial, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_whole_private_and_reads_back() {
        let users = Users::new(["a", "b", "c", "d"].map(str::to_owned), vec!["nlp".into()]);
        let text = render("https://127.0.0.1:1", "PEM", &users);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config");
        std::fs::write(&path, "older and public").expect("writable");
        write(&path, &text).expect("writable");
        let read = kube::config::Kubeconfig::read_from(&path).expect("valid");
        let names: Vec<&str> = read.contexts.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["sim-admin", "sim-viewer", "sim-team", "sim-nobody"]);
        assert_eq!(read.current_context.as_deref(), Some("sim-admin"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(&path)
                .expect("there")
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}
