//! The key table of docs/keys.md is the registry's. `UPDATE=1 cargo test --test it written` writes it anew.

use console::keys::markdown_table;

const BEGIN: &str = "<!-- keys: begin (written from the registry; a test holds it true) -->\n";
const END: &str = "<!-- keys: end -->";

#[test]
fn the_key_table_is_the_registrys() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/keys.md");
    let page = std::fs::read_to_string(path).expect("docs/keys.md is there");
    let (head, rest) = page.split_once(BEGIN).expect("the begin mark is there");
    let (table, tail) = rest.split_once(END).expect("the end mark is there");
    let wanted = format!("\n{}\n", markdown_table().trim());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, format!("{head}{BEGIN}{wanted}{END}{tail}"))
            .expect("the file is ours");
        return;
    }
    assert_eq!(table, wanted, "run: UPDATE=1 cargo test --test it written");
}

#[test]
fn the_viewers_role_in_the_repository_is_the_one_that_is_printed() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/config/kubernetes/viewer.yaml");
    let wanted = cluster::rights::viewer(&[]);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &wanted).expect("the file is ours");
        return;
    }
    let text = std::fs::read_to_string(path).expect("it is there");
    assert_eq!(text, wanted, "run: UPDATE=1 cargo test --test it written");
}
