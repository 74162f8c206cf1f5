//! Answers from a chat: the text, its writer, and the relay.
//!
//! SECURITY: a chat is less safe than the broker's own channels. Wider grants and anything beyond calls and files are
//! never answered there. A production call, and one that joins private data, untrusted content and egress, is answered
//! there only if an operator allows it. A bridge is trusted about the writer only if the configuration says so.
//! Codes are short, so only a few guesses are permitted.

use crate::approval_requests::{AnswerChannel, ApprovalAnswer};
use crate::approval_subjects;
use crate::broker::Broker;
use config::channels::{ChannelTable, is_identity};
use config::people::PersonTable;
use kernel::Answer;
use kernel::call::Header;
use model::approval::{Approval, ApprovalReason};
use model::{Caller, Subject, approval};
use serde::{Deserialize, Serialize};
use serde_json::json;
use shared::reply::Evidence;
use shared::{Code, Level, Reply, Timestamp};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use store::ledger::chain::{Draft, RowKind};
use store::ledger::export;
use store::state::approvals;
use store::state::chat_lockouts;
use store::{Receipt, StoreError, Transaction};

/// The longest line that can be an answer, in characters.
const LINE_MAX: usize = 500;
/// The number of wrong codes of one sender within this time after which the sender is locked out for the same time.
const MISSES: (i64, Duration) = (5, Duration::from_secs(300));
/// The one name of all unknown senders, so that many names give no more tries.
const NOBODY: &str = "?";

/// An answer parsed from a chat.
#[derive(Clone, PartialEq, Eq)]
pub struct ParsedAnswer {
    /// The code of the approval request.
    pub code: String,
    /// Whether it is an approval.
    pub yes: bool,
    /// The reason.
    pub reason: Option<String>,
}

impl std::fmt::Debug for ParsedAnswer {
    /// Omits the code, which is a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.yes { "ParsedAnswer(yes)" } else { "ParsedAnswer(no)" })
    }
}

/// An answer from a chat, as its relay delivered it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayedAnswer {
    /// The writer, by the chat's name: `telegram:12345`.
    pub from: String,
    /// The text of the answer.
    pub text: String,
    /// Whether the relay may deliver answers of others. The broker sets it; a document cannot.
    #[serde(skip)]
    pub may_relay: bool,
    /// The channel whose token was shown; it may answer only its own approval requests.
    #[serde(skip)]
    pub channel: Option<String>,
}

impl RelayedAnswer {
    /// Makes an answer without the right to relay it. The broker gives the right.
    pub fn new(from: String, text: String) -> Self {
        Self { from, text, may_relay: false, channel: None }
    }

    /// Parses the writer and the text.
    ///
    /// # Errors
    /// The text to write instead.
    pub fn answer(&self) -> Result<ParsedAnswer, String> {
        is_identity(&self.from)?;
        read(&self.text)
    }
}

impl std::fmt::Debug for RelayedAnswer {
    /// Omits the text, which has a secret code.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RelayedAnswer(from {})", self.from)
    }
}

/// The relay of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatRelay {
    /// The writer, by the chat's name.
    pub from: String,
    /// The relay, in the ledger's form.
    pub by: String,
}

/// Parses an answer: `approve CODE`, or `deny CODE` with a reason.
///
/// ```
/// use engine::chat::read;
/// assert!(read(" Approve K7F3QD ").unwrap().yes);
/// assert_eq!(read("deny k7f3qd because not today").unwrap().reason.as_deref(), Some("not today"));
/// assert!(read("approve k7f3qd if it is small").is_err());
/// ```
///
/// # Errors
/// The text to write instead.
pub fn read(line: &str) -> Result<ParsedAnswer, String> {
    const USE: &str = "Write one line: 'approve CODE', or 'deny CODE because …', with the six characters of the code.";
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
        // Further text could be a condition, which an approval cannot have.
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

/// The calls that an operator lets people answer in a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChatLimits {
    /// The highest level.
    pub max_level: Level,
    /// Whether they can join private data, untrusted content and egress.
    pub trifecta: bool,
}

impl ChatLimits {
    /// Everything that an operator can allow.
    const ALL: Self = Self { max_level: Level::Production, trifecta: true };
    /// Nothing: of an unknown person.
    const NONE: Self = Self { max_level: Level::None, trifecta: false };

