//! The server as its clients meet it.

#![allow(unreachable_pub, reason = "modules of one test binary share a kit")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a helper of a test fails the test"
)]

mod agent_tasks;
mod answer_forms;
mod architecture;
mod authorization;
mod database_tls;
mod deployment;
mod direct;
mod doctor;
mod document_kit;
mod document_texts;
mod documents;
mod doors;
mod file_resources;
mod first_minutes;
mod found_server;
mod gateway_deployment;
mod gateway_faults;
mod gateway_keeps_nothing;
mod gateway_kit;
mod gateway_leaks;
mod gateway_load;
mod gateway_requests;
mod gateway_roles;
mod gateway_sessions;
mod gateway_tls;
mod gateway_vaults;
mod guarded_names;
mod hosted_sign_in;
mod hosted_tokens;
mod http_access;
mod http_addresses;
mod http_cancellation;
mod http_hostile;
mod http_limits;
mod http_lists;
mod http_old_clients;
mod http_protocol;
mod http_sessions;
mod http_stopping;
mod kept_sessions;
mod ladder_clients;
mod ladder_faults;
mod ladder_guide;
mod ladder_http;
mod list_changes;
mod listed_tools;
mod live_notes;
mod migrate_store;
mod narrowed_clients;
mod notes;
mod old_versions;
mod owner_access;
mod owner_imports;
mod owner_page;
mod owner_pages;
mod pasted_tokens;
mod people;
mod program;
mod prompts;
mod provider;
mod provider_bytes;
mod provider_faults;
mod provider_kit;
mod provider_plain;
mod provider_plain_server;
mod provider_windows;
mod recalled_things;
mod record_questions;
mod records_administration;
mod records_attachments;
mod records_blobs;
mod records_guide;
mod records_http;
mod records_imports;
mod records_interop;
mod records_kit;
mod records_owner;
mod records_removal;
mod records_search;
mod shared_database;
mod sign_in;
mod sign_in_clients;
mod sign_in_ended;
mod sign_in_hostile;
mod sign_in_kit;
mod sign_in_survey;
mod source_tree;
mod stdio_clients;
mod stdio_protocol;
mod stdio_start;
mod strangers;
mod subscriptions;
mod support;
mod tidy;
mod tls;
mod upkeep;
mod whole_folders;
mod whole_undo;
