//! The page that shows the design: every colour, size, space and part that the style sheet has.
//!
//! The style sheet alone says what they are. Whoever changes it sees here what that does.

use axum::body::Body;
use http::{Response, StatusCode};
use maud::{Markup, PreEscaped, html};

use super::frame::{MARK, PageFrame};

/// The colours, with what each is for.
const COLOURS: [(&str, &str); 13] = [
    ("ink", "text"),
    ("soft", "what is beside the matter"),
    ("paper", "the page"),
    ("sheet", "what lies on the page"),
    ("line", "lines"),
    ("moss", "what can be done, and reads"),
    ("on-moss", "text on moss"),
    ("moss-wash", "what went well"),
    ("bark", "changes"),
    ("red", "what ends something"),
    ("red-wash", "what was taken out"),
    ("amber", "warnings"),
    ("amber-wash", "behind warnings"),
];
const SIZES: [&str; 5] = ["tiny", "small", "body", "large", "huge"];

/// Shows the page. It says nothing of the server, so everybody may see it.
pub fn show() -> Response<Body> {
    PageFrame::new("The design").respond(StatusCode::OK, &markup())
}

fn markup() -> Markup {
    html! {
        h1 { "The design" }
        p { "All pages are made of this. Colours follow the choice of the system, light or dark." }
        h2 { "The mark" }
        p class="big-mark" { (PreEscaped(MARK)) }
        h2 { "Colours" }
        ul class="swatches" {
            @for (name, use_of) in COLOURS {
                li class={ "swatch of-" (name) } { strong { (name) } " " (use_of) }
            }
        }
        h2 { "Type" }
        @for size in SIZES { p class={ "type-" (size) } { (size) ": what agents may do" } }
        p { code { "stile undo 42 --yes" } }
        h2 { "Spaces" }
        @for number in 1..=6 {
            p class="space-row" { code { "s" (number) } span class={ "space space-" (number) } {} }
        }
        h2 { "What is said" }
        p class="notice" { "Something went well." }
        p class="warning" { "Something needs a look." }
        p class="empty" { "There is nothing here yet, and this says what to do." }
        ul class="findings" {
            li class="good" { span class="mark" { "good" } span { strong { "journal" } ": can be written" } }
            li class="look" { span class="mark" { "look" } span { strong { "backup" } ": is old" } }
            li class="bad" { span class="mark" { "bad" } span { strong { "chain" } ": was changed" } }
        }
        h2 { "What is done" }
        form class="card" method="get" {
            label for="text" { "A field" }
            input id="text" name="text" placeholder="/work";
            label for="choice" { "A choice" }
            select id="choice" { option { "read only" } }
            label class="choice" for="tick" { input type="checkbox" id="tick"; span { "A tick" } }
            div class="actions" {
                button type="button" { "The main one" }
                button type="button" class="plain" { "Another" }
                button type="button" class="danger" { "Ends something" }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The names of the variables of the style sheet that begin a line.
    fn declared() -> BTreeSet<String> {
        let style = include_str!("style.css");
        let (root, _) = style.split_once("@media").unwrap();
        let lines = root.lines().filter_map(|line| line.trim().strip_prefix("--"));
        lines.map(|line| line.split(':').next().unwrap().to_owned()).collect()
    }

    #[test]
    fn the_page_shows_every_colour_size_and_space_of_the_style_sheet() {
        let page = markup().into_string();
        let others = ["round", "rounder", "column", "sans", "mono"];
        for name in declared() {
            let space = name.strip_prefix('s').and_then(|rest| rest.parse::<u8>().ok());
            let class = match space {
                Some(number) => format!("space-{number}"),
                None if SIZES.contains(&name.as_str()) => format!("type-{name}"),
                None if others.contains(&name.as_str()) => continue,
                None => format!("of-{name}"),
            };
            assert!(page.contains(&class), "{name}");
            let style = include_str!("style.css");
            assert!(style.contains(&format!(".{class} ")), "{class} is in the style sheet");
        }
    }
}
