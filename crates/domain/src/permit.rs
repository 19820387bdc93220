//! Authority as values: verified callers, and permits for one action on one path.
//!
//! A [`Principal`] is a caller whose token was verified. The caller's [`Gate`] checks the scopes
//! and returns a [`Permit`], which contains its path and its action. Store functions take a permit
//! and no path beside it, so code cannot act on a path that was not authorized. Nothing clones a
//! permit. `disallowed-methods` bans `Principal::assert_verified`, `Gate::permit`, `Gate::records`
//! and `Gate::owner` outside of their one place each. Compile-fail tests check the rest.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::error::Refusal;
use crate::guard::Guarded;
use crate::path::SpacePath;
use crate::records::authority::{OwnerPermit, RecordsClaim, RecordsPermit};
use crate::records::problem::Problem;
use crate::scope::{Scope, Scopes, Verb};
use crate::sign_in::client_id_url::ClientIdUrl;
use crate::sign_in::client_metadata::name_of_itself;

/// A caller whose identity and scopes were verified.
#[derive(Clone, Debug)]
pub struct Principal {
    subject: Arc<str>,
    token: Option<Arc<str>>,
    client: Option<Arc<str>>,
    approval: Option<Arc<str>>,
    registration: Option<Arc<str>>,
    scopes: Arc<Scopes>,
    records: RecordsClaim,
}

impl Principal {
    /// Asserts that these facts come from a verified token or from the local user's command line.
    ///
    /// `subject` is the user, `token` the token's `jti`, `client` the token's `client` claim, and
    /// `records` the token's claim about records.
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
            approval: None,
            registration: None,
            scopes: Arc::new(scopes),
            records,
        }
    }

    /// Adds the identifier of the approval under which the token was issued, to the client with
    /// the identifier `client_id`.
    #[must_use]
    pub fn under_approval(self, approval: &str, client_id: &str) -> Self {
        // All installations of a program share the address of its document.
        let is_of_one = !ClientIdUrl::is_address(client_id);
        let registration = is_of_one.then(|| client_id.into());
        Self { approval: Some(approval.into()), registration, ..self }
    }

    /// Returns this caller under the name that its client gives itself, marked as such, if the
    /// token names no client. Nothing that the caller may do depends on it.
    #[must_use]
    pub fn named_by_itself(self, name: &str) -> Self {
        match &self.client {
            None => Self { client: name_of_itself(name).map(Into::into), ..self },
            Some(_) => self,
        }
    }

    /// Returns what this caller is recognised by later: the approval under which the client's
    /// tokens are issued, which outlives each of them, or else the token's `jti`. Nobody can choose
    /// either, unlike the name of a client. `None` for the local user.
    pub fn recognised_by(&self) -> Option<&str> {
        self.approval.as_deref().or(self.token.as_deref())
    }

    /// Returns what tells the client that holds the token from every other one: its registration,
    /// which outlives each approval of it; for a client that is known by the address of a document,
    /// the approval; for a token of no approval, the token's `jti`. Nobody can choose any of them.
    /// `None` for the local user.
    pub fn held_by(&self) -> Option<&str> {
        self.registration.as_deref().or(self.recognised_by())
    }

    /// Returns the approval under which the token was issued.
    pub fn approval(&self) -> Option<&str> {
        self.approval.as_deref()
    }

    /// Returns the user that the token names.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// Returns the token's `jti`; `None` for the local user on stdio, except as the client of a
    /// grant.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Returns the client that the token was issued to; `None` where the token names none.
    pub fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }

    /// Returns the path scopes of the token.
    pub fn scopes(&self) -> &Scopes {
        &self.scopes
    }

    /// Returns the token's claim about records.
    pub fn records(&self) -> &RecordsClaim {
        &self.records
    }

    /// Returns the gate that decides for this caller.
    pub fn gate(&self) -> Gate<'_> {
        Gate { principal: self }
    }
}

