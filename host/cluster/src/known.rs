//! Launchers without MPI, identified by their documented variables.
//!
//! There are three forms. A variable may have the number of processes, or the index of this process if the number is
//! not available. It may also be a JSON description of all machines. Jobs of an array are processes of a launcher too.

use serde_json::Value;

/// A launcher, its variable and the number of processes, from the environment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Told {
    pub launcher: &'static str,
    pub variable: &'static str,
    pub size: Option<usize>,
}

/// Variables with the number of processes.
const SIZES: [(&str, &str); 19] = [
    // Also Accelerate, DeepSpeed, Lightning, Ray Train, XGBoostJob and PyTorch jobs of Azure.
    ("WORLD_SIZE", "torchrun or Kubeflow"),
    ("HOROVOD_SIZE", "Horovod"),
    ("JAX_NUM_PROCESSES", "a launcher of JAX"),
    ("PADDLE_TRAINERS_NUM", "Paddle's launcher"),
    ("DMLC_NUM_WORKER", "a launcher of MXNet"),
    ("FLUX_JOB_SIZE", "Flux"),
    ("JSM_NAMESPACE_SIZE", "jsrun"),
    ("CLOUD_RUN_TASK_COUNT", "Cloud Run"),
    ("BATCH_TASK_COUNT", "Google Batch"),
    ("AWS_BATCH_JOB_NUM_NODES", "AWS Batch"),
    ("AWS_BATCH_JOB_ARRAY_SIZE", "an array of AWS Batch"),
    ("SLURM_ARRAY_TASK_COUNT", "an array of SLURM"),
    ("AZUREML_NODE_COUNT", "Azure Machine Learning"),
    ("SKYPILOT_NUM_NODES", "SkyPilot"),
    ("DSTACK_NODES_NUM", "dstack"),
    ("MF_PARALLEL_NUM_NODES", "Metaflow"),
    ("MA_NUM_HOSTS", "ModelArts"),
    ("LWS_GROUP_SIZE", "a LeaderWorkerSet of Kubernetes"),
    // A variable of torchrun, which Kubeflow sets: a number of machines, or min:max.
    ("PET_NNODES", "Kubeflow"),
];

/// Variables with the index of this process, and the lowest index that implies several processes.
const NUMBERS: [(&str, u64, &str); 8] = [
    ("PET_NODE_RANK", 1, "Kubeflow"),
    ("NODE_RANK", 1, "a launcher of PyTorch"),
    ("GROUP_RANK", 1, "torchrun or Kubeflow"),
    ("VC_TASK_INDEX", 1, "a job of Volcano"),
    ("NOMAD_ALLOC_INDEX", 1, "Nomad"),
    ("LSF_PM_TASKID", 2, "blaunch of LSF"),
    ("PBS_VNODENUM", 1, "pbsdsh of PBS"),
    ("PBS_NODENUM", 1, "pbsdsh of PBS"),
];

/// Variables with the index in an array of jobs, for any index. The number of jobs is not available. A job without an
/// array does not have the variable.
const ARRAYS: [(&str, &str); 6] = [
    ("JOB_COMPLETION_INDEX", "an Indexed Job of Kubernetes"),
    ("SLURM_ARRAY_TASK_ID", "an array of SLURM"),
    ("AWS_BATCH_JOB_ARRAY_INDEX", "an array of AWS Batch"),
    ("PBS_ARRAY_INDEX", "an array of PBS"),
    ("PBS_ARRAYID", "an array of PBS"),
    ("SGE_TASK_ID", "an array of Grid Engine"),
];