    /// Returns the calls that a person can answer.
    fn of_person(table: &PersonTable) -> Self {
        Self { max_level: table.chat_max_level, trifecta: table.chat_trifecta }
    }

    /// Returns the calls that are shown and answered over a channel.
    pub fn of_channel(table: &ChannelTable) -> Self {
        Self { max_level: table.chat_max_level, trifecta: table.trifecta }
    }
}

/// Checks whether a chat with these limits may answer such an approval request and show its code.
///
/// # Errors
/// The reason.
pub fn answerable(
    kind: approval::SubjectKind,
    level: Level,
    asks: &BTreeSet<ApprovalReason>,
    limits: ChatLimits,
) -> Result<(), &'static str> {
    approval_subjects::of(kind).answerable_in_chat()?;
    if asks.contains(&ApprovalReason::Departing) {
        return Err("A call that would send suspicious data is never answered in a chat");
    }
    // Untrusted content may have been written to get an approval in the next message.
    if asks.contains(&ApprovalReason::Trifecta) && !limits.trifecta {
        return Err("A call that joins private data, untrusted content and egress is not answered in a chat");
    }
    if level > limits.max_level {
        return Err(match level {
            Level::Production => "A production call is not answered in a chat",
            Level::None | Level::Read | Level::Write => "A call of this level is not answered in a chat",
        });
    }
    Ok(())
}

impl Broker {
    /// Takes an answer that a relay delivers for a person of a chat, as if the person gave it. The relay must have the
    /// right, the person must be known, the approval request must be one for chats, and the sender must not be locked
    /// out.
    pub(crate) fn take_relayed(
        &mut self,
        tx: &Transaction<'_>,
        header: &Header,
        relayed: &RelayedAnswer,
    ) -> Result<Answer, StoreError> {
        let handed_in = ChatRelay { from: relayed.from.clone(), by: header.caller_key.to_string() };
        let Caller::Person(_) = &header.caller else {
            // No document has this type. A future one is refused here.
            let reason = "Only people can relay answers.";
            return refuse(tx, header, &handed_in, None, Code::Guardrail, reason).map(|(answer, _)| answer);
        };
        if !relayed.may_relay {
            let relay = handed_in.by.strip_prefix("person:").unwrap_or(&handed_in.by);
            let reason =
                format!("{relay} may not answer for others: [people.{relay}] needs `can_relay_answers = true`.");
            return refuse(tx, header, &handed_in, None, Code::Guardrail, &reason).map(|(answer, _)| answer);
        }
        let spoken = match relayed.answer() {
            Ok(spoken) => spoken,
            Err(why) => {
                return refuse(tx, header, &handed_in, None, Code::InvalidParams, &why).map(|(answer, _)| answer);
            }
        };
        let person = self.config.speaker(&relayed.from);
        // Misuse of one channel's token locks out no sender elsewhere.
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
        let Some(approval) = approvals::with_code(tx.view(), &spoken.code)? else {
            let reason = "There is no approval request with this code.";
            return missed(tx, header, &handed_in, sender, Code::InvalidParams, reason);
        };
        let table = channel.and_then(|channel| self.config.channels.iter().find(|table| table.name == *channel));
        if let Some(channel) = channel {
            let speaks = table.is_some_and(|table| {
                (table.approvers.is_empty() || table.approvers.iter().any(|name| name == person))
                    && self.concerns(table, &approval)
            });
            if !speaks {
                let reason =
                    format!("The channel '{channel}' is for other people or approval requests; nothing was answered.");
                let about = Some(approval.reference());
                return refuse(tx, header, &handed_in, about, Code::Guardrail, &reason).map(|(answer, _)| answer);
            }
        }
        let own = self.config.people.get(person).map_or(ChatLimits::NONE, ChatLimits::of_person);
        let of_channel = table.map_or(ChatLimits::ALL, ChatLimits::of_channel);
        let may = |limits| answerable(approval.kind, approval.level, &approval.asks, limits);
        if let Err(why) = may(own).and_then(|()| may(of_channel)) {
            let line = if may(ChatLimits::ALL).is_err() {
                String::new()
            } else if may(own).is_err() {
                format!(" [people.{person}] needs {}.", missing_line(&approval, own, "chat_trifecta"))
            } else {
                let channel = table.map_or("", |table| &table.name);
                format!(" The channel '{channel}' needs {}.", missing_line(&approval, of_channel, "trifecta"))
            };
            let reason = format!("{why}; nothing was answered.{line} Use the inbox, or: host-broker approvals list.");
            let about = Some(approval.reference());
            return refuse(tx, header, &handed_in, about, Code::Guardrail, &reason).map(|(answer, _)| answer);
        }
        let caller = Caller::Person(person.to_owned());
        let in_person =
            Header { caller_key: Arc::from(caller.to_string()), caller, behalf: Subject::NOBODY, ..header.internal() };
        let ParsedAnswer { code, yes, reason } = spoken;
        // An answer in a chat leaves the time of changes to files to the agent.
        let given = ApprovalAnswer {
            code,
            yes,
            reason,
            apply: false,
            standing: None,
            access: None,
            channel: AnswerChannel::Chat,
            handed_in: Some(handed_in),
        };
        self.take_answer(tx, &in_person, &given)
    }
}

