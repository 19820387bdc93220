//! Compares our headings, from an event parser, with a slow and simple reading of the syntax tree
//! of a second CommonMark implementation.
//!
//! A seed generates the documents from every construct of the specification: 4,000 by default, and
//! 100,000 with `STILE_RIG_SCALE=full`. `docs/commonmark.md` lists the known disagreements, and
//! which implementation the specification supports.

use comrak::nodes::{AstNode, NodeValue};
use comrak::{Arena, Options, parse_document};
use serde::Deserialize;
use stile_domain::notes::{Note, NotePath, section_source};

/// A heading as both implementations report it.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct FoundHeading {
    level: u8,
    heading_text: String,
    body_available: bool,
}

#[derive(Deserialize)]
struct Sections {
    sections: Vec<FoundHeading>,
}

fn ours(markdown: &str) -> Vec<FoundHeading> {
    let answer = section_source(&NotePath::parse("a.md").unwrap(), Note::parse(markdown)).unwrap();
    serde_json::from_value::<Sections>(serde_json::to_value(&answer).unwrap()).unwrap().sections
}

/// Reads the headings as the contract defines them, by recursion over the tree.
fn theirs(markdown: &str) -> Vec<FoundHeading> {
    let arena = Arena::new();
    // Without a final line ending, comrak takes an empty list item at the end, such as `1.`, for
    // text (5.2, rule 3).
    let document = parse_document(&arena, &format!("{markdown}\n"), &Options::default());
    let blocks: Vec<&AstNode<'_>> = document.children().collect();
    let mut headings: Vec<(usize, bool, u8, String)> = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        for node in block.descendants() {
            if let NodeValue::Heading(heading) = &node.data.borrow().value {
                let nested = !std::ptr::eq(node, *block);
                headings.push((index, nested, heading.level, normalize(&joined(node))));
            }
        }
    }
    let is_heading =
        |block: &&AstNode<'_>| matches!(block.data.borrow().value, NodeValue::Heading(_));
    let full: Vec<bool> =
        blocks.iter().map(|block| !is_heading(block) && has_text(block)).collect();
    let heading = |(at, (index, _, level, text)): (usize, &(usize, bool, u8, String))| {
        let end = headings[at + 1..].iter().find(|next| next.2 <= *level);
        let end = end.map_or(blocks.len(), |(end, nested, ..)| end + usize::from(*nested));
        let body_available = (index + 1..end).any(|block| full[block]);
        FoundHeading { level: *level, heading_text: text.clone(), body_available }
    };
    headings.iter().enumerate().map(heading).collect()
}

/// Returns the lines of the headings, from 1, as the other implementation finds them; `None` for a
/// document about which the implementations disagree, or with lines that end at a carriage return.
pub(super) fn heading_lines(markdown: &str) -> Option<Vec<u64>> {
    if markdown.replace("\r\n", "\n").contains('\r') || !agree(markdown) {
        return None;
    }
    let arena = Arena::new();
    let document = parse_document(&arena, &format!("{markdown}\n"), &Options::default());
    let nodes = document.descendants().map(|node| node.data.borrow());
    let headings = nodes.filter(|node| matches!(node.value, NodeValue::Heading(_)));
    Some(headings.map(|node| node.sourcepos.start.line as u64).collect())
}

fn is_whitespace(character: char) -> bool {
    (character.is_whitespace() && character != '\u{85}') || character == '\u{feff}'
}

fn normalize(text: &str) -> String {
    text.split(is_whitespace).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Joins the children of a node by spaces, after merging neighbouring texts.
fn joined<'a>(node: &'a AstNode<'a>) -> String {
    let mut pieces: Vec<(bool, String)> = Vec::new();
    for child in node.children() {
        let (is_text, piece) = match &child.data.borrow().value {
            NodeValue::Text(text) => (true, text.to_string()),
            NodeValue::SoftBreak => (true, "\n".to_owned()),
            NodeValue::LineBreak => (false, " ".to_owned()),
            NodeValue::Code(code) => (false, code.literal.clone()),
            NodeValue::HtmlInline(html) => (false, html.clone()),
            NodeValue::Image(_) => (false, flat(child)),
            _ => (false, joined(child)),
        };
        match pieces.last_mut() {
            Some((true, last)) if is_text => last.push_str(&piece),
            _ => pieces.push((is_text, piece)),
        }
    }
    pieces.into_iter().map(|(_, piece)| piece).collect::<Vec<_>>().join(" ")
}

/// Returns the alternative text of an image.
fn flat<'a>(node: &'a AstNode<'a>) -> String {
    node.descendants()
        .map(|node| match &node.data.borrow().value {
            NodeValue::Text(text) => text.to_string(),
            NodeValue::SoftBreak => "\n".to_owned(),
            NodeValue::Code(code) => code.literal.clone(),
            NodeValue::HtmlInline(html) => html.clone(),
            _ => String::new(),
        })
        .collect()
}

fn has_text<'a>(block: &'a AstNode<'a>) -> bool {
    let some = |text: &str| !text.chars().all(is_whitespace);
    block.descendants().any(|node| match &node.data.borrow().value {
        NodeValue::ThematicBreak => true,
        NodeValue::Text(text) => some(text),
        NodeValue::Code(code) => some(&code.literal),
        NodeValue::HtmlInline(html) => some(html),
        NodeValue::CodeBlock(code) => some(&code.literal),
        NodeValue::HtmlBlock(html) => some(&html.literal),
        _ => false,
    })
}

