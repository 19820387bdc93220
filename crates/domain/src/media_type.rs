//! The media type of a file, by its name and its first bytes.

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

/// How many of the first bytes of a file decide its media type. A list of files reads as many of
/// each file that it names, and no more, so it tells the type that a read of the file tells.
pub const HEAD_BYTES: usize = 8 * 1024;

/// Returns the media type of a file that begins with `head`. `told` is what these bytes tell to
/// those who know formats.
///
/// A picture or a sound is one whatever its name says. Of what begins as UTF-8 the name decides,
/// and of all else the first bytes.
pub fn of_file(path: &SpacePath, head: &[u8], told: Option<&'static str>) -> &'static str {
    let is_text = match std::str::from_utf8(head) {
        Ok(_) => true,
        // The head may end within a character.
        Err(error) => error.error_len().is_none(),
    };
    match told {
        Some(told) if !is_text || is_picture_or_sound(told) => told,
        _ if is_text => of_text(path),
        _ => "application/octet-stream",
    }
}

/// Returns whether a media type is one of pictures or of sounds.
pub fn is_picture_or_sound(media_type: &str) -> bool {
    ["image/", "audio/"].iter().any(|kind| media_type.starts_with(kind))
}

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

    #[test]
    fn first_bytes_that_are_no_text_decide_and_so_do_those_of_a_picture_or_a_sound() {
        let (mark, wav) = (&b"%PDF-1.4\n%\xe2\xe3"[..], &b"RIFF\x24\0\0\0WAVE"[..]);
        for (path, head, told, expected) in [
            ("/a.md", mark, Some("application/pdf"), "application/pdf"),
            ("/a.md", b"\xff\xfe", None, "application/octet-stream"),
            ("/a.md", b"# A\n", None, "text/markdown"),
            ("/a.md", b"# \xc3", None, "text/markdown"),
            ("/a.md", b"", None, "text/markdown"),
            ("/a.txt", b"<!DOCTYPE html>", Some("text/html"), "text/plain"),
            ("/a.png", b"not a picture", None, "text/plain"),
            ("/a", wav, Some("audio/wav"), "audio/wav"),
        ] {
            let path = SpacePath::parse(path).unwrap();
            assert_eq!(of_file(&path, head, told), expected, "{path} {head:?}");
        }
    }
}
