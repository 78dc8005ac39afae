//! Noise buffers whose content changes between steps.

use super::*;

/// Memory that returns other words at a later request.
struct Shifty {
    words: [Vec<NoiseWord>; 2],
    asked: u32,
    /// The first request that returns the second words.
    from: u32,
    /// True if it returns the first words again after that request.
    once: bool,
}

impl AsMut<[NoiseWord]> for Shifty {
    fn as_mut(&mut self) -> &mut [NoiseWord] {
        let other = if self.once { self.asked == self.from } else { self.asked >= self.from };
        self.asked += 1;
        &mut self.words[usize::from(other)]
    }
}

/// The releases of four steps on buffers whose memory returns other words from request `from` on.
fn on_shifty(from: u32, once: bool) -> Vec<Vec<i64>> {
    let dim = 200;
    let mechanism =
        CorrelatedGaussian::<i64, _, Shifty>::new(Grid::new(BITS).unwrap(), 5000, blt(), run(), dim as u32).unwrap();
    let step = PrivateStep::new(slots(mechanism)).unwrap();
    let noise = CorrelatedState::new(Shifty { words: [words(2 * dim), words(2 * dim)], asked: 0, from, once });
    let mut state = StepState::new(vec![SumWord::ZERO; dim], (), SgdState { momentum: [] }, ()).with_noise(noise);
    let mut ledger = Ledger::volatile(4);
    (0..4)
        .map(|_| {
            let mut params = vec![0f32; dim];
            step.open(&mut state, &mut ledger).unwrap().finish(&mut params, &ChaCha20::<2>::simulation(9)).unwrap();
            params.iter().map(|param| -*param as i64).collect()
        })
        .collect()
}

/// For any words in memory, each step is that of a run that never stopped, or one that begins at zeros, as a whole. No
/// block of a release comes from other words than the rest.
#[test]
fn other_words_are_a_restart_of_the_whole() {
    let whole = on_shifty(u32::MAX, false);
    // The buffers are zeros again at step `at`.
    let restarted = |at: u32| -> Vec<Vec<i64>> {
        let (dim, mut all) = (200, Vec::new());
        let step = step(mechanism(blt(), 5000, run(), dim));
        let mut kept = state(blt(), dim);
        for number in 0..4 {
            if number == at {
                kept = state(blt(), dim);
            }
            all.push(released(&step, &mut kept, number, dim, 9));
        }
        all
    };
    assert_eq!(whole, restarted(9));
    let possible: Vec<_> = (0..5).map(restarted).collect();
    let mut seen = 0;
    for from in 0..40 {
        let run = on_shifty(from, false);
        assert!(possible.contains(&run), "other words from request {from} on");
        seen += usize::from(run != whole);
        for (number, one) in on_shifty(from, true).iter().enumerate() {
            // One request in between: that step is a restart. So may be the next, because the previous step did not
            // write the words that it gets.
            assert!(possible.iter().any(|run| run[number] == *one), "step {number}, request {from}");
        }
    }
    assert!(seen > 0, "no request was between two steps");
}
