//! A person at a terminal: commands that ask, and the answers.

use crate::World;
use crate::programs::programs;
use platform::commands::installed;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

/// The program that gives a command a terminal.
const SCRIPT: &str = "/usr/bin/script";
/// The end of each question.
const QUESTION: &str = "[y/N] ";

/// Runs a command on a terminal, and types one of the answers after each question. Returns the exit code and the screen;
/// `None` if this machine has nothing that makes a terminal.
pub fn on_terminal(world: &World, arguments: &[&str], answers: &[&str]) -> Option<(Option<i32>, String)> {
    if !installed(Path::new(SCRIPT)) {
        crate::skipped("there is no /usr/bin/script to make a terminal with");
        return None;
    }
    let (program, home) = (programs().host_broker(), world.home());
    let words = [program.to_str().unwrap(), "--home", home.to_str().unwrap()];
    let line = words.iter().chain(arguments).copied().collect::<Vec<_>>().join(" ");
    let mut script = Command::new(SCRIPT);
    script.args(["--quiet", "--return", "--command", line.as_str(), "/dev/null"]).env_clear();
    let mut running = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut keyboard, mut output) = (running.stdin.take().unwrap(), running.stdout.take().unwrap());
    let (mut screen, mut buffer, mut answers) = (Vec::<u8>::new(), [0; 4096], answers.iter());
    loop {
        let length = output.read(&mut buffer).unwrap();
        if length == 0 {
            break;
        }
        screen.extend(buffer.iter().take(length));
        if screen.ends_with(QUESTION.as_bytes())
            && let Some(answer) = answers.next()
        {
            keyboard.write_all(answer.as_bytes()).unwrap();
        }
    }
    let code = running.wait().unwrap().code();
    Some((code, String::from_utf8_lossy(&screen).into_owned()))
}
