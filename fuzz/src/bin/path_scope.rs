//! Paths and scopes: what parses is canonical, reads the same again, and grants no more than it
//! says.
//!
//! An input is text: a claim and, after the first line break, a path. So that limits are near for
//! short inputs, one that begins with `+` has 250 letters for each further `+`, and `=` for 3584
//! slashes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use stile_domain::path::SpacePath;
use stile_domain::percent;
use stile_domain::scope::{Scope, Scopes, Verb};

const VERBS: [Verb; 3] = [Verb::Read, Verb::Write, Verb::Append];

fuzz_target!(|input: &[u8]| {
    let mut input = String::from_utf8_lossy(input);
    if let Some(short) = input.strip_prefix('+') {
        input = short.replace('+', &"a".repeat(250)).replace('=', &"/".repeat(3584)).into();
    }
    let (claim, path) = input.split_once('\n').unwrap_or((&input, &input));
    for text in [claim, path] {
        a_path_is_canonical_or_refused(text);
    }
    // A claim's items begin with a verb; give every input the chance to be the rest of one.
    a_scope_reads_as_it_is_written(&format!("read:{path}"));
    claim.split(' ').take(8).for_each(a_scope_reads_as_it_is_written);
    a_claim_grants_what_its_items_say(claim, path);
});

fn a_path_is_canonical_or_refused(text: &str) {
    match (SpacePath::parse(text), slow_path(text)) {
        (Ok(path), Some(parts)) => {
            assert_eq!(path.components().collect::<Vec<_>>(), parts);
            is_canonical(&path);
        }
        (Err(_), None) => {}
        (ours, theirs) => panic!("{ours:?} where the contract's table says {theirs:?}"),
    }
}

/// The contract's table, line by line.
fn slow_path(text: &str) -> Option<Vec<&str>> {
    if text.is_empty()
        || text.len() > 4096
        || text.contains('\\')
        || text.chars().any(char::is_control)
    {
        return None;
    }
    let is_drive = |part: &str| matches!(part.as_bytes(), [b'a'..=b'z' | b'A'..=b'Z', b':', ..]);
    let mut kept = Vec::new();
    for (index, part) in text.split('/').filter(|part| !matches!(*part, "" | ".")).enumerate() {
        if part.len() > 255 || part.starts_with(".stile-") || (index == 0 && is_drive(part)) {
            return None;
        }
        if part == ".." {
            kept.pop()?;
        } else {
            kept.push(part);
        }
    }
    // Also where `..` brought it into first place, and with the slash in front that was not given.
    let refused =
        kept.first().is_some_and(|part| is_drive(part)) || 1 + kept.join("/").len() > 4096;
    (!refused).then_some(kept)
}

fn is_canonical(path: &SpacePath) {
    let text = path.as_str();
    let inner = text.strip_prefix('/').expect("a path begins with `/`");
    assert!(
        path.is_root() || inner.split('/').all(|part| !matches!(part, "" | "." | "..")),
        "{text:?}"
    );
    assert!(!text.contains('\\') && !text.chars().any(char::is_control));
    assert_eq!(SpacePath::parse(text).as_ref(), Ok(path));
    assert_eq!(SpacePath::parse(inner).ok().as_ref(), (!path.is_root()).then_some(path));

    let mut joined = std::path::PathBuf::from("/root");
    joined.extend(path.components());
    assert_eq!(joined.components().count(), 2 + path.components().count());

    match path.split() {
        None => assert!(path.is_root()),
        Some((folder, name)) => {
            assert!(folder.covers(path) && folder.is_parent_of(path) && !path.covers(&folder));
            assert_eq!(folder.child(name).as_ref(), Some(path));
        }
    }
}

fn a_scope_reads_as_it_is_written(text: &str) {
    if let Ok(scope) = Scope::parse(text) {
        let written = scope.to_string();
        assert!(
            written.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._~-%:*".contains(&byte)),
            "{written}"
        );
        assert_eq!(Scope::parse(&written), Ok(scope));
    }
    let Ok(scope) = Scope::parse_raw(text) else { return };
    let written = scope.to_string();
    let again = Scope::parse(&written).expect("what is written reads");
    if again != scope {
        // `read:.` and `read:/` are two ways to write one grant.
        assert_eq!(again.to_string(), written);
        for probe in SlowScope::of(&scope).probes() {
            for verb in VERBS {
                assert_eq!(
                    again.covers(verb, &probe),
                    scope.covers(verb, &probe),
                    "{written} {probe}"
                );
            }
        }
    }
}

