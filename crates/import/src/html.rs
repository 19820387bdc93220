//! Converts HTML to text: a message without a plain part, or an attached page.
//!
//! A block begins on a new line, and white space becomes one space. Scripts, styles and comments
//! are left out, and so is the title of a message. Character references are decoded. Nothing is
//! fetched or rendered, so the page need not be safe. A broken page yields part of its text. The
//! time is linear in the length of the page and there is no recursion: at most [`MAX_UNCLOSED`]
//! tags are read twice.
//!
//! *Source*: HTML Living Standard, sections 13.1 and 15.3 (which elements are blocks).

use mail_parser::decoders::html::add_html_token;

/// Elements that begin and end a line, separated by spaces.
const BLOCKS: &str = "\
    address article aside blockquote br center dd div dl dt fieldset figure footer form h1 h2 h3 \
    h4 h5 h6 header hr li main nav ol p pre section table tr ul";
/// Elements whose content is not text, separated by spaces.
const NOT_TEXT: &str = "noscript script style template";
const TITLE: &str = "title";
/// The longest character reference, in bytes.
const MAX_REFERENCE_BYTES: usize = 40;
/// How many tags with a quote that never ends are searched to the end of the page. After them
/// quotes have no meaning.
const MAX_UNCLOSED: usize = 8;

/// Returns the text of a message, whose title says nothing that the message does not.
pub(crate) fn to_text(page: &str) -> String {
    convert(page, Title::LeftOut)
}

/// Returns the text of a page that is a document of its own: its title and its content.
pub(crate) fn to_document_text(page: &str) -> String {
    convert(page, Title::Kept)
}

#[derive(Clone, Copy, PartialEq)]
enum Title {
    LeftOut,
    Kept,
}

fn convert(page: &str, title: Title) -> String {
    let mut out = TextBuilder { text: String::new(), is_space: false, unclosed: 0, title };
    let mut rest = page;
    while let Some(at) = memchr::memchr2(b'<', b'&', rest.as_bytes()) {
        let (before, from) = rest.split_at(at);
        out.push_text(before);
        rest = if from.starts_with('&') {
            push_reference(from, &mut out)
        } else {
            skip_markup(from, &mut out)
        };
    }
    out.push_text(rest);
    out.text.truncate(out.text.trim_end().len());
    out.text
}

/// The text so far. White space is written before the next word, if there is one.
struct TextBuilder {
    text: String,
    is_space: bool,
    /// How many tags had a quote that never ends.
    unclosed: usize,
    title: Title,
}

impl TextBuilder {
    fn push_text(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                ' ' | '\t' | '\r' | '\n' | '\x0c' => self.is_space = true,
                _ => self.push_char(character),
            }
        }
    }

    fn push_char(&mut self, character: char) {
        if std::mem::take(&mut self.is_space) && !self.text.is_empty() && !self.text.ends_with('\n')
        {
            self.text.push(' ');
        }
        self.text.push(character);
    }

    fn break_line(&mut self) {
        self.is_space = false;
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    fn begin_block(&mut self) {
        if !self.text.ends_with('\n') {
            self.break_line();
        }
        self.is_space = false;
    }
}

/// Writes a character reference, or an `&` that begins none, and returns what follows.
fn push_reference<'p>(from: &'p str, out: &mut TextBuilder) -> &'p str {
    let end = from.bytes().take(MAX_REFERENCE_BYTES).position(|byte| byte == b';');
    let inner = end.and_then(|end| from.get(1..end)).unwrap_or_default();
    let is_one =
        !inner.is_empty() && inner.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'#');
    let (taken, rest) = from.split_at(if is_one { end.unwrap_or_default() + 1 } else { 1 });
    let mut decoded = String::new();
    add_html_token(&mut decoded, taken.as_bytes(), false);
    match decoded.as_str() {
        "\u{a0}" => out.is_space = true,
        decoded => out.push_text(decoded),
    }
    rest
}

