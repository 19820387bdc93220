//! Turns Slack's markup (`mrkdwn`) into plain text: names for identifiers, addresses of links, and
//! no escapes.
//!
//! *Source*: Slack's reference "Formatting text for app surfaces": `<@U…>`, `<#C…>`, `<!…>` and
//! `<url|label>`; only `&`, `<` and `>` are escaped.

use super::workspace::Workspace;

/// By how many bytes names may make a text longer. Slack's own messages have at most 40,000
/// characters.
const MAX_GROWTH: usize = 256 * 1024;

/// Returns a text without its markup. Once the text has grown by [`MAX_GROWTH`], the rest keeps its
/// markup.
pub(super) fn to_plain_text(text: &str, workspace: &Workspace) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, from)) = rest.split_once('<') {
        push_unescaped(before, &mut plain);
        // Markup contains no `<` and ends in `>`.
        let Some(end) =
            from.find(['<', '>']).filter(|&end| from.as_bytes().get(end) == Some(&b'>'))
        else {
            plain.push('<');
            rest = from;
            continue;
        };
        let (inner, behind) = from.split_at(end);
        if plain.len() + from.len() > text.len() + MAX_GROWTH {
            plain.push('<');
            plain.push_str(from);
            return plain;
        }
        push_markup(inner, workspace, &mut plain);
        rest = behind.get(1..).unwrap_or_default();
    }
    push_unescaped(rest, &mut plain);
    plain
}

fn push_markup(inner: &str, workspace: &Workspace, plain: &mut String) {
    let (target, label) =
        inner.split_once('|').map_or((inner, None), |(target, label)| (target, Some(label)));
    let label = label.filter(|label| !label.is_empty());
    if let Some(user) = target.strip_prefix('@') {
        push_mention(
            '@',
            workspace.users.get(user).map(String::as_str).or(label).unwrap_or(user),
            plain,
        );
    } else if let Some(channel) = target.strip_prefix('#') {
        push_mention(
            '#',
            label
                .or_else(|| workspace.channels.get(channel).map(String::as_str))
                .unwrap_or(channel),
            plain,
        );
    } else if let Some(command) = target.strip_prefix('!') {
        let what = command.split('^').next().unwrap_or_default();
        match (what, label) {
            ("date" | "subteam", Some(label)) => push_unescaped(label, plain),
            (what, label) => push_mention('@', label.unwrap_or(what), plain),
        }
    } else {
        let address = target.strip_prefix("mailto:").unwrap_or(target);
        match label {
            Some(label) if label != address && label != target => {
                push_unescaped(label, plain);
                plain.push_str(" (");
                push_unescaped(address, plain);
                plain.push(')');
            }
            _ => push_unescaped(address, plain),
        }
    }
}

fn push_mention(sign: char, name: &str, plain: &mut String) {
    if !name.starts_with(sign) {
        plain.push(sign);
    }
    push_unescaped(name, plain);
}

fn push_unescaped(text: &str, plain: &mut String) {
    let mut rest = text;
    while let Some((before, from)) = rest.split_once('&') {
        plain.push_str(before);
        let known = [("lt;", '<'), ("gt;", '>'), ("amp;", '&')];
        let found = known.iter().find_map(|(name, means)| Some((from.strip_prefix(name)?, *means)));
        let (behind, means) = found.unwrap_or((from, '&'));
        plain.push(means);
        rest = behind;
    }
    plain.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_make_a_text_longer_up_to_a_limit() {
        let workspace = Workspace {
            users: [("U".to_owned(), "n".repeat(1000))].into(),
            ..Workspace::default()
        };
        let text = "<@U> &amp; ".repeat(100_000);
        let read = to_plain_text(&text, &workspace);
        assert!(
            read.len() > MAX_GROWTH && read.len() < text.len() + MAX_GROWTH + 2000,
            "{}",
            read.len()
        );
        assert!(read.starts_with("@nnn") && read.ends_with("<@U> &amp; "));
    }

    #[test]
    fn markup_becomes_plain_text() {
        let pair = |id: &str, name: &str| (id.to_owned(), name.to_owned());
        let workspace = Workspace {
            users: [pair("U1", "Ann")].into(),
            channels: [pair("C1", "garden")].into(),
        };
        for (text, read) in [
            ("hello <@U1>, and <@U2> or <@U3|bob>", "hello @Ann, and @U2 or @bob"),
            ("in <#C1>, <#C2|beds>, <#C3|>", "in #garden, #beds, #C3"),
            (
                "<!here> <!channel> <!subteam^S1|@cooks> <!date^1700000000^{date}|14 Nov>",
                "@here @channel @cooks 14 Nov",
            ),
            (
                "<https://example.org/?a=1&amp;b=2|the page>",
                "the page (https://example.org/?a=1&b=2)",
            ),
            (
                "<https://example.org> <mailto:a@b.example|a@b.example>",
                "https://example.org a@b.example",
            ),
            ("1 &lt; 2 &amp;&amp; 3 &gt; 2 &amp;lt; &nbsp; &", "1 < 2 && 3 > 2 &lt; &nbsp; &"),
            ("a < b <@U1", "a < b <@U1"),
            ("<<@U1>>", "<@Ann>"),
            ("<>", ""),
            ("\u{202e}é\u{202c}", "\u{202e}é\u{202c}"),
        ] {
            assert_eq!(to_plain_text(text, &workspace), read, "{text}");
        }
    }
}
