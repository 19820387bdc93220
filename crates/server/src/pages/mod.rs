//! What a browser sees: pages that the server renders, which work without any script.
//!
//! [`frame`] has the frame, the style and the headers of every page, [`browser_session`] the owner's
//! session, [`sign_in_page`] the page that opens one, and [`consent_page`] the page where the owner
//! decides. An agent's token opens no page, and a
//! session opens nothing but pages.

pub mod browser_session;
pub mod consent_page;
pub mod frame;
pub mod sign_in_page;
