//! `Link` headers (RFC 8288, section 3): `<https://…?page=2>; rel="next", <…>; rel="last"`.

/// Returns the address of a header value's first link whose relation is `next`. Text that is no link ends the search.
pub(super) fn next(header: &str) -> Option<&str> {
    let mut rest = header;
    loop {
        rest = rest.trim_start_matches([',', ' ', '\t']);
        let (url, after) = rest.strip_prefix('<')?.split_once('>')?;
        let (is_next, after) = parameters(after)?;
        if is_next {
            return Some(url.trim());
        }
        rest = after;
    }
}

/// Returns whether one link's parameters say that it leads to the next page, and the rest. `None` if they are no
/// parameters.
fn parameters(text: &str) -> Option<(bool, &str)> {
    let mut rest = text;
    // Only the first `rel` counts (section 3.3).
    let mut relation: Option<bool> = None;
    loop {
        rest = rest.trim_start();
        let Some(after) = rest.strip_prefix(';') else {
            let ended = rest.is_empty() || rest.starts_with(',');
            return ended.then_some((relation == Some(true), rest));
        };
        let after = after.trim_start();
        let end = after.find([';', ',', '=']).unwrap_or(after.len());
        let (name, after) = after.split_at_checked(end)?;
        let (value, after) = match after.strip_prefix('=').map(str::trim_start) {
            None => (String::new(), after),
            Some(after) => {
                if let Some(quoted) = after.strip_prefix('"') {
                    unquoted(quoted)?
                } else {
                    let end = after.find([';', ',']).unwrap_or(after.len());
                    let (value, after) = after.split_at_checked(end)?;
                    (value.to_owned(), after)
                }
            }
        };
        if name.trim().eq_ignore_ascii_case("rel") {
            let is_next = value.split_ascii_whitespace().any(|word| word.eq_ignore_ascii_case("next"));
            relation.get_or_insert(is_next);
        }
        rest = after;
    }
}

/// Returns the text up to the closing quote, and the text after it.
fn unquoted(quoted: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    let mut chars = quoted.chars();
    loop {
        match chars.next()? {
            '"' => return Some((text, chars.as_str())),
            '\\' => text.push(chars.next()?),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_found_however_the_header_is_written() {
        for header in [
            r#"<n>; rel="next""#,
            "<n>; rel=next",
            r#"<p>; rel="prev", <n>; rel="next", <l>; rel="last""#,
            r#"<p>;rel="prev",<n>;rel="next""#,
            r#"<p>; rel="prev"; title="a, <b>; rel=\"next\"", <n>; title="c;d"; rel="next""#,
            r#"<n>; REL = "Next""#,
            r#"<n>; rel="last next""#,
            r#", , <n>; crossorigin; rel="next""#,
            r#"<a,b>; rel=x, < n >; rel="next""#,
        ] {
            assert_eq!(next(header), Some("n"), "{header}");
        }
        for header in [
            "",
            "rubbish",
            "<n>",
            r#"<n>; rel="prev"; rel="next""#,
            r#"<n>; rev="next""#,
            r#"<n>; rel="nextish""#,
            r#"<n>; title="; rel=next""#,
            r#"<n>; rel="next"#,
            "<n; rel=next",
        ] {
            assert_eq!(next(header), None, "{header}");
        }
    }
}
