//! Processes of a launcher are the ranks of one run, or fail at once. Otherwise each would claim epsilon for its own
//! model alone.

use super::{DIGITS, MLP, damper, folder, refused, stderr, train};
use std::process::Command;
use std::time::Instant;

const TORCHRUN: &[(&str, &str)] =
    &[("WORLD_SIZE", "2"), ("RANK", "1"), ("LOCAL_RANK", "1"), ("MASTER_ADDR", "localhost")];
const SRUN: &[(&str, &str)] =
    &[("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "4"), ("SLURM_NTASKS", "4"), ("SLURM_PROCID", "2")];
const SBATCH: &[(&str, &str)] = &[("SLURM_JOB_ID", "7"), ("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0")];
const KUBERNETES: &[(&str, &str)] = &[("JOB_COMPLETION_INDEX", "0")];

fn started<'a>(command: &'a mut Command, variables: &[(&str, &str)]) -> &'a mut Command {
    command.envs(variables.iter().copied())
}

/// Returns the variables of process `rank` of `size` by a launcher.
type Variables = fn(rank: usize, size: usize) -> Vec<(&'static str, String)>;

/// Variables of each launcher, from its documentation.
const LAUNCHERS: [(&str, Variables); 31] = [
    ("mpirun of Open MPI", |rank, size| numbers(&[("OMPI_COMM_WORLD_RANK", rank), ("OMPI_COMM_WORLD_SIZE", size)])),
    ("mpirun of MPICH", |rank, size| numbers(&[("PMI_RANK", rank), ("PMI_SIZE", size)])),
    ("mpiexec of PALS", |rank, size| {
        numbers(&[("PALS_RANKID", rank), ("PALS_LOCAL_RANKID", rank), ("PMI_SIZE", size)])
    }),
    ("aprun", |rank, _| numbers(&[("ALPS_APP_PE", rank)])),
    ("prterun", |rank, _| numbers(&[("PMIX_RANK", rank)])),
    ("srun", |rank, size| {
        let step =
            [("SLURM_STEP_ID", 0), ("SLURM_STEP_NUM_TASKS", size), ("SLURM_NTASKS", size), ("SLURM_PROCID", rank)];
        numbers(&step)
    }),
    ("srun --mpi=pmi2", |rank, size| {
        numbers(&[("SLURM_STEP_NUM_TASKS", size), ("SLURM_PROCID", rank), ("PMI_RANK", rank), ("PMI_SIZE", size)])
    }),
    ("an array of SLURM", |rank, size| numbers(&[("SLURM_ARRAY_TASK_ID", rank), ("SLURM_ARRAY_TASK_COUNT", size)])),
    ("torchrun", |rank, size| numbers(&[("RANK", rank), ("WORLD_SIZE", size), ("LOCAL_RANK", rank)])),
    ("PyTorchJob", |rank, size| {
        let mut all = numbers(&[("RANK", rank), ("WORLD_SIZE", size), ("PET_NODE_RANK", rank), ("PET_NNODES", size)]);
        all.push(("MASTER_ADDR", "job-master-0".into()));
        all
    }),
    ("a TrainJob of Kubeflow", |rank, size| numbers(&[("PET_NODE_RANK", rank), ("PET_NNODES", size)])),
    ("TFJob", |rank, size| {
        let workers: Vec<String> = (0..size).map(|worker| format!("\"job-worker-{worker}:2222\"")).collect();
        let task = format!("{{\"type\":\"worker\",\"index\":{rank}}}");
        vec![("TF_CONFIG", format!("{{\"cluster\":{{\"worker\":[{}]}},\"task\":{task}}}", workers.join(",")))]
    }),
    ("Vertex AI", |rank, size| {
        let workers: Vec<String> = (1..size).map(|worker| format!("\"cmle-{worker}:2222\"")).collect();
        let pools = format!("\"workerpool0\":[\"cmle-0:2222\"],\"workerpool1\":[{}]", workers.join(","));
        let task = format!("{{\"type\":\"workerpool{}\",\"index\":0}}", rank.min(1));
        vec![("CLUSTER_SPEC", format!("{{\"cluster\":{{{pools}}},\"task\":{task},\"environment\":\"cloud\"}}"))]
    }),
    ("SageMaker", |rank, size| {
        let hosts: Vec<String> = (1..=size).map(|host| format!("\"algo-{host}\"")).collect();
        vec![("SM_HOSTS", format!("[{}]", hosts.join(","))), ("SM_CURRENT_HOST", format!("algo-{}", rank + 1))]
    }),
    ("horovodrun", |rank, size| numbers(&[("HOROVOD_RANK", rank), ("HOROVOD_SIZE", size)])),
    ("Lightning, by machines", |rank, size| numbers(&[("NODE_RANK", rank), ("WORLD_SIZE", size)])),
    ("jsrun", |rank, size| numbers(&[("JSM_NAMESPACE_RANK", rank), ("JSM_NAMESPACE_SIZE", size)])),
    ("blaunch", |rank, size| numbers(&[("LSF_PM_TASKID", rank + 1), ("LSB_DJOB_NUMPROC", size)])),
    ("an array of LSF", |rank, _| numbers(&[("LSB_JOBINDEX", rank + 1)])),
    ("pbsdsh", |rank, _| numbers(&[("PBS_NODENUM", rank), ("PBS_TASKNUM", rank + 2)])),
    ("an array of PBS", |rank, _| numbers(&[("PBS_ARRAY_INDEX", rank)])),
    ("an array of Grid Engine", |rank, _| numbers(&[("SGE_TASK_ID", rank + 1)])),
    ("flux run", |rank, size| numbers(&[("FLUX_TASK_RANK", rank), ("FLUX_JOB_SIZE", size)])),
    ("nodes of AWS Batch", |rank, size| {
        numbers(&[("AWS_BATCH_JOB_NODE_INDEX", rank), ("AWS_BATCH_JOB_NUM_NODES", size)])
    }),
    ("an array of AWS Batch", |rank, size| {
        numbers(&[("AWS_BATCH_JOB_ARRAY_INDEX", rank), ("AWS_BATCH_JOB_ARRAY_SIZE", size)])
    }),
    ("Google Batch", |rank, size| numbers(&[("BATCH_TASK_INDEX", rank), ("BATCH_TASK_COUNT", size)])),
    ("Cloud Run", |rank, size| numbers(&[("CLOUD_RUN_TASK_INDEX", rank), ("CLOUD_RUN_TASK_COUNT", size)])),
    ("Azure Machine Learning", |rank, size| numbers(&[("NODE_RANK", rank), ("AZUREML_NODE_COUNT", size)])),
    ("SkyPilot", |rank, size| numbers(&[("SKYPILOT_NODE_RANK", rank), ("SKYPILOT_NUM_NODES", size)])),
    ("a LeaderWorkerSet", |rank, size| numbers(&[("LWS_WORKER_INDEX", rank), ("LWS_GROUP_SIZE", size)])),
    ("an Indexed Job", |rank, _| numbers(&[("JOB_COMPLETION_INDEX", rank)])),
];

/// Launchers with a first process that looks like a single process. It runs, and the others fail.
const FIRST_RUNS: [&str; 3] = ["aprun", "prterun", "blaunch"];

fn numbers(variables: &[(&'static str, usize)]) -> Vec<(&'static str, String)> {
    variables.iter().map(|(name, number)| (*name, number.to_string())).collect()
}

// All processes share a folder, or each has its own, as on machines without a common disk.
#[test]
fn processes_of_a_launcher_are_one_run_at_most() {
    for (launcher, variables) in LAUNCHERS {
        for size in [2, 4, 8] {
            let mut runs = 0;
            for rank in 0..size {
                let (_guard, out) = folder();
                let mut command = train(MLP, DIGITS, &out, &[]);
                command.envs(variables(rank, size));
                if rank == 0 && FIRST_RUNS.contains(&launcher) {
                    let output = command.output().unwrap();
                    runs += usize::from(output.status.success());
                    assert!(output.status.success() || !out.exists(), "{launcher}: {}", stderr(&output));
                    continue;
                }
                let begun = Instant::now();
                refused(command, &out, &["started as one of", "--alone", "epsilons add up"]);
                assert!(begun.elapsed().as_secs() < 20, "{launcher}: {rank} of {size}");
            }
            assert!(runs <= 1, "{launcher}: {runs} runs of {size}");
        }
    }
}

#[test]
fn refusals_name_launcher_and_way_out() {
    for (variables, words) in [
        (TORCHRUN, "one of 2 processes by torchrun or Kubeflow (WORLD_SIZE is set)"),
        (SRUN, "one of 4 processes by srun (SLURM_STEP_NUM_TASKS is set)"),
        (KUBERNETES, "one of several processes by an Indexed Job of Kubernetes (JOB_COMPLETION_INDEX is set)"),
    ] {
        let (_guard, out) = folder();
        let mut command = train(MLP, DIGITS, &out, &[]);
        started(&mut command, variables);
        refused(command, &out, &[words, "mpirun", "--alone", "epsilons add up"]);
    }
}

// Processes of a sweep, and a single process in a job of several tasks.
#[test]
fn lone_processes_train() {
    for (variables, flags) in [
        (TORCHRUN, &["--alone"][..]),
        (SRUN, &["--alone"]),
        (&[("OMPI_COMM_WORLD_SIZE", "2")], &["--alone"]),
        (SBATCH, &[]),
        (&[("SLURM_ARRAY_TASK_ID", "3"), ("SLURM_ARRAY_TASK_COUNT", "4")], &["--alone"]),
        (&[("PBS_NODENUM", "0"), ("PBS_TASKNUM", "1"), ("PBS_ENVIRONMENT", "PBS_BATCH")], &[]),
        (&[("LSB_JOBINDEX", "0"), ("LSB_DJOB_NUMPROC", "4")], &[]),
        (&[("SM_HOSTS", "[\"algo-1\"]")], &[]),
        (&[("WORLD_SIZE", "1"), ("RANK", "0")], &[]),
    ] {
        let (_guard, out) = folder();
        let output = started(&mut train(MLP, DIGITS, &out, flags), variables).output().unwrap();
        assert!(output.status.success() && out.join("model.onnx").exists(), "{variables:?} {}", stderr(&output));
    }
}

// Commands that charge many runs, or a run for an audit, also run as one process.
#[test]
fn comparisons_and_audits_are_one_process() {
    let (guard, out) = folder();
    let file = guard.path().join("c.toml");
    std::fs::write(&file, "").unwrap();
    for args in [
        vec!["compare", file.to_str().unwrap()],
        vec![
            "audit",
            "canary",
            MLP,
            "--data",
            DIGITS,
            "--batch-size",
            "64",
            "--epochs",
            "1",
            "--lr",
            "0.1",
            "--epsilon",
            "1",
            "--delta",
            "1e-5",
            "--out",
            out.to_str().unwrap(),
        ],
    ] {
        let output = started(damper().args(&args), TORCHRUN).output().unwrap();
        let said = stderr(&output);
        assert!(!output.status.success() && said.contains("one of 2 processes") && said.contains("--alone"), "{said}");
        assert!(!out.exists());
    }
}
