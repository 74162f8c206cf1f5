//! The route to a host: its addresses, and those of them that a sandbox may reach.
//!
//! A DNS lookup may block a thread for a minute. So each sandbox runs one lookup per host at a time, results are cached
//! briefly, and the lookups of all sandboxes together are bounded.

use super::Host;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

/// The lookups of all sandboxes at a time.
const LOOKUPS_MAX: usize = 16;
static LOOKUPS: Semaphore = Semaphore::const_new(LOOKUPS_MAX);
/// The time for which a result is cached, also a failure.
const CACHE_TIME: Duration = Duration::from_secs(5);

/// The route from one sandbox to one of its hosts.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) host: Host,
    found: watch::Sender<Option<Found>>,
    is_looking: AtomicBool,
}

#[derive(Debug, Clone)]
struct Found {
    at: Instant,
    addresses: Result<Arc<[SocketAddr]>, (io::ErrorKind, String)>,
}

impl Route {
    pub(super) fn new(host: Host) -> Arc<Self> {
        Arc::new(Self { host, found: watch::Sender::new(None), is_looking: AtomicBool::new(false) })
    }

    /// Connects to the first address that answers.
    pub(super) async fn connect(self: &Arc<Self>) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
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
            if let Some(found) = found.borrow_and_update().as_ref().filter(|found| found.at.elapsed() < CACHE_TIME) {
                return found.addresses.clone().map_err(|(kind, why)| io::Error::new(kind, why));
            }
            if !self.is_looking.swap(true, Ordering::AcqRel) {
                // A task of its own: the lookup continues if the waiting connection ends.
                tokio::spawn(Arc::clone(self).refresh());
            }
            found.changed().await.map_err(io::Error::other)?;
        }
    }

    async fn refresh(self: Arc<Self>) {
        let addresses = self.lookup().await.map_err(|error| (error.kind(), error.to_string()));
        self.is_looking.store(false, Ordering::Release);
        self.found.send_replace(Some(Found { at: Instant::now(), addresses }));
    }

    async fn lookup(&self) -> io::Result<Arc<[SocketAddr]>> {
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

/// Returns whether a host may have this address, or the reason why not.
fn admit(host: &Host, address: &SocketAddr) -> Result<(), &'static str> {
    if !is_allowed(host, address.ip()) || !host.is_local() && is_own(address) {
        return Err("its name resolves to this machine or a reserved address");
    }
    if is_private(address.ip()) && !host.may_be_private() {
        return Err(
            "its name resolves to a private network; to permit it: `private_hosts`, for an agent --private-host",
        );
    }
    Ok(())
}

/// SECURITY: the DNS server of a name decides its address. It must not lead to services of this machine, or to services
/// of its network such as cloud metadata, unless the host is `localhost`.
fn is_allowed(host: &Host, address: IpAddr) -> bool {
    let address = unmapped(address);
    if host.is_local() {
        return address.is_loopback();
    }
    let is_kept = match address {
        IpAddr::V4(address) => {
            let first = address.octets()[0];
            address.is_link_local() || first == 0 || first >= 240 || METADATA_V4.contains(&address)
        }
        IpAddr::V6(address) => {
            let is_site_local = address.segments()[0] & 0xffc0 == 0xfec0;
            address.is_unicast_link_local() || is_site_local || METADATA_V6.contains(&address)
        }
    };
    !(is_kept || address.is_loopback() || address.is_unspecified() || address.is_multicast())
}

/// SECURITY: an external name that resolves to the operator's network reaches services there that trust the network (DNS
/// rebinding). RFC 1918, RFC 6598, RFC 2544, RFC 6890 (2.2.2), RFC 4193.
fn is_private(address: IpAddr) -> bool {
    match unmapped(address) {
        IpAddr::V4(address) => match address.octets() {
            [100, second, ..] => second & 0xc0 == 64,
            [198, second, ..] => second & 0xfe == 18,
            [192, 0, 0, _] => true,
            _ => address.is_private(),
        },
        IpAddr::V6(address) => address.is_unique_local(),
    }
}

