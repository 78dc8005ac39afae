//! Networks of random operators, by seed.

use super::net::{Net, Network};
use super::{contraction, elementwise, layout};

/// Number of operators in a network.
const LENGTH: usize = 12;

/// Adds an operator to the network, if a value is suitable.
pub type Maker = fn(&mut Net, &str) -> Option<()>;
/// Operator with its maker.
pub type Op = (&'static str, Maker);

/// All operators that are drawn and supported.
pub fn ops() -> Vec<Op> {
    let all = [elementwise::OPS, contraction::OPS, layout::OPS].concat();
    all.into_iter().filter(|(op, _)| Net::knows(op) && damper_grad::is_differentiated(op)).collect()
}

/// Network of a seed.
pub fn network(seed: u64) -> Network {
    let ops = ops();
    let mut net = Net::new(seed);
    let mut written = 0;
    for _ in 0..20 * LENGTH {
        let (op, make) = *net.draw.pick(&ops);
        written += usize::from(make(&mut net, op).is_some());
        if written == LENGTH {
            break;
        }
    }
    net.finish()
}
