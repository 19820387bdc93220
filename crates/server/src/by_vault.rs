//! Values that differ by vault, such as the server that has the notes of each.

use std::collections::BTreeMap;

/// A value for each of some vaults, and perhaps one for every other vault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByVault<T> {
    named: BTreeMap<String, T>,
    other: Option<T>,
}

impl<T> Default for ByVault<T> {
    fn default() -> Self {
        Self { named: BTreeMap::new(), other: None }
    }
}

impl<T> ByVault<T> {
    /// The same value for every vault.
    pub fn one(value: T) -> Self {
        Self { other: Some(value), ..Self::default() }
    }

    /// Returns the value for a vault: its own, or else that for every other vault.
    pub fn get(&self, vault: &str) -> Option<&T> {
        self.named.get(vault).or(self.other.as_ref())
    }

    /// Returns the value for every vault that has none of its own.
    pub fn other(&self) -> Option<&T> {
        self.other.as_ref()
    }

    /// Returns the vaults that have a value of their own, in order.
    pub fn vaults(&self) -> impl Iterator<Item = &str> {
        self.named.keys().map(String::as_str)
    }

    /// Returns each value with the name of its vault. The value for all vaults without one of their
    /// own comes last, with `None`.
    pub fn iter(&self) -> impl Iterator<Item = (Option<&str>, &T)> {
        let named = self.named.iter().map(|(vault, value)| (Some(vault.as_str()), value));
        named.chain(self.other.iter().map(|value| (None, value)))
    }

    /// Whether no vault has a value.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty() && self.other.is_none()
    }

    /// Sets the value of a vault, or of every other vault. Returns whether it had none before.
    pub fn insert(&mut self, vault: Option<String>, value: T) -> bool {
        match vault {
            Some(vault) => self.named.insert(vault, value).is_none(),
            None => self.other.replace(value).is_none(),
        }
    }
}

impl<'a, T> FromIterator<(Option<&'a str>, T)> for ByVault<T> {
    fn from_iter<I: IntoIterator<Item = (Option<&'a str>, T)>>(values: I) -> Self {
        let mut by_vault = Self::default();
        for (vault, value) in values {
            by_vault.insert(vault.map(str::to_owned), value);
        }
        by_vault
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vault_without_a_value_of_its_own_has_that_of_the_others() {
        let mut by_vault = ByVault::from_iter([(Some("garden"), 1), (Some("kitchen"), 2)]);
        assert_eq!(
            ["garden", "kitchen", "shed"].map(|vault| by_vault.get(vault)),
            [Some(&1), Some(&2), None]
        );
        assert!(by_vault.insert(None, 3));
        assert!(!by_vault.insert(Some("garden".to_owned()), 4));
        assert_eq!(
            ["garden", "shed", ""].map(|vault| by_vault.get(vault)),
            [Some(&4), Some(&3), Some(&3)]
        );
        let all: Vec<_> = by_vault.iter().collect();
        assert_eq!(all, [(Some("garden"), &4), (Some("kitchen"), &2), (None, &3)]);
        assert!(ByVault::<u8>::default().is_empty() && !by_vault.is_empty());
    }
}
