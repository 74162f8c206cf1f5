//! Where a host is: its addresses, and which of them a room may be connected with.
//!
//! Looking a name up may take a thread for a minute, and whoever connects again and again must not take all that there are:
//! a room has each of its hosts looked up once at a time, what was found is good for a moment, and of all rooms only so many
//! lookups run at once.

use super::Host;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

/// So many lookups run at once, of all rooms.
const LOOKUPS_MAX: usize = 16;
static LOOKUPS: Semaphore = Semaphore::const_new(LOOKUPS_MAX);
/// For so long what was found is good, also if it is nothing.
const KEPT: Duration = Duration::from_secs(5);

/// The way from one room to one of its hosts.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) host: Host,
    found: watch::Sender<Option<Found>>,
    is_looking: AtomicBool,
}

#[derive(Debug, Clone)]
struct Found {
    at: Instant,
    addresses: Result<Arc<[SocketAddr]>, (io::ErrorKind, String)>,
}

impl Way {
    pub(super) fn new(host: Host) -> Arc<Self> {
        Arc::new(Self { host, found: watch::Sender::new(None), is_looking: AtomicBool::new(false) })
    }

    /// A connection with the host, by whatever address answers first.
    pub(super) async fn reach(self: &Arc<Self>) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "its name leads nowhere");
        for address in self.addresses().await?.iter() {
            if let Err(why) = admit(&self.host, address) {
                last = io::Error::new(io::ErrorKind::PermissionDenied, why);
                continue;
            }
            match TcpStream::connect(address).await {
                Ok(outside) => return Ok(outside),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn addresses(self: &Arc<Self>) -> io::Result<Arc<[SocketAddr]>> {
        let mut found = self.found.subscribe();
        loop {
            if let Some(found) = found.borrow_and_update().as_ref().filter(|found| found.at.elapsed() < KEPT) {
                return found.addresses.clone().map_err(|(kind, why)| io::Error::new(kind, why));
            }
            if !self.is_looking.swap(true, Ordering::AcqRel) {
                // On its own: whoever waits for it may go, and it goes on.
                tokio::spawn(Arc::clone(self).look());
            }
            found.changed().await.map_err(io::Error::other)?;
        }
    }

    async fn look(self: Arc<Self>) {
        let addresses = self.look_up().await.map_err(|error| (error.kind(), error.to_string()));
        self.is_looking.store(false, Ordering::Release);
        self.found.send_replace(Some(Found { at: Instant::now(), addresses }));
    }

    async fn look_up(&self) -> io::Result<Arc<[SocketAddr]>> {
        let permit = LOOKUPS.acquire().await.map_err(io::Error::other)?;
        let (name, port) = (self.host.name().to_owned(), self.host.port());
        let looked = tokio::task::spawn_blocking(move || {
            let found = (name.as_str(), port).to_socket_addrs().map(Iterator::collect);
            drop(permit);
            found
        });
        looked.await.map_err(io::Error::other)?
    }
}

/// Whether a host may be at this address; else why not.
fn admit(host: &Host, address: &SocketAddr) -> Result<(), &'static str> {
    if !may_be(host, address.ip()) || !host.is_local() && is_own(address) {
        return Err("its name leads nowhere outside of this machine");
    }
    if is_private(address.ip()) && !host.may_be_private() {
        return Err("its name leads into a private network; if that is where it is, name it in `private_hosts`");
    }
    Ok(())
}

/// SECURITY: whoever answers for a host's name decides where it leads. That must not be to this machine's own services, or to
/// those that the machine's network keeps for it alone, such as a cloud's metadata, unless the name says so.
fn may_be(host: &Host, address: IpAddr) -> bool {
    let address = meant(address);
    if host.is_local() {
        return address.is_loopback();
    }
    let is_kept = match address {
        IpAddr::V4(address) => {
            let first = address.octets()[0];
            address.is_link_local() || first == 0 || first >= 240 || KEPT_V4.contains(&address)
        }
        IpAddr::V6(address) => {
            let is_site_local = address.segments()[0] & 0xffc0 == 0xfec0;
            address.is_unicast_link_local() || is_site_local || KEPT_V6.contains(&address)
        }
    };
    !(is_kept || address.is_loopback() || address.is_unspecified() || address.is_multicast())
}

/// SECURITY: a name out in the world that suddenly leads into the operator's own network is how services there are reached that
/// trust whoever is in it (DNS rebinding). RFC 1918, RFC 6598, RFC 2544, RFC 6890 (2.2.2), RFC 4193.
fn is_private(address: IpAddr) -> bool {
    match meant(address) {
        IpAddr::V4(address) => match address.octets() {
            [100, second, ..] => second & 0xc0 == 64,
            [198, second, ..] => second & 0xfe == 18,
            [192, 0, 0, _] => true,
            _ => address.is_private(),
        },
        IpAddr::V6(address) => address.is_unique_local(),
    }
}

/// Where clouds answer their machines, other than at link-local addresses: Alibaba, Azure, Oracle.
const KEPT_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(192, 0, 0, 192)];
/// The same: Amazon, Google.
const KEPT_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)];

