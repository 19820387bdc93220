//! Reads the formats that people's data comes in, and writes and restores exports of records.
//!
//! [`importer`] says what an importer declares, and [`importers`] has one file for each and the
//! list of all, each of which opens its input through [`source`]. [`collections`] divides an export
//! with several kinds of data among them. [`attachment_text`] reads the text of attached documents.
//! [`run`] stores the rows of an import: it reads them through [`input`], as the owner says in
//! [`reading`], and reports them as [`report`] defines; [`export_age`] keeps older exports from
//! replacing newer ones. [`export`] writes records to files and [`restore`] reads them back.
//! [`sync`] keeps records in step with a folder of notes.

pub mod importer;

pub mod importers;
pub mod preset;

pub mod attachment;
pub mod attachment_text;
pub mod charset;
pub mod exported_files;
mod html;
mod json_object;

pub mod collections;
mod conversations;
pub mod export_age;
pub mod input;
pub mod reading;
pub mod report;
pub mod run;
pub mod source;
mod stored_fields;
pub mod sync;
mod transaction;
mod versions;

pub mod export;
pub mod restore;

#[cfg(test)]
mod decoder_properties;
#[cfg(test)]
mod rig;
