//! Memory plan: values with disjoint lifetimes share memory.

/// Lifetime of a value: from the step that writes it to the last step that reads it, both inclusive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Life {
    /// Number of elements.
    pub len: usize,
    /// Step that writes the value.
    pub first: usize,
    /// Last step that reads the value.
    pub last: usize,
}

/// Offset of each value, a multiple of `align`, and the total length. Places the longest values first. Each gets the
/// lowest offset that is free during its lifetime (Pisarchyk and Lee, *Efficient memory management for deep neural net
/// inference*, 2020, section 5.1).
#[must_use]
pub fn place(lives: &[Life], align: usize) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..lives.len()).collect();
    order.sort_by_key(|at| (std::cmp::Reverse(lives[*at].len), *at));
    let mut places = vec![0; lives.len()];
    // Placed values, ordered by offset.
    let mut placed: Vec<usize> = Vec::new();
    let mut whole = 0;
    for at in order {
        let life = lives[at];
        let mut place: usize = 0;
        for other in &placed {
            let of = lives[*other];
            let is_apart = of.last < life.first || life.last < of.first;
            if !is_apart {
                if place + life.len <= places[*other] {
                    break;
                }
                place = place.max((places[*other] + of.len).next_multiple_of(align));
            }
        }
        places[at] = place;
        if life.len > 0 {
            let behind = placed.partition_point(|other| places[*other] < place);
            placed.insert(behind, at);
        }
        whole = whole.max(place + life.len);
    }
    (places, whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Values alive at the same time do not overlap. The total length is at least that of all values alive at once.
    #[test]
    fn values_alive_together_do_not_overlap() {
        let mut random = damper_testing::Random(5);
        for align in [1, 16] {
            for _ in 0..200 {
                let lives: Vec<Life> = (0..random.below(30))
                    .map(|_| {
                        let first = random.below(20);
                        Life { len: random.below(100), first, last: first + random.below(6) }
                    })
                    .collect();
                let (places, whole) = place(&lives, align);
                for (a, x) in lives.iter().enumerate() {
                    assert!(places[a] % align == 0 && places[a] + x.len <= whole);
                    for (b, y) in lives.iter().enumerate().skip(a + 1) {
                        let together = x.first <= y.last && y.first <= x.last;
                        let overlap = places[a] < places[b] + y.len && places[b] < places[a] + x.len;
                        assert!(!together || !overlap || x.len == 0 || y.len == 0);
                    }
                }
                let alive =
                    |step| lives.iter().filter(|l| l.first <= step && step <= l.last).map(|l| l.len).sum::<usize>();
                assert!(whole >= (0..30).map(alive).max().unwrap());
            }
        }
    }

    // A chain of values needs memory for two.
    #[test]
    fn chain_takes_two_places() {
        let lives: Vec<Life> = (0..10).map(|at| Life { len: 8, first: at, last: at + 1 }).collect();
        assert_eq!(place(&lives, 1).1, 16);
    }
}
