//! Which file comes next: numbered shards such as `000123.sst` or `part-00017.parquet`.

/// Longest name that is looked at, bytes.
pub const NAME_MAX: usize = 255;

/// The last run of digits of a name.
fn digits(name: &[u8]) -> Option<(usize, usize)> {
    let end = name.iter().rposition(u8::is_ascii_digit)? + 1;
    let start = name.get(..end)?.iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |at| at + 1);
    (end - start <= 18).then_some((start, end))
}

fn number(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0'))
}

/// Writes the name that follows `first` and `second` into `next` and returns its length: the same text around
/// a number that goes on by the same step. `None` when the two are not numbered alike.
pub fn successor(first: &[u8], second: &[u8], next: &mut [u8; NAME_MAX]) -> Option<usize> {
    let (from, to) = digits(second)?;
    let (from_first, to_first) = digits(first)?;
    let alike =
        first.get(..from_first)? == second.get(..from)? && first.get(to_first..)? == second.get(to..)?;
    let (a, b) = (number(first.get(from_first..to_first)?), number(second.get(from..to)?));
    if !alike || a == b {
        return None;
    }
    let value = b.checked_add(b)?.checked_sub(a)?;
    let mut text = [b'0'; 20];
    let mut at = text.len();
    let mut left = value;
    while left > 0 || at == text.len() {
        at = at.checked_sub(1)?;
        *text.get_mut(at)? = b'0' + (left % 10) as u8;
        left /= 10;
    }
    let padded = at.min(text.len().checked_sub(to - from)?);
    let parts = [second.get(..from)?, text.get(padded..)?, second.get(to..)?];
    let mut len = 0;
    for part in parts {
        next.get_mut(len..len + part.len())?.copy_from_slice(part);
        len += part.len();
    }
    Some(len)
}

/// FNV-1a of a name, to recognise it later without keeping it.
pub fn hash(seed: u64, name: &[u8]) -> u64 {
    name.iter().fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn next_of(first: &str, second: &str) -> Option<String> {
        let mut next = [0; NAME_MAX];
        let len = successor(first.as_bytes(), second.as_bytes(), &mut next)?;
        Some(String::from_utf8(next[..len].to_vec()).unwrap())
    }

    #[test]
    fn numbers_go_on_by_their_step_and_keep_their_width() {
        assert_eq!(next_of("000008.sst", "000009.sst").as_deref(), Some("000010.sst"));
        assert_eq!(
            next_of("part-00002.parquet", "part-00004.parquet").as_deref(),
            Some("part-00006.parquet")
        );
        assert_eq!(next_of("f9", "f10").as_deref(), Some("f11"));
        assert_eq!(next_of("f99", "f100").as_deref(), Some("f101"));
        assert_eq!(next_of("f3", "f2").as_deref(), Some("f1"));
        assert_eq!(next_of("f1", "f0"), None);
    }

    #[test]
    fn other_names_have_no_successor() {
        for (a, b) in [("a1", "b2"), ("a", "b"), ("x1.c", "x2.h"), ("a1", "a1"), ("", "1")] {
            assert_eq!(next_of(a, b), None, "{a} {b}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(a in prop::collection::vec(any::<u8>(), 0..300),
                               b in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut next = [0; NAME_MAX];
            if let Some(len) = successor(&a, &b, &mut next) {
                prop_assert!(len <= NAME_MAX);
            }
        }

        #[test]
        fn the_successor_of_successors_is_arithmetic(start in 0u64..1_000_000, step in 1u64..1000) {
            let name = |n: u64| format!("shard-{n:05}.bin");
            prop_assert_eq!(next_of(&name(start), &name(start + step)), Some(name(start + 2 * step)));
        }
    }
}
