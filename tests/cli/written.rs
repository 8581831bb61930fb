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

/// A shell with `NO_COLOR` draws them without: what the README shows is the program as most people see it.
#[test]
fn the_pictures_in_the_repository_have_colors() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/screenshots");
    let files = std::fs::read_dir(folder).expect("the folder is there");
    let mut count = 0;
    for file in files {
        let path = file.expect("can be listed").path();
        let text = std::fs::read_to_string(&path).expect("is text");
        let fills = text.split("fill=\"#").skip(1);
        let colors: std::collections::BTreeSet<&str> =
            fills.filter_map(|rest| rest.get(..6)).collect();
        assert!(colors.len() >= 5, "{}: {colors:?}", path.display());
        count += 1;
    }
    assert!(count >= 10, "{count} pictures");
}
