//! An approver's answer.

use super::refusal;
use crate::accounts;
use crate::approval_requests::AnswerOutcome;
use crate::approval_requests::{ApprovalAnswer, Given};
use crate::approval_subjects;
use crate::broker::Broker;
use crate::standing_approvals;
use kernel::Answer;
use kernel::call::Header;
use model::approval::ApprovalState;
use serde_json::json;
use shared::Reply;
use store::StoreError;
use store::Transaction;
use store::ledger::chain::Draft;
use store::ledger::chain::RowKind;
use store::state::approvals;

impl Broker {
    /// Takes an approver's answer: one row about the approval request with the person's name, and the reply to the
    /// person.
    pub(crate) fn take_answer(
        &mut self,
        tx: &Transaction<'_>,
        header: &Header,
        given: &ApprovalAnswer,
    ) -> Result<Answer, StoreError> {
        let taken = self.answer_approval_request(tx, header, given)?;
        let applying = self.apply_at_once(tx, given, &taken)?;
        let (kind, approval, Given { standing, access }) = match taken {
            AnswerOutcome::Counted(kind, approval, given) => (kind, approval, given),
            AnswerOutcome::No(code, reason, about) => {
                let evidence = tx.append(&Draft {
                    reason_code: Some(code),
                    approval: about,
                    body: given.way(json!({ "request": header.request_digest })),
                    ..header.draft(RowKind::Refused)
                })?;
                let reply = refusal(header, code, &reason, tx.now());
                return kernel::answer(tx, &header.caller_key, reply, evidence);
            }
        };
        let became = approvals::numbered(tx.view(), approval.id)?.and_then(|approval| approval.became);
        let mut body = json!({
            "request": header.request_digest,
            "of": approval.asked_seq,
            "of_caller": approval.caller,
            "agrees_to": approval.digest,
            "state": approval.state,
        });
        // The row says how the approval was carried out, if not as usual.
        if let (Some(became), Some(members)) = (&became, body.as_object_mut()) {
            members.insert("became".to_owned(), json!(became));
        }
        if let (Some(standing), Some(members)) = (&standing, body.as_object_mut()) {
            members.insert("standing".to_owned(), standing_approvals::in_row(standing));
        }
        if let (Some(access), Some(members)) = (&access, body.as_object_mut()) {
            members.insert("access".to_owned(), json!(access));
        }
        let evidence = tx.append(&Draft {
            provider: Some(&approval.provider),
            action: Some(&approval.action),
            level: Some(approval.level),
            approval: Some(approval.reference()),
            body: given.way(body),
            ..header.draft(kind)
        })?;
        let answers = approvals::answers(tx.view(), approval.id)?;
        let yes = answers.iter().filter(|answer| answer.yes).count();
        let subject = approval_subjects::of(approval.kind);
        // The decision refuses the call. The approver hears it at once.
        let gone = accounts::gone(tx.view(), approval.id)?.filter(|_| given.yes);
        let summary = match approval.state {
            ApprovalState::Approved if gone.is_some() => String::new(),
            ApprovalState::Waiting => format!("Your yes counts: {yes} of {}.", approval.quorum),
            ApprovalState::Approved => {
                let took_effect = became.as_deref() == Some(ApprovalState::Approved.word());
                subject.approved(&approval, took_effect)
            }
            ApprovalState::Denied | ApprovalState::Expired | ApprovalState::Cancelled | ApprovalState::Closed => {
                subject.denied(&approval)
            }
        };
        let summary = match &gone {
            Some(why) => format!("{summary} {why}").trim_start().to_owned(),
            None => summary,
        };
        let summary = match &standing {
            Some(standing) => format!("{summary} {}", standing_approvals::in_words(standing)),
            None => summary,
        };
        let mut data = json!({ "code": approval.code, "ref": approval.reference(), "state": approval.state });
        if let (Some(standing), Some(object)) = (&standing, data.as_object_mut()) {
            object.insert("standing".into(), standing.reference().into());
        }
        if let (Some(why), Some(object)) = (gone, data.as_object_mut()) {
            object.insert("cannot_run".into(), why.into());
        }
        if let (Some(request), Some(object)) = (applying, data.as_object_mut()) {
            object.insert("applied_by".into(), json!(request));
        }
        kernel::answer(
            tx,
            &header.caller_key,
            Reply::executed(header.request_id.clone(), data, summary, tx.now()),
            evidence,
        )
    }
}
