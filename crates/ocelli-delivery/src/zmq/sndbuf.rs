//! The size of the kernel's send buffer.

/// What sglang asks for on a large host.
const LARGE: i32 = 512 << 20;
const GIB: u64 = 1 << 30;

/// What the host has; zeros for what is unknown.
#[derive(Debug, Clone, Copy, Default)]
struct Host {
    total_bytes: u64,
    available_bytes: u64,
    /// `net.core.wmem_max`: the most that a process may ask for.
    askable_bytes: u64,
    /// Third value of `net.ipv4.tcp_wmem`: the most that the kernel gives when nobody asks.
    automatic_bytes: u64,
}

/// sglang's rule: 512 MiB when more than 32 GiB of memory are there and more than 16 GiB free, else
/// the kernel's choice (-1). But asking turns the kernel's tuning off, and it caps what was asked, so that
/// on a host with usual settings (wmem_max 208 KiB, tcp_wmem 4 MiB) asking gives less than not asking;
/// there we do not ask.
fn rule(host: Host) -> i32 {
    let large = host.total_bytes > 32 * GIB && host.available_bytes > 16 * GIB;
    let gains = host.askable_bytes > host.automatic_bytes;
    if large && gains { LARGE } else { -1 }
}

/// The rule, applied to this host.
pub(super) fn for_this_host() -> i32 {
    rule(read().unwrap_or_default())
}

fn read() -> Option<Host> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let wmem_max = std::fs::read_to_string("/proc/sys/net/core/wmem_max").ok()?;
    let tcp_wmem = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_wmem").ok()?;
    Some(Host {
        total_bytes: kib("MemTotal")?.saturating_mul(1024),
        available_bytes: kib("MemAvailable")?.saturating_mul(1024),
        askable_bytes: wmem_max.trim().parse().ok()?,
        automatic_bytes: tcp_wmem.split_whitespace().nth(2)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_buffer_is_asked_for_only_where_that_gives_more() {
        let tuned = Host {
            total_bytes: 64 * GIB,
            available_bytes: 32 * GIB,
            askable_bytes: LARGE as u64,
            automatic_bytes: 4 << 20,
        };
        assert_eq!(rule(tuned), LARGE);
        assert_eq!(rule(Host { total_bytes: 32 * GIB, ..tuned }), -1);
        assert_eq!(rule(Host { available_bytes: 16 * GIB, ..tuned }), -1);
        assert_eq!(rule(Host { askable_bytes: 212_992, ..tuned }), -1);
        assert_eq!(rule(Host::default()), -1);
    }
}