/// Returns the launcher without MPI that started several processes, if any.
pub(crate) fn told(variable: &impl Fn(&str) -> Option<String>) -> Option<Told> {
    let number = |name: &str| variable(name)?.trim().parse::<u64>().ok();
    let most = |name: &str| variable(name)?.trim().rsplit(':').next()?.parse::<usize>().ok();
    let found = |launcher, variable, size| Some(Told { launcher, variable, size });
    for (name, launcher) in SIZES {
        if let Some(size) = most(name).filter(|size| *size > 1) {
            return found(launcher, name, Some(size));
        }
    }
    for (name, launcher) in [("TF_CONFIG", "Kubeflow's TFJob"), ("CLUSTER_SPEC", "Vertex AI")] {
        if let Some(size) = variable(name).and_then(|text| of_cluster(&text)).filter(|size| *size > 1) {
            return found(launcher, name, Some(size));
        }
    }
    for name in ["SM_HOSTS", "SM_RESOURCE_CONFIG"] {
        if let Some(size) = variable(name).and_then(|text| hosts(&text)).filter(|size| *size > 1) {
            return found("SageMaker", name, Some(size));
        }
    }
    if variable("COORDINATOR_ADDRESS").is_some()
        && let Some(size) = most("NUM_PROCESSES").filter(|size| *size > 1)
    {
        return found("Kubeflow's JAXJob", "NUM_PROCESSES", Some(size));
    }
    if variable("MASTER_ADDR").is_some() && number("RANK").is_some_and(|rank| rank > 0) {
        return found("torchrun or Kubeflow", "RANK", None);
    }
    for (name, first, launcher) in NUMBERS {
        if number(name).is_some_and(|number| number >= first) {
            return found(launcher, name, None);
        }
    }
    // OpenPBS counts the tasks of a job, starting with the batch script. Torque counts all tasks of its daemon.
    let is_torque = variable("PBS_VERSION").is_some_and(|version| version.starts_with("TORQUE"));
    if !is_torque && number("PBS_TASKNUM").is_some_and(|task| task > 1) {
        return found("pbsdsh of PBS", "PBS_TASKNUM", None);
    }
    if variable("AZ_BATCH_IS_CURRENT_NODE_MASTER").is_some_and(|is| is.trim().eq_ignore_ascii_case("false")) {
        return found("a task of Azure Batch on several machines", "AZ_BATCH_IS_CURRENT_NODE_MASTER", None);
    }
    // LSF sets 0 for a job without an array.
    if number("LSB_JOBINDEX").is_some_and(|index| index > 0) {
        return found("an array of LSF", "LSB_JOBINDEX", None);
    }
    let one = |name: &str| most(name) == Some(1);
    let (is_lone, is_lone_on_aws) = (one("SLURM_ARRAY_TASK_COUNT"), one("AWS_BATCH_JOB_ARRAY_SIZE"));
    for (name, launcher) in ARRAYS {
        let is_one = name.starts_with("SLURM") && is_lone || name.starts_with("AWS") && is_lone_on_aws;
        // Grid Engine sets a word for a job without an array.
        if number(name).is_some() && !is_one {
            return found(launcher, name, None);
        }
    }
    None
}

/// Counts the machines of a cluster in TensorFlow's format: lists of addresses by task. An evaluator does not count.
fn of_cluster(text: &str) -> Option<usize> {
    let json: Value = serde_json::from_str(text).ok()?;
    let lists = json.get("cluster")?.as_object()?;
    let machines: usize = lists.values().map(|list| list.as_array().map_or(1, Vec::len)).sum();
    let task = json.get("task").and_then(|task| task.get("type")).and_then(Value::as_str);
    let is_beside = task.is_some_and(|task| !lists.contains_key(task)) && machines > 0;
    Some(machines + usize::from(is_beside))
}

