//! Completion scripts and manual pages.

#![expect(clippy::disallowed_methods, reason = "a shell is a child process")]

use super::world::{World, finish};
use std::process::Command;

#[test]
fn a_shell_completes_commands_and_options() {
    let world = World::empty();
    let script = world.home.with_extension("bash");
    std::fs::write(&script, world.run(&["completions", "bash"]).ok()).unwrap();
    let complete = |words: &str, at: usize| {
        let mut bash = Command::new("bash");
        let line = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD={at}; _host__broker host-broker \"${{COMP_WORDS[{at}]}}\" \
             \"${{COMP_WORDS[{before}]}}\"; echo \"${{COMPREPLY[@]}}\"",
            script.display(),
            before = at - 1,
        );
        finish(bash.args(["--norc", "-c", &line])).ok()
    };
    assert_eq!(complete("host-broker gran", 1).trim(), "grant");
    assert_eq!(complete("host-broker approvals sho", 2).trim(), "show");
    assert_eq!(complete("host-broker grant --deny", 2).trim(), "--deny");
    for (shell, word) in [("zsh", "#compdef host-broker"), ("fish", "complete -c host-broker")] {
        assert!(world.run(&["completions", shell]).ok().contains(word), "{shell}");
    }
    world.run(&["completions", "csh"]).fails(2, &["bash", "zsh", "fish"]);
}

#[test]
fn every_command_has_a_manual_page() {
    let world = World::empty();
    let folder = world.home.with_extension("man");
    let folder_text = folder.display().to_string();
    let written = world.run(&["man", &folder_text, "--json"]).json();
    let pages: Vec<&str> = written["pages"].as_array().unwrap().iter().map(|page| page.as_str().unwrap()).collect();
    for page in ["host-broker.1", "host-broker-grant.1", "host-broker-approvals-show.1"] {
        assert!(pages.contains(&page), "{page}: {pages:?}");
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), pages.len());
    let grant = std::fs::read_to_string(folder.join("host-broker-grant.1")).unwrap();
    for part in [".TH host-broker-grant 1", "SYNOPSIS", "\\-\\-deny"] {
        assert!(grant.contains(part), "no {part}: {grant}");
    }
    // Again, over the same files.
    world.run(&["man", &folder_text]).ok();
    world.run(&["man", "/proc/nowhere"]).fails(4, &["/proc/nowhere"]);
}
