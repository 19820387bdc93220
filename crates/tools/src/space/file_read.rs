//! `file.read`: any file, an image as the model sees it, everything else in windows of bytes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stile_domain::base64;
use stile_domain::error::Refusal;
use stile_domain::file_cursor::FileCursor;
use stile_domain::hash::ContentHash;
use stile_domain::journal::CallTrace;
use stile_domain::limits::{MAX_FILE_WINDOW, MAX_MEDIA_BYTES};
use stile_domain::media_type;
use stile_domain::path::{FilePath, SpacePath};
use stile_domain::permit::{Gate, Permit, Read};
use stile_domain::tool_name::ShownTools;
use stile_store::space::{FileBytes, Space};

use crate::answer::{Answer, Media, MediaKind};
use crate::tool::{Output, Tool};

/// Read any file: an image or a sound as itself, everything else as base64 in windows of 32 KiB.
/// For text, call `text.read`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileRead {
    /// Which file.
    path: FilePath,
    /// The byte to begin at, from 0. An image is then read as bytes, too.
    offset: Option<u64>,
    /// `next_cursor`, without `offset`.
    cursor: Option<String>,
}

/// A file, or some of its bytes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileReading {
    /// Its canonical path.
    path: SpacePath,
    /// The bytes; absent for an image or a sound that comes as itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// How `content` is written: `base64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<&'static str>,
    /// The position of the first byte of `content`.
    offset: u64,
    /// The media type, as of a resource.
    media_type: String,
    /// The size of the whole file.
    size_bytes: u64,
    /// The hash of the whole file.
    hash: ContentHash,
    /// Whether the file goes on after `content`.
    truncated: bool,
    /// What to send as `cursor` to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    #[serde(skip)]
    media: Option<Media>,
}

impl Output for FileReading {
    fn render(mut self, _: ShownTools) -> serde_json::Result<Answer> {
        let media = self.media.take();
        Ok(Answer { media, ..Answer::json(&self)? })
    }

    fn versions(&self) -> (Option<ContentHash>, Option<ContentHash>) {
        (Some(self.hash), None)
    }
}

/// Media types under the names that clients and the interfaces of models know. The library knows
/// sounds by names from before they were registered, and clients refuse those or save the sound as
/// a file without a type. *Source*: the registry of media types (RFC 6838), and for WAV, which has
/// no entry, the type that browsers tell (WHATWG MIME Sniffing, section 6.2).
const KNOWN_NAMES: &[(&str, &str)] = &[
    ("audio/x-wav", "audio/wav"),
    ("audio/x-flac", "audio/flac"),
    ("audio/x-aiff", "audio/aiff"),
    ("audio/m4a", "audio/mp4"),
    // Opus in a file is in the container Ogg.
    ("audio/opus", "audio/ogg"),
];

/// Returns the media type of a file that begins with `head`, so that it has one type in the list of
/// resources, as a resource and here.
pub(super) fn media_type(path: &SpacePath, head: &[u8]) -> &'static str {
    let told = infer::get(head).map(|kind| {
        let told = kind.mime_type();
        let known = KNOWN_NAMES.iter().find(|(name, _)| *name == told);
        known.map_or(told, |(_, known)| *known)
    });
    media_type::of_file(path, head, told)
}

/// Returns how the protocol shows a file of this type; `None` for a type that it does not show. A
/// drawing in SVG is text, and no model takes it for a picture.
pub(super) fn media_kind(media_type: &str) -> Option<MediaKind> {
    match media_type.split_once('/') {
        _ if media_type.ends_with("+xml") => None,
        Some(("image", _)) => Some(MediaKind::Image),
        Some(("audio", _)) => Some(MediaKind::Audio),
        _ => None,
    }
}

