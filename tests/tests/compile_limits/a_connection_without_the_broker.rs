// The network of the standard library is open to every crate. The lints forbid it.
use std::net::TcpStream;

fn connect() -> std::io::Result<TcpStream> {
    TcpStream::connect("127.0.0.1:1")
}

fn main() {}
