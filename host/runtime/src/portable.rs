//! Portable backend: `damper-nn`, compiled in. Its bits are the same on every target, for any number of workers and any
//! batch.
//!
//! It runs one sample at a time, on one thread per session. So a sample's values depend only on that sample and the
//! parameters.

mod builder;
mod kernel;
mod lower;
mod memory_plan;
mod node;
mod program;
mod session;
mod value;

pub use builder::ProgramForm;
pub use kernel::{Kernel, Logic};
pub use memory_plan::{Life, place};
pub use program::{ADVICE, Port, Program, ProgramStep, ValuePlace};
pub use value::{Data, Kind, Stage};

use super::backend::{Backend, BackendError, Session, SessionSpec};
use damper_onnx::pb::ModelProto;
use session::PortableSession;

/// Backend that runs graphs with `damper-nn`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Portable;

impl Backend for Portable {
    fn name(&self) -> &'static str {
        "portable"
    }

    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").into()
    }

    fn note(&self) -> String {
        "portable, compiled in: the same bits on every target".into()
    }

    fn is_portable(&self) -> bool {
        true
    }

    fn load(&self, model: &ModelProto, plan: &SessionSpec) -> Result<Box<dyn Session>, BackendError> {
        Ok(Box::new(PortableSession::new(Program::new(model, plan, ProgramForm::Fast)?, plan)))
    }
}
