//! What the manifests of the services ask of a cluster is what the program has.

use serde_json::{Value, json};

use super::manifest::object;

/// The container of a manifest: its probes and port are the program's, and its role is the viewer's.
fn checked(manifest: &str) -> Value {
    let container =
        object(manifest, "Deployment")["spec"]["template"]["spec"]["containers"][0].clone();
    let paths = ["livenessProbe", "readinessProbe"];
    let paths = paths.map(|probe| &container[probe]["httpGet"]["path"]);
    assert_eq!(paths, ["/healthz", "/readyz"]);
    let port = container["ports"][0]["containerPort"].to_string();
    let listens = container["args"].to_string();
    assert!(listens.contains(&format!(":{port}\"")), "{listens}");
    let role: Value = serde_saphyr::from_str(&cluster::rights::viewer(&[])).expect("is YAML");
    let bound = object(manifest, "ClusterRoleBinding");
    assert_eq!(bound["roleRef"]["name"], role["metadata"]["name"]);
    container
}

#[test]
fn the_recorders_manifest_asks_for_what_it_has() {
    checked(include_str!("../../config/kubernetes/record.yaml"));
}

#[test]
fn the_watchers_manifest_asks_for_what_it_has() {
    let manifest = include_str!("../../config/kubernetes/watch.yaml");
    let container = checked(manifest);
    // Files that the settings name are where the Secret is mounted.
    let mounts = container["volumeMounts"].as_array().expect("a list");
    let secret = mounts.iter().find(|mount| mount["name"] == "notify");
    let place = secret.expect("is mounted")["mountPath"]
        .as_str()
        .expect("a path");
    let settings = object(manifest, "ConfigMap")["data"]["stokehold.toml"].clone();
    let settings = settings.as_str().expect("is text");
    let mut lines = settings.lines();
    let file = lines.find_map(|line| line.strip_prefix("url_file = "));
    assert!(file.expect("names one").contains(&format!("\"{place}/")));
}

#[test]
fn who_reaches_the_services_and_what_a_lost_node_takes_is_limited() {
    for manifest in [
        include_str!("../../config/kubernetes/record.yaml"),
        include_str!("../../config/kubernetes/watch.yaml"),
        include_str!("../../config/kubernetes/govern.yaml"),
    ] {
        let deployment = object(manifest, "Deployment");
        let name = &deployment["metadata"]["name"];
        let pod = &deployment["spec"]["template"];
        let labels = &pod["metadata"]["labels"];
        let policy = object(manifest, "NetworkPolicy");
        assert_eq!(
            &policy["spec"]["podSelector"]["matchLabels"], labels,
            "{name}"
        );
        let port = &pod["spec"]["containers"][0]["ports"][0]["containerPort"];
        let ingress = &policy["spec"]["ingress"];
        assert_eq!(ingress, &json!([{ "ports": [{ "port": port }] }]), "{name}");
        if deployment["spec"]["replicas"].as_u64() < Some(2) {
            continue;
        }
        let budget = object(manifest, "PodDisruptionBudget");
        assert_eq!(&budget["spec"]["selector"]["matchLabels"], labels, "{name}");
        assert_eq!(budget["spec"]["maxUnavailable"], 1, "{name}");
        let apart = &pod["spec"]["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
            [0]["podAffinityTerm"];
        assert_eq!(&apart["labelSelector"]["matchLabels"], labels, "{name}");
        assert_eq!(apart["topologyKey"], "kubernetes.io/hostname", "{name}");
    }
}
