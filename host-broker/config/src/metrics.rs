//! `[metrics]`: the health and the metrics of the daemon.

use crate::web::Loopback;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The server for `/healthz` and `/metrics`; absent means that there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetricsTable {
    /// The loopback address and port of the server, such as `127.0.0.1:9464`. Port 0 means any free port.
    pub listen: Loopback,
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
            for words in ["line 2", "metrics.listen", "listen on 127.0.0.1:9464"] {
                assert!(fault.contains(words), "no `{words}` in {fault}");
            }
        }
        assert!(parsed("[metrics]\nlisten = \"localhost\"\n").unwrap_err().contains("not an address with a port"));
        assert!(parsed("[metrics]\n").unwrap_err().contains("listen"));
    }
}