/// The address that is meant by one that only carries it: mapped (RFC 4291), compatible (the same), translated (RFC 6052,
/// RFC 8215), and 6to4 (RFC 3056).
fn meant(address: IpAddr) -> IpAddr {
    let IpAddr::V6(wide) = address else { return address };
    let carried = match wide.segments() {
        _ if wide.is_loopback() || wide.is_unspecified() => return address,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x64, 0xff9b, 1, _, _, _, high, low]
        | [0x2002, high, low, ..] => (high, low),
        _ => return address,
    };
    let ([one, two], [three, four]) = (carried.0.to_be_bytes(), carried.1.to_be_bytes());
    Ipv4Addr::new(one, two, three, four).into()
}

/// Whether an address is one of this machine's. Nothing is sent to find out: the system says from which address of its own it
/// would.
fn is_own(address: &SocketAddr) -> bool {
    let any: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let own = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(address)?;
        socket.local_addr()
    });
    // Where there is no way, there is none for a connection either.
    own.is_ok_and(|own| own.ip() == address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Host {
        text.parse().unwrap()
    }

    #[test]
    fn a_name_leads_to_this_machine_only_if_it_says_so() {
        let (outside, own) = (host("api.example"), host("localhost:80"));
        for inside in [
            "127.0.0.1",
            "127.8.9.1",
            "::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::7f00:1",
            "2002:7f00:1::1",
            "0.0.0.0",
            "0.1.2.3",
            "::",
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "fd00:ec2::254",
            "fd20:ce::254",
            "168.63.129.16",
            "100.100.100.200",
            "fe80::1",
            "fec0::1",
            "224.0.0.1",
            "ff02::1",
            "240.0.0.1",
            "255.255.255.255",
        ] {
            let address: IpAddr = inside.parse().unwrap();
            assert!(!may_be(&outside, address), "{inside}");
            assert_eq!(may_be(&own, address), meant(address).is_loopback(), "{inside}");
        }
        for address in ["93.184.216.34", "10.0.0.7", "2606:2800::1", "fd00::1", "64:ff9b::808:808"] {
            let address = address.parse().unwrap();
            assert!(may_be(&outside, address) && !may_be(&own, address), "{address}");
        }
    }

    #[test]
    fn a_name_leads_into_a_private_network_only_if_that_is_said_of_it() {
        for inside in [
            "10.0.0.7",
            "10.255.255.255",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "100.127.255.255",
            "192.0.0.8",
            "198.18.0.1",
            "198.19.255.255",
            "fc00::1",
            "fdff::1",
            "::ffff:10.0.0.7",
            "64:ff9b::a00:7",
            "2002:c0a8:101::1",
        ] {
            assert!(is_private(inside.parse().unwrap()), "{inside}");
        }
        for outside in
            ["9.255.255.255", "11.0.0.1", "172.15.0.1", "172.32.0.1", "192.169.0.1", "100.63.0.1", "100.128.0.1"]
                .into_iter()
                .chain(["192.0.1.1", "198.17.0.1", "198.20.0.1", "2606:2800::1", "fe00::1", "64:ff9b::808:808"])
        {
            assert!(!is_private(outside.parse().unwrap()), "{outside}");
        }
    }

    #[test]
    fn a_host_is_kept_out_of_a_private_network_with_a_word_of_what_to_do() {
        let inside = "198.18.77.7:9".parse().unwrap();
        assert!(admit(&host("api.example"), &inside).unwrap_err().contains("`private_hosts`"));
        assert_eq!(admit(&host("api.example").in_private_network(), &inside), Ok(()));
        // Of this machine nothing is said apart from that.
        for own in ["127.0.0.1:9", "169.254.169.254:80"] {
            let kept = admit(&host("api.example").in_private_network(), &own.parse().unwrap());
            assert!(kept.unwrap_err().contains("this machine"), "{own}");
        }
        assert_eq!(admit(&host("localhost:9"), &"127.0.0.1:9".parse().unwrap()), Ok(()));
    }

    #[test]
    fn the_machines_own_addresses_are_told_from_others() {
        assert!(is_own(&"127.0.0.1:9".parse().unwrap()));
        // One of those that are for documents alone: no machine has it.
        assert!(!is_own(&"198.51.100.7:9".parse().unwrap()));
    }

    #[tokio::test]
    async fn a_host_is_looked_up_once_for_all_who_come_at_once() {
        let way = Way::new(host("nobody-answers-for.ext.invalid"));
        let all: Vec<_> = (0..100)
            .map(|_| {
                tokio::spawn({
                    let way = Arc::clone(&way);
                    async move { way.reach().await }
                })
            })
            .collect();
        for one in all {
            assert!(one.await.unwrap().is_err());
        }
        let first = way.found.borrow().as_ref().unwrap().at;
        assert!(way.reach().await.is_err());
        assert_eq!(way.found.borrow().as_ref().unwrap().at, first, "what was found is good for a moment");
    }
}
