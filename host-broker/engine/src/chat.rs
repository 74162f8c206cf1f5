//! Answers from a chat: what was written, who wrote it, and who hands it in.
//!
//! SECURITY: a chat is a weaker place than the broker's own. What is production, widens access or is more than a call is
//! never answered there; a bridge is believed about who wrote only if the configuration says so; and codes, which are
//! short, can be guessed only a few times.

use crate::approval_requests::ApprovalAnswer;
use crate::broker::Broker;
use kernel::Answer;
use kernel::call::{Header, Origin};
use model::approval::ApprovalReason;
use model::{Caller, Subject, approval};
use serde_json::json;
use shared::reply::Evidence;
use shared::{Code, Level, Reply, Timestamp};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use store::ledger::chain::{Draft, Kind};
use store::ledger::export;
use store::state::approvals;
use store::state::chat_lockouts;
use store::{Receipt, StoreError, Transaction};

/// The longest line that is taken for an answer, in characters.
const LINE_MAX: usize = 500;
/// So many wrong codes of one sender within this time, and it is not listened to for as long.
const MISSES: (i64, Duration) = (5, Duration::from_secs(300));
/// All who are nobody known count as one, so that many names are no more tries.
const NOBODY: &str = "?";

/// What was written in a chat.
#[derive(Clone, PartialEq, Eq)]
pub struct ParsedAnswer {
    /// Which question.
    pub code: String,
    /// Yes, or no.
    pub yes: bool,
    /// Why.
    pub reason: Option<String>,
}

impl std::fmt::Debug for ParsedAnswer {
    /// Without the code, which is a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.yes { "Spoken(yes)" } else { "Spoken(no)" })
    }
}

/// An answer from a chat, as it was handed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayedAnswer {
    /// Who wrote it, as the chat names people.
    pub from: String,
    /// What was written.
    pub spoken: ParsedAnswer,
    /// Whether whoever hands it in may do so for others.
    pub may_relay: bool,
    /// The channel whose token was shown; it speaks only about what concerns it.
    pub channel: Option<String>,
}

/// Who handed an answer in for somebody else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatRelay {
    /// Who wrote it, as the chat names people.
    pub from: String,
    /// Who handed it in, as the ledger writes callers.
    pub by: String,
}

/// Reads an answer: `approve CODE`, or `deny CODE` and why.
///
/// ```
/// use engine::chat::read;
/// assert!(read(" Approve K7F3QD ").unwrap().yes);
/// assert_eq!(read("deny k7f3qd because not today").unwrap().reason.as_deref(), Some("not today"));
/// assert!(read("approve k7f3qd if it is small").is_err());
/// ```
///
/// # Errors
/// What to write instead.
pub fn read(line: &str) -> Result<ParsedAnswer, String> {
    const USE: &str = "Write one line: 'approve CODE', or 'deny CODE because …', with the six signs of the code.";
    let line = line.trim();
    if line.chars().count() > LINE_MAX || line.chars().any(char::is_control) {
        return Err(USE.to_owned());
    }
    let mut words = line.splitn(3, char::is_whitespace);
    let (word, code) = (words.next().unwrap_or_default(), words.next().unwrap_or_default().to_ascii_lowercase());
    let rest = words.next().map(str::trim).filter(|rest| !rest.is_empty());
    let yes = match word.to_ascii_lowercase().as_str() {
        "approve" => true,
        "deny" => false,
        _ => return Err(USE.to_owned()),
    };
    if code.len() != 6 || !code.chars().all(|c| c.is_ascii_alphanumeric()) {
        return Err(USE.to_owned());
    }
    match rest {
        // Whoever writes more means more than can be agreed to.
        Some(_) if yes => Err(format!("An approval cannot have conditions; nothing was answered. {USE}")),
        rest => {
            let said = rest.map(|rest| match rest.split_once(char::is_whitespace) {
                Some((first, why)) if first.eq_ignore_ascii_case("because") => why.trim(),
                Some(_) | None => rest,
            });
            Ok(ParsedAnswer { code, yes, reason: said.map(ToOwned::to_owned) })
        }
    }
}

