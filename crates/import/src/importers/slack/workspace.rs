//! The people and channels of a Slack workspace, by the identifiers that messages have.

use std::collections::HashMap;

use stile_domain::records::value::{FieldValue, RecordFields};

use crate::json_object::{JsonObject, MAX_NAME_CHARS, truncate_name};

/// The people and channels of a workspace.
#[derive(Debug, Default)]
pub struct Workspace {
    /// The names of people by their identifiers.
    pub(super) users: HashMap<String, String>,
    /// The names of channels by their identifiers.
    pub(super) channels: HashMap<String, String>,
}

/// A channel, a private channel, or direct messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// The identifier, for example `C0GARDEN1`.
    pub id: String,
    /// The name without `#`; for direct messages the names of the members.
    pub name: String,
}

impl Workspace {
    /// Adds a person from an element of `users.json`.
    pub(super) fn add_user(&mut self, user: RecordFields) {
        let user = JsonObject(user);
        if let (Some(id), Some(name)) = (user.text("id"), name_of(&user)) {
            self.users.insert(id.to_owned(), name);
        }
    }

    /// Adds a channel from an element of `channels.json` or of a list of direct messages.
    pub(super) fn add_channel(&mut self, channel: RecordFields) -> Option<Channel> {
        let channel = JsonObject(channel);
        let id = channel.text("id")?.to_owned();
        let name = channel
            .text("name")
            .map_or_else(|| self.member_names(&channel), |name| truncate_name(name).to_owned());
        self.channels.insert(id.clone(), name.clone());
        Some(Channel { id, name })
    }

    /// Returns the names of the members, for direct messages, which have no name.
    fn member_names(&self, channel: &JsonObject) -> String {
        let members = channel.items("members");
        let names = members.iter().filter_map(|member| match member {
            FieldValue::Text(id) => Some(self.users.get(id).unwrap_or(id).as_str()),
            _ => None,
        });
        // The separators alone take as many characters as a name may have, so later names would be
        // cut off anyway.
        let max_names = usize::try_from(MAX_NAME_CHARS).unwrap_or(usize::MAX);
        truncate_name(&names.take(max_names).collect::<Vec<_>>().join(", ")).to_owned()
    }
}

/// Returns the name that a person chose, or else the real one, or else the account's.
pub(super) fn name_of(user: &JsonObject) -> Option<String> {
    let profile = user.object("profile").unwrap_or_default();
    let names = [
        profile.text("display_name"),
        profile.text("real_name"),
        user.text("real_name"),
        user.text("name"),
    ];
    names.into_iter().flatten().next().map(|name| truncate_name(name).to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};
    use stile_domain::records::row;

    use super::*;

    #[test]
    fn long_names_are_truncated_when_they_are_read() {
        let mut workspace = Workspace::default();
        let long = "ä".repeat(5000);
        let fields = |json: Json| row::parse(json.to_string().as_bytes()).unwrap().fields;
        workspace.add_user(fields(json!({ "id": "U1", "name": long })));
        let cut = "ä".repeat(1024);
        assert_eq!(workspace.users["U1"], cut);
        assert_eq!(
            workspace.add_channel(fields(json!({ "id": "C1", "name": long }))).unwrap().name,
            cut
        );
        assert_eq!(
            workspace
                .add_channel(fields(json!({ "id": "D1", "members": ["U1", "U1", "U2"] })))
                .unwrap()
                .name,
            cut
        );
    }
}
