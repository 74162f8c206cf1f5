//! `[metrics]`: the health and the metrics of the daemon.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The server for `/healthz` and `/metrics`; absent means that there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetricsTable {
    /// The loopback address and port of the server, such as `127.0.0.1:9464`. Port 0 means any free port.
    pub listen: MetricsAddress,
}

/// An address for metrics that only this machine reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct MetricsAddress(SocketAddr);

impl MetricsAddress {
    /// Returns the address.
    pub fn address(self) -> SocketAddr {
        self.0
    }
}

impl TryFrom<String> for MetricsAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let address: SocketAddr = text
            .parse()
            .map_err(|_bad| format!("`{text}` is not an address with a port; write it like 127.0.0.1:9464"))?;
        if [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)].contains(&address.ip()) {
            return Ok(Self(address));
        }
        Err(format!(
            "metrics are served on 127.0.0.1 and [::1] only; listen on 127.0.0.1:{}, and run the scraper or a tunnel on \
             this machine",
            address.port()
        ))
    }
}

impl From<MetricsAddress> for String {
    fn from(address: MetricsAddress) -> Self {
        address.0.to_string()
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;
    use platform::Environment;
    use std::path::Path;

    fn parsed(text: &str) -> Result<Config, String> {
        Config::parse(text, Path::new("/x/broker.toml"), &Environment::new(), crate::KINDS)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn metrics_are_off_by_default_and_never_on_an_address_that_others_reach() {
        assert_eq!(parsed("").unwrap().metrics, None);
        for listen in ["127.0.0.1:0", "[::1]:9464"] {
            let table = parsed(&format!("[metrics]\nlisten = \"{listen}\"\n")).unwrap().metrics.unwrap();
            assert_eq!(String::from(table.listen), listen);
        }
        for listen in ["0.0.0.0:9464", "[::]:9464", "192.168.1.5:9464", "127.0.0.2:9464"] {
            let fault = parsed(&format!("[metrics]\nlisten = \"{listen}\"\n")).unwrap_err();
            for words in ["line 2", "metrics.listen", "listen on 127.0.0.1:9464", "tunnel"] {
                assert!(fault.contains(words), "no `{words}` in {fault}");
            }
        }
        assert!(parsed("[metrics]\nlisten = \"localhost\"\n").unwrap_err().contains("127.0.0.1:9464"));
        assert!(parsed("[metrics]\n").unwrap_err().contains("listen"));
    }
}
