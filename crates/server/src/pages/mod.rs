//! What a browser sees: pages that the server renders, which work without any script.
//!
//! [`frame`] has the frame, the style and the headers of every page, [`browser_session`] the
//! owner's session, [`sign_in_page`] the page that opens one, and [`consent_page`] the page where
//! the owner decides, with the choices of [`access_form`] and [`record_form`], and [`edit_page`]
//! changes that later. [`access_page`] shows who may do what, [`activity_page`] what was done,
//! [`call_page`] what one call did, [`undo_page`] takes it back, and [`files_page`] shows files
//! with their versions.
//! [`connect_page`] connects a client, [`grant_page`] makes a grant on records, [`records_page`]
//! shows what records there are, [`import_page`] imports a file that [`receive_upload`] took,
//! [`health_page`] shows how the server is, and [`account_page`] what the owner signs in with.
//! [`design_page`] shows what all pages are made of. An agent's token opens no page, and a session
//! opens nothing but pages. No page shows the structure of a note.
//!
//! What a page shows is a view: a type with a function that makes the content. So the signature
//! says what a page can show, and a test can make any view.

pub mod access_form;
pub mod access_page;
mod access_rows;
mod access_view;
pub mod account_page;
mod account_view;
pub mod activity_page;
pub mod browser_session;
pub mod call_page;
pub mod connect_page;
pub mod consent_page;
pub mod design_page;
mod diff_view;
pub mod edit_page;
pub mod files_page;
pub mod frame;
pub mod grant_page;
pub mod grant_words;
pub mod health_page;
pub mod import_page;
mod import_view;
pub mod live_activity;
pub mod receive_upload;
pub mod record_form;
pub mod records_page;
mod room;
pub mod shown_text;
pub mod sign_in_methods;
pub mod sign_in_page;
mod sign_in_view;
mod signed_in;
pub mod times;
mod token_made;
mod told_calls;
pub mod undo_page;
mod visitor;
pub mod waiting_path;
