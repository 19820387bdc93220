//! Addresses of the public network: the only ones from which a client's document is fetched.
//!
//! A client chooses the host of its document, so the address of that host could be one that only
//! this server reaches: the server itself, its network, or the metadata service of a cloud.
//!
//! *Sources*: IANA IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890, RFC 8190); RFC 4291;
//! RFC 6598 (shared addresses of providers); RFC 9637 (documentation).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The networks of IPv4 that are not public, as first address and length of the prefix.
const SPECIAL_IPV4: [(Ipv4Addr, u32); 16] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 31, 196, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// The networks within 2000::/3 that are not public, or that lead to an IPv4 address.
const SPECIAL_IPV6: [(Ipv6Addr, u32); 4] = [
    // Assignments of the IETF, among them Teredo.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    // 6to4.
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// Returns whether an address belongs to the public network.
///
/// Addresses of IPv6 that contain one of IPv4 (mapped, compatible, NAT64, 6to4, Teredo) are not
/// public, since the answer would depend on the network that the server is in.
pub fn is_public_address(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !SPECIAL_IPV4.into_iter().any(|(network, length)| {
            address.to_bits() >> (32 - length) == network.to_bits() >> (32 - length)
        }),
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            let is_global_unicast = bits >> 125 == 1;
            is_global_unicast
                && !SPECIAL_IPV6.into_iter().any(|(network, length)| {
                    bits >> (128 - length) == network.to_bits() >> (128 - length)
                })
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_public(text: &str) -> bool {
        is_public_address(text.parse().unwrap())
    }

    #[test]
    fn public_addresses_are_public() {
        for text in [
            "1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0",
            "126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255",
            "172.32.0.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0",
            "223.255.255.255", "2001:200::1", "2606:4700::1111", "2a00::1", "3ffe::1",
        ] {
            assert!(is_public(text), "{text}");
        }
    }

    #[test]
    fn addresses_that_only_this_server_reaches_are_not_public() {
        for text in [
            "0.0.0.0", "0.1.2.3", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255",
            "127.0.0.1", "127.255.255.255", "169.254.169.254", "172.16.0.0", "172.31.255.255",
            "192.0.0.8", "192.0.2.1", "192.88.99.1", "192.168.0.1", "192.168.255.255",
            "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1",
            "239.255.255.255", "240.0.0.1", "255.255.255.255", "::", "::1", "::127.0.0.1",
            "::ffff:127.0.0.1", "::ffff:8.8.8.8", "64:ff9b::a00:1", "64:ff9b:1::1", "100::1",
            "2001::1", "2001:db8::1", "2002:7f00:1::", "2002:808:808::1", "3fff::1", "5f00::1",
            "fc00::1", "fd12:3456::1", "fe80::1", "fec0::1", "ff02::1",
        ] {
            assert!(!is_public(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_writing_of_an_ipv4_address_in_ipv6_is_public(bits: u32) {
            let address = Ipv4Addr::from_bits(bits);
            prop_assert!(!is_public_address(address.to_ipv6_mapped().into()));
            prop_assert!(!is_public_address(address.to_ipv6_compatible().into()));
            let six_to_four = Ipv6Addr::from_bits(0x2002 << 112 | u128::from(bits) << 80);
            prop_assert!(!is_public_address(six_to_four.into()));
            let translated = Ipv6Addr::from_bits(0x64_ff9b << 96 | u128::from(bits));
            prop_assert!(!is_public_address(translated.into()));
        }

        #[test]
        fn what_the_standard_library_calls_special_is_not_public(bits: u32) {
            let address = Ipv4Addr::from_bits(bits);
            let is_special = address.is_private() || address.is_loopback() || address.is_multicast()
                || address.is_link_local() || address.is_broadcast() || address.is_documentation()
                || address.is_unspecified();
            prop_assert!(!(is_special && is_public_address(address.into())));
        }
    }
}
