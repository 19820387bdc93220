//! The roles of callers in a hosted deployment. The gateway's role table decides what each role may
//! call.

/// The role of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// May read. The role of every caller whose role is unknown.
    Viewer,
    /// May read and write.
    Editor,
    /// May read, to evaluate what others wrote.
    Evaluator,
    /// May administer the deployment.
    Admin,
}

impl Role {
    /// Every role, in the order of the variants.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Editor, Self::Evaluator, Self::Admin];

    /// Returns the role's word in a token.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Editor => "editor",
            Self::Evaluator => "evaluator",
            Self::Admin => "admin",
        }
    }

    /// Returns the role whose word equals the claim, including case. Any other claim is a
    /// [`Role::Viewer`], the role with the fewest rights.
    pub fn from_claim(claim: Option<&str>) -> Self {
        Self::ALL.into_iter().find(|role| claim == Some(role.as_str())).unwrap_or(Self::Viewer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_is_parsed_from_its_word() {
        for role in Role::ALL {
            assert_eq!(Role::from_claim(Some(role.as_str())), role);
        }
    }

    #[test]
    fn an_unknown_word_is_a_viewer() {
        for claim in [
            "", "Admin", "ADMIN", " admin", "admin ", "admin\n", "owner", "root", "viewer,admin",
            "аdmin",
        ] {
            assert_eq!(Role::from_claim(Some(claim)), Role::Viewer, "{claim:?}");
        }
        assert_eq!(Role::from_claim(None), Role::Viewer);
    }
}
