//! Answers in XML (RFC 4918, section 14.16), within bounds.

use crate::failures::unusable;
use provider::contract::Failure;
use roxmltree::{Document, Node, ParsingOptions};

/// The most elements and texts of an answer.
const NODES_MAX: u32 = 300_000;
/// The deepest nesting of elements.
const DEPTH_MAX: usize = 32;
/// The most attributes of an element, and the most namespaces that are declared for it.
const ATTRIBUTES_MAX: usize = 16;
const NAMESPACES_MAX: usize = 32;
/// A longer refusal is not looked into.
const REFUSAL_BYTES_MAX: usize = 16 * 1024;

const DAV: &str = "DAV:";
const CALDAV: &str = "urn:ietf:params:xml:ns:caldav";

/// A resource of a server, with the properties that were asked for and that it has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Resource {
    /// Its address, as the server writes it.
    pub(crate) href: String,
    /// Whether it is a calendar.
    pub(crate) is_calendar: bool,
    /// Its name for people.
    pub(crate) display_name: Option<String>,
    /// The components that it can hold; `None` if the server does not say.
    pub(crate) components: Option<Vec<String>>,
    /// The address of the user.
    pub(crate) principal: Option<String>,
    /// The address of the user's calendars.
    pub(crate) home: Option<String>,
    /// The event, in iCalendar.
    pub(crate) data: Option<String>,
}

/// Reads the resources of an answer.
///
/// # Errors
/// [`Failure::InvalidOutput`]: the answer is not what WebDAV prescribes.
pub(crate) fn read(body: &[u8]) -> Result<Vec<Resource>, Failure> {
    let text = std::str::from_utf8(body).map_err(|_not| unusable("is not UTF-8"))?;
    let document = parsed(text).ok_or_else(|| unusable("is not the XML of WebDAV"))?;
    let root = document.root_element();
    if !is(root, DAV, "multistatus") {
        return Err(unusable("is not a multistatus document"));
    }
    Ok(elements(root, DAV, "response").filter_map(resource).collect())
}

/// Returns the name of the condition that a refusal names, such as `valid-calendar-data` (RFC 4918, section 16).
pub(crate) fn condition(body: &[u8]) -> Option<String> {
    let body = Some(body).filter(|body| body.len() <= REFUSAL_BYTES_MAX)?;
    let document = parsed(std::str::from_utf8(body).ok()?)?;
    let root = document.root_element();
    let condition = root.children().find(Node::is_element).filter(|_| is(root, DAV, "error"))?;
    let name = condition.tag_name().name();
    let is_name = name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    is_name.then(|| name.to_owned())
}

/// SECURITY: a document type could define entities that grow without end, so a document with one is refused. The parser
/// compares each attribute with all others of its element. It compares each namespace with all that are declared. So
/// both are bounded beforehand.
fn parsed(text: &str) -> Option<Document<'_>> {
    if !is_bounded(text) {
        return None;
    }
    let options = ParsingOptions { allow_dtd: false, nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    Document::parse_with_options(text, options).ok()
}

/// Returns whether elements nest to a bounded depth, with a bounded number of attributes and namespaces. It is linear.
fn is_bounded(text: &str) -> bool {
    // The namespaces that each open element declares.
    let mut open: Vec<usize> = Vec::new();
    let mut namespaces = 0;
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let markup = rest.get(at..).unwrap_or_default();
        let end = if markup.starts_with("<!--") {
            markup.find("-->")
        } else if markup.starts_with("<![CDATA[") {
            markup.find("]]>")
        } else {
            end_of_tag(markup)
        };
        let Some((tag, after)) = end.and_then(|end| markup.split_at_checked(end)) else { return false };
        rest = after;
        if tag.starts_with("</") {
            namespaces -= open.pop().unwrap_or_default().min(namespaces);
        } else if !tag.starts_with("<!") && !tag.starts_with("<?") {
            let declared = tag.matches("xmlns").count();
            if tag.matches('=').count() > ATTRIBUTES_MAX || namespaces + declared > NAMESPACES_MAX {
                return false;
            }
            if !tag.ends_with('/') {
                open.push(declared);
                namespaces += declared;
            }
        }
        if open.len() > DEPTH_MAX {
            return false;
        }
    }
    true
}

/// Returns the place of the `>` of a tag. Values in quotes can have others.
fn end_of_tag(markup: &str) -> Option<usize> {
    let mut quote = None;
    markup.find(|c| match (c, quote) {
        ('"' | '\'', None) => {
            quote = Some(c);
            false
        }
        (c, Some(open)) if c == open => {
            quote = None;
            false
        }
        (c, quote) => c == '>' && quote.is_none(),
    })
}

fn is(node: Node<'_, '_>, namespace: &str, name: &str) -> bool {
    node.has_tag_name((namespace, name))
}