/// Whether a question of this kind may be answered in a chat, and its code be shown there. Only what is known to be
/// harmless enough is; a new kind is not, until it is named here.
///
/// # Errors
/// Why not.
pub fn answerable(kind: approval::Kind, level: Level, asks: &BTreeSet<ApprovalReason>) -> Result<(), &'static str> {
    // What came in from others may have been written to get a yes in the next message.
    if asks.iter().any(|ask| *ask != ApprovalReason::Tier) {
        return Err(
            "What brings private data, the content of others and a way out together is never answered in a chat",
        );
    }
    match kind {
        approval::Kind::Call | approval::Kind::File if level < Level::Production => Ok(()),
        approval::Kind::Call | approval::Kind::File => Err("Production actions are never answered in a chat"),
        approval::Kind::Grant => Err("Access is never given in a chat"),
        approval::Kind::Account => Err("Accounts are never linked in a chat"),
        approval::Kind::Flow => Err("Flows are never approved in a chat"),
        approval::Kind::Definition => Err("What servers say of themselves is never accepted in a chat"),
    }
}

impl Broker {
    /// Takes an answer that somebody hands in for a person of a chat: the same as if the person gave it, where the one who
    /// hands it in may, the person is known, the question is one for chats, and not too many codes were wrong.
    pub(crate) fn take_relayed(
        &mut self,
        tx: &Transaction<'_>,
        header: &Header,
        relayed: &RelayedAnswer,
    ) -> Result<Answer, StoreError> {
        let handed_in = ChatRelay { from: relayed.from.clone(), by: header.caller_key.to_string() };
        let Caller::Person(_) = &header.caller else {
            // No document has this type; whoever adds one is stopped here.
            let reason = "Only people hand in answers.";
            return refuse(tx, header, &handed_in, None, Code::Guardrail, reason).map(|(answer, _)| answer);
        };
        if !relayed.may_relay {
            let relay = handed_in.by.strip_prefix("person:").unwrap_or(&handed_in.by);
            let reason =
                format!("{relay} may not answer for others: [people.{relay}] needs `can_relay_answers = true`.");
            return refuse(tx, header, &handed_in, None, Code::Guardrail, &reason).map(|(answer, _)| answer);
        }
        let person = self.config.speaker(&relayed.from);
        // Who misuses one channel's token silences nobody elsewhere.
        let channel = relayed.channel.as_ref();
        let sender = match channel {
            Some(channel) => format!("{channel} {}", person.unwrap_or(NOBODY)),
            None => person.unwrap_or(NOBODY).to_owned(),
        };
        let sender = sender.as_str();
        if let Some((until, row)) = chat_lockouts::locked_out(tx, sender)? {
            return silent(tx, header, until, row);
        }
        let Some(person) = person else {
            let reason = format!("{0} is an unknown sender; [people.NAME] needs chat = [\"{0}\"].", relayed.from);
            return missed(tx, header, &handed_in, sender, Code::Guardrail, &reason);
        };
        let Some(approval) = approvals::with_code(tx.view(), &relayed.spoken.code)? else {
            let reason = "There is no question with this code.";
            return missed(tx, header, &handed_in, sender, Code::InvalidParams, reason);
        };
        if let Some(channel) = channel {
            let table = self.config.channels.iter().find(|table| table.name == *channel);
            let speaks = table.is_some_and(|table| {
                (table.approvers.is_empty() || table.approvers.iter().any(|name| name == person))
                    && self.concerns(table, &approval)
            });
            if !speaks {
                let reason = format!("The channel '{channel}' is for other people or questions; nothing was answered.");
                let about = Some(approval.reference());
                return refuse(tx, header, &handed_in, about, Code::Guardrail, &reason).map(|(answer, _)| answer);
            }
        }
        if let Err(why) = answerable(approval.kind, approval.level, &approval.asks) {
            let reason = format!("{why}; nothing was answered. Use the inbox, or: host-broker approvals list.");
            let about = Some(approval.reference());
            return refuse(tx, header, &handed_in, about, Code::Guardrail, &reason).map(|(answer, _)| answer);
        }
        let caller = Caller::Person(person.to_owned());
        let in_person = Header {
            caller_key: Arc::from(caller.to_string()),
            caller,
            behalf: Subject::NOBODY,
            request_id: header.request_id.clone(),
            request_digest: header.request_digest,
            origin: Origin::Broker,
            arrived: header.arrived,
            timeout: header.timeout,
            weight: None,
        };
        let ParsedAnswer { code, yes, reason } = relayed.spoken.clone();
        // Whoever answers in a chat leaves it to the agent when changes to files are made.
        let given = ApprovalAnswer { code, yes, reason, apply: false, channel: "chat", handed_in: Some(handed_in) };
        self.take_answer(tx, &in_person, &given)
    }
}