/// Counts the hosts of a SageMaker training job: a list, or an object that has a list.
fn hosts(text: &str) -> Option<usize> {
    let json: Value = serde_json::from_str(text).ok()?;
    json.get("hosts").unwrap_or(&json).as_array().map(Vec::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Option<Told> {
        told(&|name: &str| variables.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned()))
    }

    // The variables of each process under a launcher of several. Every process is recognised, or all except the first.
    #[test]
    fn each_launcher_is_known() {
        let cluster = r#"{"cluster":{"chief":["a:1"],"worker":["b:1","c:1"]},"task":{"type":"worker","index":1}}"#;
        let evaluator = r#"{"cluster":{"chief":["a:1"]},"task":{"type":"evaluator","index":0}}"#;
        let pools = r#"{"cluster":{"workerpool0":["a:1"],"workerpool1":["b:1"]},"task":{"type":"workerpool1","index":0},"environment":"cloud"}"#;
        for (variables, launcher, size) in [
            (&[("TF_CONFIG", cluster)][..], "Kubeflow's TFJob", Some(3)),
            (&[("TF_CONFIG", evaluator)], "Kubeflow's TFJob", Some(2)),
            (&[("CLUSTER_SPEC", pools)], "Vertex AI", Some(2)),
            (&[("SM_HOSTS", r#"["algo-1","algo-2"]"#), ("SM_CURRENT_HOST", "algo-1")], "SageMaker", Some(2)),
            (
                &[("SM_RESOURCE_CONFIG", r#"{"current_host":"algo-1","hosts":["algo-1","algo-2"]}"#)],
                "SageMaker",
                Some(2),
            ),
            (&[("HOROVOD_SIZE", "2"), ("HOROVOD_RANK", "0")], "Horovod", Some(2)),
            (&[("PET_NNODES", "1:4"), ("PET_NODE_RANK", "0")], "Kubeflow", Some(4)),
            (&[("RANK", "3"), ("MASTER_ADDR", "10.0.0.1")], "torchrun or Kubeflow", None),
            (&[("NODE_RANK", "1"), ("LOCAL_RANK", "0")], "a launcher of PyTorch", None),
            (
                &[("NUM_PROCESSES", "4"), ("PROCESS_ID", "0"), ("COORDINATOR_ADDRESS", "a:1")],
                "Kubeflow's JAXJob",
                Some(4),
            ),
            (&[("DMLC_NUM_WORKER", "2"), ("DMLC_ROLE", "worker")], "a launcher of MXNet", Some(2)),
            (&[("JSM_NAMESPACE_SIZE", "6"), ("JSM_NAMESPACE_RANK", "0")], "jsrun", Some(6)),
            (&[("LSF_PM_TASKID", "2"), ("LSB_DJOB_NUMPROC", "4")], "blaunch of LSF", None),
            (&[("PBS_TASKNUM", "2"), ("PBS_NODENUM", "0")], "pbsdsh of PBS", None),
            (&[("PBS_VNODENUM", "1"), ("PBS_VERSION", "TORQUE-6.1.2")], "pbsdsh of PBS", None),
            (&[("AWS_BATCH_JOB_NUM_NODES", "4"), ("AWS_BATCH_JOB_NODE_INDEX", "0")], "AWS Batch", Some(4)),
            (&[("AWS_BATCH_JOB_ARRAY_INDEX", "0")], "an array of AWS Batch", None),
            (
                &[("AWS_BATCH_JOB_ARRAY_INDEX", "0"), ("AWS_BATCH_JOB_ARRAY_SIZE", "8")],
                "an array of AWS Batch",
                Some(8),
            ),
            (&[("SLURM_ARRAY_TASK_ID", "0"), ("SLURM_ARRAY_TASK_COUNT", "4")], "an array of SLURM", Some(4)),
            (&[("PBS_ARRAY_INDEX", "1")], "an array of PBS", None),
            (&[("LSB_JOBINDEX", "1")], "an array of LSF", None),
            (&[("SGE_TASK_ID", "1")], "an array of Grid Engine", None),
            (&[("CLOUD_RUN_TASK_COUNT", "2"), ("CLOUD_RUN_TASK_INDEX", "0")], "Cloud Run", Some(2)),
            (&[("BATCH_TASK_COUNT", "2"), ("BATCH_TASK_INDEX", "0")], "Google Batch", Some(2)),
            (&[("AZUREML_NODE_COUNT", "2")], "Azure Machine Learning", Some(2)),
            (&[("AZ_BATCH_IS_CURRENT_NODE_MASTER", "false")], "a task of Azure Batch on several machines", None),
            (&[("SKYPILOT_NUM_NODES", "2"), ("SKYPILOT_NODE_RANK", "0")], "SkyPilot", Some(2)),
            (&[("LWS_GROUP_SIZE", "2"), ("LWS_WORKER_INDEX", "0")], "a LeaderWorkerSet of Kubernetes", Some(2)),
            (&[("JOB_COMPLETION_INDEX", "0")], "an Indexed Job of Kubernetes", None),
        ] {
            let told = of(variables).unwrap_or_else(|| panic!("{variables:?}"));
            assert_eq!((told.launcher, told.size), (launcher, size), "{variables:?}");
        }
    }

    #[test]
    fn groups_of_one_are_alone() {
        for variables in [
            &[("TF_CONFIG", r#"{"cluster":{"worker":["a:1"]},"task":{"type":"worker","index":0}}"#)][..],
            &[("TF_CONFIG", "{}")],
            &[("TF_CONFIG", "no JSON")],
            &[("SM_HOSTS", r#"["algo-1"]"#), ("SM_RESOURCE_CONFIG", r#"{"hosts":["algo-1"]}"#)],
            // Settings of torchrun, which is not called here.
            &[("PET_NNODES", "1"), ("PET_NODE_RANK", "0"), ("PET_NPROC_PER_NODE", "2")],
            // Batch scripts on several machines.
            &[("PBS_TASKNUM", "1"), ("PBS_NODENUM", "0"), ("PBS_ENVIRONMENT", "PBS_BATCH")],
            &[("PBS_TASKNUM", "146"), ("PBS_VNODENUM", "0"), ("PBS_VERSION", "TORQUE-2.4.7")],
            &[("LSB_JOBINDEX", "0"), ("LSB_DJOB_NUMPROC", "4"), ("LSB_JOBID", "7")],
            &[("SGE_TASK_ID", "undefined")],
            &[("SLURM_ARRAY_TASK_ID", "3"), ("SLURM_ARRAY_TASK_COUNT", "1")],
            &[("AWS_BATCH_JOB_ARRAY_INDEX", "0"), ("AWS_BATCH_JOB_ARRAY_SIZE", "1")],
            &[("AZ_BATCH_IS_CURRENT_NODE_MASTER", "true"), ("AZ_BATCH_NODE_LIST", "10.0.0.4;10.0.0.5")],
            // A common variable of many programs, without the others.
            &[("NUM_PROCESSES", "4")],
        ] {
            assert_eq!(of(variables), None, "{variables:?}");
        }
    }
}