/// Metadata services of clouds that are not link-local: Alibaba, Azure, Oracle.
const METADATA_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(192, 0, 0, 192)];
/// The same: Amazon, Google.
const METADATA_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)];

/// The IPv4 address inside an IPv6 address: mapped (RFC 4291), compatible (the same), translated (RFC 6052,
/// RFC 8215), and 6to4 (RFC 3056).
fn unmapped(address: IpAddr) -> IpAddr {
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

/// Returns whether an address belongs to this machine. Nothing is sent: the system names the source address that it would
/// use.
fn is_own(address: &SocketAddr) -> bool {
    let any: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let own = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(address)?;
        socket.local_addr()
    });
    // Without a route, a connection fails as well.
    own.is_ok_and(|own| own.ip() == address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Host {
        text.parse().unwrap()
    }

    /// Attack (Programs: isolation): The DNS of a named host points to the broker's machine or to
    /// cloud metadata.
    /// Defence: Loopback, link-local and metadata addresses, also mapped, translated or 6to4, are
    /// refused. So are the machine's own addresses, unless the name is `localhost`.
    #[test]
    fn only_localhost_resolves_to_this_machine() {
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
            assert!(!is_allowed(&outside, address), "{inside}");
            assert_eq!(is_allowed(&own, address), unmapped(address).is_loopback(), "{inside}");
        }
        for address in ["93.184.216.34", "10.0.0.7", "2606:2800::1", "fd00::1", "64:ff9b::808:808"] {
            let address = address.parse().unwrap();
            assert!(is_allowed(&outside, address) && !is_allowed(&own, address), "{address}");
        }
    }

    /// Attack (Programs: isolation): The DNS of a named host points into the operator's private
    /// network.
    /// Defence: Private addresses, in every form, are permitted for `private_hosts` only.
    #[test]
    fn private_addresses_are_recognised() {
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

    /// Attack: see `private_addresses_are_recognised`.
    #[test]
    fn a_private_address_is_refused_with_the_remedy() {
        let inside = "198.18.77.7:9".parse().unwrap();
        assert!(admit(&host("api.example"), &inside).unwrap_err().contains("`private_hosts`"));
        assert_eq!(admit(&host("api.example").in_private_network(), &inside), Ok(()));
        // `private_hosts` does not allow addresses of this machine.
        for own in ["127.0.0.1:9", "169.254.169.254:80"] {
            let kept = admit(&host("api.example").in_private_network(), &own.parse().unwrap());
            assert!(kept.unwrap_err().contains("this machine"), "{own}");
        }
        assert_eq!(admit(&host("localhost:9"), &"127.0.0.1:9".parse().unwrap()), Ok(()));
    }

    /// Attack: see `only_localhost_resolves_to_this_machine`.
    #[test]
    fn own_addresses_are_recognised() {
        assert!(is_own(&"127.0.0.1:9".parse().unwrap()));
        // An address reserved for documentation (RFC 5737).
        assert!(!is_own(&"198.51.100.7:9".parse().unwrap()));
    }

    /// Attack (Programs: isolation): A program connects again and again until the broker has no
    /// thread or descriptor left.
    /// Defence: There is one lookup per host and sandbox at a time, sixteen in total. Connections
    /// are limited: 64 per sandbox, 256 in total.
    #[tokio::test]
    async fn concurrent_connections_share_one_lookup() {
        let route = Route::new(host("nobody-answers-for.ext.invalid"));
        let all: Vec<_> = (0..100)
            .map(|_| {
                tokio::spawn({
                    let route = Arc::clone(&route);
                    async move { route.connect().await }
                })
            })
            .collect();
        for one in all {
            assert!(one.await.unwrap().is_err());
        }
        let first = route.found.borrow().as_ref().unwrap().at;
        assert!(route.connect().await.is_err());
        assert_eq!(route.found.borrow().as_ref().unwrap().at, first, "the result is cached");
    }
}
