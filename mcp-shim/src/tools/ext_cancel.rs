//! `ext_cancel`: stops an earlier call that has not started.

use super::{Effect, Entry, SeenBy};
use crate::render::words;
use crate::schema;
use shared::request::CancelRequest;

pub(super) const ENTRY: Entry = Entry {
    name: "ext_cancel",
    words: words::EXT_CANCEL,
    seen_by: SeenBy::All,
    effect: Effect::Changes { destructive: false, idempotent: true },
    open_world: false,
    schema: || schema::of::<CancelRequest>(&[]),
};
