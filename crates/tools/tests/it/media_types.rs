//! The media types under which clients get sounds and images.

use serde_json::json;
use stile_tools::answer::MediaKind;
use stile_tools::toolset::Toolset as _;

use crate::{Rig, caller};

#[tokio::test]
async fn sounds_and_images_have_the_media_types_that_clients_know() {
    let rig = Rig::new();
    let ogg = |codec: &[u8]| [&b"OggS\0\x02"[..], &[0; 22], codec].concat();
    for (head, kind, media_type) in [
        (b"RIFF\x24\0\0\0WAVEfmt ".to_vec(), MediaKind::Audio, "audio/wav"),
        (b"fLaC\0\0\0\x22".to_vec(), MediaKind::Audio, "audio/flac"),
        (b"FORM\0\0\0\x20AIFFCOMM".to_vec(), MediaKind::Audio, "audio/aiff"),
        (b"ID3\x04\0\0\0\0\0\0".to_vec(), MediaKind::Audio, "audio/mpeg"),
        (ogg(b"OpusHead"), MediaKind::Audio, "audio/ogg"),
        (ogg(b"\x01vorbis"), MediaKind::Audio, "audio/ogg"),
        (b"\x89PNG\r\n\x1a\n".to_vec(), MediaKind::Image, "image/png"),
        (b"\xff\xd8\xff\xe0".to_vec(), MediaKind::Image, "image/jpeg"),
    ] {
        std::fs::write(rig.space.path().join("file"), head).unwrap();
        let read = rig.tools.find("file.read").unwrap();
        let answer =
            rig.tools.call(read, json!({ "path": "/file" }), &caller("read:/")).await.unwrap();
        assert_eq!(answer.to_tree()["media_type"], media_type);
        let media = answer.media.unwrap();
        assert_eq!((media.kind, media.mime_type.as_str()), (kind, media_type));
    }
}
