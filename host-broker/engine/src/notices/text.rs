//! The texts of notices.
//!
//! SECURITY: a notice without the card names groups, providers, actions, levels and times, which are the broker's own
//! words or fit a grammar; no value, no code. A card is [`Card::text`], whose lines no value can counterfeit: none of
//! them begins like the first or the last line of a message.

use model::NoticeEvent;
use model::approval::Approval;
use model::card::Card;
use serde_json::{Value, json};
use shared::Timestamp;
use shared::numbers::counted;
use std::fmt::Write as _;

/// The longest message with a card, in characters. A longer card is not sent, because it must not be cut off.
const CHARS_MAX: usize = 3_000;
/// The same in bytes: the limit of ntfy.
const BYTES_MAX: usize = 4_096;

/// Returns the whole card, with instructions for an answer in a chat; `None` if that is too long for a message.
///
/// ```text
/// [APPROVAL REQUIRED] k7f3qd · expires 14:05 UTC
/// Workspace: personal
/// Action: mail.send_email
///   to: "alice@example.com"
/// Reply 'approve k7f3qd' or 'deny k7f3qd'
/// ```
pub(super) fn full(approval: &Approval, card: &Card, takes_replies: bool) -> Option<String> {
    let code = &approval.code;
    let answer = if takes_replies {
        format!("Reply 'approve {code}' or 'deny {code}'")
    } else {
        format!("To answer: host-broker approvals approve {code}, or deny {code}")
    };
    let text = format!("[APPROVAL REQUIRED] {code} · expires {}\n{}{answer}", expiry(approval), card.message());
    (text.len() <= BYTES_MAX && text.chars().count() <= CHARS_MAX).then_some(text)
}

/// Returns `14:05 UTC`, with the date if it is another day than that of the approval request.
fn expiry(approval: &Approval) -> String {
    let parts = |time: Timestamp| {
        let text = time.to_string();
        (text.get(..10).unwrap_or_default().to_owned(), text.get(11..16).unwrap_or_default().to_owned())
    };
    let ((asked, _), (day, time)) = (parts(approval.asked_at), parts(approval.expires_at));
    if asked == day { format!("{time} UTC") } else { format!("{day} {time} UTC") }
}

/// The contents of a notice without values.
pub(super) struct Told<'a> {
    /// The approval.
    pub(super) approval: &'a Approval,
    /// The event.
    pub(super) event: NoticeEvent,
    /// The approval's state at that time.
    pub(super) said: &'a str,
    /// The approvers who answered, in the ledger's form.
    pub(super) by: &'a [&'a str],
    /// The URL of the inbox.
    pub(super) link: Option<&'a str>,
    /// The number of other open approval requests of the same caller.
    pub(super) others: usize,
}

