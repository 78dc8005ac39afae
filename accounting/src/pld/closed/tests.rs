use super::*;
use libm::erfc;

/// `δ = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)`, which cancels at small δ.
fn subtracted(shift: f64, epsilon: f64) -> f64 {
    let below = |z: f64| 0.5 * erfc(-z / sqrt(2.0));
    below(shift / 2.0 - epsilon / shift) - exp(epsilon) * below(-shift / 2.0 - epsilon / shift)
}

#[test]
fn delta_encloses_the_closed_form() {
    for shift in [0.01, 0.3, 1.0, 4.0, 12.0] {
        for epsilon in [0.0, 0.01, 0.5, 2.0, 20.0] {
            let exact = subtracted(shift, epsilon);
            if exact < 1e-3 {
                continue;
            }
            let [low, high] = [Bound::Lower, Bound::Upper].map(|bound| exp(ln_delta(shift, epsilon, bound)));
            assert!(low <= exact * (1.0 + 1e-12) && exact <= high * (1.0 + 1e-12), "{shift} {epsilon}");
            assert!(high - low <= 1e-9 * exact, "{shift} {epsilon}: {low:e} {exact:e} {high:e}");
        }
    }
}

/// Values of mpmath at 60 digits, of `log(ncdf(μ/2−ε/μ) − exp(ε)·ncdf(−μ/2−ε/μ))`.
#[test]
fn tiny_deltas_are_those_of_mpmath() {
    for (shift, epsilon, exact) in VALUES {
        let [low, high] = [Bound::Lower, Bound::Upper].map(|bound| ln_delta(shift, epsilon, bound));
        assert!(low <= exact && exact <= high, "{shift} {epsilon}: {low} {exact} {high}");
        assert!(high - low <= 1e-8, "{shift} {epsilon}: {low} {exact} {high}");
    }
}

#[test]
fn epsilon_inverts_delta() {
    for (shift, delta) in [(1e-5, 1e-30), (0.2, 1e-12), (3.0, 1e-5), (5.0, 1e-30), (1e3, 1e-8)] {
        let [low, high] = [Bound::Lower, Bound::Upper].map(|bound| epsilon(shift, Rate::ONE, delta, bound));
        assert!(low <= high && high - low <= 1e-9 * high, "{shift} {delta:e}: {low} {high}");
        assert!(ln_delta(shift, high, Bound::Upper) <= log(delta));
        assert!(ln_delta(shift, low, Bound::Lower) >= log(delta), "{shift} {delta:e}");
    }
    assert_eq!(epsilon(1e-3, Rate::ONE, 0.5, Bound::Upper), 0.0);
}

const VALUES: [(f64, f64, f64); 8] = [
    (1.0, 12.0, -72.03244219183455),
    (0.2, 3.0, -118.96256547643813),
    (0.00031622776601683794, 0.003, -58.50841916112362),
    (1e-05, 0.0001, -67.06599750110485),
    (5.0, 69.3, -69.07576575238792),
    (31.622776601683793, 900.0, -83.80142012882384),
    (0.5, 20.0, -799.0229266437808),
    (100.0, 5600.0, -20.79661845306166),
];

/// ε of one draw by mpmath at 120 digits, with both directions.
#[test]
fn one_draw_is_that_of_mpmath() {
    for (q, sigma, delta, exact) in DRAWS {
        let rate = Rate::at_least(q).unwrap();
        let [low, high] = [Bound::Lower, Bound::Upper].map(|bound| epsilon(1.0 / sigma, rate, delta, bound));
        // The rate is rounded to a multiple of 2^-53.
        let rounded = 1e-6 * exact;
        assert!(
            low <= exact + rounded && exact <= high + rounded,
            "{q:e} {sigma} {delta:e}: {low:e} {exact:e} {high:e}"
        );
        assert!(high - low <= 1e-5 * exact, "{q:e} {sigma} {delta:e}: {low:e} {exact:e} {high:e}");
    }
}

const DRAWS: [(f64, f64, f64, f64); 37] = [
    (1e-09, 0.2, 1e-12, 6.45432623622069),
    (1e-09, 0.2, 1e-30, 38.7422357724168),
    (1e-09, 1.0, 1e-12, 2.20731715548914e-8),
    (1e-09, 1.0, 1e-30, 1.72834109670815e-5),
    (1e-09, 100.0, 1e-12, 9.08913013894877e-12),
    (1e-09, 100.0, 1e-30, 9.170615976819e-11),
    (1e-09, 10000.0, 1e-30, 8.24534669615008e-13),
    (1e-06, 0.2, 1e-12, 21.7508331565298),
    (1e-06, 0.2, 1e-30, 49.1357807914355),
    (1e-06, 1.0, 1e-12, 0.000131487575228565),
    (1e-06, 1.0, 1e-30, 0.0343713363427306),
    (1e-06, 100.0, 1e-12, 3.42471591305599e-8),
    (1e-06, 100.0, 1e-30, 9.98013965061035e-8),
    (1e-06, 10000.0, 1e-12, 1.93858105282644e-10),
    (1e-06, 10000.0, 1e-30, 9.02609848799783e-10),
    (0.001, 0.2, 1e-05, 16.4074044767321),
    (0.001, 0.2, 1e-12, 34.9256198015684),
    (0.001, 0.2, 1e-30, 59.3097329010108),
    (0.001, 1.0, 1e-05, 0.00911156448706363),
    (0.001, 1.0, 1e-12, 0.39141452458424),
    (0.001, 1.0, 1e-30, 4.22871224241948),
    (0.001, 100.0, 1e-12, 5.00787893758469e-5),
    (0.001, 100.0, 1e-30, 0.000107381949314941),
    (0.001, 10000.0, 1e-12, 3.92437543474105e-7),
    (0.001, 10000.0, 1e-30, 9.74717636150443e-7),
    (0.5, 0.2, 1e-05, 31.6167945460649),
    (0.5, 0.2, 1e-12, 45.8666948369989),
    (0.5, 0.2, 1e-30, 68.3056549917406),
    (0.5, 1.0, 1e-05, 3.53399798544895),
    (0.5, 1.0, 1e-12, 6.44645934806148),
    (0.5, 1.0, 1e-30, 10.9898398696819),
    (0.5, 100.0, 1e-05, 0.0126019292729097),
    (0.5, 100.0, 1e-12, 0.0302728988309808),
    (0.5, 100.0, 1e-30, 0.0553660983041337),
    (0.5, 10000.0, 1e-05, 2.46454623606019e-5),
    (0.5, 10000.0, 1e-12, 0.000259061741641893),
    (0.5, 10000.0, 1e-30, 0.000517601996947308),
];
