//! Where a request comes from, as limits count it.

use std::net::{IpAddr, Ipv6Addr};

/// Returns what counts as one source: an address of IPv4, or the /64 network of one of IPv6.
///
/// One subscriber of IPv6 has at least a /64 and chooses freely among its 2⁶⁴ addresses, so a limit
/// for each address would be no limit. Many subscribers have more, a /56 or a /48; but a shorter
/// prefix would count strangers together where a provider or a cloud gives each customer one /64 of
/// a common network, and one of them could then use up what the others have. The bounds over all
/// sources, and the reserves of the owner, hold against whoever has many /64.
///
/// *Source*: RFC 6177, section 2; RFC 7934, section 6.
pub fn source_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let prefix = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from(prefix))
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_64_count_as_one_and_others_apart() {
        let source = |text: &str| source_network(text.parse().unwrap()).to_string();
        assert_eq!(source("2001:db8:1:2:a:b:c:d"), "2001:db8:1:2::");
        assert_eq!(source("2001:db8:1:2::1"), source("2001:db8:1:2:ffff:ffff:ffff:ffff"));
        assert_ne!(source("2001:db8:1:2::1"), source("2001:db8:1:3::1"));
        assert_eq!(source("192.0.2.7"), "192.0.2.7");
        assert_eq!(source("::ffff:192.0.2.7"), "192.0.2.7");
        assert_ne!(source("192.0.2.7"), source("192.0.2.8"));
    }
}
