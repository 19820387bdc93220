//! The media type of a file as far as its name tells it.

use crate::path::SpacePath;

/// The endings of names, in lower case, and their media types. *Source*: the registry of media
/// types of IANA; `text/markdown` is RFC 7763.
const BY_ENDING: &[(&str, &str)] = &[
    ("md", "text/markdown"),
    ("markdown", "text/markdown"),
    ("txt", "text/plain"),
    ("log", "text/plain"),
    ("csv", "text/csv"),
    ("tsv", "text/tab-separated-values"),
    ("html", "text/html"),
    ("htm", "text/html"),
    ("css", "text/css"),
    ("js", "text/javascript"),
    ("ics", "text/calendar"),
    ("vcf", "text/vcard"),
    ("xml", "application/xml"),
    ("json", "application/json"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("toml", "application/toml"),
    ("pdf", "application/pdf"),
    ("zip", "application/zip"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("svg", "image/svg+xml"),
    ("mp3", "audio/mpeg"),
    ("wav", "audio/wav"),
    ("m4a", "audio/mp4"),
    ("mp4", "video/mp4"),
];

/// Returns the media type that the name of a file tells; `None` for a name that tells none.
pub fn of_name(path: &SpacePath) -> Option<&'static str> {
    let name = path.as_str().rsplit('/').next()?;
    let (stem, ending) = name.rsplit_once('.')?;
    let is_it = |(known, _): &&(&str, &str)| ending.eq_ignore_ascii_case(known);
    BY_ENDING.iter().find(is_it).filter(|_| !stem.is_empty()).map(|(_, media_type)| *media_type)
}

/// Returns the media type of a file that is UTF-8. The name decides, unless it tells a picture, a
/// sound or a film, which are never UTF-8.
pub fn of_text(path: &SpacePath) -> &'static str {
    let may_be_text = |media_type: &&str| {
        let is_never =
            ["image/", "audio/", "video/"].iter().any(|kind| media_type.starts_with(kind));
        !is_never || media_type.ends_with("+xml")
    };
    of_name(path).filter(may_be_text).unwrap_or("text/plain")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_of_a_name_tells_the_media_type_and_never_makes_a_picture_of_text() {
        for (path, by_name, of_a_text) in [
            ("/a/b.md", Some("text/markdown"), "text/markdown"),
            ("/A.MD", Some("text/markdown"), "text/markdown"),
            ("/a.json", Some("application/json"), "application/json"),
            ("/a.svg", Some("image/svg+xml"), "image/svg+xml"),
            // Small ones are ASCII from end to end.
            ("/a.pdf", Some("application/pdf"), "application/pdf"),
            ("/a.png", Some("image/png"), "text/plain"),
            ("/a.mp4", Some("video/mp4"), "text/plain"),
            ("/a.unknown", None, "text/plain"),
            ("/md", None, "text/plain"),
            ("/.md", None, "text/plain"),
            ("/a.md/b", None, "text/plain"),
        ] {
            let path = SpacePath::parse(path).unwrap();
            assert_eq!((of_name(&path), super::of_text(&path)), (by_name, of_a_text), "{path}");
        }
    }
}
