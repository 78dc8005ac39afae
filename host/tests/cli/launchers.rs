//! Processes of a launcher are the ranks of one run, or say so at once: each would claim epsilon for its own model alone.

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

#[test]
fn several_processes_are_no_several_runs() {
    for (variables, words) in [
        (TORCHRUN, "one of 2 processes by torchrun or Kubeflow (WORLD_SIZE is set)"),
        (SRUN, "one of 4 processes by srun (SLURM_STEP_NUM_TASKS is set)"),
        (KUBERNETES, "one of several processes by an Indexed Job of Kubernetes (JOB_COMPLETION_INDEX is set)"),
    ] {
        let (_guard, out) = folder();
        let begun = Instant::now();
        let mut command = train(MLP, DIGITS, &out, &[]);
        started(&mut command, variables);
        refused(command, &out, &[words, "mpirun", "--alone", "epsilons add up"]);
        assert!(begun.elapsed().as_secs() < 20);
    }
}

// Of a sweep; and one process in a job of several tasks.
#[test]
fn lone_processes_train() {
    for (variables, flags) in [
        (TORCHRUN, &["--alone"][..]),
        (SRUN, &["--alone"]),
        (&[("OMPI_COMM_WORLD_SIZE", "2")], &["--alone"]),
        (SBATCH, &[]),
        (&[("WORLD_SIZE", "1"), ("RANK", "0")], &[]),
    ] {
        let (_guard, out) = folder();
        let output = started(&mut train(MLP, DIGITS, &out, flags), variables).output().unwrap();
        assert!(output.status.success() && out.join("model.onnx").exists(), "{variables:?} {}", stderr(&output));
    }
}

// What charges many runs, or a run for an audit, is one process too.
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
