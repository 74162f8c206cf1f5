//! The parts that the MCP server and the command line share: ask the host, see the snapshot, remember the calls.

use crate::calls::Calls;
use crate::document;
use crate::progress::Listener;
use crate::rendezvous::Rendezvous;
use crate::settings::Settings;
use crate::snapshot::{Snapshots, View};
use crate::watch::Watch;
use shared::request::{BeginRequest, Request};
use shared::{Code, Reply, Status};
use std::pin::pin;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

/// One shim at one group's directory.
#[derive(Debug)]
pub struct Shim {
    rendezvous: Rendezvous,
    snapshots: Snapshots,
    calls: Calls,
    // Held while a conversation begins.
    begins: Mutex<()>,
}

/// The pause before a conversation is begun again, while calls of the earlier one are under way; it doubles.
const BEGIN_PAUSE: Duration = Duration::from_millis(200);

impl Shim {
    /// Must be made inside the runtime.
    pub fn new(settings: Settings) -> Self {
        let snapshots = Snapshots::new(&settings);
        let rendezvous = Rendezvous::new(settings, Watch::new());
        Self { rendezvous, snapshots, calls: Calls::default(), begins: Mutex::default() }
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
    ///
    /// If the exposure of the group ends with a conversation, the first request of an MCP client begins one.
    pub async fn ask(
        &self,
        view: &View,
        mut request: Request,
        stop: impl Future<Output = ()>,
        listener: &mut impl Listener,
    ) -> Reply {
        let timeout = timeout(self.rendezvous.settings(), view, &mut request);
        let needs_one = view.snapshot.as_ref().is_some_and(|snapshot| snapshot.needs_conversation);
        if !needs_one || !self.rendezvous.settings().begins_conversations || self.rendezvous.conversation().is_some() {
            return self.send(&request, timeout, stop, listener).await;
        }
        let stopped = CancellationToken::new();
        let mut sent = pin!(async {
            match self.begin(timeout, &stopped, listener).await {
                Ok(()) => self.send(&request, timeout, stopped.cancelled(), listener).await,
                Err(reply) => *reply,
            }
        });
        tokio::select! {
            biased;
            () = stop => {
                stopped.cancel();
                sent.await
            }
            reply = sent.as_mut() => reply,
        }
    }

    /// Begins the conversation of this process, unless that is done. Waits for the calls of the earlier one.
    ///
    /// # Errors
    /// The reply to give instead. The caller's request was not sent.
    async fn begin(
        &self,
        timeout: Duration,
        stopped: &CancellationToken,
        listener: &mut impl Listener,
    ) -> Result<(), Box<Reply>> {
        let unsent = || Box::new(Reply::of_code(document::request_id(), Code::Withdrawn, document::now()));
        let deadline = Instant::now() + timeout;
        let Ok(_begins) = timeout_at(deadline, self.begins.lock()).await else { return Err(unsent()) };
        let mut pause = BEGIN_PAUSE;
        while self.rendezvous.conversation().is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            if stopped.is_cancelled() || left.is_zero() {
                return Err(unsent());
            }
            // No agent asks for the result of this request, so it is not remembered.
            let (id, request) = (document::request_id(), Request::Begin(BeginRequest {}));
            let reply = self.rendezvous.ask(id, &request, left, stopped.cancelled(), listener).await;
            let is_lost = reply.code.as_deref() == Some(Code::NoAnswer.word());
            if reply.status == Status::Executed {
                self.rendezvous.converse(reply.request_id);
            } else if (is_lost || reply.code.as_deref() == Some(Code::Busy.word())) && Instant::now() + pause < deadline
            {
                stopped.run_until_cancelled(sleep(pause)).await;
                pause *= 2;
            } else if is_lost {
                return Err(unsent());
            } else {
                return Err(Box::new(Reply { request_id: document::request_id(), ..reply }));
            }
        }
        Ok(())
    }

    async fn send(
        &self,
        request: &Request,
        timeout: Duration,
        stop: impl Future<Output = ()>,
        listener: &mut impl Listener,
    ) -> Reply {
        let id = document::request_id();
        self.calls.sent(&id, request);
        let reply = self.rendezvous.ask(id.clone(), request, timeout, stop, listener).await;
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
        Request::Grant(grant) => (None, Some(&mut grant.timeout_ms)),
        Request::Access(access) => (None, Some(&mut access.timeout_ms)),
        Request::Capabilities(_)
        | Request::Revoke(_)
        | Request::Begin(_)
        | Request::List(_)
        | Request::ListCalls(_)
        | Request::ListTasks(_)
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
    fn requests_to_a_provider_wait_for_the_timeout_of_that_provider() {
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
            (json!({"type": "ext_grant", "group_folder": "g", "provider": "p", "access_level": 1}), 30, true),
            (
                json!({"type": "ext_request", "provider": "p", "access_level": 1, "reason": "x", "duration_s": 60}),
                30,
                true,
            ),
            (json!({"type": "ext_list"}), 30, false),
        ] {
            let mut request = shared::request::parse(body.to_string().as_bytes()).unwrap().request;
            assert_eq!(timeout(&settings, &view, &mut request), Duration::from_secs(seconds), "{body}");
            let told = request.body().get("timeout_ms").and_then(Value::as_u64);
            assert_eq!(told, is_told.then_some(seconds * 1000), "{body}");
        }
    }
}
