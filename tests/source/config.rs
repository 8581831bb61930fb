//! Kubeconfigs, right and wrong.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use source::kubeconfig::{ContextChoice, contexts, resolve};

fn config(current: &str, contexts: &[(&str, &str)], clusters: &[(&str, &str)]) -> String {
    let mut out = format!("apiVersion: v1\nkind: Config\ncurrent-context: {current}\ncontexts:\n");
    for (name, cluster) in contexts {
        out += &format!(
            "- name: {name}\n  context: {{cluster: {cluster}, user: me, namespace: ml}}\n"
        );
    }
    out += "clusters:\n";
    for (name, server) in clusters {
        out += &format!("- name: {name}\n  cluster: {{server: \"{server}\"}}\n");
    }
    out + "users:\n- name: me\n  user: {token: t}\n"
}

fn choice(variables: &[(&str, &Path)], context: Option<&str>) -> ContextChoice {
    let variables: BTreeMap<String, OsString> = variables
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.as_os_str().to_owned()))
        .collect();
    ContextChoice {
        context: context.map(str::to_owned),
        environment: Arc::new(move |name| variables.get(name).cloned()),
        ..ContextChoice::default()
    }
}

fn fault(choice: &ContextChoice) -> String {
    resolve(choice).expect_err("a fault").to_string()
}

#[test]
fn files_are_merged_as_kubectl_does() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two, none) = (
        folder.path().join("one"),
        folder.path().join("two"),
        folder.path().join("none"),
    );
    std::fs::write(
        &one,
        config("prod", &[("prod", "a")], &[("a", "https://a:6443")]),
    )
    .unwrap();
    std::fs::write(
        &two,
        config(
            "test",
            &[("prod", "b"), ("test", "b")],
            &[("b", "https://b:6443")],
        ),
    )
    .unwrap();
    let list = std::env::join_paths([&none, &one, &two]).unwrap();
    let both = choice(&[("KUBECONFIG", Path::new(&list))], None);
    let found = resolve(&both).expect("resolved");
    assert_eq!(
        (found.context.as_str(), found.namespace.as_str()),
        ("prod", "ml")
    );
    assert_eq!(
        found.config.cluster_url.to_string(),
        "https://a:6443/",
        "the first file to name it wins"
    );
    let test = choice(&[("KUBECONFIG", Path::new(&list))], Some("test"));
    assert_eq!(
        resolve(&test)
            .expect("resolved")
            .config
            .cluster_url
            .to_string(),
        "https://b:6443/"
    );
    assert_eq!(
        contexts(&both),
        Ok((vec!["prod".into(), "test".into()], Some("prod".into())))
    );
    let named = ContextChoice {
        kubeconfig: Some(two),
        ..both
    };
    assert_eq!(resolve(&named).expect("resolved").context, "test");
}

#[test]
fn a_byte_order_mark_is_no_fault() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    let text = format!(
        "\u{feff}{}",
        config("prod", &[("prod", "a")], &[("a", "https://a:6443")])
    );
    std::fs::write(&file, text).unwrap();
    assert!(
        resolve(&ContextChoice {
            kubeconfig: Some(file),
            ..choice(&[], None)
        })
        .is_ok()
    );
}

#[test]
fn every_fault_names_the_file_the_place_and_the_mend() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    let named = |context: Option<&str>| ContextChoice {
        kubeconfig: Some(file.clone()),
        ..choice(&[], context)
    };

    let missing = fault(&named(None));
    assert!(
        missing.contains("config: there is no such file"),
        "{missing}"
    );

    write(&config(
        "prod",
        &[("prod", "a"), ("staging", "a")],
        &[("a", "https://a:6443")],
    ));
    let wrong = fault(&named(Some("prdo")));
    for words in [
        "there is no context \"prdo\"",
        "did you mean \"prod\"?",
        "prod, staging",
        "get-contexts",
        "config:",
    ] {
        assert!(wrong.contains(words), "{words}: {wrong}");
    }

    write(&config(
        "\"\"",
        &[("prod", "a")],
        &[("a", "https://a:6443")],
    ));
    let none = fault(&named(None));
    assert!(
        none.contains("no current context") && none.contains("--context (prod)"),
        "{none}"
    );

    write(&config(
        "prod",
        &[("prod", "alpha")],
        &[("alhpa", "https://a:6443")],
    ));
    let cluster = fault(&named(None));
    assert!(
        cluster.contains("the cluster \"alpha\"") && cluster.contains("\"alhpa\""),
        "{cluster}"
    );

    write(
        &config("prod", &[("prod", "a")], &[("a", "https://a:6443")])
            .replace("user: me,", "user: em,"),
    );
    let user = fault(&named(None));
    assert!(user.contains("the user \"em\""), "{user}");

    write(&config(
        "prod",
        &[("prod", "a")],
        &[("a", "nonsense at all")],
    ));
    let server = fault(&named(None));
    assert!(server.contains("context \"prod\""), "{server}");

    write(&config("prod", &[("prod", "a")], &[("a", "/just/a/path")]));
    assert!(fault(&named(None)).contains("https://HOST:PORT"));

    write(
        &config("prod", &[("prod", "a")], &[("a", "https://a:6443")])
            .replace("server:", "certificate-authority: gone.pem, server:"),
    );
    let ca = fault(&named(None));
    assert!(ca.contains("gone.pem"), "{ca}");

    write("contexts: [");
    assert!(fault(&named(None)).contains("config: "));
    write("\u{0}\u{1}binary");
    assert!(fault(&named(None)).contains("config: "));

    let nowhere = fault(&choice(&[("HOME", folder.path())], None));
    assert!(
        nowhere.contains("no cluster")
            && nowhere.contains("--kubeconfig")
            && nowhere.contains("demo"),
        "{nowhere}"
    );
    let list = fault(&choice(
        &[("KUBECONFIG", Path::new("/nonexistent/config"))],
        None,
    ));
    assert!(
        list.contains("/nonexistent/config") && list.contains("KUBECONFIG"),
        "{list}"
    );
    let pod = fault(&choice(
        &[
            ("HOME", folder.path()),
            ("KUBERNETES_SERVICE_HOST", Path::new("10.0.0.1")),
        ],
        None,
    ));
    assert!(pod.contains("service account"), "{pod}");
}

#[test]
fn impersonation_and_proxies_are_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    std::fs::write(
        &file,
        config("prod", &[("prod", "a")], &[("a", "https://a.corp:6443")]),
    )
    .unwrap();
    let resolved = |variables: &[(&str, &Path)]| {
        let chosen = ContextChoice {
            kubeconfig: Some(file.clone()),
            impersonate: Some("mara".into()),
            impersonate_groups: vec!["ops".into()],
            ..choice(variables, None)
        };
        resolve(&chosen).expect("resolved").config
    };
    let plain = resolved(&[]);
    assert_eq!(plain.auth_info.impersonate.as_deref(), Some("mara"));
    assert_eq!(
        plain.auth_info.impersonate_groups,
        Some(vec!["ops".to_owned()])
    );
    assert_eq!(plain.proxy_url, None);
    let via = [("HTTPS_PROXY", Path::new("socks5://p:1080"))];
    assert_eq!(
        resolved(&via).proxy_url.map(|url| url.to_string()),
        Some("socks5://p:1080/".into())
    );
    let spared = [via[0], ("NO_PROXY", Path::new("corp"))];
    assert_eq!(resolved(&spared).proxy_url, None);
}
