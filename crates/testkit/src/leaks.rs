//! Looks for what must not be there: canaries in answers, logs and panics, in every form in which
//! they could have slipped through.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

/// Texts that were planted, each with a name for the report.
#[derive(Clone, Debug, Default)]
pub struct Canaries(Vec<(String, Vec<Form>)>);

/// The name of a form, and a text in it.
type Form = (&'static str, Vec<u8>);

impl Canaries {
    /// Nothing is planted yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Plants one; texts of fewer than six bytes would be found everywhere.
    ///
    /// # Panics
    /// The text is too short to be found only where it leaks.
    #[must_use]
    pub fn plant(mut self, name: &str, text: &str) -> Self {
        assert!(text.len() >= 6, "the canary `{name}` is too short");
        self.0.push((name.to_owned(), forms(text)));
        self
    }

    /// Plants one that is no text, such as a key.
    ///
    /// # Panics
    /// A text is too short to be found only where it leaks.
    #[must_use]
    pub fn plant_bytes(mut self, name: &str, bytes: &[u8]) -> Self {
        assert!(bytes.len() >= 6, "the canary `{name}` is too short");
        self.0.push((name.to_owned(), forms_of_bytes(bytes)));
        self
    }

    /// Returns the canaries in `bytes`, by name and encoding.
    pub fn find(&self, bytes: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        for (name, forms) in &self.0 {
            for (form, needle) in forms {
                if memchr::memmem::find(bytes, needle).is_some() {
                    found.push(format!("{name} ({form})"));
                }
            }
        }
        found
    }

    /// Fails where any of them is in `bytes`.
    ///
    /// # Panics
    /// With the names of what was found, and `place`.
    pub fn assert_absent(&self, place: &str, bytes: &[u8]) {
        let found = self.find(bytes);
        assert!(found.is_empty(), "{place} gives away: {}", found.join(", "));
    }
}

fn forms(text: &str) -> Vec<Form> {
    let reserved: String = text
        .bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'~' | b'-' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect();
    let json = serde_json::Value::from(text).to_string();
    let twice = serde_json::Value::from(json.trim_matches('"')).to_string();
    let mut forms = forms_of_bytes(text.as_bytes());
    forms.extend([
        ("URL", reserved.into_bytes()),
        ("JSON", json.trim_matches('"').as_bytes().to_vec()),
        ("JSON in JSON", twice.trim_matches('"').as_bytes().to_vec()),
    ]);
    forms
}

fn forms_of_bytes(bytes: &[u8]) -> Vec<Form> {
    let hex = |upper: bool| -> Vec<u8> {
        let digits = bytes
            .iter()
            .map(|byte| if upper { format!("{byte:02X}") } else { format!("{byte:02x}") });
        digits.collect::<String>().into_bytes()
    };
    let percent: String = bytes.iter().map(|byte| format!("%{byte:02X}")).collect();
    let mut forms = vec![
        ("plain", bytes.to_vec()),
        ("hex", hex(false)),
        ("upper-case hex", hex(true)),
        ("percent", percent.into_bytes()),
    ];
    // In base64 a text looks different at each of three places; its edges depend on its neighbours.
    for shift in 0..3 {
        let padded = [vec![0; shift], bytes.to_vec()].concat();
        for engine in [&STANDARD, &URL_SAFE] {
            let encoded = engine.encode(&padded);
            let start = (shift * 8).div_ceil(6);
            let end = padded.len() * 8 / 6;
            if let Some(middle) = encoded.get(start..end).filter(|middle| middle.len() >= 7) {
                forms.push(("base64", middle.as_bytes().to_vec()));
            }
        }
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_canary_is_found_in_every_encoding() {
        let canaries = Canaries::new().plant("body", "canary \"7f3a\"");
        let text = "canary \"7f3a\"";
        for haystack in [
            format!("x{text}x"),
            STANDARD.encode(format!("ab{text}cd")),
            URL_SAFE.encode(format!("a{text}")),
            serde_json::json!({ "a": text }).to_string(),
            serde_json::json!({ "a": serde_json::json!({ "b": text }).to_string() }).to_string(),
            text.bytes().map(|byte| format!("{byte:02x}")).collect(),
            "x%63%61%6E%61%72%79%20%22%37%66%33%61%22".to_owned(),
            "canary%20%227f3a%22".to_owned(),
        ] {
            assert!(!canaries.find(haystack.as_bytes()).is_empty(), "{haystack}");
        }
        assert!(canaries.find(b"nothing of the kind").is_empty());
    }
}
