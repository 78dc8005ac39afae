//! The launcher of this process, by the variables that it sets.
//!
//! A launcher of MPI starts processes that find each other. Others start as many of the same command, and leave it to them to find each other:
//! without that, each would train a model of its own. Variables that hold for a whole job, such as SLURM's `SLURM_NTASKS` in a batch script, say
//! nothing of this process.

/// What this process was started as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Launch {
    /// The only process.
    Alone,
    /// One of so many that MPI joins.
    Mpi(usize),
    /// One of several that nothing joins.
    Apart(Apart),
}

/// One of several processes that nothing joins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Apart {
    /// The launcher.
    pub launcher: &'static str,
    /// The variable that tells.
    pub variable: &'static str,
    /// How many they are, if that is known.
    pub size: Option<usize>,
}

/// Sizes of a group that Open MPI tells, or a launcher that speaks PMI, such as those of MPICH, MVAPICH and SLURM.
const MPI: [&str; 5] =
    ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_SIZE", "MVP_COMM_WORLD_SIZE"];

/// Sizes that launchers without MPI tell.
const SIZES: [(&str, &str); 8] = [
    ("WORLD_SIZE", "torchrun or Kubeflow"),
    ("HOROVOD_SIZE", "Horovod"),
    ("JAX_NUM_PROCESSES", "a launcher of JAX"),
    ("FLUX_JOB_SIZE", "Flux"),
    ("JSM_NAMESPACE_SIZE", "jsrun"),
    ("CLOUD_RUN_TASK_COUNT", "Cloud Run"),
    ("BATCH_TASK_COUNT", "Google Batch"),
    ("AWS_BATCH_JOB_NUM_NODES", "AWS Batch"),
];

/// A step's number from here on is no step of `srun`: it is the batch script, an interactive shell or a container.
const NO_STEP: u64 = 0xffff_fff0;

/// What the environment tells.
pub(crate) fn launch(variable: impl Fn(&str) -> Option<String>) -> Launch {
    let number = |name: &str| variable(name)?.trim().parse::<u64>().ok();
    let size = |name: &str| usize::try_from(number(name)?).ok();
    let is_step = number("SLURM_STEP_ID").or_else(|| number("SLURM_STEPID")).is_some_and(|step| step < NO_STEP);
    let of_step = || size("SLURM_STEP_NUM_TASKS").or_else(|| size("SLURM_NTASKS").filter(|_| is_step));
    let of_mpi = MPI.into_iter().find_map(size);
    // Without its plugin for PMIx or PMI, srun starts processes that do not know each other.
    let of_mpi = of_mpi.or_else(|| variable("PMIX_RANK").and_then(|_| of_step()));
    if let Some(size) = of_mpi.filter(|size| *size > 1) {
        return Launch::Mpi(size);
    }
    let apart = |launcher, variable, size| Launch::Apart(Apart { launcher, variable, size });
    for (name, launcher) in SIZES {
        if let Some(size) = size(name).filter(|size| *size > 1) {
            return apart(launcher, name, Some(size));
        }
    }
    // Also where each task starts an MPI of one process.
    if let Some(size) = of_step().filter(|size| *size > 1) {
        let told = if variable("SLURM_STEP_NUM_TASKS").is_some() { "SLURM_STEP_NUM_TASKS" } else { "SLURM_NTASKS" };
        return apart("srun", told, Some(size));
    }
    // The batch script is task 0.
    if number("SLURM_PROCID").is_some_and(|task| task > 0) {
        return apart("srun", "SLURM_PROCID", size("SLURM_NTASKS").filter(|size| *size > 1));
    }
    if variable("MASTER_ADDR").is_some() && number("RANK").is_some_and(|rank| rank > 0) {
        return apart("torchrun or Kubeflow", "RANK", None);
    }
    if number("JOB_COMPLETION_INDEX").is_some() {
        return apart("an Indexed Job of Kubernetes", "JOB_COMPLETION_INDEX", None);
    }
    Launch::Alone
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Launch {
        launch(|name| variables.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn processes_of_mpi_are_joined() {
        for variables in [
            &[("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_RANK", "1")][..],
            &[("PMI_SIZE", "4"), ("PMI_RANK", "0")],
            &[("MV2_COMM_WORLD_SIZE", " 4 ")],
            &[("PMIX_RANK", "2"), ("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "4")],
            // mpirun below srun or torchrun's variables: MPI joins them.
            &[("OMPI_COMM_WORLD_SIZE", "4"), ("SLURM_STEP_NUM_TASKS", "2"), ("SLURM_PROCID", "1")],
            &[("OMPI_COMM_WORLD_SIZE", "4"), ("WORLD_SIZE", "4"), ("RANK", "1")],
        ] {
            assert_eq!(of(variables), Launch::Mpi(4), "{variables:?}");
        }
    }

    #[test]
    fn processes_that_nothing_joins_are_named() {
        for (variables, launcher, size) in [
            (&[("WORLD_SIZE", "2"), ("RANK", "0"), ("LOCAL_RANK", "0")][..], "torchrun or Kubeflow", Some(2)),
            (&[("WORLD_SIZE", "8"), ("OMPI_COMM_WORLD_SIZE", "1")], "torchrun or Kubeflow", Some(8)),
            (&[("RANK", "3"), ("MASTER_ADDR", "10.0.0.1")], "torchrun or Kubeflow", None),
            (&[("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "4"), ("SLURM_PROCID", "0")], "srun", Some(4)),
            (&[("SLURM_STEPID", "3"), ("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0")], "srun", Some(4)),
            (&[("SLURM_PROCID", "2"), ("SLURM_NTASKS", "4")], "srun", Some(4)),
            (&[("JOB_COMPLETION_INDEX", "0")], "an Indexed Job of Kubernetes", None),
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

    // One process in a job of several, and groups of one.
    #[test]
    fn lone_process_is_alone() {
        for variables in [
            &[][..],
            // A batch script of `sbatch -n 4`, and a shell of `salloc`.
            &[("SLURM_NTASKS", "4"), ("SLURM_NPROCS", "4"), ("SLURM_PROCID", "0"), ("SLURM_JOB_ID", "7")],
            &[("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0"), ("SLURM_STEP_ID", "4294967291")],
            &[("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "1"), ("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0")],
            &[("SLURM_ARRAY_TASK_ID", "3"), ("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1")],
            &[("WORLD_SIZE", "1"), ("RANK", "0"), ("MASTER_ADDR", "localhost")],
            &[("OMPI_COMM_WORLD_SIZE", "1"), ("SLURM_STEP_NUM_TASKS", "1"), ("SLURM_NTASKS", "4")],
            &[("PMIX_RANK", "0"), ("SLURM_STEP_NUM_TASKS", "1")],
            &[("WORLD_SIZE", "many"), ("RANK", "x")],
        ] {
            assert_eq!(of(variables), Launch::Alone, "{variables:?}");
        }
    }
}
