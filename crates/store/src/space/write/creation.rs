//! Creates files and the folders that they need.

use std::io;

use stile_domain::error::Refusal;
use stile_domain::facts::FileFacts;
use stile_domain::history::past_change::PastChangeKind;
use stile_domain::path::SpacePath;

use super::super::lock::Stop;
use super::super::names::ChangeKind;
use super::super::read::facts_of;
use super::super::{CreatedFile, os, refusal};
use super::{Change, Like};
use crate::history::{NewChange, VersionSource};

/// How often a file is created in a folder that another caller removes just before.
const CREATE_ATTEMPTS: u32 = 4;

impl Change<'_> {
    /// Creates a file for `file.create`. `made` are the folders that earlier attempts created.
    pub(in super::super) fn create(
        &self,
        path: &SpacePath,
        bytes: &[u8],
        made: &mut Vec<SpacePath>,
    ) -> Result<CreatedFile, Stop> {
        self.create_like(path, bytes, made, None)
    }

    /// Creates a file, with the metadata of `like` if there is one.
    pub(in super::super) fn create_like(
        &self,
        path: &SpacePath,
        bytes: &[u8],
        made: &mut Vec<SpacePath>,
        like: Option<Like<'_>>,
    ) -> Result<CreatedFile, Stop> {
        if bytes.len() as u64 > self.options.limits.file_size {
            return Err(Refusal::TooLarge {
                path: path.clone(),
                limit_bytes: self.options.limits.file_size,
                advice: "Split it over several files, or ask the user to raise the server's limit.",
            }
            .into());
        }
        if path.is_root() {
            return Err(Refusal::AlreadyExists { path: path.clone() }.into());
        }
        let mut attempts = 0;
        let created = loop {
            attempts += 1;
            let created = self
                .make_parents(path, made)
                .map_err(Stop::from)
                .and_then(|()| self.create_in_folder(path, bytes, like));
            // Another caller, who was refused, may have removed a folder that was made for a file
            // of theirs, just before this file was put into the folder.
            let is_folder_gone = matches!(created, Err(Stop::Refused(Refusal::NotFound { .. })));
            if !is_folder_gone || attempts == CREATE_ATTEMPTS {
                break created;
            }
        };
        if matches!(created, Err(Stop::Refused(_))) {
            self.remove_folders(made);
        }
        created
    }

    fn create_in_folder(
        &self,
        path: &SpacePath,
        bytes: &[u8],
        like: Option<Like<'_>>,
    ) -> Result<CreatedFile, Stop> {
        let target = self.lock(path)?;
        if os::status_at(target.handle(), target.name).is_ok() {
            return Err(Refusal::AlreadyExists { path: path.clone() }.into());
        }
        let FileFacts { hash, lines } = facts_of(bytes);
        let name = self.temporary_name(&target, ChangeKind::Create, None, Some(&hash));
        let change = NewChange {
            kind: PastChangeKind::Created,
            path,
            to: None,
            before: None,
            size_before: 0,
            after: Some(hash),
            held: None,
            metadata: None,
            call: self.call,
        };
        let (mut recorded, mut draft) =
            self.inner.record_during(&change, VersionSource::WithinAfter, || {
                self.draft(&target, name, bytes, like)
            })?;
        self.may_begin()?;
        os::rename_new(target.handle(), &draft.name, target.name).map_err(|error| {
            match error.kind() {
                io::ErrorKind::AlreadyExists => Refusal::AlreadyExists { path: path.clone() },
                _ => refusal(&error, path),
            }
        })?;
        draft.is_unused = false;
        recorded.was_made();
        os::sync(target.handle()).map_err(|_| Refusal::UnknownOutcome { path: path.clone() })?;
        if let Ok(status) = os::status(&draft.file) {
            self.remember_own(status.identity(), &draft.file);
        }
        Ok(CreatedFile {
            hash,
            size_bytes: bytes.len() as u64,
            total_lines: lines.map(|lines| lines.total_lines()),
        })
    }
}