/// The one place that authorizes a caller: from the token alone, before anything is looked up.
#[derive(Clone, Copy, Debug)]
pub struct Gate<'a> {
    principal: &'a Principal,
}

impl Gate<'_> {
    /// Permits one action on one path, or refuses without a lookup of the path.
    ///
    /// # Errors
    /// [`Refusal::InsufficientScope`] with the needed scope and the granted ones;
    /// [`Refusal::Guarded`] where the scopes cover the path and its name is guarded.
    pub fn permit<A: Action>(&self, path: &SpacePath) -> Result<Permit<A>, Refusal> {
        let scopes = &self.principal.scopes;
        if !A::is_allowed(scopes, path) {
            return Err(Refusal::InsufficientScope {
                needed: vec![A::needed(path)],
                granted: scopes.iter().cloned().collect(),
            });
        }
        match A::guarded(scopes, path) {
            Some(guarded) => Err(Refusal::Guarded { path: path.clone(), guarded }),
            None => {
                Ok(Permit { path: path.clone(), scopes: Arc::clone(scopes), action: PhantomData })
            }
        }
    }

    /// Permits reading records. The owner may read all of them. A client may read what its grant
    /// allows; the store looks the grant up later.
    ///
    /// # Errors
    /// [`Problem::InsufficientScope`] where the token has no claim about records.
    pub fn records(&self) -> Result<RecordsPermit, Problem> {
        RecordsPermit::from_claim(&self.principal.records, self.principal.token.as_ref())
    }

    /// Permits the operations that only the owner of the records may call.
    ///
    /// # Errors
    /// [`Problem::InsufficientScope`] for every other caller.
    pub fn owner(&self) -> Result<OwnerPermit, Problem> {
        OwnerPermit::from_claim(&self.principal.records)
    }

    /// Permits an import into one stream: to the owner, and to a caller whose token is for it.
    ///
    /// # Errors
    /// [`Problem::InsufficientScope`].
    pub fn import(
        &self,
        connection: &str,
        stream: &str,
    ) -> Result<(OwnerPermit, RecordsPermit), Problem> {
        OwnerPermit::of_import(&self.principal.records, connection, stream)
    }
}

mod sealed {
    pub trait Sealed {}
}

/// The action of a permit. Sealed, so the types of this module are the only ones.
pub trait Action: sealed::Sealed + Send + Sync + 'static {
    /// The verb that a scope needs to allow the action.
    const VERB: Verb;

    /// Whether the action goes through folders, which keeps a processor busy.
    const WALKS: bool = false;

    /// Whether scopes allow the action on `path`.
    fn is_allowed(scopes: &Scopes, path: &SpacePath) -> bool {
        scopes.cover(Self::VERB, path)
    }

    /// Returns what guards `path` against the action.
    fn guarded(scopes: &Scopes, path: &SpacePath) -> Option<Guarded> {
        scopes.guarded(Self::VERB, path)
    }

    /// Returns the scope that a challenge asks for when the action on `path` is refused.
    fn needed(path: &SpacePath) -> Scope {
        Scope::needed(Self::VERB, path)
    }
}

/// The action of reading one file.
#[derive(Debug)]
pub enum Read {}
/// The action of creating, changing or removing one file.
#[derive(Debug)]
pub enum Edit {}
/// The action of listing one directory.
#[derive(Debug)]
pub enum List {}
/// The action of finding names and texts in a folder and below, as far as the scopes reach.
#[derive(Debug)]
pub enum Walk {}
/// The action of moving or removing a folder with all that it holds. The scopes must cover
/// everything in it, also to remove an empty folder, since whether it is empty depends on that.
#[derive(Debug)]
pub enum EditTree {}
/// The action of hashing a folder with all that it holds. The scopes must cover everything in it.
#[derive(Debug)]
pub enum ReadTree {}
/// The action of appending to one file without having read it.
#[derive(Debug)]
pub enum Append {}
/// The action of changing files in a folder and below, as far as the scopes reach.
#[derive(Debug)]
pub enum EditBelow {}

