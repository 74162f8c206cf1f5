//! Before and after, side by side: the changes of a grant, a version of a flow or a definition.

use super::lines::marked;
use maud::{Markup, html};
use model::approval::SubjectKind;
use model::card::Line;
use std::collections::HashMap;

/// One field, with its values before and after.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Row<'a> {
    /// Its name.
    field: &'a str,
    before: Vec<&'a str>,
    after: Vec<&'a str>,
}

enum Side {
    Before,
    After,
}

/// The lines as rows; `None` if they are not of two sides. Every value is in exactly one place.
pub(super) fn rows(kind: SubjectKind, lines: &[Line]) -> Option<Vec<Row<'_>>> {
    let of: fn(&Line) -> Option<(Side, &str)> = match kind {
        SubjectKind::Grant => granted,
        SubjectKind::Flow | SubjectKind::Definition => changed,
        SubjectKind::Call | SubjectKind::File | SubjectKind::Account | SubjectKind::Access | SubjectKind::Plan => {
            return None;
        }
    };
    let mut rows: Vec<Row<'_>> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for line in lines {
        let (side, field) = of(line)?;
        let place = *places.entry(field).or_insert_with(|| {
            rows.push(Row { field, ..Row::default() });
            rows.len() - 1
        });
        let row = rows.get_mut(place)?;
        match side {
            // A grant of which there was none is one line.
            Side::Before if field.is_empty() => {}
            Side::Before => row.before.push(&line.value),
            Side::After => row.after.push(&line.value),
        }
    }
    rows.retain(|row| !row.field.is_empty());
    (!rows.is_empty()).then_some(rows)
}

/// `gives.actions[0]` and `instead_of.actions[0]`; `instead_of` alone where there was nothing.
fn granted(line: &Line) -> Option<(Side, &str)> {
    let (side, field) = match line.field.split_once('.') {
        Some(("gives", field)) => (Side::After, field),
        Some(("instead_of", field)) => (Side::Before, field),
        None if line.field == "instead_of" && line.value == "null" => (Side::Before, ""),
        Some(_) | None => return None,
    };
    // The items of a list are one field.
    let is_item = |(_, index): &(&str, &str)| index.strip_suffix(']').is_some_and(|n| n.parse::<usize>().is_ok());
    Some((side, field.split_once('[').filter(is_item).map_or(field, |(list, _)| list)))
}

/// `- "/steps/0"` and `+ "/steps/0"`
fn changed(line: &Line) -> Option<(Side, &str)> {
    let removed = line.field.strip_prefix("- ").map(|field| (Side::Before, field));
    removed.or_else(|| line.field.strip_prefix("+ ").map(|field| (Side::After, field)))
}

/// The rows as two columns.
pub(super) fn all(rows: &[Row<'_>]) -> Markup {
    html! {
        table.sides {
            thead { tr { th scope="col" { "Field" } th scope="col" { "Before" } th scope="col" { "After" } } }
            tbody {
                @for row in rows {
                    tr.same[row.before == row.after] {
                        th scope="row" { bdi dir="ltr" { (marked(row.field)) } }
                        td { (cell(&row.before)) }
                        td { (cell(&row.after)) }
                    }
                }
            }
        }
    }
}

fn cell(values: &[&str]) -> Markup {
    html! {
        @if values.is_empty() { span.nothing { "nothing" } }
        @for value in values { bdi dir="ltr" { (marked(value)) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(lines: &[(&str, &str)]) -> Vec<Line> {
        let line = |(field, value): &(&str, &str)| Line { field: (*field).into(), value: (*value).into() };
        lines.iter().map(line).collect()
    }

    #[test]
    fn each_value_stands_on_its_side() {
        let grant = lines(&[
            ("gives.access_level", "2"),
            ("gives.actions[0]", "\"a\""),
            ("gives.actions[1]", "\"b\""),
            ("instead_of.access_level", "1"),
            ("instead_of.actions[0]", "\"a\""),
        ]);
        let level = Row { field: "access_level", before: vec!["1"], after: vec!["2"] };
        let actions = Row { field: "actions", before: vec!["\"a\""], after: vec!["\"a\"", "\"b\""] };
        assert_eq!(rows(SubjectKind::Grant, &grant), Some(vec![level, actions]));
        let first = lines(&[("gives.access_level", "2"), ("instead_of", "null")]);
        let level = Row { field: "access_level", before: vec![], after: vec!["2"] };
        assert_eq!(rows(SubjectKind::Grant, &first), Some(vec![level]));
        let flow = lines(&[("- \"/title\"", "\"Old\""), ("+ \"/title\"", "\"New\"")]);
        let title = Row { field: "\"/title\"", before: vec!["\"Old\""], after: vec!["\"New\""] };
        assert_eq!(rows(SubjectKind::Flow, &flow), Some(vec![title]));
    }

    #[test]
    fn cards_without_two_sides_are_shown_line_by_line() {
        for (kind, field) in [
            (SubjectKind::Grant, "other"),
            (SubjectKind::Grant, "gives"),
            (SubjectKind::Flow, "title"),
            (SubjectKind::Call, "- a"),
        ] {
            assert_eq!(rows(kind, &lines(&[(field, "1")])), None, "{field}");
        }
        assert_eq!(rows(SubjectKind::Flow, &[]), None);
    }

    #[test]
    fn the_columns_hold_escaped_text_only() {
        let changes = lines(&[("+ \"/<b>\"", "\"<script>\"")]);
        let page = all(&rows(SubjectKind::Flow, &changes).unwrap()).into_string();
        assert!(!page.contains("<b>") && !page.contains("<script>"), "{page}");
        assert!(page.contains("nothing") && page.contains("&lt;script&gt;"), "{page}");
    }
}
