//! The bytes of a binary field, the obvious way: all of them, bit by bit.

use serde_json::{Value as Json, json};
use stile_domain::records::value::FieldValue;

use super::super::OperationRequest;
use super::super::blobs::BLOBS;
use super::super::model::Decl;
use super::{J, Params, Refusal, WINDOW, Window, Windowed, is_binary, put};

/// The whole of a binary field, and the window of it that was asked for.
#[derive(Debug)]
pub(crate) struct ByteWindow {
    pub(crate) bytes: Vec<u8>,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) limit: usize,
    around: J,
}

/// Whether bytes are asked for.
pub(super) fn is_of_bytes(params: &Params) -> Result<bool, Refusal> {
    let sent = |name: &str| params.texts.contains_key(name) || params.numbers.contains_key(name);
    let bytes = sent("offset_bytes") || sent("limit_bytes");
    let chars =
        ["offset_chars", "limit_chars", "before_chars", "after_chars", "q"].into_iter().any(sent);
    if bytes && chars || sent("cursor") && sent("offset_bytes") { Err(WINDOW) } else { Ok(bytes) }
}

/// The window of bytes of a field whose window of text would be that.
pub(super) fn window(
    params: &Params,
    (decl, name): (&Decl, &str),
    value: &FieldValue,
    mut around: J,
) -> Result<ByteWindow, Refusal> {
    let mut field = json!({ "path": name, "text_like": false });
    let bytes = match value {
        FieldValue::Text(text) if is_binary(decl, name, value) => {
            field["type"] = "string".into();
            field["mime_type"] = "application/octet-stream".into();
            field["encoding"] = "base64".into();
            decoded(text)
        }
        FieldValue::Json(json) => {
            let json: Json = serde_json::from_str(json).unwrap();
            let stored = BLOBS.iter().find(|(name, _)| json["blob_id"] == **name);
            let (name, bytes) = stored.ok_or(("blob_not_found", 404))?;
            field["type"] = "object".into();
            field["mime_type"] = match json["mime_type"].as_str().unwrap_or_default() {
                "image/png" | "Image/PNG;x=1" => "image/png".into(),
                "text/html" => "text/html".into(),
                _ => "application/octet-stream".into(),
            };
            field["digest"] = name.replace('-', ":").into();
            bytes.clone()
        }
        _ => return Err(("field_not_binary", 422)),
    };
    field["size_bytes"] = bytes.len().into();
    put(&mut around, "field", J::of(&field));
    let limit = params.number("limit_bytes").unwrap_or(65_536) as usize;
    let offset = params.number("offset_bytes").unwrap_or(0);
    let window = ByteWindow { start: 0, end: 0, limit, around, bytes };
    Ok(window.at(usize::try_from(offset).unwrap(), limit))
}

/// Six bits a letter.
fn decoded(text: &str) -> Vec<u8> {
    let bits = text.bytes().filter(|letter| *letter != b'=').flat_map(|letter| {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' | b'-' => 62,
            _ => 63,
        };
        (0..6).rev().map(move |bit| value >> bit & 1)
    });
    let bits: Vec<u8> = bits.collect();
    bits.chunks_exact(8).map(|byte| byte.iter().fold(0, |value, bit| value << 1 | bit)).collect()
}

/// The same the other way round.
fn encoded(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: Vec<u8> =
        bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect();
    let letter = |six: &[u8]| {
        let value = (0..6).fold(0, |value, at| value << 1 | six.get(at).copied().unwrap_or(0));
        char::from(LETTERS[usize::from(value)])
    };
    let mut text: String = bits.chunks(6).map(letter).collect();
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}

impl ByteWindow {
    /// The answer without its cursors.
    pub(crate) fn shown(&self) -> J {
        let Self { bytes, start, end, limit, around } = self;
        let (total, next) = (bytes.len(), (*end < bytes.len()).then_some(*end));
        let window = json!({
            "base64": encoded(&bytes[*start..*end]), "total_bytes": total, "start_bytes": start, "end_bytes": end,
            "limit_bytes": limit, "complete": *start == 0 && *end == total, "has_more": next.is_some(),
            "next_offset_bytes": next, "previous_offset_bytes": (*start > 0).then(|| start.saturating_sub(*limit)),
        });
        let mut shown = around.clone();
        put(&mut shown, "window", J::of(&window));
        shown
    }

    /// The window that begins elsewhere.
    pub(crate) fn at(self, start: usize, limit: usize) -> Self {
        let start = start.min(self.bytes.len());
        Self { start, end: start.saturating_add(limit).min(self.bytes.len()), limit, ..self }
    }
}

impl super::Oracle<'_> {
    /// The bytes of a field from their beginning, whatever is sent of a cursor.
    pub(crate) fn bytes(&self, request: &OperationRequest) -> ByteWindow {
        let mut plain = request.with("offset_bytes", 0);
        plain.pairs.retain(|(name, _)| name != "cursor");
        match self.answer(&plain) {
            Ok(super::Answer::Bytes(window)) => *window,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn any_window(
        &self,
        request: &OperationRequest,
        params: &Params,
    ) -> Result<super::Answer, Refusal> {
        let of_bytes = is_of_bytes(params)?;
        Window::check(params)?;
        let (seen, windowed) = self.windowed(request, params)?;
        if !of_bytes {
            return self
                .window(request, params, &seen, &windowed)
                .map(|window| super::Answer::Window(Box::new(window)));
        }
        let Windowed { path, value, is_inner } = &windowed;
        let is_text = *is_inner && matches!(value, FieldValue::Text(_));
        if is_text || !super::has_bytes(&seen.source.decl, path, value) {
            return Err(("field_not_binary", 422));
        }
        let around = super::around(request, params, &seen);
        let field = (&seen.source.decl, path.as_str());
        window(params, field, value, around).map(|window| super::Answer::Bytes(Box::new(window)))
    }
}