impl FileRead {
    fn start(&self) -> Result<Option<ByteStart>, Refusal> {
        match (&self.cursor, self.offset) {
            (Some(_), Some(_)) => {
                Err(Refusal::invalid_argument("`cursor` and `offset` exclude each other"))
            }
            (Some(cursor), None) => FileCursor::decode(cursor, &self.path)
                .map(|FileCursor { offset, hash, .. }| {
                    Some(ByteStart { offset, expected: Some(hash) })
                })
                .map_err(|_| {
                    Refusal::invalid_argument(
                        "`cursor` must be a `next_cursor` of this tool for the same `path`",
                    )
                }),
            (None, offset) => Ok(offset.map(|offset| ByteStart { offset, expected: None })),
        }
    }
}

/// Where a part of a file begins that is not read from its beginning as itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByteStart {
    /// The first byte, from 0.
    pub(super) offset: u64,
    /// The hash that the file must still have.
    pub(super) expected: Option<ContentHash>,
}

/// Some bytes of a file, as many as one answer holds.
pub(super) struct BytePart {
    pub(super) file: FileBytes,
    /// The position of the first byte.
    pub(super) offset: u64,
    pub(super) media_type: &'static str,
    /// How the protocol shows the file, if the part is a whole image or sound.
    kind: Option<MediaKind>,
    /// Where the next part begins.
    pub(super) next: Option<FileCursor>,
}

/// Reads a part of a file. Without a start, an image or a sound within the limit is one part.
pub(super) async fn read_part(
    space: &Space,
    permit: Permit<Read>,
    start: Option<ByteStart>,
) -> Result<BytePart, Refusal> {
    let path = permit.path().clone();
    let is_whole = start.is_none();
    let ByteStart { offset, expected } = start.unwrap_or(ByteStart { offset: 0, expected: None });
    // An image within the limit is read in one piece; the window of another file is cut below.
    let most = if is_whole { MAX_MEDIA_BYTES as usize } else { MAX_FILE_WINDOW };
    let mut file = space.read_bytes(permit, offset, most).await?;
    if expected.is_some_and(|expected| expected != file.hash) {
        return Err(Refusal::Stale { path, argument: "cursor" });
    }
    if offset > file.size_bytes {
        return Err(Refusal::invalid_argument(format!(
            "`offset` must be at most {}, the size of the file",
            file.size_bytes
        )));
    }
    let media_type = media_type(&path, &file.head);
    let may_be_shown = is_whole && file.bytes.len() as u64 == file.size_bytes;
    let kind = media_kind(media_type).filter(|_| may_be_shown);
    if kind.is_none() {
        file.bytes.truncate(MAX_FILE_WINDOW);
    }
    let end = offset + file.bytes.len() as u64;
    let next = (end < file.size_bytes).then_some(FileCursor {
        hash: file.hash,
        offset: end,
        line: 1,
        end: 1,
    });
    Ok(BytePart { file, offset, media_type, kind, next })
}

impl Tool for FileRead {
    const NAME: &'static str = "file.read";
    const TITLE: &'static str = "Read a file";
    const DESTRUCTIVE: bool = false;
    const IDEMPOTENT: bool = true;
    type Context = Space;
    type Permits = Permit<Read>;
    type Output = FileReading;
    type Error = Refusal;

    fn permits(&self, gate: Gate<'_>) -> Result<Permit<Read>, Refusal> {
        gate.permit(&self.path)
    }

    async fn run(self, permit: Permit<Read>, space: &Space) -> Result<FileReading, Refusal> {
        let start = self.start()?;
        let BytePart { file, offset, media_type, kind, next } =
            read_part(space, permit, start).await?;
        let path: SpacePath = self.path.into();
        let data = base64::standard(&file.bytes);
        let (content, media) = match kind {
            Some(kind) => (None, Some(Media { kind, mime_type: media_type.to_owned(), data })),
            None => (Some(data), None),
        };
        Ok(FileReading {
            encoding: content.is_some().then_some("base64"),
            content,
            offset,
            media_type: media_type.to_owned(),
            size_bytes: file.size_bytes,
            hash: file.hash,
            truncated: next.is_some(),
            next_cursor: next.map(|next| next.encode(&path)),
            path,
            media,
        })
    }

    fn trace(&self) -> CallTrace {
        CallTrace::of_file(&self.path, None)
    }
}
