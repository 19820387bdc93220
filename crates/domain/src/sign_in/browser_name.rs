//! Names the browser and the system of a `User-Agent` in words: `Firefox on Android`.
//!
//! A browser may say anything, so the words come from a list and never from the header. Browsers
//! name others too, to be treated like them; the order of the list is that in which one of them
//! counts.

/// What a header has, and the name of the browser.
const BROWSERS: [(&str, &str); 11] = [
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("Vivaldi/", "Vivaldi"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("DuckDuckGo/", "DuckDuckGo"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("HeadlessChrome/", "Chrome without a window"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
];
/// What a header has, and the name of the system.
const SYSTEMS: [(&str, &str); 8] = [
    ("iPhone", "an iPhone"),
    ("iPad", "an iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("CrOS", "ChromeOS"),
    ("Macintosh", "a Mac"),
    ("FreeBSD", "FreeBSD"),
    ("Linux", "Linux"),
];

/// Returns the browser and its system, as far as the header says them.
pub fn browser_name(user_agent: &str) -> String {
    let of = |list: &[(&str, &'static str)]| {
        list.iter().find(|(word, _)| user_agent.contains(word)).map(|(_, name)| *name)
    };
    match (of(&BROWSERS), of(&SYSTEMS)) {
        (Some(browser), Some(system)) => format!("{browser} on {system}"),
        (Some(browser), None) => browser.to_owned(),
        (None, Some(system)) => format!("an unknown browser on {system}"),
        (None, None) => "an unknown browser".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_named_in_words() {
        for (header, expected) in [
            (
                "Mozilla/5.0 (X11; Linux x86_64; rv:150.0) Gecko/20100101 Firefox/150.0",
                "Firefox on Linux",
            ),
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) \
                 Chrome/156.0.0.0 Safari/537.36 Edg/156.0.0.0",
                "Edge on Windows",
            ),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605.1.15 \
                 (KHTML, like Gecko) Version/19.0 Mobile/15E148 Safari/604.1",
                "Safari on an iPhone",
            ),
            (
                "Mozilla/5.0 (Linux; Android 16) AppleWebKit/537.36 (KHTML, like Gecko) \
                 Chrome/156.0.0.0 Mobile Safari/537.36",
                "Chrome on Android",
            ),
            ("curl/8.0", "an unknown browser"),
            ("<script>\u{202e} Windows", "an unknown browser on Windows"),
            ("", "an unknown browser"),
        ] {
            assert_eq!(browser_name(header), expected);
        }
    }
}