fn a_claim_grants_what_its_items_say(claim: &str, path: &str) {
    let items: Vec<_> = claim.split(' ').filter(|_| !claim.is_empty()).map(Scope::parse).collect();
    let scopes = Scopes::from_claim(claim);
    if items.iter().any(Result::is_err) {
        assert!(scopes.is_empty(), "a claim with a malformed item grants nothing");
        return;
    }
    let items: Vec<Scope> = items.into_iter().flatten().collect();
    assert!(scopes.iter().eq(&items));
    assert_eq!(Scopes::parse_claim(&scopes.to_string()), Ok(scopes));

    // What follows is quadratic, and three tell as much as a thousand.
    let items = items.get(..3).unwrap_or(&items);
    let mut probes: Vec<SpacePath> =
        items.iter().flat_map(|scope| SlowScope::of(scope).probes()).collect();
    probes.extend(SpacePath::parse(path));
    let all: Scopes = items.iter().cloned().collect();
    let slow: Vec<SlowScope> = items.iter().map(SlowScope::of).collect();
    for verb in VERBS {
        for probe in &probes {
            let is_denied = slow.iter().any(|scope| scope.denies(probe));
            assert_eq!(
                all.cover(verb, probe),
                !is_denied && slow.iter().any(|scope| scope.covers(verb, probe)),
                "{all} {probe}"
            );
            assert!(
                !all.cover(Verb::Write, probe) || all.cover(Verb::Read, probe),
                "{all} {probe}"
            );
        }
        let beginnings = items.iter().filter(|scope| scope.verb().includes(verb));
        let mut open = beginnings.filter(|scope| !slow.iter().any(|it| it.denies(scope.path())));
        assert_eq!(all.any(verb), open.next().is_some());
        for gone in 0..items.len() {
            let fewer: Scopes = items
                .iter()
                .enumerate()
                .filter(|(index, _)| *index != gone)
                .map(|(_, scope)| scope.clone())
                .collect();
            // Without a scope that takes away, more is allowed.
            let takes_away = items[gone].verb() == Verb::Deny;
            let (more, less) = if takes_away { (&fewer, &all) } else { (&all, &fewer) };
            assert!(more.any(verb) || !less.any(verb));
            for probe in &probes {
                assert!(
                    more.cover(verb, probe) || !less.cover(verb, probe),
                    "{less} against {more} on {probe}"
                );
            }
        }
    }
}

/// A scope as its text says it, taken apart by hand.
struct SlowScope {
    text: String,
    verb: Verb,
    parts: Vec<String>,
    children_only: bool,
}

impl SlowScope {
    fn of(scope: &Scope) -> Self {
        let text = scope.to_string();
        let (verb, path) = text.split_once(':').expect("a scope has a verb");
        let children_only = path.ends_with("/*");
        let path = path.strip_suffix("/*").unwrap_or(path);
        let parts = path.split('/').filter(|part| !part.is_empty());
        Self {
            text: text.clone(),
            verb: match verb {
                "read" => Verb::Read,
                "write" => Verb::Write,
                "append" => Verb::Append,
                "deny" => Verb::Deny,
                _ => Verb::Unguard,
            },
            parts: parts
                .map(|part| percent::decode(part).expect("a scope is well encoded"))
                .collect(),
            children_only,
        }
    }

    fn covers(&self, verb: Verb, path: &SpacePath) -> bool {
        let theirs: Vec<&str> = path.components().collect();
        let ours = self.parts.len();
        (self.verb == verb || self.verb == Verb::Write && verb == Verb::Read)
            && theirs.len() >= ours
            && self.parts.iter().eq(theirs.iter().take(ours))
            && (!self.children_only || theirs.len() <= ours + 1)
    }

    /// Whether the scope takes the path away, in whatever case it is written and with whatever
    /// dots and spaces at the end of a name. Forms of Unicode are tried in the tests of the scopes:
    /// texts with letters beyond ASCII ask the scope itself.
    fn denies(&self, path: &SpacePath) -> bool {
        let ours: Scopes = [Scope::parse(&self.text).expect("it was parsed")].into_iter().collect();
        if !path.as_str().is_ascii() || !self.parts.iter().all(|part| part.is_ascii()) {
            let all = [Scope::everything(Verb::Read)].into_iter().chain(ours.iter().cloned());
            return self.verb == Verb::Deny && !all.collect::<Scopes>().cover(Verb::Read, path);
        }
        let folded = |name: &str| {
            let short = name.trim_end_matches(['.', ' ']);
            if short.is_empty() { name } else { short }.to_ascii_lowercase()
        };
        let theirs: Vec<String> = path.components().map(folded).collect();
        self.verb == Verb::Deny
            && theirs.len() >= self.parts.len()
            && self
                .parts
                .iter()
                .map(|part| folded(part))
                .eq(theirs.into_iter().take(self.parts.len()))
    }

    fn path(&self) -> String {
        format!("/{}", self.parts.join("/"))
    }

    /// The places where a wrong rule would show: itself, above, below, and beside under a longer
    /// name.
    fn probes(&self) -> Vec<SpacePath> {
        let path = self.path();
        let texts = ["", "/..", "/a", "/a/b", "a", "a/b", "/*"].map(|end| format!("{path}{end}"));
        texts
            .iter()
            .chain([&"/".to_owned(), &path.to_uppercase()])
            .flat_map(|text| SpacePath::parse(text))
            .collect()
    }
}
