//! The end of a session, by a person.

use super::CommandResult;
use crate::broker::Broker;
use model::{Caller, external, standing_approval};
use serde_json::json;
use shared::Code;
use shared::numbers::counted;
use store::ledger::chain::RowKind;
use store::state::external_grants;
use store::state::sessions;
use store::state::sessions::SessionName;
use store::state::standing_approvals;
use store::{StoreError, Transaction};

impl Broker {
    /// Resets a session: forgets its exposure.
    pub(super) fn reset_session(
        &self,
        tx: &Transaction<'_>,
        by: &str,
        name: &SessionName,
    ) -> Result<CommandResult, StoreError> {
        let connection = tx.view();
        let unknown = || {
            Ok(CommandResult::no(
                Code::InvalidParams,
                format!("There is no session {name}; see: host-broker exposure list."),
            ))
        };
        let session = match name {
            SessionName::Group(group) => {
                if let Some(fault) = self.unknown_group(group) {
                    return Ok(CommandResult::no(Code::InvalidParams, fault));
                }
                Caller::Group(group.clone()).to_string()
            }
            SessionName::Access(access) => {
                if external_grants::find(connection, access)?.is_none() {
                    return unknown();
                }
                external_grants::session_of(connection, &Caller::External(access.clone()).to_string())?.into_owned()
            }
            SessionName::External(key) if sessions::is_external(connection, key)? => key.clone(),
            SessionName::External(_) => return unknown(),
        };
        let mut waits = sessions::is_under_way(connection, &session)?;
        for (caller, _) in self.waiting.iter().filter(|(_, waiting)| **waiting > 0) {
            waits |= *external_grants::session_of(connection, caller)? == *session;
        }
        if waits {
            // Their results would belong to no session.
            return Ok(CommandResult::no(Code::Busy, format!("Calls of {name} are still under way.")));
        }
        let (forgotten, ended) = Self::end_session(tx, &session, by)?;
        let group = match name {
            SessionName::Group(group) => group,
            SessionName::Access(_) | SessionName::External(_) => external(),
        };
        let data = json!({ "group": group, "session": session, "forgotten": forgotten, "standing_ended": ended });
        let removed = counted(forgotten, "action", "actions");
        let mut summary = format!("The exposure of {name} is reset; {removed} removed.");
        if !ended.is_empty() {
            summary.extend([" Ended with the session: ", &ended.join(", "), "."]);
        }
        Ok(CommandResult::done(RowKind::SessionReset, data.clone(), data, summary))
    }

    /// Ends a session in which no call is under way, and forgets its exposure and its results.
    ///
    /// Returns the number of actions that it had called, and the standing approvals that end with it.
    pub(super) fn end_session(
        tx: &Transaction<'_>,
        session: &str,
        by: &str,
    ) -> Result<(usize, Vec<String>), StoreError> {
        let forgotten = sessions::reset(tx, session)?;
        let ended = standing_approvals::end_with_session(tx, session, by)?;
        Ok((forgotten, ended.into_iter().map(standing_approval::reference).collect()))
    }
}
