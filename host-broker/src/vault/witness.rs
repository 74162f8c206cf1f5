//! What an execution has seen of credentials, so that the filter keeps it out of everything that comes back.

use crate::filter::is_credential_key;
use crate::filter::scrub::Scrubber;
use crate::secrets::SECRET_CHARS_MIN;
use aho_corasick::BuildError;
use serde_json::Value;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zeroize::Zeroizing;

/// The texts of credentials that were opened or sealed.
#[derive(Clone, Default)]
pub struct Witness(Arc<Mutex<Vec<Zeroizing<String>>>>);

impl Witness {
    /// Notes every text of a credential that must not come back.
    pub fn note(&self, record: &[u8]) {
        let mut seen = self.seen();
        match serde_json::from_slice::<Value>(record) {
            Ok(record) => collect("", record, &mut seen),
            Err(_no_json) => seen.push(Zeroizing::new(String::from_utf8_lossy(record).into_owned())),
        }
    }

    /// What also looks for these texts; `None` if there are none.
    ///
    /// # Errors
    /// They are too long to be looked for; nothing may then be shown.
    pub fn beside(&self, scrubber: &Scrubber) -> Result<Option<Scrubber>, BuildError> {
        let seen = self.seen();
        if seen.is_empty() {
            return Ok(None);
        }
        scrubber.beside(seen.iter().map(|text| text.as_str())).map(Some)
    }

    /// Whether one of these texts is in this value as it is.
    pub fn is_in(&self, value: &Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
            Value::String(text) => self.seen().iter().any(|seen| text.contains(seen.as_str())),
            Value::Array(items) => items.iter().any(|item| self.is_in(item)),
            Value::Object(members) => members.values().any(|item| self.is_in(item)),
        }
    }

    fn seen(&self) -> MutexGuard<'_, Vec<Zeroizing<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Witness(…)")
    }
}

/// What is kept beside a credential and is nobody's secret: whose it is, what it allows, until when.
const PLAIN: [&str; 13] = [
    "account",
    "account_email",
    "account_name",
    "email",
    "expires_at",
    "expiry",
    "name",
    "provider",
    "scope",
    "scopes",
    "token_type",
    "token_uri",
    "type",
];

fn collect(name: &str, value: Value, seen: &mut Vec<Zeroizing<String>>) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) => {
            let plain = !is_credential_key(name) && PLAIN.contains(&name);
            // What is shorter would be found in ordinary text.
            if !plain && text.chars().count() >= SECRET_CHARS_MIN && !seen.iter().any(|known| **known == text) {
                seen.push(Zeroizing::new(text));
            }
        }
        Value::Array(items) => items.into_iter().for_each(|item| collect(name, item, seen)),
        Value::Object(members) => members.into_iter().for_each(|(name, item)| collect(&name, item, seen)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_secret_in_a_credential_is_noted_and_what_is_plain_is_not() {
        let witness = Witness::default();
        let record = json!({
            "access_token": "ya29.hunter2hunter2",
            "refresh": ["1//0ghunter2", {"deeper": "hunter2-in-the-deep"}],
            "email": "worker@example.com",
            "scope": "https://mail.example.com/",
            "token_type": "Bearer of news",
            "short": "1234567",
            "expires_in": 3600,
        });
        witness.note(record.to_string().as_bytes());
        for hidden in ["ya29.hunter2hunter2", "1//0ghunter2", "hunter2-in-the-deep"] {
            assert!(witness.is_in(&json!({"a": [format!("so {hidden} it is")]})), "{hidden}");
        }
        for plain in ["worker@example.com", "https://mail.example.com/", "Bearer of news", "1234567", "3600"] {
            assert!(!witness.is_in(&json!([plain])), "{plain}");
        }
        assert!(!format!("{witness:?}").contains("hunter2"));
        let text = Witness::default();
        text.note(b"no json at all");
        assert!(text.is_in(&json!("there is no json at all")));
    }
}
