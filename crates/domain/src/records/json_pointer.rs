//! A place within a value, and how to find it in JSON that arrives in pieces.
//!
//! *Source*: RFC 6901.

use crate::json::pieces::{Container, JsonEvent, JsonLexer};

/// A place within a JSON value: the name or the index at each level on the way to it.
///
/// *Shape*: as text, `/` before each name or index; in a name `~` is `~0` and `/` is `~1`. Empty
/// for the whole value. *Source*: RFC 6901.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPointer(Vec<String>);

/// What kind of value is at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonKind {
    /// The value `null`.
    Null,
    /// `true` or `false`.
    Bool,
    /// A number.
    Number,
    /// A text.
    Text,
    /// An array.
    Array,
    /// An object.
    Object,
}

impl JsonPointer {
    /// Parses a pointer; returns `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self(Vec::new()));
        }
        let steps = text.strip_prefix('/')?.split('/');
        steps.map(unescape).collect::<Option<_>>().map(Self)
    }

    /// Whether the pointer leads to the whole value.
    pub fn is_whole(&self) -> bool {
        self.0.is_empty()
    }
}

/// Appends a level to the text of a pointer.
pub fn push_step(pointer: &mut String, step: &str) {
    pointer.push('/');
    for letter in step.chars() {
        match letter {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            other => pointer.push(other),
        }
    }
}

fn unescape(step: &str) -> Option<String> {
    let mut plain = String::with_capacity(step.len());
    let mut letters = step.chars();
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            '~' => match letters.next()? {
                '0' => '~',
                '1' => '/',
                _ => return None,
            },
            other => other,
        });
    }
    Some(plain)
}

/// Finds the value at a place, in valid JSON that arrives in pieces.
///
/// Holds a name and no value: the value's text is passed on as it is read.
#[derive(Debug)]
pub struct ValueFinder<'p> {
    lexer: JsonLexer,
    way: Way<'p>,
}

/// How far the pointer has been followed.
#[derive(Debug)]
struct Way<'p> {
    steps: &'p [String],
    /// The open arrays and objects.
    depth: usize,
    /// How many of them, from the outermost, the pointer leads into.
    followed: usize,
    /// The kind of the innermost that it leads into.
    container: Option<Container>,
    /// The index of the next item, if that is an array.
    index: u64,
    /// The name of the next member, if that is an object; no longer than the name sought and one
    /// more part.
    name: String,
    is_named: bool,
    found: Option<JsonKind>,
    state: WayState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WayState {
    Looking,
    /// Within the array or object at the place.
    Inside,
    Done,
}

impl<'p> ValueFinder<'p> {
    /// Begins to look for the value at `pointer`.
    pub fn new(pointer: &'p JsonPointer) -> Self {
        let way = Way {
            steps: &pointer.0,
            depth: 0,
            followed: 0,
            container: None,
            index: 0,
            name: String::new(),
            is_named: false,
            found: None,
            state: WayState::Looking,
        };
        Self { lexer: JsonLexer::default(), way }
    }

    /// Reads the next piece. `take` gets the value's text, in parts: a text decoded, any other
    /// value as its JSON. Returns whether more pieces are wanted.
    pub fn feed(&mut self, piece: &str, take: &mut dyn FnMut(&str)) -> bool {
        let Self { lexer, way } = self;
        // The array or object at the place goes on from the piece before.
        let mut from = (way.state == WayState::Inside).then_some(0);
        lexer.feed(piece, &mut |event, end| {
            let before = way.state;
            way.follow(event, take);
            match (before, way.state) {
                // The bracket is the last byte of its event.
                (WayState::Looking, WayState::Inside) => from = end.checked_sub(1),
                (WayState::Inside, WayState::Done) => {
                    let json = from.take().and_then(|from| piece.get(from..end));
                    take(json.unwrap_or_default());
                }
                _ => {}
            }
        });
        if let Some(json) = from.and_then(|from| piece.get(from..)) {
            take(json);
        }
        way.state != WayState::Done
    }

    /// Ends the JSON. Returns the kind of the value; `None` if there is nothing at the place.
    pub fn finish(mut self) -> Option<JsonKind> {
        let way = &mut self.way;
        self.lexer.finish(&mut |event, _| way.follow(event, &mut |_| {}));
        self.way.found
    }
}

