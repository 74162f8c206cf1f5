//! The parts that the MCP server and the command line share: ask the host, see the snapshot, remember the calls.

use crate::calls::Calls;
use crate::document;
use crate::progress::Listener;
use crate::rendezvous::Rendezvous;
use crate::settings::Settings;
use crate::snapshot::{Snapshots, View};
use crate::watch::Watch;
use shared::Reply;
use shared::request::Request;
use std::time::Duration;

/// One shim at one group's directory.
#[derive(Debug)]
pub struct Shim {
    rendezvous: Rendezvous,
    snapshots: Snapshots,
    calls: Calls,
}

impl Shim {
    /// Must be made inside the runtime.
    pub fn new(settings: Settings) -> Self {
        let snapshots = Snapshots::new(&settings);
        Self { rendezvous: Rendezvous::new(settings, Watch::new()), snapshots, calls: Calls::default() }
    }

    /// Returns the snapshots: the capabilities of the group, and the tools that follow from them.
    pub fn snapshots(&self) -> &Snapshots {
        &self.snapshots
    }

    /// The recent calls.
    pub fn calls(&self) -> &Calls {
        &self.calls
    }

    /// The way to the host.
    pub fn rendezvous(&self) -> &Rendezvous {
        &self.rendezvous
    }

    /// Asks the host; see [`Rendezvous::ask`]. The timeout comes from the snapshot, and the request names it.
    pub async fn ask(
        &self,
        view: &View,
        mut request: Request,
        stop: impl Future<Output = ()>,
        listener: &mut impl Listener,
    ) -> Reply {
        let timeout = timeout(self.rendezvous.settings(), view, &mut request);
        let id = document::request_id();
        self.calls.sent(&id, &request);
        let reply = self.rendezvous.ask(id.clone(), &request, timeout, stop, listener).await;
        self.calls.answered(&id, &reply);
        reply
    }
}

/// How long to wait for the answer; written into a request that has a place for it.
fn timeout(settings: &Settings, view: &View, request: &mut Request) -> Duration {
    let (provider, told) = match request {
        Request::Call(call) => (Some(call.provider.clone()), Some(&mut call.timeout_ms)),
        Request::Auth(auth) => (Some(auth.capability()), auth.timeout_ms()),
        Request::Result(result) => (None, Some(&mut result.timeout_ms)),
        Request::Plan(plan) => (None, Some(&mut plan.timeout_ms)),
        Request::Capabilities(_)
        | Request::Grant(_)
        | Request::Revoke(_)
        | Request::Access(_)
        | Request::List(_)
        | Request::TaskCreate(_)
        | Request::GateApprove(_)
        | Request::Cancel(_)
        | Request::Flow(_) => (None, None),
    };
    let timeout = settings.timeout(provider.and_then(|provider| view.timeout(&provider)));
    if let Some(told) = told {
        *told = u64::try_from(timeout.as_millis()).ok();
    }
    timeout
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn what_is_about_a_provider_is_waited_for_as_long_as_that_provider_takes() {
        let capability = json!({"provider": "gog.email", "access_level": 2, "timeout_ms": 90_000});
        let snapshot = json!({"generatedAt": "x", "capabilities": [capability]});
        let view = View { snapshot: serde_json::from_value(snapshot).unwrap(), ..View::default() };
        let settings = Settings::read(|_| None).unwrap();
        let flow = format!("caf_gog.email_{}", "0a".repeat(16));
        let elsewhere = flow.replace("email", "calendar");
        let call = json!({"provider": "gog.email", "action": "send"});
        for (body, seconds, is_told) in [
            (json!({"type": "ext_call", "provider": "gog.email", "action": "send"}), 90, true),
            (json!({"type": "ext_result", "of": "r1"}), 30, true),
            (json!({"type": "ext_plan", "reason": "x", "calls": [call, call]}), 30, true),
            (json!({"type": "ext_auth_begin", "capability": "gog.email"}), 90, true),
            (json!({"type": "ext_auth_complete", "flow_id": flow, "code": "c"}), 90, true),
            (json!({"type": "ext_auth_poll", "flow_id": flow}), 90, true),
            (json!({"type": "ext_auth_poll", "flow_id": elsewhere}), 30, true),
            (json!({"type": "ext_auth_list", "capability": "gog.email"}), 90, false),
            (json!({"type": "ext_auth_unlink", "capability": "gog.email", "account_ref": "a"}), 90, false),
            (json!({"type": "ext_list"}), 30, false),
        ] {
            let mut request = shared::request::parse(body.to_string().as_bytes()).unwrap().request;
            assert_eq!(timeout(&settings, &view, &mut request), Duration::from_secs(seconds), "{body}");
            let told = request.body().get("timeout_ms").and_then(Value::as_u64);
            assert_eq!(told, is_told.then_some(seconds * 1000), "{body}");
        }
    }
}