impl sealed::Sealed for Read {}
impl sealed::Sealed for Edit {}
impl sealed::Sealed for List {}
impl sealed::Sealed for Walk {}
impl sealed::Sealed for EditTree {}
impl sealed::Sealed for ReadTree {}
impl sealed::Sealed for Append {}
impl sealed::Sealed for EditBelow {}
impl Action for Walk {
    const VERB: Verb = Verb::Read;
    const WALKS: bool = true;

    fn is_allowed(scopes: &Scopes, path: &SpacePath) -> bool {
        !scopes.walk_starts(path).is_empty()
    }

    /// A walk shows names; [`Permit::may_read`] keeps it from what is guarded.
    fn guarded(_: &Scopes, _: &SpacePath) -> Option<Guarded> {
        None
    }
}
impl Action for EditTree {
    const VERB: Verb = Verb::Write;

    fn is_allowed(scopes: &Scopes, path: &SpacePath) -> bool {
        scopes.cover_subtree(Verb::Write, path)
    }
}
impl Action for ReadTree {
    const VERB: Verb = Verb::Read;

    fn is_allowed(scopes: &Scopes, path: &SpacePath) -> bool {
        scopes.cover_subtree(Verb::Read, path)
    }
}
impl Action for Append {
    const VERB: Verb = Verb::Append;
}
impl Action for EditBelow {
    const VERB: Verb = Verb::Write;

    fn is_allowed(scopes: &Scopes, path: &SpacePath) -> bool {
        scopes.cover(Verb::Write, path) || scopes.cover_some_below(Verb::Write, path)
    }
}
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

    /// A listing has names only, and those of guarded files like all others.
    fn guarded(_: &Scopes, _: &SpacePath) -> Option<Guarded> {
        None
    }
}

/// The permission to do `A` on one path, in one call.
#[derive(Debug)]
#[must_use = "a permit that is not used means a check without its action"]
pub struct Permit<A: Action> {
    path: SpacePath,
    scopes: Arc<Scopes>,
    action: PhantomData<A>,
}

impl<A: Action> Permit<A> {
    /// Returns the path that the permit is for.
    pub fn path(&self) -> &SpacePath {
        &self.path
    }

    /// Returns what a refusal may tell the caller.
    pub fn sight(&self) -> Sight {
        Sight(Arc::clone(&self.scopes))
    }
}

/// What a caller may be told of paths. Gives no access.
#[derive(Clone, Debug)]
pub struct Sight(Arc<Scopes>);

impl Sight {
    /// Whether the caller may learn what is at a path: the caller may read it.
    pub fn may_see(&self, path: &SpacePath) -> bool {
        self.0.cover(Verb::Read, path)
    }

    /// Returns the deepest parent of a path of which the caller must learn nothing.
    pub fn hidden_parent(&self, path: &SpacePath) -> Option<SpacePath> {
        let parent_of = |path: &SpacePath| path.split().map(|(parent, _)| parent);
        std::iter::successors(parent_of(path), parent_of).find(|parent| !self.may_see(parent))
    }
}

impl Permit<List> {
    /// Whether the listing may include the entry `name`: the caller may read or list that entry.
    pub fn may_list(&self, name: &str) -> bool {
        self.path.child(name).is_some_and(|entry| self.scopes.cover(Verb::Read, &entry))
    }

    /// Whether the listing may include every entry, so that no entry needs [`Permit::may_list`].
    pub fn may_list_all(&self) -> bool {
        self.scopes.cover_children(Verb::Read, &self.path)
    }
}

impl Permit<Walk> {
    /// Returns the paths at which the walk begins, in order: the folder itself if the caller may
    /// read it, and what the caller may read below a folder that the caller may not.
    pub fn starts(&self) -> Vec<SpacePath> {
        self.scopes.walk_starts(&self.path)
    }

    /// Whether the walk may show this path. Names of guarded files are shown like all others.
    pub fn may_show(&self, path: &SpacePath) -> bool {
        self.scopes.cover(Verb::Read, path)
    }

