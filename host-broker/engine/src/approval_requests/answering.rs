//! An approver's answer: the right to give it, and everything that is given with it.

use crate::approval_subjects;
use crate::broker::Broker;
use crate::chat::ChatRelay;
use config::Config;
use kernel::call::Header;
use model::Caller;
use model::access::AccessScope;
use model::approval::{Answered, Approval, ApprovalState, SubjectKind};
use model::standing_approval::{StandingApproval, StandingScope};
use serde::{Deserialize, Serialize};
use shared::Code;
use store::ledger::chain::RowKind;
use store::state::{approvals, denials, standing_approvals};
use store::{StoreError, Transaction};

/// An approver's answer, as it arrived.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalAnswer {
    /// The code of the approval request. For a denial at the command line, its name is enough, such as `ask-7`.
    pub code: String,
    /// Whether it is an approval.
    pub yes: bool,
    /// The reason.
    pub reason: Option<String>,
    /// Whether changes to files are to be made at once.
    #[serde(default)]
    pub apply: bool,
    /// The standing approval that the approver gives with the answer.
    #[serde(default)]
    pub standing: Option<StandingScope>,
    /// The access that the approver gives, if it is not the requested one.
    #[serde(default)]
    pub access: Option<AccessScope>,
    /// The channel. The broker sets it; a document cannot.
    #[serde(skip)]
    pub channel: AnswerChannel,
    /// The relay, if another person delivered the answer. A document cannot set it.
    #[serde(skip)]
    pub handed_in: Option<ChatRelay>,
}

/// The channel of an approver's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AnswerChannel {
    /// The command line.
    #[default]
    Cli,
    /// The inbox.
    Web,
    /// A chat.
    Chat,
    /// The command line of another host of the fleet.
    Fleet,
}

impl AnswerChannel {
    /// Returns the word in rows: `cli`, `web`, `chat` or `fleet`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Cli => "cli",
            Self::Web => "web",
            Self::Chat => "chat",
            Self::Fleet => "fleet",
        }
    }
}

impl std::fmt::Debug for ApprovalAnswer {
    /// Omits the code, which is a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ApprovalAnswer({}, by {})", if self.yes { "yes" } else { "no" }, self.channel.word())
    }
}

impl ApprovalAnswer {
    /// Makes an answer at the command line.
    pub fn new(code: String, yes: bool, reason: Option<String>, apply: bool) -> Self {
        Self { code, yes, reason, apply, standing: None, access: None, channel: AnswerChannel::Cli, handed_in: None }
    }

    /// Adds the channel of the answer to a row's body.
    pub(crate) fn way(&self, mut body: serde_json::Value) -> serde_json::Value {
        if let Some(body) = body.as_object_mut() {
            body.insert("channel".into(), self.channel.word().into());
            if let Some(ChatRelay { from, by }) = &self.handed_in {
                body.insert("from".into(), from.as_str().into());
                body.insert("handed_in_by".into(), by.as_str().into());
            }
        }
        body
    }
}

/// The result of an answer.
pub(crate) enum AnswerOutcome {
    /// It counts: the row's kind, the approval after it, and everything else that was given with it.
    Counted(RowKind, Box<Approval>, Given),
    /// It does not count; the name of the approval request, if it was one.
    No(Code, String, Option<String>),
}

/// The things that an approver gives with the answer.
#[derive(Default)]
pub(crate) struct Given {
    /// The standing approval.
    pub(crate) standing: Option<Box<StandingApproval>>,
    /// The access, if it is not the requested one.
    pub(crate) access: Option<AccessScope>,
}