impl Told<'_> {
    /// Returns the title, one line.
    pub(super) fn title(&self) -> String {
        let Approval { provider, action, level, .. } = self.approval;
        format!("{}: {provider}.{action} (L{})", self.word(), level.number())
    }

    fn word(&self) -> String {
        match (self.event, self.said) {
            (NoticeEvent::Asked, _) => "APPROVAL REQUIRED".to_owned(),
            (NoticeEvent::Lapsed, _) => "NOT ANSWERED".to_owned(),
            (NoticeEvent::Answered, "cancelled" | "withdrawn") => "WITHDRAWN".to_owned(),
            (NoticeEvent::Answered, said) => said.to_ascii_uppercase(),
        }
    }

    fn who(&self) -> (&'static str, &str) {
        match self.approval.caller.strip_prefix("group:") {
            Some(group) => ("Workspace", group),
            None => ("Who asks", &self.approval.caller),
        }
    }

    /// Returns the message.
    pub(super) fn text(&self) -> String {
        let Approval { provider, action, level, .. } = self.approval;
        let (field, who) = self.who();
        let mut text = format!("[{}] {}", self.word(), self.approval.reference());
        let is_question = self.event == NoticeEvent::Asked;
        // Writing to a string does not fail.
        if is_question {
            write!(text, " · expires {}", expiry(self.approval)).ok();
        }
        write!(text, "\n{field}: {who}\nAction: {provider}.{action} (L{})", level.number()).ok();
        match self.event {
            NoticeEvent::Asked => {
                if self.others > 0 {
                    let (one, many) =
                        ("more approval request of this caller waits", "more approval requests of this caller wait");
                    write!(text, "\n{}", counted(self.others, one, many)).ok();
                }
                match self.link {
                    Some(link) => write!(text, "\nTo answer: {link}").ok(),
                    None => write!(text, "\nTo answer: host-broker approvals show {}", self.approval.reference()).ok(),
                };
            }
            NoticeEvent::Answered if !self.by.is_empty() => {
                let names: Vec<&str> = self.by.iter().map(|by| by.strip_prefix("person:").unwrap_or(by)).collect();
                write!(text, "\nBy: {}", names.join(", ")).ok();
            }
            NoticeEvent::Answered => {}
            NoticeEvent::Lapsed => text.push_str("\nNobody answered in time, so the broker refused it."),
        }
        text
    }

    /// Returns the document, without `text`, and without the contents that only a card may show.
    pub(super) fn document(&self, name: &str, channel: &str, kind: &str) -> Value {
        let Approval { provider, action, level, caller, asked_at, expires_at, .. } = self.approval;
        json!({
            "type": "approval_notice",
            "notice": name,
            "channel": channel,
            "event": self.event,
            "state": self.said,
            "ref": self.approval.reference(),
            "kind": kind,
            "caller": caller,
            "provider": provider,
            "action": action,
            "level": level,
            "quorum": self.approval.quorum,
            "asked_at": asked_at,
            "expires_at": expires_at,
            "answered_by": self.by,
            "others_waiting": self.others,
            "link": self.link,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::approval::{ApprovalReason, ApprovalState};
    use shared::Level;
    use shared::digest::Digest;
    use std::collections::BTreeSet;

    fn approval(params: &Value) -> Approval {
        let mut card = Card::new();
        card.say("Workspace", "personal");
        card.say("Action", "mail.send_email");
        assert!(card.list(params));
        let minutes = |minutes: i64| Timestamp::from_millis((24 * 60 * 365 * 50 + 14 * 60 + minutes) * 60_000);
        Approval {
            id: 1,
            code: "k7f3qd".to_owned(),
            kind: model::approval::SubjectKind::Call,
            group: Some("personal".parse().unwrap()),
            caller: "group:personal".to_owned(),
            request_id: "r-1".parse().unwrap(),
            reply_as: None,
            provider: "mail".parse().unwrap(),
            action: "send_email".parse().unwrap(),
            level: Level::Write,
            digest: Digest::of(b""),
            quorum: 1,
            state: ApprovalState::Waiting,
            became: None,
            asked_seq: 12,
            asked_at: minutes(0),
            expires_at: minutes(5),
            reply_by: minutes(1),
            asks: BTreeSet::from([ApprovalReason::Tier]),
            others: std::collections::BTreeSet::new(),
            told: false,
            card: Some(card),
        }
    }

    fn card(params: &Value) -> Option<String> {
        let approval = approval(params);
        full(&approval, approval.card.as_ref().unwrap(), true)
    }

    #[test]
    fn a_card_in_a_chat_has_every_field_and_says_how_to_answer() {
        let expected = "[APPROVAL REQUIRED] k7f3qd · expires 14:05 UTC\n\
                        Workspace: personal\nAction: mail.send_email\n  to: \"alice@example.com\"\n\
                        Reply 'approve k7f3qd' or 'deny k7f3qd'";
        assert_eq!(card(&json!({ "to": "alice@example.com" })).unwrap(), expected);
    }

    /// Attack (Approvals and notices): A value imitates a card, a code or "Reply 'approve …'" in a
    /// chat.
    /// Defence: Values are JSON on lines with another beginning. Bidirectional marks and line
    /// separators are escaped.
    #[test]
    fn no_value_counterfeits_a_line_of_a_message() {
        let hostile = format!(
            "x\nReply 'approve aaaaaa' or 'deny aaaaaa'\r\n[APPROVAL REQUIRED] aaaaaa\u{2028}Action: read\u{202e}{}Reply",
            " ".repeat(80)
        );
        let params = json!({ "to": hostile, "Reply 'approve aaaaaa'\n": "y", "z": ["\nReply 'approve bbbbbb'"] });
        let text = card(&params).unwrap();
        let beginnings = [
            "[APPROVAL REQUIRED] k7f3qd",
            "Attention: 2 hidden or misleading",
            "Workspace: personal",
            "Action: mail.send_email",
            "Reply 'approve k7f3qd'",
        ];
        for line in text.lines() {
            let is_ours = beginnings.iter().any(|beginning| line.starts_with(beginning));
            assert!(is_ours || line.starts_with("  "), "{line}");
        }
        assert_eq!(text.lines().filter(|line| line.starts_with("Reply")).count(), 1);
        assert!(!text.contains('\u{202e}') && !text.contains('\u{2028}') && !text.contains('\r'));
    }

    /// Attack (Approvals and notices): A card is too long for a message, and its end would be
    /// missing.
    /// Defence: It is not sent. The notice says where to read it.
    #[test]
    fn a_card_too_long_for_a_message_is_not_cut() {
        assert!(card(&json!({ "body": "x".repeat(2_000) })).unwrap().contains("Reply"));
        assert_eq!(card(&json!({ "body": "x".repeat(3_000) })), None);
        assert_eq!(card(&json!({ "body": "漢".repeat(1_400) })), None, "counted in bytes, too");
    }

    #[test]
    fn a_notice_has_no_value_and_no_code() {
        let approval = approval(&json!({ "to": "alice@example.com" }));
        for event in NoticeEvent::ALL {
            let by = &["person:bob"][..];
            let told = Told { approval: &approval, event, said: "approved", by, link: Some("https://b/"), others: 3 };
            let all = format!("{}{}{}", told.title(), told.text(), told.document("n", "c", "call"));
            assert!(!all.contains("k7f3qd") && !all.contains("alice"), "{all}");
        }
        let told = Told {
            approval: &approval,
            event: NoticeEvent::Asked,
            said: "waiting",
            by: &[],
            link: Some("https://b/i"),
            others: 0,
        };
        assert_eq!(
            told.text(),
            "[APPROVAL REQUIRED] ask-12 · expires 14:05 UTC\nWorkspace: personal\nAction: mail.send_email (L2)\n\
             To answer: https://b/i"
        );
        let told = Told { others: 2, ..told };
        assert!(
            told.text().contains("\n2 more approval requests of this caller wait\nTo answer: https"),
            "{}",
            told.text()
        );
        let told = Told { event: NoticeEvent::Answered, said: "denied", by: &["person:bob"], ..told };
        assert!(told.text().starts_with("[DENIED] ask-12\n") && told.text().ends_with("By: bob"));
    }

    #[test]
    fn an_expiry_on_another_day_has_its_date() {
        let mut approval = approval(&json!({}));
        approval.expires_at = approval.asked_at.plus(std::time::Duration::from_secs(20 * 3600));
        assert!(expiry(&approval).contains('-') && expiry(&approval).ends_with("10:00 UTC"), "{}", expiry(&approval));
    }
}
