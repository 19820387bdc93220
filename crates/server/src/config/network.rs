//! A network of addresses, such as that of a proxy.

use std::net::IpAddr;
use std::str::FromStr;

use super::values::{ParseContext, ToToml};

/// The addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    /// How many bits all addresses of the network share.
    prefix: u32,
}

impl Network {
    /// Returns whether the network has the address. An IPv4 address that IPv6 wraps is the IPv4
    /// address.
    pub fn contains(self, address: IpAddr) -> bool {
        match (self.first, address.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                let different = first.to_bits() ^ address.to_bits();
                different.leading_zeros() >= self.prefix
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                let different = first.to_bits() ^ address.to_bits();
                different.leading_zeros() >= self.prefix
            }
            _ => false,
        }
    }
}

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        let first = address.to_canonical();
        Self { first, prefix: if first.is_ipv4() { 32 } else { 128 } }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("has `{text}`, which is no address or network such as 10.0.0.0/8");
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let whole = Self::from(address.parse::<IpAddr>().map_err(|_| wrong())?);
        let Some(prefix) = prefix else { return Ok(whole) };
        let is_number = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
        let prefix: u32 = prefix.parse().ok().filter(|_| is_number).ok_or_else(wrong)?;
        let network = Self { prefix, ..whole };
        let wrapped = address.contains(':') && whole.first.is_ipv4();
        if prefix > whole.prefix || wrapped { Err(wrong()) } else { Ok(network) }
    }
}

impl ToToml for Vec<Network> {
    fn to_toml(&self) -> Option<String> {
        let texts = self.iter().map(|network| format!("{}/{}", network.first, network.prefix));
        Some(serde_json::Value::from_iter(texts).to_string())
    }
}

/// Parses addresses and networks between commas.
pub(super) fn networks(text: &str, context: &ParseContext<'_>) -> Result<Vec<Network>, String> {
    super::values::list(text, context)?.iter().map(|item| item.parse()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_exactly_the_addresses_that_share_its_bits() {
        for (network, inside, outside) in [
            ("10.0.0.2", "10.0.0.2", "10.0.0.3"),
            ("10.0.0.2", "::ffff:10.0.0.2", "::10.0.0.2"),
            ("10.1.0.0/16", "10.1.255.255", "10.2.0.0"),
            ("10.1.7.7/16", "10.1.0.1", "11.1.7.7"),
            ("0.0.0.0/0", "255.255.255.255", "::1"),
            ("::/0", "fe80::1", "127.0.0.1"),
            ("fd00::/8", "fdff::1", "fe00::1"),
            ("::1", "::1", "127.0.0.1"),
        ] {
            let parsed: Network = network.parse().unwrap();
            assert!(parsed.contains(inside.parse().unwrap()), "{network} {inside}");
            assert!(!parsed.contains(outside.parse().unwrap()), "{network} {outside}");
        }
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in [
            "", "proxy", "10.0.0", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/+8",
            "10.0.0.0/-1", "/8", "10.0.0.0/8/8", "::ffff:10.0.0.0/104", "10.0.0.1:80",
        ] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }
}