impl Broker {
    /// Takes an approver's answer. An answer of a person without the right changes nothing.
    pub(crate) fn answer_approval_request(
        &mut self,
        tx: &Transaction<'_>,
        header: &Header,
        given: &ApprovalAnswer,
    ) -> Result<AnswerOutcome, StoreError> {
        let Caller::Person(person) = &header.caller else {
            return Ok(AnswerOutcome::No(Code::Guardrail, "Only people answer approval requests.".to_owned(), None));
        };
        let Some(approval) = found(tx, given)? else {
            return Ok(AnswerOutcome::No(Code::InvalidParams, unfound(given).to_owned(), None));
        };
        let about = Some(approval.reference());
        if !may_answer(&self.config, person, &approval) {
            return Ok(AnswerOutcome::No(
                Code::Guardrail,
                format!(
                    "{person} may not answer this: [people.{person}] in broker.toml needs `approves` with this group, \
                     provider and level."
                ),
                about,
            ));
        }
        let subject = approval_subjects::of(approval.kind);
        if !given.yes && subject.is_retractable(tx, &approval)? {
            approvals::retract(tx, approval.id, &answered_by(header, given, tx))?;
            if let Some(denied) = subject.pause_key(tx.view(), &approval)? {
                denials::note(tx, &approval, denied)?;
            }
            self.resolve(tx, &approval, ApprovalState::Denied, &header.caller_key)?;
            let kind = RowKind::Denied;
            let denied = Approval { state: ApprovalState::Denied, ..approval };
            return Ok(AnswerOutcome::Counted(kind, Box::new(denied), Given::default()));
        }
        if approval.state != ApprovalState::Waiting || approval.expires_at <= tx.now() {
            let silent = approval.state == ApprovalState::Waiting;
            let state = approval.became.as_deref().unwrap_or(if silent { "expired" } else { approval.state.word() });
            return Ok(AnswerOutcome::No(
                Code::ApprovalExpired,
                format!("It is too late: the approval request is {state}."),
                about,
            ));
        }
        let (standing, access) = match wanted(given, approval.kind) {
            Ok(wanted) => wanted,
            Err(reason) => return Ok(AnswerOutcome::No(Code::InvalidParams, reason.to_owned(), about)),
        };
        let standing = match standing {
            Some(scope) => match self.standing_approval(tx, (&approval, &header.caller_key), scope)? {
                Ok(standing) => Some(standing),
                Err((code, reason)) => return Ok(AnswerOutcome::No(code, reason, about)),
            },
            None => None,
        };
        if let Some(access) = &access
            && let Err((code, reason)) = self.check_access(tx, (&approval, person), access)?
        {
            return Ok(AnswerOutcome::No(code, reason, about));
        }
        if !approvals::answer(tx, approval.id, &answered_by(header, given, tx))? {
            return Ok(AnswerOutcome::No(
                Code::Guardrail,
                format!("{person} has answered this approval request before."),
                about,
            ));
        }
        let yes = approvals::answers(tx.view(), approval.id)?.iter().filter(|answer| answer.yes).count();
        if let Some(access) = &access {
            approvals::keep_access(tx, approval.id, access)?;
        }
        let state = match given.yes {
            false => ApprovalState::Denied,
            true if yes >= approval.quorum => ApprovalState::Approved,
            true => ApprovalState::Waiting,
        };
        if state == ApprovalState::Denied
            && let Some(denied) = subject.pause_key(tx.view(), &approval)?
        {
            denials::note(tx, &approval, denied)?;
        }
        if state != ApprovalState::Waiting {
            // The row of the answer is the next one.
            self.resolve(tx, &approval, state, &header.caller_key)?;
            self.follow_ups.answered_in.push(tx.now().since(approval.asked_at));
        }
        let standing = match standing {
            Some(standing) => {
                let id = standing_approvals::give(tx, &standing)?;
                Some(Box::new(StandingApproval { id, ..standing }))
            }
            None => None,
        };
        // The inbox also shows who has answered.
        self.follow_ups.approvals_changed = true;
        let kind = if given.yes { RowKind::Approved } else { RowKind::Denied };
        Ok(AnswerOutcome::Counted(kind, Box::new(Approval { state, ..approval }), Given { standing, access }))
    }
}

/// Returns the approval request that the approver means.
fn found(tx: &Transaction<'_>, given: &ApprovalAnswer) -> Result<Option<Approval>, StoreError> {
    let code = given.code.trim().to_ascii_lowercase();
    let named = match given.channel {
        AnswerChannel::Cli | AnswerChannel::Fleet if !given.yes => approvals::named(tx.view(), &code)?,
        // SECURITY: an agent knows the name, and can suggest a command or a message with it. It never learns the code,
        // which a person finds beside the card. The pages always send the code.
        AnswerChannel::Cli | AnswerChannel::Web | AnswerChannel::Chat | AnswerChannel::Fleet => None,
    };
    named.map_or_else(|| approvals::with_code(tx.view(), &code), |found| Ok(Some(found)))
}

/// Returns the reason why no approval request was found.
fn unfound(given: &ApprovalAnswer) -> &'static str {
    if given.yes && approvals::is_name(&given.code) {
        "An approval needs the code that is beside the card. A name is enough for a denial only."
    } else {
        "There is no approval request with this code or name."
    }
}

/// Returns the things that an approver wants to give with the answer. The time of a request for access is its time, not
/// that of a standing approval.
fn wanted(
    given: &ApprovalAnswer,
    kind: SubjectKind,
) -> Result<(Option<&StandingScope>, Option<AccessScope>), &'static str> {
    if !given.yes {
        return Ok((None, None));
    }
    let mut access = given.access.clone().unwrap_or_default();
    let standing = match &given.standing {
        Some(StandingScope { for_s, session: false, fixed, production: false, trifecta: false })
            if kind == SubjectKind::Access && fixed.is_empty() =>
        {
            access.duration_s.get_or_insert(*for_s);
            None
        }
        Some(_) if kind == SubjectKind::Access => {
            return Err("A request for access takes a time, and no --session, --fix, --production or --trifecta.");
        }
        other => other.as_ref(),
    };
    Ok((standing, (!access.is_empty()).then_some(access)))
}

fn answered_by(header: &Header, given: &ApprovalAnswer, tx: &Transaction<'_>) -> Answered {
    Answered {
        by: header.caller_key.to_string(),
        channel: given.channel.word().to_owned(),
        yes: given.yes,
        reason: given.reason.clone(),
        at: tx.now(),
    }
}

/// Returns whether this person may answer this approval request.
pub fn may_answer(config: &Config, person: &str, approval: &Approval) -> bool {
    let may = |provider| config.may_approve(person, approval.group.as_ref(), provider, approval.level);
    may(&approval.provider) && approval.others.iter().all(may)
}
