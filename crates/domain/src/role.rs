//! What a caller is in a hosted deployment.

/// The role of a caller. Which tools a role may call is a table of whoever offers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Reads. What every caller is whose role is not known.
    Viewer,
    /// Reads and writes.
    Editor,
    /// Reads, to judge what others wrote.
    Evaluator,
    /// Administers.
    Admin,
}

impl Role {
    /// Every role there is.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Editor, Self::Evaluator, Self::Admin];

    /// The word that stands in a token.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Editor => "editor",
            Self::Evaluator => "evaluator",
            Self::Admin => "admin",
        }
    }

    /// The role that a claim names, letter for letter. What names none is the least of them, so a
    /// word that only somebody else knows gives nobody more.
    pub fn from_claim(claim: Option<&str>) -> Self {
        Self::ALL.into_iter().find(|role| claim == Some(role.as_str())).unwrap_or(Self::Viewer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_what_its_word_says() {
        for role in Role::ALL {
            assert_eq!(Role::from_claim(Some(role.as_str())), role);
        }
    }

    #[test]
    fn whatever_is_no_word_of_ours_is_a_viewer() {
        for claim in [
            "",
            "Admin",
            "ADMIN",
            " admin",
            "admin ",
            "admin\n",
            "owner",
            "root",
            "viewer,admin",
            "аdmin",
        ] {
            assert_eq!(Role::from_claim(Some(claim)), Role::Viewer, "{claim:?}");
        }
        assert_eq!(Role::from_claim(None), Role::Viewer);
    }
}