fn refuse(
    tx: &Transaction<'_>,
    header: &Header,
    handed_in: &ChatRelay,
    about: Option<String>,
    code: Code,
    reason: &str,
) -> Result<(Answer, Receipt), StoreError> {
    let evidence = tx.append(&Draft {
        reason_code: Some(code),
        approval: about,
        body: json!({ "request": header.request_digest, "channel": "chat", "from": handed_in.from }),
        ..header.draft(Kind::Refused)
    })?;
    let reply = Reply::of_reason_alone(header.request_id.clone(), code, reason, tx.now());
    Ok((kernel::answer(tx, &header.caller_key, reply, evidence)?, evidence))
}

/// A wrong code, or an unknown sender. One too many, and nobody listens for a while: that is one more row, and no others.
fn missed(
    tx: &Transaction<'_>,
    header: &Header,
    handed_in: &ChatRelay,
    sender: &str,
    code: Code,
    reason: &str,
) -> Result<Answer, StoreError> {
    let (most, within) = MISSES;
    let (answer, evidence) = refuse(tx, header, handed_in, None, code, reason)?;
    let count = chat_lockouts::miss(tx, sender, within)?;
    if count < most {
        return Ok(answer);
    }
    let row = tx.append(&Draft {
        reason_code: Some(code),
        body: json!({ "channel": "chat", "silenced": sender, "for_s": within.as_secs(), "last": evidence.seq }),
        ..Draft::new(Kind::Noted, "broker")
    })?;
    chat_lockouts::lock_out(tx, sender, within, row.seq)?;
    Ok(answer)
}

/// Says that nobody listens, with the row that is there already.
fn silent(tx: &Transaction<'_>, header: &Header, until: Timestamp, row: i64) -> Result<Answer, StoreError> {
    let reason = format!("Too many wrong codes; nothing from this sender is read before {until}.");
    let mut reply = Reply::of_reason_alone(header.request_id.clone(), Code::Guardrail, &reason, tx.now());
    reply.evidence = export::row(tx.view(), row)?.map(|row| Evidence {
        seq: row.seq,
        event_hash: row.event_hash,
        prev_hash: row.prev_hash,
    });
    Ok(kernel::answer_again(header.request_id.clone(), reply.to_bytes(), row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_and_files_below_production_are_answered_in_a_chat() {
        use approval::Kind;
        let tier = BTreeSet::from([ApprovalReason::Tier]);
        for kind in [Kind::Call, Kind::File, Kind::Grant, Kind::Account, Kind::Flow, Kind::Definition] {
            for level in [Level::None, Level::Read, Level::Write, Level::Production] {
                let is_for_chats = matches!(kind, Kind::Call | Kind::File) && level < Level::Production;
                assert_eq!(answerable(kind, level, &tier).is_ok(), is_for_chats, "{kind:?} {level:?}");
                for ask in [ApprovalReason::Trifecta, ApprovalReason::Departing] {
                    assert!(answerable(kind, level, &BTreeSet::from([ask, ApprovalReason::Tier])).is_err());
                }
            }
        }
    }

    #[test]
    fn an_answer_is_a_word_a_code_and_for_a_no_a_reason() {
        let said = |line: &str| read(line).ok().map(|spoken| (spoken.yes, spoken.code, spoken.reason));
        let code = || "k7f3qd".to_owned();
        assert_eq!(said("approve k7f3qd"), Some((true, code(), None)));
        assert_eq!(said("  APPROVE\u{a0}K7F3QD \n"), Some((true, code(), None)));
        assert_eq!(said("deny k7f3qd"), Some((false, code(), None)));
        assert_eq!(said("Deny k7f3qd Because it is late"), Some((false, code(), Some("it is late".to_owned()))));
        assert_eq!(said("deny k7f3qd becauseway"), Some((false, code(), Some("becauseway".to_owned()))));
        assert_eq!(said("deny k7f3qd because"), Some((false, code(), Some("because".to_owned()))));
    }

    #[test]
    fn anything_else_is_answered_with_what_to_write() {
        for line in [
            "",
            "yes",
            "approve",
            "approve k7f3q",
            "approve k7f3qdd",
            "approve k7-3qd",
            "approve k7f3q\u{434}",
            "approved k7f3qd",
            "approve k7f3qd k7f3qe",
            "please approve k7f3qd",
            "'approve k7f3qd'",
            "approve k7f3qd\napprove aaaaaa",
            "deny k7f3qd\nbecause",
            &format!("deny k7f3qd {}", "x".repeat(600)),
        ] {
            let fault = read(line).unwrap_err();
            assert!(fault.contains("'approve CODE'"), "{line}: {fault}");
        }
    }
}
