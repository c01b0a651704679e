//! The name and the addresses of this machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The host's name (uname(2), `nodename`).
pub fn name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// What tells running systems apart: the boot id of the kernel and its time namespace. Ranks with the same one share a
/// monotonic clock (time_namespaces(7)).
pub fn clock_id() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let time = std::fs::read_link("/proc/self/ns/time").map(|link| link.display().to_string());
    format!("{} {}", boot.trim(), time.unwrap_or_default())
}

/// The addresses of all interfaces that are up, those of the loopback last: a host's name often resolves to the loopback
/// only, so that the name alone does not do. Link-local IPv6 addresses need a scope and are left out.
pub fn addresses() -> Vec<IpAddr> {
    let mut found = Vec::new();
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: `list` is a valid place for the pointer; the list is freed below when the call succeeded.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
    }
    let mut at = list;
    // SAFETY: getifaddrs gives a list that ends with a null pointer and lives until freeifaddrs.
    while let Some(entry) = unsafe { at.as_ref() } {
        at = entry.ifa_next;
        let up = entry.ifa_flags & libc::IFF_UP as libc::c_uint != 0;
        if !up || entry.ifa_addr.is_null() {
            continue;
        }
        // SAFETY: it is not null, and every address begins with its family.
        let family = i32::from(unsafe { (*entry.ifa_addr).sa_family });
        let address = match family {
            libc::AF_INET => {
                // SAFETY: an address of this family is a `sockaddr_in`; it may be unaligned.
                let v4 = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned() };
                IpAddr::V4(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)))
            }
            libc::AF_INET6 => {
                // SAFETY: an address of this family is a `sockaddr_in6`; it may be unaligned.
                let v6 = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned() };
                IpAddr::V6(Ipv6Addr::from(v6.sin6_addr.s6_addr))
            }
            _ => continue,
        };
        let link_local = matches!(address, IpAddr::V6(v6) if v6.segments()[0] & 0xffc0 == 0xfe80);
        if !link_local {
            found.push(address);
        }
    }
    // SAFETY: the list came from getifaddrs and is not used any more.
    unsafe { libc::freeifaddrs(list) };
    found.sort_by_key(|address| (address.is_loopback(), address.is_ipv6()));
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_the_last_resort() {
        let all = addresses();
        let first_loopback = all.iter().position(IpAddr::is_loopback).unwrap_or(all.len());
        assert!(all[first_loopback..].iter().all(IpAddr::is_loopback), "{all:?}");
        assert!(!name().is_empty() && clock_id().len() > 36);
    }
}
