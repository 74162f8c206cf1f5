//! Our own style and script, under names that change with their content.

use axum::extract::Path;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use shared::digest::Digest;
use std::sync::LazyLock;

const STYLE: &str = include_str!("assets/inbox.css");
const SCRIPT: &str = include_str!("assets/inbox.js");

/// Where the style is.
pub(super) static STYLE_NAME: LazyLock<String> = LazyLock::new(|| name(STYLE, "css"));
/// Where the script is.
pub(super) static SCRIPT_NAME: LazyLock<String> = LazyLock::new(|| name(SCRIPT, "js"));

fn name(text: &str, kind: &str) -> String {
    let digits: String = Digest::of(text.as_bytes()).hex().chars().take(12).collect();
    format!("inbox-{digits}.{kind}")
}

/// One of them.
pub(super) async fn file(Path(name): Path<String>) -> Response {
    let (text, kind) = if name == *STYLE_NAME {
        (STYLE, "text/css; charset=utf-8")
    } else if name == *SCRIPT_NAME {
        (SCRIPT, "text/javascript; charset=utf-8")
    } else {
        return super::plain(StatusCode::NOT_FOUND, "There is no such file.");
    };
    let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
    ([(header::CONTENT_TYPE, HeaderValue::from_static(kind)), (header::CACHE_CONTROL, forever)], text).into_response()
}