    /// Whether the walk may look into this file: it may show the path, and nothing guards it.
    pub fn may_read(&self, path: &SpacePath) -> bool {
        self.may_show(path) && self.scopes.guarded(Verb::Read, path).is_none()
    }

    /// Whether the walk may open this folder: the caller may read it and something in it.
    pub fn may_enter(&self, folder: &SpacePath) -> bool {
        self.may_show(folder) && self.scopes.cover_some_below(Verb::Read, folder)
    }

    /// Whether the walk may show every entry of a folder, whatever its name.
    pub fn may_show_all(&self, folder: &SpacePath) -> bool {
        self.scopes.cover_children(Verb::Read, folder)
    }

    /// Narrows the permit to reading one file that the walk may read; `None` for any other file.
    pub fn to_read(&self, path: &SpacePath) -> Option<Permit<Read>> {
        let scopes = Arc::clone(&self.scopes);
        self.may_read(path).then(|| Permit { path: path.clone(), scopes, action: PhantomData })
    }
}

impl Permit<EditTree> {
    /// Returns what guards `path`, in the folder, against a change.
    pub fn guarded(&self, path: &SpacePath) -> Option<Guarded> {
        self.scopes.guarded(Verb::Write, path)
    }
}

/// A permit for a folder with all that it holds.
pub trait TreePermit {
    /// Returns the folder.
    fn folder(&self) -> &SpacePath;

    /// Whether the content of this file in the folder may be hashed: nothing guards it.
    fn may_hash(&self, path: &SpacePath) -> bool;
}

impl TreePermit for Permit<EditTree> {
    fn folder(&self) -> &SpacePath {
        &self.path
    }

    fn may_hash(&self, path: &SpacePath) -> bool {
        self.scopes.guarded(Verb::Read, path).is_none()
    }
}

impl TreePermit for Permit<ReadTree> {
    fn folder(&self) -> &SpacePath {
        &self.path
    }

    fn may_hash(&self, path: &SpacePath) -> bool {
        self.scopes.guarded(Verb::Read, path).is_none()
    }
}

impl Permit<EditBelow> {
    /// Narrows the permit to changing one file that the caller may change; `None` for any other
    /// file.
    pub fn to_edit(&self, path: &SpacePath) -> Option<Permit<Edit>> {
        let may_edit = self.path.covers(path)
            && self.scopes.cover(Verb::Write, path)
            && self.scopes.guarded(Verb::Write, path).is_none();
        let scopes = Arc::clone(&self.scopes);
        may_edit.then(|| Permit { path: path.clone(), scopes, action: PhantomData })
    }
}

/// The permits that a tool takes. The tool's `readOnlyHint` is computed from them.
pub trait Permits: Send {
    /// Whether these permits allow no change.
    const READ_ONLY: bool;

    /// Whether every call with these permits goes through folders.
    const WALKS: bool = false;

    /// Whether these scopes allow the action on some path.
    fn may_be_granted(scopes: &Scopes) -> bool {
        scopes.any(if Self::READ_ONLY { Verb::Read } else { Verb::Write })
    }
}

impl<A: Action> Permits for Permit<A> {
    const READ_ONLY: bool = matches!(A::VERB, Verb::Read);
    const WALKS: bool = A::WALKS;

    fn may_be_granted(scopes: &Scopes) -> bool {
        scopes.any(A::VERB)
    }
}

/// A tool that needs two permits reads only if both do.
impl<A: Permits, B: Permits> Permits for (A, B) {
    const READ_ONLY: bool = A::READ_ONLY && B::READ_ONLY;
    const WALKS: bool = A::WALKS || B::WALKS;

    fn may_be_granted(scopes: &Scopes) -> bool {
        A::may_be_granted(scopes) && B::may_be_granted(scopes)
    }
}

/// Records can only be read through a tool.
impl Permits for RecordsPermit {
    const READ_ONLY: bool = true;
}

