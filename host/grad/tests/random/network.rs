//! Networks of random operators, by a seed.

use super::net::{Net, Network};
use super::{contraction, elementwise, layout};

/// Operators in a network.
const LENGTH: usize = 12;

/// Writes an operator into the network, if some value fits it.
pub type Maker = fn(&mut Net, &str) -> Option<()>;
/// An operator, and what writes it.
pub type Op = (&'static str, Maker);

/// Every operator that is drawn and that damper has.
pub fn ops() -> Vec<Op> {
    let all = [elementwise::OPS, contraction::OPS, layout::OPS].concat();
    all.into_iter().filter(|(op, _)| Net::knows(op) && damper_grad::is_differentiated(op)).collect()
}

/// The network that a seed names.
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