/// Returns the lines that would allow the answer.
fn missing_line(approval: &Approval, limits: ChatLimits, trifecta: &str) -> String {
    let joins = approval.asks.contains(&ApprovalReason::Trifecta) && !limits.trifecta;
    let trifecta = joins.then(|| format!("`{trifecta} = true`"));
    let level = (approval.level > limits.max_level).then(|| format!("`chat_max_level = {}`", approval.level.number()));
    trifecta.into_iter().chain(level).collect::<Vec<_>>().join(" and ")
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
        ..header.draft(RowKind::Refused)
    })?;
    let reply = Reply::of_reason_alone(header.request_id.clone(), code, reason, tx.now());
    Ok((kernel::answer(tx, &header.caller_key, reply, evidence)?, evidence))
}

/// Refuses a wrong code or an unknown sender. One too many locks the sender out: that is one more row, and no others.
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
        ..Draft::new(RowKind::Noted, "broker")
    })?;
    chat_lockouts::lock_out(tx, sender, within, row.seq)?;
    Ok(answer)
}

/// Answers that the sender is locked out, with the row that is there already.
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

    /// Attack (Order of the stages, and content): A chat approves such a call.
    /// Defence: Chats cannot answer it, unless an operator allows it for the person and the
    /// channel. Suspicious data is never approved there.
    ///
    /// Attack: see `a_person_links_an_account_and_a_person_agrees_to_it`.
    #[test]
    fn only_calls_plans_and_files_are_answered_in_a_chat_as_far_as_an_operator_allows() {
        use approval::SubjectKind;
        const LEVELS: [Level; 4] = [Level::None, Level::Read, Level::Write, Level::Production];
        let tier = BTreeSet::from([ApprovalReason::Tier]);
        let joined = BTreeSet::from([ApprovalReason::Trifecta, ApprovalReason::Tier]);
        let departing = BTreeSet::from([ApprovalReason::Departing, ApprovalReason::Trifecta]);
        for (kind, level, max_level) in SubjectKind::ALL
            .into_iter()
            .flat_map(|kind| LEVELS.into_iter().flat_map(move |level| LEVELS.map(|max_level| (kind, level, max_level))))
        {
            let is_for_chats =
                matches!(kind, SubjectKind::Call | SubjectKind::Plan | SubjectKind::File) && level <= max_level;
            let [plain, all] = [false, true].map(|trifecta| ChatLimits { max_level, trifecta });
            assert_eq!(answerable(kind, level, &tier, plain).is_ok(), is_for_chats, "{kind:?} {level:?} {max_level:?}");
            assert!(answerable(kind, level, &joined, plain).is_err());
            assert_eq!(answerable(kind, level, &joined, all).is_ok(), is_for_chats, "{kind:?} {level:?} {max_level:?}");
            assert!(answerable(kind, level, &departing, all).is_err());
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

    /// Attack (Approvals and notices): A sentence resembles an approval: with a condition, in two
    /// lines, forwarded.
    /// Defence: Only one word and one code are accepted.
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
