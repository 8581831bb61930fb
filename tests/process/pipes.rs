//! The program between others: what reads its output ends early, and a shell that completes words by its script.

use std::path::Path;
use std::process::{Command, Stdio};

use super::{Home, alone, text};

#[test]
fn a_broken_pipe_ends_quietly() {
    let _alone = alone();
    let home = Home::new();
    for arguments in [
        &["completions", "bash"][..],
        &["config", "print"],
        &["exporter", "list"],
    ] {
        let mut command = home.command(arguments);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("can be run");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("ends");
        assert_eq!(text(&output.stderr), "", "{arguments:?}");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    }
}

#[test]
fn bash_completes_by_its_script() {
    let _alone = alone();
    let home = Home::new();
    let script = home.run(&["completions", "bash"]).stdout;
    let script = home.write("stokehold.bash", script).display().to_string();
    let program = Path::new(env!("CARGO_BIN_EXE_stokehold"));
    let folder = program.parent().expect("in a folder").display().to_string();
    let completed = |line: &str| {
        let asked = "source \"$1\"; COMP_LINE=$2; COMP_POINT=${#2}; _stokehold; printf '%s\\n' \"${COMPREPLY[@]}\"";
        let output = Command::new("bash")
            .args(["--norc", "-c", asked, "bash", &script, line])
            .env("PATH", format!("{folder}:/usr/bin:/bin"))
            .env("HOME", home.path(""))
            .stdin(Stdio::null())
            .output()
            .expect("bash is there");
        let lines = text(&output.stdout);
        lines.lines().map(str::to_owned).collect::<Vec<String>>()
    };
    assert_eq!(completed("stokehold descr"), ["describe"]);
    assert_eq!(completed("stokehold get qu"), ["queues"]);
    assert!(completed("stokehold get ").contains(&"queues".to_owned()));
    std::fs::create_dir_all(home.path("bin")).expect("can be made");
    std::os::unix::fs::symlink(program, home.path("bin/stokehold")).expect("can be linked");
    assert_eq!(completed("~/bin/stokehold get qu"), ["queues"]);
    assert_eq!(
        completed("stokehold --log-file \"my log\" get \"qu"),
        ["queues"]
    );
    // bash splits words at an equals sign, and replaces what is behind it.
    assert_eq!(
        completed("stokehold get nodes --sort-by=power_"),
        ["power_watts"]
    );
}
