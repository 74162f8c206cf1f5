//! `sandbox-init`: the first program in the network namespace of a sandbox with hosts.
//!
//! The broker's own executable runs as `host-broker sandbox-init api.example.com=127.0.0.2:443 … -- bwrap …`. It has its
//! own loopback interface and may bind privileged ports there. It creates a listener for each host and passes them to the
//! broker over its standard input. The broker passes back the standard input of the sandboxed program. Then the process
//! becomes the command after `--`, which creates the sandbox. No program of the provider runs before that.

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

/// The word on the command line.
const NAME: &str = "sandbox-init";

/// The start of its error messages. They mean that the provider's program was not started.
pub(crate) const ERROR_PREFIX: &str = "sandbox-init: ";

/// Its arguments, which precede those of the command that it becomes.
pub(crate) fn arguments(hosts: &[super::Host]) -> Vec<OsString> {
    let listeners = hosts.iter().zip(super::addresses(hosts)).map(|(host, at)| format!("{}={at}", host.name()).into());
    std::iter::once(NAME.into()).chain(listeners).chain(["--".into()]).collect()
}

/// Runs `sandbox-init` if the command line asks for it. Returns a code only on failure: on success the process is replaced.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter().skip(1);
    if arguments.next()? != NAME {
        return None;
    }
    let Err(error) = start(arguments);
    writeln!(io::stderr(), "{ERROR_PREFIX}{error}").ok();
    Some(ExitCode::FAILURE)
}

fn start(mut arguments: impl Iterator<Item = OsString>) -> Result<Infallible, io::Error> {
    let mut hosts = String::from("127.0.0.1 localhost\n");
    let mut listeners = Vec::new();
    for listener in arguments.by_ref().take_while(|argument| argument != "--") {
        let (name, address) =
            parsed(&listener).ok_or_else(|| io::Error::other("this command is internal to the broker"))?;
        let listener = TcpListener::bind(address)
            .map_err(|error| io::Error::new(error.kind(), format!("cannot listen on {address} for {name}: {error}")))?;
        listeners.push(listener);
        if name != "localhost" {
            hosts.extend([address.ip().to_string().as_str(), " ", name, "\n"]);
        }
    }
    let program = arguments.next().ok_or_else(|| io::Error::other("this command is internal to the broker"))?;
    let broker = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let handed: Vec<BorrowedFd<'_>> = listeners.iter().map(TcpListener::as_fd).collect();
    super::send(&broker, &handed)?;
    let input = super::receive(&broker)?.pop().ok_or_else(|| io::Error::other("the broker closed the connection"))?;
    rustix::stdio::dup2_stdin(&input)?;
    drop((broker, input, listeners));
    // The file stays open across exec for the next program. No other program starts before it.
    let mut file = File::from(memfd_create("hosts", MemfdFlags::empty())?);
    file.write_all(hosts.as_bytes())?;
    file.rewind()?;
    // Neither bubblewrap nor the sandbox keeps the capability.
    rustix::thread::clear_ambient_capability_set()?;
    #[expect(clippy::disallowed_methods, reason = "it is replaced by the program that creates the sandbox")]
    let mut bwrap = Command::new(&program);
    let error = bwrap.args(["--ro-bind-data", &file.as_raw_fd().to_string(), "/etc/hosts"]).args(arguments).exec();
    Err(io::Error::new(error.kind(), format!("cannot start {}: {error}", program.display())))
}

fn parsed(listener: &OsStr) -> Option<(&str, SocketAddr)> {
    let (name, address) = listener.to_str()?.split_once('=')?;
    Some((name, address.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_command_lines_are_ignored() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert!(run(words(&["host-broker"])).is_none());
        assert!(run(words(&["host-broker", "status", NAME])).is_none());
        let hosts = ["a.example".parse().unwrap(), "localhost:80".parse().unwrap()];
        let expected = words(&[NAME, "a.example=127.0.0.2:443", "localhost=127.0.0.1:80", "--"]);
        assert_eq!(arguments(&hosts), expected);
    }
}