fn elements<'a, 'd>(
    parent: Node<'a, 'd>,
    namespace: &'static str,
    name: &'static str,
) -> impl Iterator<Item = Node<'a, 'd>> {
    parent.children().filter(move |node| is(*node, namespace, name))
}

fn text(parent: Node<'_, '_>, namespace: &'static str, name: &'static str) -> Option<String> {
    elements(parent, namespace, name).next().map(whole_text)
}

/// A text can stand in several pieces.
fn whole_text(node: Node<'_, '_>) -> String {
    node.children().filter_map(|child| child.text()).collect()
}

fn resource(response: Node<'_, '_>) -> Option<Resource> {
    let href = text(response, DAV, "href")?;
    let mut resource = Resource { href: href.trim().to_owned(), ..Resource::default() };
    for propstat in elements(response, DAV, "propstat") {
        let status = text(propstat, DAV, "status").unwrap_or_default();
        if status.split(' ').nth(1) != Some("200") {
            continue;
        }
        for prop in elements(propstat, DAV, "prop") {
            properties(prop, &mut resource);
        }
    }
    Some(resource)
}

fn properties(prop: Node<'_, '_>, resource: &mut Resource) {
    let href = |parent: Node<'_, '_>| text(parent, DAV, "href").map(|href| href.trim().to_owned());
    for property in prop.children().filter(Node::is_element) {
        let name = property.tag_name();
        match (name.namespace(), name.name()) {
            (Some(DAV), "resourcetype") => {
                resource.is_calendar = elements(property, CALDAV, "calendar").next().is_some();
            }
            (Some(DAV), "displayname") => resource.display_name = Some(whole_text(property)),
            (Some(DAV), "current-user-principal") => resource.principal = href(property),
            (Some(CALDAV), "calendar-home-set") => resource.home = href(property),
            (Some(CALDAV), "calendar-data") => resource.data = Some(whole_text(property)),
            (Some(CALDAV), "supported-calendar-component-set") => {
                let components = elements(property, CALDAV, "comp");
                let names = components.filter_map(|component| component.attribute("name")).map(str::to_owned);
                resource.components = Some(names.collect());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_properties_that_the_resource_has_are_read() {
        let answer = br#"<?xml version="1.0"?><D:multistatus xmlns:D="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav">
            <D:response><D:href> /ada/work/ </D:href>
            <D:propstat><D:prop><D:resourcetype><D:collection/><C:calendar/></D:resourcetype>
            <C:supported-calendar-component-set><C:comp name="VEVENT"/></C:supported-calendar-component-set>
            <D:displayname>Work &amp; <![CDATA[more]]></D:displayname></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>
            <D:propstat><D:prop><D:getetag>"no"</D:getetag></D:prop><D:status>HTTP/1.1 404 Not Found</D:status></D:propstat>
            </D:response></D:multistatus>"#;
        let read = read(answer).unwrap();
        let expected = Resource {
            href: "/ada/work/".to_owned(),
            is_calendar: true,
            display_name: Some("Work & more".to_owned()),
            components: Some(vec!["VEVENT".to_owned()]),
            ..Resource::default()
        };
        assert_eq!(read, [expected]);
    }

    #[test]
    fn other_documents_are_refused() {
        let bomb = b"<!DOCTYPE a [<!ENTITY b \"cccccccccc\"><!ENTITY d \"&b;&b;\">]>\
                     <D:multistatus xmlns:D=\"DAV:\">&d;</D:multistatus>";
        let wrapped = |inner: String| format!("<D:multistatus xmlns:D=\"DAV:\">{inner}</D:multistatus>").into_bytes();
        let many = wrapped("<a/>".repeat(300_001));
        let deep = wrapped(format!("{}{}", "<a>".repeat(40), "</a>".repeat(40)));
        let attributes = wrapped(format!("<a{}/>", " a=\"\"".repeat(100_000)));
        let namespaces = "<a xmlns:n=\"u\">".repeat(1_000);
        let namespaces = wrapped(format!("{namespaces}{}", "</a>".repeat(1_000)));
        for bad in
            [b"", &b"hello"[..], b"<html/>", b"<", b"<a b='>", b"\xff", bomb, &many, &deep, &attributes, &namespaces]
        {
            assert!(read(bad).is_err());
        }
        let usual = wrapped("<!-- > --><a b=\"'>'\" c='\"'><![CDATA[<x>]]></a><?p ?>".to_owned());
        assert_eq!(read(&usual).map(|resources| resources.len()), Ok(0));
        assert_eq!(condition(&vec![b' '; REFUSAL_BYTES_MAX + 1]), None);
    }

    #[test]
    fn a_refusal_names_its_condition() {
        let body =
            br#"<D:error xmlns:D="DAV:"><C:valid-calendar-data xmlns:C="urn:ietf:params:xml:ns:caldav"/></D:error>"#;
        assert_eq!(condition(body).as_deref(), Some("valid-calendar-data"));
        assert_eq!(condition(b"<html><body/></html>"), None);
    }
}
