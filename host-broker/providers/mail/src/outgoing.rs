//! Where to look for a message whose outcome was lost.

use crate::Mail;
use crate::backend::Purpose;
use crate::compose::message_id;
use crate::failures::unreadable_handle;
use crate::read::in_time;
use model::{EffectMarker, Nonce};
use provider::contract::{Execution, Failure, Probed, Success};
use serde_json::{Value, json};

/// Returns the handle of a message, as it is stored.
pub(crate) fn handle(planted: &EffectMarker) -> Value {
    json!({ "nonce": planted.nonce.as_str() })
}

/// Looks for a message in the folder of a purpose, by its nonce.
///
/// # Errors
/// [`Failure`]; nothing was changed.
pub(crate) async fn look(
    stored: &Value,
    mail: &Mail,
    purpose: Purpose,
    execution: &Execution,
    summary: &str,
) -> Result<Probed, Failure> {
    let nonce = stored.get("nonce").and_then(Value::as_str).filter(|nonce| !nonce.is_empty());
    let nonce = nonce.ok_or_else(unreadable_handle)?;
    let nonce = Nonce::stored(nonce.to_owned());
    let message_id = message_id(mail.address()?, &nonce);
    in_time(execution, async {
        let mut mailbox = mail.mailbox(execution).await?;
        let folder = &mail.folder(purpose);
        let (is_there, place) = mailbox.look_for(folder, &message_id, &nonce).await?;
        mailbox.close().await;
        let folder = folder.as_str();
        Ok(if is_there {
            let data = json!({ "message_id": message_id, "folder": folder });
            Probed::Happened(Success::new(data, summary.to_owned()))
        } else {
            Probed::Absent { message: format!("No message {message_id} is in {place}.") }
        })
    })
    .await
}
