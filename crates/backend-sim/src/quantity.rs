//! Durations and sizes in text.

use std::time::Duration;

/// `250us`, `50ms`, `2s`: digits and a unit.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    match unit {
        "us" => Some(Duration::from_micros(number)),
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        _ => None,
    }
}

/// `1048576`, `512KiB`, `1MiB`, `16GiB`: digits and at most a unit.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(factor)
}

fn split(text: &str) -> Option<(u64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    Some((digits.parse().ok()?, unit.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("250us"), Some(Duration::from_micros(250)));
        assert_eq!(duration("50 ms"), Some(Duration::from_millis(50)));
        assert_eq!(duration("2s"), Some(Duration::from_secs(2)));
        for text in ["", "5", "ms", "-1s", "1.5s", "1h", "99999999999999999999s"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_checked() {
        assert_eq!(bytes("1048576"), Some(1 << 20));
        assert_eq!(bytes("1MiB"), Some(1 << 20));
        assert_eq!(bytes("16 GiB"), Some(16 << 30));
        for text in ["", "MiB", "1MB", "-1", "18446744073709551615GiB"] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }
}
