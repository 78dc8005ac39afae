//! The launcher of this process, identified by the variables that it sets.
//!
//! An MPI launcher starts processes that can connect to each other. Other launchers start several copies of the same
//! command, and leave the connection to them. Without a connection, each would train its own model. Variables of a
//! whole job, such as SLURM's `SLURM_NTASKS` in a batch script, do not describe this process. The table of variables is
//! in [`crate::known`].

use crate::known::{Told, told};

/// The way in which this process was started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Launch {
    /// The only process.
    Alone,
    /// One of at least this many processes that MPI joins.
    Mpi(usize),
    /// One of several processes that nothing connects.
    Apart(Apart),
}

/// One of several processes that nothing connects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Apart {
    /// The launcher.
    pub launcher: &'static str,
    /// The variable that shows it.
    pub variable: &'static str,
    /// Number of processes, if known.
    pub size: Option<usize>,
}

/// Variables with the group size, from Open MPI or from launchers with PMI, such as those of MPICH, MVAPICH, Flux, PALS
/// and SLURM.
const MPI: [&str; 6] =
    ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PALS_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_SIZE", "MVP_COMM_WORLD_SIZE"];

/// Variables with the rank, used if no variable has the size.
const MPI_RANKS: [&str; 5] = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "PALS_RANKID", "ALPS_APP_PE"];

/// Step numbers from this value on are not steps of `srun`. They mark the batch script, an interactive shell or a
/// container.
const NO_STEP: u64 = 0xffff_fff0;

/// Returns the launch described by the environment.
pub(crate) fn launch(variable: impl Fn(&str) -> Option<String>) -> Launch {
    let number = |name: &str| variable(name)?.trim().parse::<u64>().ok();
    let size = |name: &str| usize::try_from(number(name)?).ok();
    let is_step = number("SLURM_STEP_ID").or_else(|| number("SLURM_STEPID")).is_some_and(|step| step < NO_STEP);
    let of_step = || size("SLURM_STEP_NUM_TASKS").or_else(|| size("SLURM_NTASKS").filter(|_| is_step));
    let of_mpi = MPI.into_iter().find_map(size);
    // Without its plugin for PMIx or PMI, srun starts processes that cannot find each other.
    let of_mpi = of_mpi.or_else(|| variable("PMIX_RANK").and_then(|_| of_step()));
    let of_mpi = of_mpi.or_else(|| MPI_RANKS.into_iter().find_map(size).and_then(|rank| rank.checked_add(1)));
    if let Some(size) = of_mpi.filter(|size| *size > 1) {
        return Launch::Mpi(size);
    }
    if let Some(Told { launcher, variable, size }) = told(&variable) {
        return Launch::Apart(Apart { launcher, variable, size });
    }
    let apart = |launcher, variable, size| Launch::Apart(Apart { launcher, variable, size });
    // This includes tasks that each start an MPI of one process.
    if let Some(size) = of_step().filter(|size| *size > 1) {
        let told = if variable("SLURM_STEP_NUM_TASKS").is_some() { "SLURM_STEP_NUM_TASKS" } else { "SLURM_NTASKS" };
        return apart("srun", told, Some(size));
    }
    // The batch script is task 0.
    if number("SLURM_PROCID").is_some_and(|task| task > 0) {
        return apart("srun", "SLURM_PROCID", size("SLURM_NTASKS").filter(|size| *size > 1));
    }
    Launch::Alone
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn of(variables: &[(&str, &str)]) -> Launch {
        launch(|name| variables.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn processes_of_mpi_are_joined() {
        for variables in [
            &[("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_RANK", "1")][..],
            &[("PMI_SIZE", "4"), ("PMI_RANK", "0")],
            &[("MV2_COMM_WORLD_SIZE", " 4 ")],
            &[("PMIX_RANK", "2"), ("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "4")],
            // mpirun inside srun or with torchrun's variables. MPI joins these processes.
            &[("OMPI_COMM_WORLD_SIZE", "4"), ("SLURM_STEP_NUM_TASKS", "2"), ("SLURM_PROCID", "1")],
            &[("OMPI_COMM_WORLD_SIZE", "4"), ("WORLD_SIZE", "4"), ("RANK", "1")],
            // SageMaker's MPI, and Flux, which supports PMI.
            &[("OMPI_COMM_WORLD_SIZE", "4"), ("SM_HOSTS", r#"["algo-1","algo-2"]"#)],
            &[("FLUX_JOB_SIZE", "4"), ("PMI_SIZE", "4"), ("PMI_RANK", "3")],
            // Without a size, a rank gives its lower bound.
            &[("PMIX_RANK", "3"), ("PMIX_NAMESPACE", "prterun-1")],
            &[("ALPS_APP_PE", "3")],
            &[("PALS_RANKID", "3"), ("PALS_LOCAL_RANKID", "3")],
        ] {
            assert_eq!(of(variables), Launch::Mpi(4), "{variables:?}");
        }
    }

    #[test]
    fn processes_that_nothing_joins_are_named() {
        for (variables, launcher, size) in [
            (&[("WORLD_SIZE", "2"), ("RANK", "0"), ("LOCAL_RANK", "0")][..], "torchrun or Kubeflow", Some(2)),
            (&[("WORLD_SIZE", "8"), ("OMPI_COMM_WORLD_SIZE", "1")], "torchrun or Kubeflow", Some(8)),
            (&[("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "4"), ("SLURM_PROCID", "0")], "srun", Some(4)),
            (&[("SLURM_STEPID", "3"), ("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0")], "srun", Some(4)),
            (&[("SLURM_PROCID", "2"), ("SLURM_NTASKS", "4")], "srun", Some(4)),
            (&[("FLUX_JOB_SIZE", "16")], "Flux", Some(16)),
            // `srun -n 4 mpirun -np 1 damper`.
            (&[("OMPI_COMM_WORLD_SIZE", "1"), ("SLURM_STEP_NUM_TASKS", "4")], "srun", Some(4)),
            (&[("PMI_SIZE", "1"), ("PMIX_RANK", "1"), ("SLURM_STEP_NUM_TASKS", "4")], "srun", Some(4)),
        ] {
            match of(variables) {
                Launch::Apart(apart) => assert_eq!((apart.launcher, apart.size), (launcher, size), "{variables:?}"),
                other => panic!("{variables:?}: {other:?}"),
            }
        }
    }

    // A single process in a job of several, and groups of one process.
    #[test]
    fn lone_process_is_alone() {
        for variables in [
            &[][..],
            // A batch script of `sbatch -n 4`, and a shell of `salloc`.
            &[("SLURM_NTASKS", "4"), ("SLURM_NPROCS", "4"), ("SLURM_PROCID", "0"), ("SLURM_JOB_ID", "7")],
            &[("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0"), ("SLURM_STEP_ID", "4294967291")],
            &[("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "1"), ("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0")],
            &[("WORLD_SIZE", "1"), ("RANK", "0"), ("MASTER_ADDR", "localhost")],
            &[("OMPI_COMM_WORLD_SIZE", "1"), ("SLURM_STEP_NUM_TASKS", "1"), ("SLURM_NTASKS", "4")],
            &[("PMIX_RANK", "0"), ("SLURM_STEP_NUM_TASKS", "1")],
            &[("WORLD_SIZE", "many"), ("RANK", "x")],
        ] {
            assert_eq!(of(variables), Launch::Alone, "{variables:?}");
        }
    }
}
