//! The approval requests of other hosts in the inbox of this one.

use super::Shared;
use super::read_pool::{Listed, waits};
use crate::control::approvals::{ApprovalRecord, ApprovalsRequest, read_reply};
use crate::control::{ProcessRequest, SocketRequest};
use crate::fleet_commands::{FleetRequest, NoReply, OtherHosts};
use futures_util::future::join_all;
use model::HostName;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The longest time of the lists of all hosts.
const LIST_WITHIN: Duration = Duration::from_secs(4);
/// The longest time until another host takes a request for a page, and then until it answers.
const WITHIN: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(5));

impl Shared {
    /// Returns the pending approval requests that this person may answer on other hosts, and the hosts that gave none.
    pub(super) async fn waiting_on_other_hosts(&self, person: &str) -> (Vec<Listed>, Vec<(HostName, String)>) {
        let (mut waiting, mut silent) = (Vec::new(), Vec::new());
        let Some(others) = self.web.dispatcher.other_hosts.as_ref() else { return (waiting, silent) };
        let (hosts, now) = (others.of_inbox(), self.web.clock.now());
        let wanted = ApprovalsRequest { all: false, code: None };
        let answers = join_all(hosts.iter().map(|host| async {
            let answer = timeout(LIST_WITHIN, ask(others, person, host, wanted.clone())).await;
            answer.unwrap_or_else(|_elapsed| Err("it gave no answer in time".to_owned()))
        }));
        let answers = answers.await;
        for (host, answer) in hosts.into_iter().zip(answers) {
            match answer {
                Ok(records) => {
                    let open = records.into_iter().filter(|record| waits(&record.approval, now));
                    waiting.extend(open.map(|record| Listed { record, host: Some(host.clone()) }));
                }
                Err(reason) => silent.push((host, reason)),
            }
        }
        (waiting, silent)
    }

    /// Returns the approval request with this name, if this person may answer it on the other host.
    ///
    /// # Errors
    /// The reason why the host gave no answer.
    pub(super) async fn one_on_other_host(
        &self,
        person: &str,
        host: &HostName,
        reference: &str,
    ) -> Result<Option<Listed>, String> {
        let others = self.web.dispatcher.other_hosts.as_ref().filter(|others| others.of_inbox().contains(host));
        let others = others.ok_or_else(|| format!("broker.toml has no `inbox = true` in [store.hosts.{host}]"))?;
        let wanted = ApprovalsRequest { all: true, code: Some(reference.to_owned()) };
        let found = ask(others, person, host, wanted).await?;
        // SECURITY: the address names the approval request, and the other host could answer with another one.
        let found = found.into_iter().find(|record| record.approval.reference() == reference);
        Ok(found.map(|record| Listed { record, host: Some(host.clone()) }))
    }
}

async fn ask(
    others: &Arc<OtherHosts>,
    person: &str,
    host: &HostName,
    wanted: ApprovalsRequest,
) -> Result<Vec<ApprovalRecord>, String> {
    let request = Box::new(SocketRequest::Process(ProcessRequest::Approvals(wanted)));
    let reply = others.ask_within(person, FleetRequest { host: host.clone(), request }, WITHIN).await;
    read_reply(&reply.map_err(|none| no_reply(host, &none))?)
}

/// The text for a page. The reason may name roles and addresses of the database.
pub(super) fn no_reply(host: &HostName, none: &NoReply) -> String {
    tracing::warn!(%host, reason = %none, "another host gave no answer for a page");
    "it gave no answer; for the reason: host-broker logs".to_owned()
}