/// A small random number generator (xorshift64*). A seed makes the same document for ever.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % most as u64).unwrap()
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

const PREFIXES: &[&str] = &[
    "", "", "", "", "", "", "> ", ">", "- ", "* ", "+ ", "1. ", "2) ", "-", "1.", "  ", "   ",
    "    ", "\t", " ", "     ",
];
const STARTS: &[&str] = &[
    "# ", "## ", "### ", "###### ", "####### ", "#\t", "#", "===", "---", "--", "=", "***",
    "- - -", "___", "```", "~~~", "``` x", "````", "<div>", "</div>", "<!-- ", "-->", "<script>",
    "</script>", "<?", "?>", "<!A", "<pre>", "</pre>", "<a>", "<![CDATA[", "]]>", "[foo]: /u",
    "[foo]: /u 'title'", "[bar]:", "[bar]: <u> \"t", "/url", "'t'", "\"", "",
];
/// Starts of lines that begin and end HTML blocks of kind 1 (4.6), and what shows where they end.
const RAW_STARTS: &[&str] = &[
    "# ", "# ", "<pre>", "<PRE>", "</pre>", "</Pre>", "<script ", "<script>", "</script>",
    "<style", "<style>", "</style>", "</STYLE>", "<textarea>", "</textarea>", "a</pre>", "</pre >",
    "<prefix>", "===", "",
];
const INLINES: &[&str] = &[
    "a", "b", "foo", " ", " ", "  ", "\t", "*", "**", "***", "_", "__", "`", "``", "[", "]", "(",
    ")", "](u)", "![", "![x](y)", "[foo]", "[bar]", "[foo][]", "[x][foo]", "<b>", "</b>",
    "<b c='d'>", "<http://x>", "<x@y.z>", "<", ">", "&amp;", "&#35;", "&#0;", "&nbsp;", "&copy",
    "&bogus;", "\\", "\\*", "\\#", "\\[", "\\\\", "#", " #", "\t#", " ##", "!", ".", "\"",
    "\u{e9}", "\u{a0}", "<!-- c -->", "-", "=", "~", ":", "|", "1.", "+", "\u{201c}", "\u{20ac}",
];

/// Makes a document from a seed, of every construct.
pub(super) fn document(seed: u64) -> String {
    document_of(STARTS, seed)
}

fn document_of(starts: &[&str], seed: u64) -> String {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    // The first line is empty, because only one implementation knows front matter.
    let mut text = String::from("\n");
    for _ in 0..=random.below(9) {
        if random.below(6) == 0 {
            text.push('\n');
            continue;
        }
        for _ in 0..random.below(3) {
            text += random.pick(PREFIXES);
        }
        if random.below(3) > 0 {
            text += random.pick(starts);
        }
        for _ in 0..random.below(7) {
            text += random.pick(INLINES);
        }
        text += match random.below(40) {
            0 => "\r\n",
            1 => "  \n",
            2 => "\\\n",
            _ => "\n",
        };
    }
    // Both read the body of the contract, which has no white space at its end.
    text.trim_end_matches(is_whitespace).to_owned()
}

fn agree(text: &str) -> bool {
    ours(text) == theirs(text)
}

/// Shrinks a text as long as the implementations disagree about it.
fn smallest(text: &str) -> String {
    let mut text: Vec<char> = text.chars().collect();
    for size in [20, 8, 3, 1, 1, 1] {
        let mut at = 0;
        while at < text.len() {
            let mut less = text.clone();
            less.drain(at..(at + size).min(less.len()));
            let tried: String = less.iter().collect();
            if !tried.starts_with("---")
                && tried.trim_end_matches(is_whitespace) == tried
                && !agree(&tried)
            {
                text = less;
            } else {
                at += 1;
            }
        }
    }
    text.into_iter().collect()
}

/// Whether a smallest text shows a disagreement that `docs/commonmark.md` explains.
fn is_known(small: &str) -> bool {
    let line = |starts: &dyn Fn(&str) -> bool| small.lines().any(starts);
    let tag_alone = |line: &str| {
        let line = line.trim_start();
        line.starts_with('<')
            && line
                .chars()
                .nth(1)
                .is_some_and(|letter| letter.is_ascii_alphabetic() || letter == '/')
    };
    let in_container = line(&|line| line.trim_start().starts_with(['>', '-', '*', '+', '1', '2']));
    small.contains("<!A") || (in_container && line(&tag_alone))
}

#[test]
fn two_implementations_of_commonmark_agree_on_generated_documents() {
    check_agreement(STARTS);
}

#[test]
fn two_implementations_of_commonmark_agree_on_where_an_html_block_ends() {
    check_agreement(RAW_STARTS);
}

fn check_agreement(starts: &[&str]) {
    let documents = match std::env::var("STILE_RIG_SCALE") {
        Ok(scale) if scale == "full" || scale == "long" => 100_000,
        _ => 4_000,
    };
    let mut found = std::collections::BTreeMap::new();
    for text in (0..documents).map(|seed| document_of(starts, seed)).filter(|text| !agree(text)) {
        let small = smallest(&text);
        if is_known(&small) {
            continue;
        }
        found.entry(small.clone()).or_insert_with(|| {
            format!("{small:?}\n  ours   {:?}\n  theirs {:?}\n", ours(&small), theirs(&small))
        });
    }
    let all: Vec<String> = found.into_values().collect();
    assert!(all.is_empty(), "{} of {documents} differ:\n{}", all.len(), all.concat());
}
