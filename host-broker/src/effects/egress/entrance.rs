//! The first program in the network of a room that may reach certain hosts.
//!
//! It is this program, started as `host-broker room-entrance api.example.com=127.0.0.2:443 … -- bwrap …` with a loopback of its
//! own and the right to listen at small ports there. It makes a listener for each host, hands them to the broker over its
//! standard input, takes the room's own standard input from there, and becomes the program behind `--`, which makes the room.
//! Nothing of the provider's runs before.

use rustix::fs::{MemfdFlags, memfd_create};
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

/// What it is asked for by.
const NAME: &str = "room-entrance";

/// How its complaints begin. The provider's program was not started then.
pub(in crate::effects) const COMPLAINT: &str = "room-entrance: ";

/// The arguments for it, before those of the command that it becomes.
pub(in crate::effects) fn arguments(hosts: &[super::Host]) -> Vec<OsString> {
    let doors = hosts.iter().zip(super::addresses(hosts)).map(|(host, at)| format!("{}={at}", host.name()).into());
    std::iter::once(NAME.into()).chain(doors).chain(["--".into()]).collect()
}

/// If it is this that the process was started for, does that; it returns only if it could not.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter().skip(1);
    if arguments.next()? != NAME {
        return None;
    }
    let Err(error) = enter(arguments);
    writeln!(io::stderr(), "{COMPLAINT}{error}").ok();
    Some(ExitCode::FAILURE)
}

fn enter(mut arguments: impl Iterator<Item = OsString>) -> Result<Infallible, io::Error> {
    let mut hosts = String::from("127.0.0.1 localhost\n");
    let mut listeners = Vec::new();
    for door in arguments.by_ref().take_while(|argument| argument != "--") {
        let (name, address) = parsed(&door).ok_or_else(|| io::Error::other("it is for the broker to call"))?;
        let listener = TcpListener::bind(address)
            .map_err(|error| io::Error::new(error.kind(), format!("{name} cannot have {address}: {error}")))?;
        listeners.push(listener);
        if name != "localhost" {
            hosts.extend([address.ip().to_string().as_str(), " ", name, "\n"]);
        }
    }
    let program = arguments.next().ok_or_else(|| io::Error::other("it is for the broker to call"))?;
    let broker = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let handed: Vec<BorrowedFd<'_>> = listeners.iter().map(TcpListener::as_fd).collect();
    super::send(&broker, &handed)?;
    let input = super::receive(&broker)?.pop().ok_or_else(|| io::Error::other("the broker has left"))?;
    rustix::stdio::dup2_stdin(&input)?;
    drop((broker, input, listeners));
    // Open for who comes after this program: nothing else is started before.
    let mut file = File::from(memfd_create("hosts", MemfdFlags::empty())?);
    file.write_all(hosts.as_bytes())?;
    file.rewind()?;
    // Who makes the room must not have it, and the room gets none either.
    rustix::thread::clear_ambient_capability_set()?;
    #[expect(clippy::disallowed_methods, reason = "it is replaced by the program that makes the room")]
    let mut room = Command::new(&program);
    let error = room.args(["--ro-bind-data", &file.as_raw_fd().to_string(), "/etc/hosts"]).args(arguments).exec();
    Err(io::Error::new(error.kind(), format!("{} cannot be started: {error}", program.display())))
}

fn parsed(door: &OsStr) -> Option<(&str, SocketAddr)> {
    let (name, address) = door.to_str()?.split_once('=')?;
    Some((name, address.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_else_is_taken_for_it() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert!(run(words(&["host-broker"])).is_none());
        assert!(run(words(&["host-broker", "status", NAME])).is_none());
        let hosts = ["a.example".parse().unwrap(), "localhost:80".parse().unwrap()];
        let expected = words(&[NAME, "a.example=127.0.0.2:443", "localhost=127.0.0.1:80", "--"]);
        assert_eq!(arguments(&hosts), expected);
    }
}