impl Way<'_> {
    fn follow(&mut self, event: JsonEvent<'_>, take: &mut dyn FnMut(&str)) {
        if self.state == WayState::Done {
            return;
        }
        match event {
            JsonEvent::Begin(kind) => self.begin(kind),
            JsonEvent::End => self.end(),
            _ if self.state == WayState::Inside || self.depth != self.followed => {}
            JsonEvent::Name(part) => {
                if self.name.len() <= self.step().len() {
                    self.name.push_str(part);
                }
            }
            JsonEvent::NameEnd => {
                self.is_named = self.name == self.step();
                self.name.clear();
            }
            JsonEvent::Text(part) => self.take_scalar(JsonKind::Text, part, take),
            JsonEvent::TextEnd => {
                self.take_scalar(JsonKind::Text, "", take);
                self.end_value();
            }
            JsonEvent::Scalar(part) => {
                let kind = match part.as_bytes().first() {
                    Some(b'n') => JsonKind::Null,
                    Some(b't' | b'f') => JsonKind::Bool,
                    _ => JsonKind::Number,
                };
                self.take_scalar(kind, part, take);
            }
            JsonEvent::ScalarEnd => self.end_value(),
        }
    }

    /// Returns the step that leads out of the innermost array or object on the way.
    fn step(&self) -> &str {
        let step = self.followed.checked_sub(1).and_then(|last| self.steps.get(last));
        step.map_or("", String::as_str)
    }

    /// Whether the value that begins now, in the innermost array or object on the way, is on the
    /// way too.
    fn leads_here(&self) -> bool {
        match self.container {
            None => true,
            Some(Container::Object) => self.is_named,
            Some(Container::Array) => self.step() == self.index.to_string(),
        }
    }

    fn is_place(&self) -> bool {
        self.depth == self.steps.len() && self.leads_here()
    }

    fn take_scalar(&mut self, kind: JsonKind, part: &str, take: &mut dyn FnMut(&str)) {
        if self.is_place() {
            // A number may come in parts.
            self.found.get_or_insert(kind);
            take(part);
        }
    }

    fn begin(&mut self, kind: Container) {
        if self.state == WayState::Looking && self.depth == self.followed {
            if self.is_place() {
                self.state = WayState::Inside;
                self.found = Some(match kind {
                    Container::Array => JsonKind::Array,
                    Container::Object => JsonKind::Object,
                });
            } else if self.leads_here() {
                self.followed += 1;
                self.container = Some(kind);
                self.index = 0;
                self.is_named = false;
            }
        }
        self.depth += 1;
    }

    fn end(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        if self.state == WayState::Inside {
            if self.depth == self.followed {
                self.state = WayState::Done;
            }
        } else if self.depth < self.followed {
            self.state = WayState::Done;
        } else {
            self.end_value();
        }
    }

    /// Goes on to the next item or member, once a value in the innermost array or object on the way
    /// has ended.
    fn end_value(&mut self) {
        if self.depth != self.followed {
            return;
        }
        if self.leads_here() {
            self.state = WayState::Done;
        }
        self.index += 1;
        self.is_named = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value as Json;

    /// Finds the value at a place in JSON that comes in pieces of `size` characters.
    fn find(json: &str, pointer: &str, size: usize) -> Option<(JsonKind, String)> {
        let pointer = JsonPointer::parse(pointer)?;
        let mut finder = ValueFinder::new(&pointer);
        let mut text = String::new();
        let letters: Vec<char> = json.chars().collect();
        for piece in letters.chunks(size) {
            let piece: String = piece.iter().collect();
            if !finder.feed(&piece, &mut |part| text.push_str(part)) {
                break;
            }
        }
        finder.finish().map(|kind| (kind, text))
    }

    fn text_of(value: &Json) -> (JsonKind, String) {
        match value {
            Json::Null => (JsonKind::Null, "null".to_owned()),
            Json::Bool(truth) => (JsonKind::Bool, truth.to_string()),
            Json::Number(number) => (JsonKind::Number, number.to_string()),
            Json::String(text) => (JsonKind::Text, text.clone()),
            Json::Array(_) => (JsonKind::Array, value.to_string()),
            Json::Object(_) => (JsonKind::Object, value.to_string()),
        }
    }

    /// Collects the pointer of each value within a value.
    fn places(value: &Json, at: &str, all: &mut Vec<String>) {
        all.push(at.to_owned());
        let mut within = |step: &str, value: &Json| {
            let mut place = at.to_owned();
            push_step(&mut place, step);
            places(value, &place, all);
        };
        match value {
            Json::Array(items) => {
                items.iter().enumerate().for_each(|(at, item)| within(&at.to_string(), item));
            }
            Json::Object(members) => members.iter().for_each(|(name, value)| within(name, value)),
            _ => {}
        }
    }

    fn any_json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i32>().prop_map(Json::from),
            "[\\PC\n\"\\\\]{0,12}".prop_map(Json::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Json::from),
                prop::collection::btree_map("[a-c/~\"é0-2]{0,3}", inner, 0..5)
                    .prop_map(|members| Json::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_value_is_found_at_its_place_however_the_json_is_cut(
            value in any_json(), size in 1_usize..9, other in "(/[a-c0-2~/]{0,3}){0,3}",
        ) {
            let json = value.to_string();
            let mut all = Vec::new();
            places(&value, "", &mut all);
            for place in &all {
                let expected = value.pointer(place).map(text_of);
                prop_assert_eq!(find(&json, place, size), expected, "{} in {}", place, json);
            }
            // `serde_json` takes a `~` with nothing after it as it stands.
            if JsonPointer::parse(&other).is_some() {
                prop_assert_eq!(find(&json, &other, size), value.pointer(&other).map(text_of));
            }
        }
    }

    #[test]
    fn escapes_are_decoded_and_numbers_keep_their_digits() {
        let json = r#"{"a\u002fb":"\ud83d\ude00\u00e9\n\"","~":[1.50e400,-0,[]],"":{"":0}}"#;
        assert_eq!(find(json, "/a~1b", 3), Some((JsonKind::Text, "😀é\n\"".to_owned())));
        assert_eq!(find(json, "/~0/0", 2), Some((JsonKind::Number, "1.50e400".to_owned())));
        assert_eq!(find(json, "/~0/1", 1), Some((JsonKind::Number, "-0".to_owned())));
        assert_eq!(find(json, "/~0/2", 1), Some((JsonKind::Array, "[]".to_owned())));
        assert_eq!(find(json, "//", 1), Some((JsonKind::Number, "0".to_owned())));
        for nothing in ["/~0/3", "/~0/00", "/~0/-1", "/~0/-", "/a", "/~0/0/0", "/~2", "a", "/~"] {
            assert_eq!(find(json, nothing, 4), None, "{nothing}");
        }
        assert_eq!(find("17", "", 1), Some((JsonKind::Number, "17".to_owned())));
        assert_eq!(find("\"\"", "", 1), Some((JsonKind::Text, String::new())));
    }
}