/// Skips a tag or a comment, and the content of an element that is not text, or writes a `<` that
/// begins neither. Returns what follows.
fn skip_markup<'p>(from: &'p str, out: &mut TextBuilder) -> &'p str {
    if let Some(comment) = from.strip_prefix("<!--") {
        return after(comment, "-->");
    }
    let inner = from.get(1..).unwrap_or_default();
    let (is_end, named) = inner.strip_prefix('/').map_or((false, inner), |named| (true, named));
    if !named.starts_with(|first: char| first.is_ascii_alphabetic()) {
        if inner.starts_with(['!', '?', '/']) {
            return after(inner, ">");
        }
        out.push_text("<");
        return inner;
    }
    let length = named.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(named.len());
    let (name, attributes) = named.split_at(length);
    let rest = after_tag(attributes, &mut out.unclosed);
    let is = |names: &str| names.split(' ').any(|known| name.eq_ignore_ascii_case(known));
    let is_title = is(TITLE);
    if !is_end && (is(NOT_TEXT) || (is_title && out.title == Title::LeftOut)) {
        return after_element(rest, name);
    }
    match name {
        _ if name.eq_ignore_ascii_case("br") => out.break_line(),
        _ if is_title || is(BLOCKS) => out.begin_block(),
        _ if name.eq_ignore_ascii_case("td") || name.eq_ignore_ascii_case("th") => {
            out.is_space = true
        }
        _ => {}
    }
    rest
}

fn after<'p>(text: &'p str, end: &str) -> &'p str {
    text.split_once(end).map_or("", |(_, rest)| rest)
}

/// Skips the attributes of a tag, whose quoted values can contain `>`. If the page ends within a
/// quote, the tag ends at the first `>`, and `unclosed` counts the tag.
fn after_tag<'p>(attributes: &'p str, unclosed: &mut usize) -> &'p str {
    if *unclosed >= MAX_UNCLOSED {
        return after(attributes, ">");
    }
    let mut quote = None;
    for (at, byte) in attributes.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return attributes.get(at + 1..).unwrap_or_default(),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    *unclosed += 1;
    after(attributes, ">")
}

/// Skips an element. One that does not end reaches to the end of the page, as in browsers.
fn after_element<'p>(content: &'p str, name: &str) -> &'p str {
    let bytes = content.as_bytes();
    for at in memchr::memmem::find_iter(bytes, b"</") {
        let named = bytes.get(at + 2..at + 2 + name.len());
        if named.is_some_and(|named| named.eq_ignore_ascii_case(name.as_bytes())) {
            return after(content.get(at..).unwrap_or_default(), ">");
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_becomes_its_text_line_by_line() {
        for (page, text) in [
            ("", ""),
            ("a  b\n c", "a b c"),
            ("<p>one</p><p>two</p>", "one\ntwo"),
            ("<div>one</div><div>two<br>three<br><br>four</div>", "one\ntwo\nthree\n\nfour"),
            ("<ul><li>x<li>y</ul>z", "x\ny\nz"),
            ("<table><tr><td>a</td><td>b</td></tr><tr><td>c</table>", "a b\nc"),
            ("un<b>der</b>line", "underline"),
            ("<head><title>t</title><style>p{}</style></head><body>x", "x"),
            ("a<script>if (1 < 2) '</p>'</script >b", "ab"),
            ("a<!-- <b> -- > -->b<!doctype html>c", "abc"),
            ("&lt;b&gt; &amp;&eacute;&#233;&#x1F33F; &nosuch; & &;", "<b> &éé🌿 &nosuch; & &;"),
            ("a&nbsp;&nbsp;b", "a b"),
            ("<a title='x > y' href=\"z\">link</a>", "link"),
            ("<a title='x>y", "y"),
            ("1 < 2 and <3", "1 < 2 and <3"),
            ("so far<script>never ends", "so far"),
            ("\u{202e}bidi\u{202c}<p", "\u{202e}bidi\u{202c}"),
        ] {
            assert_eq!(to_text(page), text, "{page}");
        }
    }

    #[test]
    fn tags_that_never_end_are_read_in_linear_time() {
        // With a search to the end of the page for each tag, this would take hours.
        const COUNT: usize = 300_000;
        assert!(to_text(&"<a '>'".repeat(COUNT)) == "'".repeat(COUNT));
        assert!(to_text(&"<a x=\"'>".repeat(COUNT + 1)).is_empty());
        assert_eq!(to_text(&"<a title=\"".repeat(COUNT)), "");
    }

    proptest::proptest! {
        #[test]
        fn the_text_is_never_longer_than_the_page(
            page in "(<|>|&|;|/|!--|-->|p|br|script|style|'|\"| |\n|é|#1|amp){0,40}",
        ) {
            let text = to_text(&page);
            proptest::prop_assert!(text.chars().count() <= page.chars().count());
        }
    }
}
