//! Authority as a value that is held, not a condition that is remembered.
//!
//! A [`Principal`] is a caller whose token was verified; a [`Gate`] turns one into [`Permit`]s,
//! each of which contains the path it is for and what may be done there. Store functions take
//! permits and no path beside them, so a call that was not authorized cannot be written down. A
//! permit is neither cloned nor made elsewhere: `Principal::assert_verified`, `Gate::permit`,
//! `Gate::records` and `Gate::owner` are banned outside their one place by `disallowed-methods`,
//! and compile-fail tests hold the rest.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::error::Refusal;
use crate::path::SpacePath;
use crate::records::authority::{OwnerPermit, RecordsClaim, RecordsPermit};
use crate::records::problem::Problem;
use crate::scope::{Scope, Scopes, Verb};

/// A caller whose identity and scopes were verified.
#[derive(Clone, Debug)]
pub struct Principal {
    subject: Arc<str>,
    token: Option<Arc<str>>,
    client: Option<Arc<str>>,
    scopes: Arc<Scopes>,
    records: RecordsClaim,
}

impl Principal {
    /// States that these facts come from a verified token or from the local user's own command
    /// line.
    ///
    /// `subject` is the user, `token` the token's `jti`, `client` the token's `client` claim,
    /// `records` what it says about records.
    pub fn assert_verified(
        subject: &str,
        token: Option<&str>,
        client: Option<&str>,
        scopes: Scopes,
        records: RecordsClaim,
    ) -> Self {
        Self {
            subject: subject.into(),
            token: token.map(Into::into),
            client: client.map(Into::into),
            scopes: Arc::new(scopes),
            records,
        }
    }

    /// The user.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The token's identifier; none for the local user on stdio, who has one there only as the
    /// client of a grant.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// The name of the client that the token was minted for.
    pub fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }

    /// What the token grants.
    pub fn scopes(&self) -> &Scopes {
        &self.scopes
    }

    /// What the token says about records.
    pub fn records(&self) -> &RecordsClaim {
        &self.records
    }

    /// The gate of this caller.
    pub fn gate(&self) -> Gate<'_> {
        Gate { principal: self }
    }
}

/// Decides, from the scopes alone and before anything is looked up, what a caller may do.
#[derive(Clone, Copy, Debug)]
pub struct Gate<'a> {
    principal: &'a Principal,
}

impl Gate<'_> {
    /// Grants one action on one path, or refuses without knowing whether anything is there.
    ///
    /// # Errors
    /// [`Refusal::InsufficientScope`], naming the scope that is needed and those that there are.
    pub fn permit<A: Action>(&self, path: &SpacePath) -> Result<Permit<A>, Refusal> {
        if self.principal.scopes.cover(A::VERB, path) {
            Ok(Permit {
                path: path.clone(),
                scopes: Arc::clone(&self.principal.scopes),
                action: PhantomData,
            })
        } else {
            Err(Refusal::InsufficientScope {
                needed: vec![A::needed(path)],
                granted: self.principal.scopes.iter().cloned().collect(),
            })
        }
    }
}

impl Gate<'_> {
    /// Lets the caller ask for records: the owner for all, a client for what its grant allows,
    /// which is looked up later.
    ///
    /// # Errors
    /// [`Problem::InsufficientScope`], where the token says nothing about records.
    pub fn records(&self) -> Result<RecordsPermit, Problem> {
        RecordsPermit::from_claim(&self.principal.records, self.principal.token.as_ref())
    }

    /// Lets the caller do what only the owner of the records may.
    ///
    /// # Errors
    /// [`Problem::InsufficientScope`], for everybody else.
    pub fn owner(&self) -> Result<OwnerPermit, Problem> {
        OwnerPermit::from_claim(&self.principal.records)
    }
}

mod sealed {
    pub trait Sealed {}
}

/// What a permit is for. Sealed: the actions below are all there are.
pub trait Action: sealed::Sealed + Send + Sync + 'static {
    /// The verb that a scope must have.
    const VERB: Verb;

    /// The smallest scope that allows this on `path` and is of use, for a challenge.
    fn needed(path: &SpacePath) -> Scope {
        Scope::needed(Self::VERB, path)
    }
}

/// Reading one file.
#[derive(Debug)]
pub enum Read {}
/// Creating, changing or removing one file.
#[derive(Debug)]
pub enum Edit {}
/// Listing one directory.
#[derive(Debug)]
pub enum List {}

impl sealed::Sealed for Read {}
impl sealed::Sealed for Edit {}
impl sealed::Sealed for List {}
impl Action for Read {
    const VERB: Verb = Verb::Read;
}
impl Action for Edit {
    const VERB: Verb = Verb::Write;
}
impl Action for List {
    const VERB: Verb = Verb::Read;

    fn needed(path: &SpacePath) -> Scope {
        Scope::needed_to_list(path)
    }
}

/// Leave to do `A` on one path, for one call.
#[derive(Debug)]
#[must_use = "a permit that is not used means a check without its act"]
pub struct Permit<A: Action> {
    path: SpacePath,
    scopes: Arc<Scopes>,
    action: PhantomData<A>,
}

impl<A: Action> Permit<A> {
    /// What it is for.
    pub fn path(&self) -> &SpacePath {
        &self.path
    }
}

impl Permit<List> {
    /// Whether an entry of the listed directory may be shown: the caller could read or list it
    /// itself.
    pub fn may_list(&self, name: &str) -> bool {
        self.path.child(name).is_some_and(|entry| self.scopes.cover(Verb::Read, &entry))
    }

    /// Whether every entry that a path can name may be shown, so that they need not be asked for
    /// one by one.
    pub fn may_list_all(&self) -> bool {
        self.scopes.cover_children(Verb::Read, &self.path)
    }
}

/// The permits that a tool asks for, so that its hints are computed from them and cannot lie.
pub trait Permits: Send {
    /// Whether nothing can be changed with them.
    const READ_ONLY: bool;
}

impl<A: Action> Permits for Permit<A> {
    const READ_ONLY: bool = matches!(A::VERB, Verb::Read);
}

/// Records can only be read through a tool.
impl Permits for RecordsPermit {
    const READ_ONLY: bool = true;
}

/// A tool without permits reads through a port that checks the caller itself.
impl Permits for () {
    const READ_ONLY: bool = true;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn principal(claim: &str) -> Principal {
        Principal::assert_verified(
            "ann",
            Some("t1"),
            None,
            Scopes::from_claim(claim),
            RecordsClaim::None,
        )
    }

    #[test]
    fn a_refusal_names_what_is_needed_and_what_there_is() {
        let path = SpacePath::parse("/private/a b.md").unwrap();
        let refused = principal("read:/work/").gate().permit::<Edit>(&path).unwrap_err();
        let Refusal::InsufficientScope { needed, granted } = refused else { panic!("{refused:?}") };
        assert_eq!(needed[0].to_string(), "write:/private/a%20b.md");
        assert_eq!(granted[0].to_string(), "read:/work/");
    }

    #[test]
    fn a_listing_shows_only_what_the_caller_could_read() {
        let root = SpacePath::parse("/work").unwrap();
        let permit = principal("read:/work/*").gate().permit::<List>(&root).unwrap();
        assert!(permit.may_list("a") && permit.may_list_all());
        assert!(!permit.may_list("a/b") && !permit.may_list("..") && !permit.may_list(""));
        let permit = principal("read:/work/* read:/work/sub/b")
            .gate()
            .permit::<List>(&root.child("sub").unwrap())
            .unwrap();
        assert!(permit.may_list("b") && !permit.may_list("c") && !permit.may_list_all());
    }
}