/// A tool whose context decides whether a call needs the permit asks for it, and goes on without.
impl<P: Permits> Permits for Option<P> {
    const READ_ONLY: bool = P::READ_ONLY;
}

/// A tool that works on several paths has a permit for each, or the refusal of that path alone.
impl<P: Permits> Permits for Vec<Result<P, Refusal>> {
    const READ_ONLY: bool = P::READ_ONLY;
    const WALKS: bool = P::WALKS;

    fn may_be_granted(scopes: &Scopes) -> bool {
        P::may_be_granted(scopes)
    }
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
    fn a_principal_is_whom_its_token_names() {
        let named = |token, client| {
            let (scopes, records) = (Scopes::from_claim("read:/a"), RecordsClaim::Owner);
            Principal::assert_verified("ann", token, client, scopes, records)
        };
        let ann = named(Some("t1"), Some("editor"));
        assert_eq!((ann.subject(), ann.token(), ann.client()), ("ann", Some("t1"), Some("editor")));
        assert!(ann.scopes().iter().map(ToString::to_string).eq(["read:/a"]));
        assert_eq!(*ann.records(), RecordsClaim::Owner);
        let local = named(None, None);
        assert_eq!((local.token(), local.client()), (None, None));
        assert_eq!(ann.named_by_itself("cursor").client(), Some("editor"));
        let named = local.clone().named_by_itself("Command\u{200b} line");
        assert_eq!(named.client(), Some("Command line (self-named)"));
        assert_eq!(local.named_by_itself("\u{7}").client(), None);
    }

    #[test]
    fn a_refusal_names_the_needed_and_the_granted_scopes() {
        let path = SpacePath::parse("/private/a b.md").unwrap();
        let refused = principal("read:/work/").gate().permit::<Edit>(&path).unwrap_err();
        let Refusal::InsufficientScope { needed, granted } = refused else { panic!("{refused:?}") };
        assert_eq!(needed[0].to_string(), "write:/private/a%20b.md");
        assert_eq!(granted[0].to_string(), "read:/work/");
    }

    #[test]
    fn the_deepest_parent_that_the_caller_may_not_read_is_hidden() {
        let hidden = |claim: &str, path: &str| {
            let path = SpacePath::parse(path).unwrap();
            let sight = Sight(Arc::clone(&principal(claim).scopes));
            sight.hidden_parent(&path).map(|parent| parent.to_string())
        };
        assert_eq!(hidden("read:/", "/a/b/c"), None);
        assert_eq!(hidden("read:/a/", "/a/b/c"), Some("/".to_owned()));
        assert_eq!(hidden("write:/a/* read:/a/b/c/d", "/a/b/c/d"), Some("/a/b/c".to_owned()));
        assert_eq!(hidden("append:/", "/a/b"), Some("/a".to_owned()));
        assert_eq!(hidden("read:/ deny:/a/b", "/a/b/c"), Some("/a/b".to_owned()));
        assert_eq!(hidden("", "/"), None);
    }

    #[test]
    fn a_permit_to_change_files_below_is_narrowed_to_what_the_scopes_allow() {
        let path = |text: &str| SpacePath::parse(text).unwrap();
        let claim = "read:/ write:/work/ deny:/work/secret";
        let permit = principal(claim).gate().permit::<EditBelow>(&SpacePath::root()).unwrap();
        for (file, may_edit) in [("/work/a", true), ("/a", false), ("/work/secret/a", false)] {
            assert_eq!(permit.to_edit(&path(file)).is_some(), may_edit, "{file}");
        }
        let below = principal(claim).gate().permit::<EditBelow>(&path("/work/b")).unwrap();
        assert!(below.to_edit(&path("/work/a")).is_none());
        assert!(principal("read:/").gate().permit::<EditBelow>(&SpacePath::root()).is_err());
    }

    #[test]
    fn a_listing_includes_only_entries_that_the_caller_may_read() {
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
